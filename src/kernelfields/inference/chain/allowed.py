"""Exact inference on chains with lists of allowed labels: marginals and best labellings.

What depends on single labels is kept for the entries of the lists, (A,), and nothing is as large as positions times
labels unless somebody asks for a table of all labels. Hessian products, draws, entropies, n best labellings and tables
of pairs come from the dense passes with minus infinity elsewhere, the plain twin of what is here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any

import numpy as np

from kernelfields.fields.allowed import AllowedLabels
from kernelfields.inference.chain.allowed_steps import ScoredSteps, StepBlocks
from kernelfields.inference.chain.beliefs import ChainBeliefs, infer_chains
from kernelfields.inference.packing import infeasible, raise_if_infeasible
from kernelfields.numerics.threads import Workers

# Lists are walked where neighbours may have at most this share of all pairs of labels; benchmarks/many_labels.py prints
# the times of both ways.
_WORTH = 0.5


def worth_lists(allowed: AllowedLabels, share: float = _WORTH) -> bool:
    """Whether walking the lists of allowed labels costs less than all labels in vector registers."""
    return allowed.step_pairs <= share * allowed.n_labels**2


@dataclass
class AllowedBeliefs:
    """Marginals of chains with lists of allowed labels; see :func:`infer_allowed`."""

    allowed: AllowedLabels
    log_partition: np.ndarray
    entries: np.ndarray  # (A,), probabilities of allowed labels
    steps: Any  # (1 or N, L, L), weighted probabilities of steps, summed if transitions are tied; None if not counted
    position_weights: np.ndarray | None
    _dense: Callable[[], ChainBeliefs]

    @cached_property
    def node_marginals(self) -> np.ndarray:
        """p(y_t = b), (N, L)."""
        return self.allowed.spread(self.entries)

    @cached_property
    def dense(self) -> ChainBeliefs:
        """The same by passes over all labels, for what these do not keep."""
        return self._dense()

    def gradient(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient of the weighted log partition in (node, edge), shaped like them."""
        assert self.steps is not None, "steps were not counted"
        if self.position_weights is None:
            return self.node_marginals, self.steps
        return self.node_marginals * self.position_weights[:, None], self.steps

    def edge_marginals(self) -> np.ndarray:
        """Return p(y_{t-1} = a, y_t = b) as (N, L, L), zero at the start of each sequence."""
        return self.dense.edge_marginals()

    def hessian_product(self, d_node: np.ndarray, d_edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        return self.dense.hessian_product(d_node, d_edge)


def infer_allowed(
    scores: np.ndarray,
    edge: np.ndarray,
    offsets: np.ndarray,
    allowed: AllowedLabels,
    *,
    listed: StepBlocks | ScoredSteps | None = None,
    position_weights: np.ndarray | None = None,
    workers: Workers | None = None,
    steps: bool = True,
) -> AllowedBeliefs:
    """Compute log partition functions and marginals of chains from scores of allowed labels, (A,), and edge (E, L, L).

    With ``listed`` steps, edge (P,) are the scores of those, others have none, and expected steps are (P,) as well.
    ``position_weights`` (N,), equal within a sequence, weigh the sequences in gradients and Hessian products. Without
    ``steps`` their probabilities are not counted, which is a part of the work.
    """
    workers = workers or Workers(1)
    entries, n_sequences = np.zeros(len(scores)), len(offsets) - 1
    weights = np.ones(n_sequences) if position_weights is None else position_weights[offsets[:-1]]
    log_partition, troubled = np.empty(n_sequences), np.zeros(n_sequences, dtype=np.bool_)
    walk, walked = _walk(edge, listed, allowed)
    tied = listed is not None or len(edge) == 1
    pieces = runs_of_lists(allowed, offsets, workers, private=steps and tied)
    shared = np.zeros(edge.size if steps and not tied else 0)
    tables: dict[int, np.ndarray] = {}

    def run(first: int, last: int) -> None:
        tables[first] = np.zeros(edge.size) if steps and tied else shared
        out = entries, log_partition, troubled, (weights, tables[first])
        walk(first, last, offsets, _compiled(allowed), scores, *walked, *out)

    workers.each(run, pieces)
    flat = reduce(np.add, [tables[first] for first, _ in pieces]) if tied else shared
    expected = flat.reshape(edge.shape) if steps else None
    if troubled.any():
        table = edge if listed is None else listed.table(edge)
        again = np.flatnonzero(troubled), offsets, allowed, scores, table, entries, log_partition, weights
        added = _in_logarithms(*again, out=expected if listed is None else None)
        if expected is not None and listed is not None:
            expected += added.reshape(-1)[listed.outcomes]

    def dense() -> ChainBeliefs:
        node, table = allowed.spread(scores, -np.inf), edge if listed is None else listed.table(edge)
        return infer_chains(node, table, offsets, position_weights=position_weights, workers=workers, check=False)

    return AllowedBeliefs(allowed, log_partition, entries, expected, position_weights, dense)


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
    from kernelfields.inference.chain.allowed_compiled import in_logarithms

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


def _walk(
    edge: np.ndarray, listed: StepBlocks | ScoredSteps | None, allowed: AllowedLabels
) -> tuple[Callable[..., None], tuple[Any, ...]]:
    """Return compiled passes and what they take: matches or marks of steps, transfer, whether some are forbidden."""
    from kernelfields.inference.chain.allowed_compiled import forward_backward, forward_backward_marked

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
    from kernelfields.inference.chain.allowed_compiled import largest_entries

    labels = np.empty(allowed.n_positions, dtype=np.int64)
    largest_entries(_compiled(allowed), entries, labels)
    return labels


def best_allowed(
    scores: np.ndarray, edge: np.ndarray, offsets: np.ndarray, allowed: AllowedLabels, workers: Workers | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best labelling (N,) and its score per sequence (S,); ties go to the lowest label."""
    from kernelfields.inference.chain.allowed_compiled import viterbi

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
    from kernelfields.inference.chain.allowed_compiled import max_marginals

    out = np.empty(len(scores))
    lists = _compiled(allowed)
    workers.each(
        lambda first, last: max_marginals(first, last, offsets, lists, scores, edge, out),
        runs_of_lists(allowed, offsets, workers),
    )
    return out


def rows_without_path(allowed: AllowedLabels, offsets: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return for each sequence the row up to which possible steps (L, L) lead to no allowed label; -1 for none."""
    from kernelfields.inference.chain.allowed_compiled import lost_rows

    out = np.empty(len(offsets) - 1, dtype=np.int64)
    lost_rows(offsets, _compiled(allowed), steps, out)
    return out
