"""Chains with lists of allowed labels: inference skips all other labels.

What depends on single labels is kept for the entries of the lists, (A,), and nothing is as large as positions times
labels unless a table of all labels is asked for. Covariance products, draws, entropies, n best labellings and tables of
pairs come from the dense passes with minus infinity elsewhere, the plain twin of what is here.
Cost: sum_t |A_{t-1}| |A_t| instead of N L^2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kernelfields.fields.allowed import AllowedLabels
from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.chain.listed_steps import ScoredSteps, StepBlocks, StepTable
from kernelfields.inference.family import Member
from kernelfields.inference.packing import infeasible, raise_if_infeasible
from kernelfields.inference.potentials import EDGE, Potentials
from kernelfields.numerics.threads import Workers

# Lists are used where neighbours may have at most this share of all pairs of labels; benchmarks/many_labels.py prints
# the times of both ways.
_WORTH = 0.5


def worth_lists(allowed: AllowedLabels, share: float = _WORTH) -> bool:
    """Whether lists of allowed labels cost less than all labels in vector registers."""
    return allowed.step_pairs <= share * allowed.n_labels**2


class ListedSums(NamedTuple):
    """Log partition functions (S,), probabilities of allowed labels (A,), and weighted expected steps.

    The last are (1 or N, L, L), summed if transitions are tied, (P,) for listed steps, None if they were not counted.
    """

    log_partition: np.ndarray
    entries: np.ndarray
    steps: np.ndarray | None


def infer_lists(
    scores: np.ndarray,
    edge: np.ndarray,
    offsets: np.ndarray,
    allowed: AllowedLabels,
    *,
    listed: StepBlocks | ScoredSteps | None = None,
    weights: np.ndarray | None = None,
    workers: Workers | None = None,
    steps: bool = True,
) -> ListedSums:
    """Compute log partition functions and marginals of chains from scores of allowed labels, (A,), and edge (E, L, L).

    With ``listed`` steps, edge (P,) are the scores of those, others have none, and expected steps are (P,) as well.
    ``weights`` (S,) weigh the sequences in expected steps. Without ``steps`` these are not counted, which is a part of
    the work.
    """
    workers = workers or Workers(1)
    entries, n_sequences = np.zeros(len(scores)), len(offsets) - 1
    weights = np.ones(n_sequences) if weights is None else weights
    log_partition, troubled = np.empty(n_sequences), np.zeros(n_sequences, dtype=np.bool_)
    passes, prepared = _passes(edge, listed, allowed)
    tied = listed is not None or len(edge) == 1
    pieces = runs_of_lists(allowed, offsets, workers, private=steps and tied)
    shared = np.zeros(edge.size if steps and not tied else 0)
    tables: dict[int, np.ndarray] = {}

    def run(first: int, last: int) -> None:
        tables[first] = np.zeros(edge.size) if steps and tied else shared
        out = entries, log_partition, troubled, (weights, tables[first])
        passes(first, last, offsets, _compiled(allowed), scores, *prepared, *out)

    workers.each(run, pieces)
    flat = reduce(np.add, [tables[first] for first, _ in pieces]) if tied else shared
    expected = flat.reshape(edge.shape) if steps else None
    if troubled.any():
        table = edge if listed is None else listed.table(edge)
        again = np.flatnonzero(troubled), offsets, allowed, scores, table, entries, log_partition, weights
        added = _in_logarithms(*again, out=expected if listed is None else None)
        if expected is not None and listed is not None:
            expected += added.reshape(-1)[listed.outcomes]
    return ListedSums(log_partition, entries, expected)


class ListMember(Member):
    """Marginals of chains with lists of allowed labels."""

    family: ListFamily

    def __init__(
        self,
        family: ListFamily,
        scores: np.ndarray,
        steps: StepTable,
        weights: np.ndarray | None,
        workers: Workers,
        count_steps: bool,
    ):
        self.family, self.weights = family, weights
        self._scores, self._steps, self._workers = scores, steps, workers
        # Where expected steps are wanted, the table of all is as good as the list of those that have a score.
        self._sums = self._inferred(count_steps)
        self.log_partition, self.entries = self._sums.log_partition, self._sums.entries

    def _inferred(self, count_steps: bool) -> ListedSums:
        steps, family = self._steps, self.family
        edge, listed = (steps.edge, None) if count_steps else (steps.values, steps.listed)
        settings: dict[str, Any] = {"weights": self.weights, "workers": self._workers, "steps": count_steps}
        return infer_lists(self._scores, edge, family.offsets, family.lists, listed=listed, **settings)

    @cached_property
    def potentials(self) -> Potentials:  # type: ignore[override]
        """Potentials of all labels, minus infinity for those that are not allowed."""
        return Potentials(self.family.lists.spread(self._scores, -np.inf), {EDGE: self._steps.edge})

    @cached_property
    def _dense(self) -> Member:
        """The same by passes over all labels, for what lists do not keep."""
        family = self.family
        whole = ChainFamily(family.offsets, family.n_labels, tied=len(self._steps.edge) == 1)
        return whole.at(self.potentials, self.weights, self._workers)

    def marginals(self, group: str | None = None) -> np.ndarray:
        """Return p(y_t), (N, L), or the joint marginals of neighbours, (N, L, L)."""
        return self._dense.marginals(EDGE) if group == EDGE else self._node_marginals

    @cached_property
    def _node_marginals(self) -> np.ndarray:
        return self.family.lists.spread(self.entries)

    def likeliest(self) -> np.ndarray:
        """Return the label of largest marginal at each position, (N,)."""
        return likeliest(self.entries, self.family.lists)

    def mean(self) -> Potentials:
        """Return the weighted marginals, in the layout of the potentials."""
        sums, lists = self._sums if self._sums.steps is not None else self._inferred(True), self.family.lists
        entries = sums.entries
        if self.weights is not None:
            entries = entries * self.weights[self.family.position_items[lists.rows]]
        assert sums.steps is not None
        return Potentials(self.family.laid_out(entries), {EDGE: sums.steps.copy()})

    def covariance_product(self, direction: Potentials) -> Potentials:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        family = self.family
        response = self._dense.covariance_product(self._dense_direction(direction))
        return Potentials(family.laid_out(family.lists.taken(response.node)), response.tables)

    def _dense_direction(self, direction: Potentials) -> Potentials:
        """Return a direction with a row for every label, zero for those that are not allowed."""
        family = self.family
        return Potentials(family.lists.spread(family.entries_of(direction.node)), direction.tables)

    def expected_scores(self, direction: Potentials) -> np.ndarray:
        """Return E <Phi, d> of each sequence, (S,)."""
        return self._dense.expected_scores(self._dense_direction(direction))

    def entropy(self) -> np.ndarray:
        """Return the entropy of each sequence, (S,)."""
        return self._dense.entropy()


class ListFamily(ChainFamily):
    """Labellings of chains that lists allow.

    Node potentials are those of all labels, (N, L), or those of the labels in some ``packed`` lists alone, which may
    be longer than the lists themselves.
    """

    def __init__(
        self,
        offsets: np.ndarray,
        n_labels: int,
        lists: AllowedLabels,
        *,
        tied: bool = True,
        base: BaseMeasure | None = None,
        packed: AllowedLabels | None = None,
    ):
        super().__init__(offsets, n_labels, tied=tied, base=base)
        self.lists = lists
        self.packed = packed
        self._known_steps: tuple[np.ndarray, StepTable] | None = None

    def zeros(self) -> Potentials:
        """Return potentials of zero."""
        if self.packed is None:
            return super().zeros()
        n_edges = 1 if self.tied else self.n_positions
        return Potentials(np.zeros(len(self.packed.labels)), {EDGE: np.zeros((n_edges, self.n_labels, self.n_labels))})

    @cached_property
    def _kept(self) -> np.ndarray | None:
        """A mask of the packed entries that the lists hold; None where these are all of them."""
        if self.packed is None or self.packed is self.lists:
            return None
        return np.isin(self.packed.cells, self.lists.cells, assume_unique=True)

    def entries_of(self, node: np.ndarray) -> np.ndarray:
        """Return the entries of the lists, (A,), among node potentials."""
        if self.packed is None:
            return self.lists.taken(node)
        return node if self._kept is None else node[self._kept]

    def laid_out(self, entries: np.ndarray) -> np.ndarray:
        """Return numbers of entries (A,) as node potentials are laid out, zero for other labels."""
        if self.packed is None:
            return self.lists.spread(entries)
        if self._kept is None:
            return np.array(entries)
        node = np.zeros(len(self._kept))
        node[self._kept] = entries
        return node

    def _entries(self, potentials: Potentials) -> np.ndarray:
        """Return the scores of allowed labels, base measure included, (A,)."""
        scores = self.entries_of(potentials.node)
        weights = None if self.base is None else self.base.entries(self.lists)
        return scores if weights is None else scores + weights

    def _step_table(self, potentials: Potentials) -> StepTable:
        """Return the scores of steps, base measure included; that of the last potentials is kept."""
        edge = potentials.edge
        if self._known_steps is None or self._known_steps[0] is not edge:
            step = None if self.base is None else self.base.step
            self._known_steps = edge, StepTable(edge if step is None else edge + step)
        return self._known_steps[1]

    def use_steps(self, edge: np.ndarray, table: StepTable) -> None:
        """Take a table of steps, base measure included, that was made for these edges before."""
        self._known_steps = edge, table

    def with_base(self, potentials: Potentials) -> Potentials:
        """Return dense potentials, minus infinity where a label is not allowed."""
        node = self.lists.spread(self._entries(potentials), -np.inf)
        return Potentials(node, {EDGE: self._step_table(potentials).edge})

    def at(
        self,
        potentials: Potentials,
        weights: np.ndarray | None = None,
        workers: Workers | None = None,
        *,
        keep: bool = True,
    ) -> ListMember:
        """Return the distribution at potentials; with ``keep=False`` expected steps are counted at once."""
        self._refuse_empty_lists()
        entries, steps = self._entries(potentials), self._step_table(potentials)
        return ListMember(self, entries, steps, weights, workers or Workers(1), not keep)

    def best(self, potentials: Potentials, workers: Workers | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,) and its score for each sequence, (S,)."""
        self._refuse_empty_lists()
        edge = self._step_table(potentials).edge
        return best_in_lists(self._entries(potentials), edge, self.offsets, self.lists, workers)

    @cached_property
    def _first_without_labels(self) -> int | None:
        """The first sequence that has a position without labels."""
        empty = np.flatnonzero(np.diff(self.lists.begin) == 0)
        return int(self.position_items[empty[0]]) if empty.size else None

    def _refuse_empty_lists(self) -> None:
        """Raise ValueError naming the first sequence that has a position without labels."""
        if self._first_without_labels is not None:
            raise infeasible(self._first_without_labels)

    def max_marginals(self, potentials: Potentials, workers: Workers) -> np.ndarray:
        """Return, for each allowed label, the score of the best labelling with it less the best of all, (A,)."""
        edge = self._step_table(potentials).edge
        return best_with_each(self._entries(potentials), edge, self.offsets, self.lists, workers)

    def label_scores(self, potentials: Potentials, labels: np.ndarray) -> np.ndarray:
        """Return the score of a labelling of each sequence, (S,); minus infinity where a label is not allowed."""
        places, steps = self.lists.places(labels), self._following
        scores = np.where(places >= 0, self._entries(potentials)[places], -np.inf)
        edge = self._step_table(potentials).edge
        scores[steps] += edge[steps if len(edge) > 1 else 0, labels[steps - 1], labels[steps]]
        return np.add.reduceat(scores, self.offsets[:-1])

    def given(self, log_weights: np.ndarray) -> ListFamily:
        """Return the family with p0 multiplied by weights of labels; potentials keep their layout."""
        base = (self.base or BaseMeasure(self.offsets, self.n_labels, allowed=self.lists)).times(log_weights)
        assert base.lists is not None
        return ListFamily(self.offsets, self.n_labels, base.lists, tied=self.tied, base=base, packed=self.packed)

    def part(self, first: int, last: int) -> ListFamily:
        """Return the family of sequences first..last-1."""
        rows = slice(int(self.offsets[first]), int(self.offsets[last]))
        base, offsets, lists = self._base_of(first, last), self.offsets[first : last + 1] - rows.start, self.lists[rows]
        packed = None if self.packed is None else lists if self._kept is None else self.packed[rows]
        return ListFamily(offsets, self.n_labels, lists, tied=self.tied, base=base, packed=packed)

    def cut(self, potentials: Potentials, first: int, last: int) -> Potentials:
        """Return views of the potentials of sequences first..last-1."""
        if self.packed is None:
            return super().cut(potentials, first, last)
        rows, edge = self.offsets[[first, last]], potentials.edge
        entries = slice(*self.packed.begin[rows].tolist())
        return Potentials(potentials.node[entries], {EDGE: edge if len(edge) == 1 else edge[slice(*rows)]})


def _in_logarithms(
    sequences: np.ndarray,
    offsets: np.ndarray,
    allowed: AllowedLabels,
    scores: np.ndarray,
    edge: np.ndarray,
    entries: np.ndarray,
    log_partition: np.ndarray,
    weights: np.ndarray,
    out: np.ndarray | None,
) -> np.ndarray:
    """Infer some sequences again; return their expected steps shaped as edge, added to ``out`` if it is given."""
    from kernelfields.inference.chain.lists_compiled import in_logarithms

    expected = np.zeros_like(edge) if out is None else out
    for sequence in sequences.tolist():
        arrays = _compiled(allowed), scores, edge, entries, expected
        total = in_logarithms(sequence, offsets, *arrays, weights[sequence])
        if total == -np.inf:
            raise infeasible(sequence)
        log_partition[sequence] = total
    return expected


# Where matches of steps are not written down.
_NO_MATCHES = (np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint32))


def _passes(
    edge: np.ndarray, listed: StepBlocks | ScoredSteps | None, allowed: AllowedLabels
) -> tuple[Callable[..., None], tuple[Any, ...]]:
    """Return compiled passes and what they take: matches or marks of steps, transfer, whether some are forbidden."""
    from kernelfields.inference.chain.lists_compiled import forward_backward, forward_backward_marked

    n_labels = allowed.n_labels
    if listed is None:
        table, shifts = transfers(edge)
        layout = n_labels, 0 if len(edge) == 1 else n_labels**2
        return forward_backward, (_NO_MATCHES, (table.reshape(-1), layout, 0.0, shifts), not table.all())
    # Steps that are not listed have the score zero, and that may be the largest of all.
    shifts = np.array([edge.max(initial=0.0)])
    values, background = _positive_exp(edge - shifts[0], edge), _positive_exp(-shifts, shifts)[0]
    transfer = values, (n_labels, 0), background, shifts
    if isinstance(listed, StepBlocks):
        return forward_backward, (listed.arrays, transfer, not values.all())
    marks = np.empty(allowed.n_positions, dtype=np.int32), *listed.marks
    return forward_backward_marked, (marks, transfer, not values.all())


def _compiled(allowed: AllowedLabels) -> tuple[np.ndarray, np.ndarray]:
    """Return the lists as compiled code takes them: with unsigned numbers it need not look for those below zero."""
    return allowed.begin, allowed.labels.view(np.uint32)


def transfers(edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return exp(w - shift), zero only where a step is forbidden, and the shifts: the largest of each table."""
    top = edge.max(axis=(1, 2))
    shift = np.where(np.isfinite(top), top, 0.0)
    return _positive_exp(edge - shift[:, None, None], edge), shift


def _positive_exp(shifted: np.ndarray, edge: np.ndarray) -> np.ndarray:
    """Return exponentials, zero only where edge is minus infinity."""
    transfer = np.exp(shifted)
    if not transfer.all():
        transfer[(transfer == 0.0) & (edge > -np.inf)] = np.finfo(np.float64).smallest_subnormal
    return transfer


def runs_of_lists(
    allowed: AllowedLabels, offsets: np.ndarray, workers: Workers, private: bool = False
) -> list[tuple[int, int]]:
    """Cut sequences into runs of about equal work; one for each thread where each has a ``private`` table of steps."""
    ends = allowed.begin[offsets]
    pieces = workers.weighted_pieces(ends, max(1, int(allowed.step_pairs)))
    if not private or len(pieces) <= workers.n_threads:
        return pieces
    cuts = [pieces[index * len(pieces) // workers.n_threads][0] for index in range(workers.n_threads)]
    return list(pairwise([*cuts, pieces[-1][1]]))


def likeliest(entries: np.ndarray, allowed: AllowedLabels) -> np.ndarray:
    """Return the label of each position whose entry (A,) is largest, the lowest of equals, (N,)."""
    from kernelfields.inference.chain.lists_compiled import largest_entries

    labels = np.empty(allowed.n_positions, dtype=np.int64)
    largest_entries(_compiled(allowed), entries, labels)
    return labels


def best_in_lists(
    scores: np.ndarray, edge: np.ndarray, offsets: np.ndarray, allowed: AllowedLabels, workers: Workers | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best labelling (N,) and its score per sequence (S,); ties go to the lowest label."""
    from kernelfields.inference.chain.lists_compiled import viterbi

    workers = workers or Workers(1)
    lists = _compiled(allowed)
    labels, best = np.zeros(int(offsets[-1]), dtype=np.int64), np.zeros(len(offsets) - 1)
    pointers = np.zeros(len(scores), dtype=np.int32)
    workers.each(
        lambda first, last: viterbi(first, last, offsets, lists, scores, edge, pointers, labels, best),
        runs_of_lists(allowed, offsets, workers),
    )
    raise_if_infeasible(best)
    return labels, best


def best_with_each(
    scores: np.ndarray, edge: np.ndarray, offsets: np.ndarray, allowed: AllowedLabels, workers: Workers
) -> np.ndarray:
    """Return max-marginals (A,): the score of the best labelling with each allowed label, less the best of all."""
    from kernelfields.inference.chain.lists_compiled import max_marginals

    out = np.empty(len(scores))
    lists = _compiled(allowed)
    workers.each(
        lambda first, last: max_marginals(first, last, offsets, lists, scores, edge, out),
        runs_of_lists(allowed, offsets, workers),
    )
    return out


def rows_without_path(allowed: AllowedLabels, offsets: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return for each sequence the row up to which possible steps (L, L) lead to no allowed label; -1 for none."""
    from kernelfields.inference.chain.lists_compiled import lost_rows

    out = np.empty(len(offsets) - 1, dtype=np.int64)
    lost_rows(offsets, _compiled(allowed), steps, out)
    return out
