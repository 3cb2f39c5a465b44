"""Chains that grow position by position: labels and marginals with a delay, in constant memory.

    alpha_t(b) = p(y_t = b | x_1..t)         prop. to  exp u_t(b) sum_a alpha_{t-1}(a) exp w_t(a, b)
    p(y_t | x_1..s)                          = alpha_t (T_{t+1} gamma_{t+1}),  gamma_s = alpha_s / c_s, back from s to t

scaled as in scaled_compiled.py; lag = 0 filters, lag = infinity is the marginal given the whole chain. Rows that nobody
asks for again are dropped: ``lag + every`` rows and those of one push are kept.

    likeliest    position t is answered when t + lag is there. Answers of ``every`` positions come together: a group
                 g every .. (g + 1) every - 1 is given all up to ``lag`` after its last position, by one pass back.
    jointly      Viterbi keeps the best labelling that ends in each label, the survivors. What all of them have in
                 common is settled, whatever comes, and is answered at once, with marginals given all up to then. Where
                 they disagree for longer than ``lag``, the best of them says the label, and the others go on: to end
                 them would hold on to a label that was given out too early. A label that may not follow the one given
                 out before it gives way to the best that may.

Arrays: node (n, L), edge (L, L) for all positions or (n, L, L); minus infinity forbids. Cost of a position: O(L^2) and
the pass back, O((1 + lag / every) L^2); memory O((lag + every + n) L), with transitions of each position L times that.
Answers do not depend on how the positions are cut into pushes. Raises ValueError for arrays that do not fit and where
no labelling is left; the stream then is what it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kernelfields.inference import chain
from kernelfields.inference.packing import check_values, exponentials, first_largest

_FEWEST_ROWS = 64
_FORBIDS = "forbid a label or a step"
# More positions than any stream has.
_NEVER = 2**62


class StreamRows(NamedTuple):
    """Rows of a stream, read and filled by compiled code."""

    node: np.ndarray  # (W, L)
    edge: np.ndarray  # (E, L, L), E = 1 or W
    transfer: np.ndarray  # (E, L, L), exp(edge - its largest entry); 0 where forbidden
    alpha: np.ndarray  # (W, L), filtered probabilities
    inverse_predicted: np.ndarray  # (W, L), 1 / c_t
    log_alpha: np.ndarray  # (W, L), their logarithms, of rows where doubles do not do
    logs: np.ndarray  # (W,), which these are, see streaming_compiled.py
    reachable: np.ndarray  # (W, L), 1 where a label is not forbidden by what came before
    delta: np.ndarray  # (W, L), the score of the best labelling that ends in each label, of Viterbi alone
    pointers: np.ndarray  # (W, L), the label before, on that labelling

    @classmethod
    def empty(cls, n_rows: int, n_labels: int, edge: np.ndarray | None) -> StreamRows:
        """Return a number of empty rows; ``edge`` (L, L) is shared, None means a table for each row."""
        n_rows = max(n_rows, 2)  # one table of edges is one for all rows
        tables = np.zeros((n_rows, n_labels, n_labels)) if edge is None else np.ascontiguousarray(edge[None])
        transfer = np.zeros_like(tables) if edge is None else exponentials(tables)[0]
        node, alpha, inverse, logarithms, reachable, delta = (np.zeros((n_rows, n_labels)) for _ in range(6))
        kinds, pointers = np.zeros(n_rows, np.int8), np.zeros((n_rows, n_labels), np.int32)
        return cls(node, tables, transfer, alpha, inverse, logarithms, kinds, reachable, delta, pointers)

    def take(self, others: StreamRows, first: int, last: int) -> None:
        """Copy rows first..last-1 of others to the front."""
        tied = len(self.edge) == 1
        for name, mine, theirs in zip(self._fields, self, others, strict=True):
            if not (tied and name in ("edge", "transfer")):
                mine[: last - first] = theirs[first:last]


@dataclass
class _Place:
    """The state of a stream: rows in memory from ``kept``, unanswered from ``pending``, filled up to ``last``."""

    #: Of Viterbi: scores of the survivors, the labels of row ``pending`` they come from, the last label given out.
    best: np.ndarray
    roots: np.ndarray
    before: np.ndarray
    kept: int = 0
    pending: int = 0
    last: int = 0
    #: Positions of the sequence so far.
    n_positions: int = 0
    forbids: bool = False


class ChainStream:
    """One growing chain: ``push`` adds potentials of the next positions, ``end`` ends it; both return answers."""

    def __init__(
        self, n_labels: int, edge: np.ndarray | None = None, *, lag: float = 0, every: int = 1, jointly: bool = False
    ):
        self.n_labels, self.lag, self.every, self.jointly = n_labels, lag, every, jointly
        if edge is not None:
            edge = np.asarray(edge, dtype=np.float64)
            if edge.shape != (n_labels, n_labels):
                raise ValueError(f"edge potentials must have shape {(n_labels, n_labels)}, got {edge.shape}")
            check_values("edge potentials", edge, forbids=_FORBIDS)
        self._edge, self.ended = edge, False
        self._rows = StreamRows.empty(_FEWEST_ROWS, n_labels, edge)
        self._place = _Place(best=np.zeros(n_labels), roots=np.zeros(n_labels), before=np.full(1, -1))
        self._place.forbids = edge is not None and not np.isfinite(edge).all()

    @property
    def n_pending(self) -> int:
        """Number of positions without an answer so far."""
        return self._place.last - self._place.pending

    @property
    def tied(self) -> bool:
        """Whether all positions share one table of steps."""
        return self._edge is not None

    @property
    def n_bytes(self) -> int:
        """Memory of the rows in bytes."""
        return sum(each.nbytes for each in self._rows)

    def push(self, node: np.ndarray, edge: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Add positions with potentials (n, L), and (n, L, L) of the steps; return labels (m,) and marginals (m, L).

        The first table of edge is not read where the sequence begins.
        """
        self.check_open()
        node, edge = self._check_potentials(node, edge)
        self._make_room(len(node))
        place = self._append(self._rows, self._place, node, edge)
        answers = self._answer(place, place.last - len(node))
        self._place = place
        return answers

    def end(
        self, node: np.ndarray | None = None, edge: np.ndarray | None = None, *, last: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """End the sequence; return labels and marginals of all remaining positions.

        ``last`` (L,) is added to the potentials of the last position, unless that has its answer already.
        """
        self.check_open()
        if node is None:
            node = np.empty((0, self.n_labels))
            edge = None if self.tied else np.empty((0, self.n_labels, self.n_labels))
        node, edge = self._check_potentials(node, edge)
        if not self.n_pending + len(node):
            self.ended = True
            return np.empty(0, np.int64), np.empty((0, self.n_labels))
        rows, place = self._whole(node, edge, last)
        answers = self._flush(rows, place)
        self._place = replace(self._place, kept=self._place.last, pending=self._place.last)
        self.ended = True
        return answers

    def _whole(self, node: np.ndarray, edge: np.ndarray | None, last: np.ndarray | None) -> tuple[StreamRows, _Place]:
        """Return all unanswered rows, filtered to the end of the sequence."""
        # On a copy, so that nothing has changed if it fails.
        place, live = self._place, self._place.last - self._place.kept
        rows = StreamRows.empty(live + len(node), self.n_labels, self._edge)
        rows.take(self._rows, place.kept, place.last)
        place = replace(place, kept=0, pending=place.pending - place.kept, last=live, best=place.best.copy())
        if len(node):
            node = node.copy()
            node[-1] += 0.0 if last is None else last
            place = self._append(rows, place, node, edge)
            # Only all together are asked for: no row is the end of a group.
            if self.jointly:
                self._step_survivors(rows, place, live, lag=_NEVER, every=_NEVER)
        elif last is not None:
            rows.node[live - 1] += last
            place.best += last
            self._filter(rows, live - 1, live, place.n_positions - 1, place.forbids or not np.isfinite(last).all())
        return rows, place

    def _flush(self, rows: StreamRows, place: _Place) -> tuple[np.ndarray, np.ndarray]:
        compiled = chain.streaming_compiled
        waiting, work = place.last - place.pending, np.empty((3, self.n_labels))
        labels, marginals = np.empty(waiting, np.int64), np.empty((waiting, self.n_labels))
        if not self.jointly:
            compiled.smooth_rows(rows, place.last - 1, place.pending, place.last, marginals, work)
            return first_largest(marginals), marginals
        known = place.pending, place.last - 1, place.best, place.before
        if place.best.max() == -np.inf or not compiled.answer_last(rows, *known, labels, marginals, work):
            raise ValueError(
                "no labelling is left that may end here, after the labels that were given out: use a larger lag"
            )
        return labels, marginals

    def check_open(self) -> None:
        """Raise ValueError if the sequence has ended."""
        if self.ended:
            raise ValueError("this stream has ended: open another one for the next sequence")

    def _check_potentials(self, node: np.ndarray, edge: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        node = np.asarray(node, dtype=np.float64)
        if node.ndim != 2 or node.shape[1] != self.n_labels:
            raise ValueError(f"node potentials must have shape (positions, {self.n_labels}), got {node.shape}")
        if (edge is None) == (self._edge is None):
            wanted = "none, since one table serves all positions" if edge is not None else "a table for each position"
            raise ValueError(f"edge potentials do not fit this stream: expected {wanted}")
        check_values("node potentials", node, forbids=_FORBIDS)
        if edge is not None:
            edge = np.array(edge, dtype=np.float64)
            if edge.shape != (len(node), self.n_labels, self.n_labels):
                raise ValueError(
                    f"edge potentials must have shape {(len(node), self.n_labels, self.n_labels)}, got {edge.shape}"
                )
            if self._place.n_positions == 0:
                edge[:1] = 0.0
            check_values("edge potentials", edge, forbids=_FORBIDS)
        return node, edge

    def _make_room(self, n_new: int) -> None:
        """Move rows to the front, or to a larger array, if new rows do not fit."""
        place, capacity = self._place, len(self._rows.node)
        if place.last + n_new <= capacity:
            return
        live = place.last - place.kept
        rows = self._rows
        if 2 * live + n_new > capacity:
            rows = StreamRows.empty(max(_FEWEST_ROWS, 2 * (live + n_new)), self.n_labels, self._edge)
        rows.take(self._rows, place.kept, place.last)
        self._rows = rows
        self._place = replace(place, kept=0, pending=place.pending - place.kept, last=live)

    def _append(self, rows: StreamRows, place: _Place, node: np.ndarray, edge: np.ndarray | None) -> _Place:
        """Append rows and filter them; return the new state of the stream."""
        first, last = place.last, place.last + len(node)
        rows.node[first:last] = node
        forbids = place.forbids or not np.isfinite(node.sum())
        if edge is not None:
            rows.edge[first:last] = edge
            rows.transfer[first:last] = exponentials(edge)[0]
            forbids = forbids or not np.isfinite(edge.sum())
        self._filter(rows, first, last, place.n_positions, forbids)
        return replace(
            place,
            last=last,
            n_positions=place.n_positions + len(node),
            forbids=forbids,
            best=place.best.copy(),
            roots=place.roots.copy(),
            before=place.before.copy(),
        )

    def _filter(self, rows: StreamRows, first: int, last: int, number: int, forbids: bool) -> None:
        """Filter rows first..last-1; row first is position ``number`` of the sequence."""
        row = chain.streaming_compiled.filter_rows(rows, first, last, number == 0, forbids, np.empty(self.n_labels))
        if row >= 0:
            raise _no_labelling_error(number + row - first)

    def _answer(self, place: _Place, first: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the answers for rows from ``first`` on, and update ``place``."""
        if self.jointly:
            lag = _NEVER if math.isinf(self.lag) else int(self.lag)
            labels, marginals = self._step_survivors(self._rows, place, first, lag, self.every)
        else:
            marginals = self._smooth(place)
            labels = first_largest(marginals)
        place.pending += len(labels)
        # The row before the first without an answer is where the pass over what is to come begins.
        place.kept = max(place.kept, place.pending - 1)
        return labels, marginals

    def _smooth(self, place: _Place) -> np.ndarray:
        waiting = place.last - place.pending
        n_groups = 0 if math.isinf(self.lag) else max(0, (waiting - int(self.lag)) // self.every)
        marginals = np.empty((n_groups * self.every, self.n_labels))
        if n_groups:
            work = np.empty((3, self.n_labels))
            chain.streaming_compiled.answer_by_lag(
                self._rows, place.pending, n_groups, int(self.lag), self.every, marginals, work
            )
        return marginals

    def _step_survivors(
        self, rows: StreamRows, place: _Place, first: int, lag: int, every: int
    ) -> tuple[np.ndarray, np.ndarray]:
        waiting, number = place.last - place.pending, place.n_positions - (place.last - first)
        labels, marginals = np.empty(waiting, np.int64), np.empty((waiting, self.n_labels))
        steps, survivors = (
            (place.pending, first, place.last, number, lag, every),
            (place.best, place.roots, place.before),
        )
        count = chain.streaming_compiled.answer_by_survivors(
            rows, *steps, *survivors, labels, marginals, np.empty((3, self.n_labels))
        )
        if count < 0:
            raise _no_labelling_error(number - 1 - count - first)
        return labels[:count].copy(), marginals[:count].copy()


def _no_labelling_error(position: int) -> ValueError:
    return ValueError(
        f"position {position} of the stream: every labelling up to it is forbidden, or contradicts labels that were "
        "given out; check the constraints, or use a larger lag"
    )
