"""Passes over chains with lists of allowed labels: inference skips all other labels.

What depends on single labels is kept for the entries of the lists, (A,), and nothing is as large as positions times
labels. ``ListFamily`` of family.py is built on these passes; the dense passes with minus infinity elsewhere are their
plain twin. Cost: sum_t |A_{t-1}| |A_t| instead of N L^2.

Steps between lists of allowed labels that have a score: what passes over lists need of a large table of steps.

    score of a step from a to b  = values[p] for the pair p = (a, b), zero for pairs that are not among the scored

Arrays: outcomes (P,), sorted numbers a L + b. Cost: one look at a bit for each place of each distinct block (steps
between equal lists), 8 bytes for each place with a score. Forbidden steps are scored ones, of minus infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kernelfields.data.allowed import AllowedLabels
from kernelfields.inference.family import Potentials
from kernelfields.inference.packing import (
    InfeasibleGraph,
    InfeasibleSequence,
    exponentials,
    positive_exp,
    raise_if_infeasible,
)
from kernelfields.numerics.threads import Workers

# Places of a block from which on it is written down once for all steps between equal lists.
_LARGE = 2048
# Of a table of which no more than this share has a score, those alone are looked for.
_FEW = 0.2
# A table of so many numbers, 256 KiB, stays in the cache.
_SMALL = 2**15


@dataclass(frozen=True, eq=False)
class ScoredSteps:
    """Pairs of labels whose step has a score of its own: ``outcomes`` (P,), sorted, out of L^2."""

    outcomes: np.ndarray
    n_labels: int

    @cached_property
    def marks(self) -> tuple[np.ndarray, np.ndarray]:
        """A bit for each pair, (L, W), and the number of pairs before each word, (L, W)."""
        rows, labels = np.divmod(self.outcomes, self.n_labels)
        begin = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.n_labels))])
        return marked(np.arange(self.n_labels), begin, labels, self.n_labels)

    def table(self, values: np.ndarray) -> np.ndarray:
        """Return the scores of all steps, (1, L, L)."""
        table = np.zeros((1, self.n_labels, self.n_labels))
        table.reshape(-1)[self.outcomes] = values
        return table


class StepTable:
    """Scores of all steps, (1 or N, L, L), and of those that have one, (P,), where looking for these costs less."""

    def __init__(self, edge: np.ndarray):
        self.edge = edge

    @cached_property
    def listed(self) -> ScoredSteps | None:
        """The steps that have a score; None where the table is as good."""
        edge = self.edge
        if len(edge) > 1 or not worth_listing(int(np.count_nonzero(edge)), edge.shape[-1]):
            return None
        return ScoredSteps(np.flatnonzero(edge), edge.shape[-1])

    @cached_property
    def values(self) -> np.ndarray:
        """The scores of the steps that are listed, (P,); of all where none are."""
        return self.edge if self.listed is None else self.edge.reshape(-1)[self.listed.outcomes]


def worth_listing(n_scored: int, n_labels: int, share: float = _FEW, small: int = _SMALL) -> bool:
    """Whether looking for the steps that have a score costs less than a table of all: it is large, they are few."""
    return small < n_labels**2 and n_scored <= share * n_labels**2


def marked(rows: np.ndarray, begin: np.ndarray, labels: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return bits and ranks (R, W) of pairs begin[f] .. begin[f + 1] - 1 for f in ``rows`` with sorted labels."""
    from kernelfields.inference.chain.lists_compiled import mark_pairs

    shape = len(rows), -(-n_labels // 64)
    bits, ranks = np.zeros(shape, dtype=np.uint64), np.zeros(shape, dtype=np.uint32)
    mark_pairs(rows, begin, labels, bits, ranks)
    return bits, ranks


class StepBlocks:
    """The scored steps of chains with lists of allowed labels, written down for many passes.

    Blocks of ``large`` places or more are one for all steps between equal lists; ``at_once`` places are looked at by
    one thread at a time.
    """

    def __init__(
        self,
        steps: ScoredSteps,
        lists: AllowedLabels,
        offsets: np.ndarray,
        workers: Workers,
        large: int = _LARGE,
        at_once: int = 2**20,
    ):
        from kernelfields.inference.chain.lists_compiled import write_steps

        self.table, self.outcomes = steps.table, steps.outcomes
        arrays, sizes = _compiled(lists), np.diff(lists.begin)
        self.which, rows = _step_blocks(lists, offsets, large)
        ends = np.concatenate([[0], np.cumsum(sizes[rows - 1] * sizes[rows])])
        cuts = np.unique(np.append(np.searchsorted(ends, np.arange(0, ends[-1], at_once)), len(rows)))
        pieces = list(pairwise(cuts.tolist())) if len(rows) else []
        found: dict[int, tuple[np.ndarray, ...]] = {}

        def run(first: int, last: int) -> None:
            starts, cells = np.empty(last - first + 1, dtype=np.int64), int(ends[last] - ends[first])
            places, pairs = np.empty(cells, dtype=np.uint32), np.empty(cells, dtype=np.uint32)
            matches = write_steps(first, last, rows, arrays, *steps.marks, starts, places, pairs)
            found[first] = np.diff(starts), places[:matches].copy(), pairs[:matches].copy()

        workers.each(run, pieces)
        nothing = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.uint32)
        parts = [nothing, *(found[first] for first, _ in pieces)]
        counts, self.places, self.pairs = (np.concatenate(each) for each in zip(*parts, strict=True))
        self.starts = np.concatenate([[0], np.cumsum(counts)])

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The block of each position, where its matches begin, their places and their pairs."""
        return self.which, self.starts, self.places, self.pairs


def _step_blocks(lists: AllowedLabels, offsets: np.ndarray, large: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the block of the step into each position, (N,), -1 at starts, and the first position of each block."""
    steps, sizes = np.delete(np.arange(lists.n_positions), offsets[:-1]), np.diff(lists.begin)
    first, shared = steps.copy(), sizes[steps - 1] * sizes[steps] >= large
    if shared.any():
        kinds = _kinds(lists, np.unique([steps[shared] - 1, steps[shared]]))
        _, places, inverse = np.unique(
            kinds[steps[shared] - 1] * lists.n_positions + kinds[steps[shared]], return_index=True, return_inverse=True
        )
        first[shared] = steps[shared][places[inverse]]
    rows = np.unique(first)
    which = np.full(lists.n_positions, -1, dtype=np.int32)
    which[steps] = np.searchsorted(rows, first)
    return which, rows


def _kinds(lists: AllowedLabels, positions: np.ndarray) -> np.ndarray:
    """Return one number for the equal lists of some positions, (N,), zero for those of others."""
    kinds, sizes, known = np.zeros(lists.n_positions, dtype=np.int64), np.diff(lists.begin)[positions], 0
    for size in np.unique(sizes):
        rows = positions[sizes == size]
        labels = lists.labels[lists.begin[rows][:, None] + np.arange(size)]
        whole = labels.view(f"V{size * labels.itemsize}").ravel()
        distinct, kinds[rows] = np.unique(whole, return_inverse=True)
        kinds[rows] += known
        known += len(distinct)
    return kinds


# Lists are used where neighbours may have at most this share of all pairs of labels; benchmarks/many_labels.py of
# commit 48b1fa7 prints the times of both ways.
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
    """Infer a sequence by a junction tree over the labels of its lists, in logarithms; fill results and add steps."""
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
        member = junction.at(Potentials(node, {"0": edge[chosen]}))
    except InfeasibleGraph:
        raise InfeasibleSequence(sequence) from None
    log_partition[sequence], entries[own] = member.log_partition[0], member.marginals()[lists.rows, places]
    expected[chosen] += weight * member.mean()["0"]


# Where matches of steps are not written down.
_NO_MATCHES = (np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint32))


def _passes(
    edge: np.ndarray, listed: StepBlocks | ScoredSteps | None, allowed: AllowedLabels
) -> tuple[Callable[..., None], tuple[object, ...]]:
    """Return compiled passes and what they take: matches or marks of steps, transfer, whether some are forbidden."""
    from kernelfields.inference.chain.lists_compiled import forward_backward, forward_backward_marked

    n_labels = allowed.n_labels
    if listed is None:
        table, shifts = exponentials(edge)
        layout = n_labels, 0 if len(edge) == 1 else n_labels**2
        return forward_backward, (_NO_MATCHES, (table.reshape(-1), layout, 0.0, shifts), not table.all())
    # Steps that are not listed have the score zero, and that may be the largest of all.
    shifts = np.array([edge.max(initial=0.0)])
    values, background = positive_exp(edge, shifts[0]), positive_exp(np.zeros(1), shifts)[0]
    transfer = values, (n_labels, 0), background, shifts
    if isinstance(listed, StepBlocks):
        return forward_backward, (listed.arrays, transfer, not values.all())
    marks = np.empty(allowed.n_positions, dtype=np.int32), *listed.marks
    return forward_backward_marked, (marks, transfer, not values.all())


def _compiled(allowed: AllowedLabels) -> tuple[np.ndarray, np.ndarray]:
    """Return the lists as compiled code takes them: with unsigned numbers it need not look for those below zero."""
    return allowed.begin, allowed.labels.view(np.uint32)


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
    """Return the best labelling (N,) and its score per sequence (S,); of equal scores the lowest label wins."""
    from kernelfields.inference.chain.lists_compiled import viterbi

    workers = workers or Workers(1)
    lists = _compiled(allowed)
    labels, totals = np.zeros(int(offsets[-1]), dtype=np.int64), np.zeros(len(offsets) - 1)
    best = np.empty(len(scores))
    workers.each(
        lambda first, last: viterbi(first, last, offsets, lists, scores, edge, best, labels, totals),
        runs_of_lists(allowed, offsets, workers),
    )
    raise_if_infeasible(totals)
    return labels, totals
