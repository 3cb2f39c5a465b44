"""Passes over chains with lists of allowed labels: inference skips all other labels.

What depends on single labels is kept for the entries of the lists, (A,), and nothing is as large as positions times
labels. ``ListFamily`` of family.py is built on these passes; the dense passes with minus infinity elsewhere are their
plain twin. Cost: sum_t |A_{t-1}| |A_t| instead of N L^2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kernelfields.fields.allowed import AllowedLabels
from kernelfields.inference.chain.listed_steps import ScoredSteps, StepBlocks
from kernelfields.inference.packing import InfeasibleSequence, raise_if_infeasible
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
            raise InfeasibleSequence(sequence)
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
