"""Passes over chains with lists of allowed labels: inference skips all other labels.

What depends on single labels is kept for the entries of the lists, (A,), and nothing is as large as positions times
labels. Of a large table of steps, passes read those with a score alone, see scored_steps.py. ``ListFamily`` of
list_family.py is built on these passes; the dense passes with minus infinity elsewhere are their plain twin. Cost:
sum_t |A_{t-1}| |A_t| instead of N L^2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kernelfields.data.allowed import AllowedLabels
from kernelfields.inference import chain
from kernelfields.inference.chain.scored_steps import ScoredSteps, StepBlocks, compiled_lists
from kernelfields.inference.packed_graphs import InfeasibleGraph
from kernelfields.inference.packing import InfeasibleSequence, exponentials, positive_exp, raise_if_infeasible
from kernelfields.inference.potentials import Potentials
from kernelfields.numerics.threads import Workers

# Lists are used where neighbours may have at most this share of all pairs of labels; docs/many_labels.md has times.
_WORTH = 0.5


def should_use_lists(allowed: AllowedLabels, share: float = _WORTH) -> bool:
    """Whether passes over lists of allowed labels cost less than vectorized passes over all labels."""
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
        passes(first, last, offsets, compiled_lists(allowed), scores, *prepared, *out)

    workers.each(run, pieces)
    flat = reduce(np.add, [tables[first] for first, _ in pieces]) if tied else shared
    expected = flat.reshape(edge.shape) if steps else None
    if troubled.any():
        table = edge if listed is None else listed.table(edge)
        added = np.zeros_like(table) if expected is None or listed is not None else expected
        for sequence in np.flatnonzero(troubled).tolist():
            _rescue(sequence, offsets, scores, table, allowed, weights[sequence], (log_partition, entries, added))
        if expected is not None and listed is not None:
            expected += added.reshape(-1)[listed.outcomes]
    return ListedSums(log_partition, entries, expected)


def _rescue(
    sequence: int,
    offsets: np.ndarray,
    scores: np.ndarray,
    edge: np.ndarray,
    allowed: AllowedLabels,
    weight: float,
    results: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    """Infer a sequence by a junction tree over its lists, in logarithms; fill results and add steps."""
    from kernelfields.inference.junction.family import JunctionFamily

    log_partition, entries, expected = results
    first, last = int(offsets[sequence]), int(offsets[sequence + 1])
    own, lists = slice(int(allowed.begin[first]), int(allowed.begin[last])), allowed[first:last]
    labels, places = np.unique(lists.labels, return_inverse=True)
    node = np.full((last - first, len(labels)), -np.inf)
    node[lists.rows, places] = scores[own]
    later, tied = np.arange(1, last - first), len(edge) == 1
    tables = np.zeros(1, dtype=np.int64) if tied else first + later
    junction = JunctionFamily(
        np.array([0, last - first]), [np.column_stack([later - 1, later])], len(labels), memory=np.inf
    )
    chosen = np.ix_(tables, labels, labels)
    try:
        member = junction.distribution(Potentials(node, {"0": edge[chosen]}))
    except InfeasibleGraph:
        raise InfeasibleSequence(sequence) from None
    log_partition[sequence], entries[own] = member.log_partition[0], member.marginals()[lists.rows, places]
    expected[chosen] += weight * member.mean()["0"]


# Where matches of steps are not written down.
_NO_MATCHES = (np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint32))


def _passes(
    edge: np.ndarray, listed: StepBlocks | ScoredSteps | None, allowed: AllowedLabels
) -> tuple[Callable[..., None], tuple[object, ...]]:
    """Return compiled passes and their arguments: matches or marks of steps, transfer, whether steps are forbidden."""
    compiled = chain.lists_compiled
    n_labels = allowed.n_labels
    if listed is None:
        table, shifts = exponentials(edge)
        layout = n_labels, 0 if len(edge) == 1 else n_labels**2
        return compiled.forward_backward, (_NO_MATCHES, (table.reshape(-1), layout, 0.0, shifts), not table.all())
    # Steps that are not listed have the score zero, and that may be the largest of all.
    shifts = np.array([edge.max(initial=0.0)])
    values, background = positive_exp(edge, shifts[0]), positive_exp(np.zeros(1), shifts)[0]
    transfer = values, (n_labels, 0), background, shifts
    if isinstance(listed, StepBlocks):
        return compiled.forward_backward, (listed.arrays, transfer, not values.all())
    marks = np.empty(allowed.n_positions, dtype=np.int32), *listed.marks
    return compiled.forward_backward_marked, (marks, transfer, not values.all())


def runs_of_lists(
    allowed: AllowedLabels, offsets: np.ndarray, workers: Workers, private: bool = False
) -> list[tuple[int, int]]:
    """Split sequences into runs of about equal work; one per thread if each run has a ``private`` table of steps."""
    ends = allowed.begin[offsets]
    pieces = workers.weighted_pieces(ends, max(1, int(allowed.step_pairs)))
    if not private or len(pieces) <= workers.n_threads:
        return pieces
    cuts = [pieces[index * len(pieces) // workers.n_threads][0] for index in range(workers.n_threads)]
    return list(pairwise([*cuts, pieces[-1][1]]))


def likeliest(entries: np.ndarray, allowed: AllowedLabels) -> np.ndarray:
    """Return the label of each position with the largest entry (A,), the lowest among equals, (N,)."""
    labels = np.empty(allowed.n_positions, dtype=np.int64)
    chain.lists_compiled.largest_entries(compiled_lists(allowed), entries, labels)
    return labels


def best_in_lists(
    scores: np.ndarray, edge: np.ndarray, offsets: np.ndarray, allowed: AllowedLabels, workers: Workers | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best labelling (N,) and its score per sequence (S,); the lowest label wins among equals."""
    viterbi = chain.lists_compiled.viterbi
    workers = workers or Workers(1)
    lists = compiled_lists(allowed)
    labels, totals = np.zeros(int(offsets[-1]), dtype=np.int64), np.zeros(len(offsets) - 1)
    best = np.empty(len(scores))
    workers.each(
        lambda first, last: viterbi(first, last, offsets, lists, scores, edge, best, labels, totals),
        runs_of_lists(allowed, offsets, workers),
    )
    raise_if_infeasible(totals)
    return labels, totals
