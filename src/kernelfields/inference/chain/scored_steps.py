"""Steps with a score between lists of allowed labels: a sparse form of a large table of steps.

    score of a step from a to b  = values[p] for the pair p = (a, b), zero for pairs that are not among the scored

Arrays: outcomes (P,), sorted numbers a L + b. Cost: one look at a bit for each place of each distinct block (steps
between equal lists), 8 bytes for each place with a score. Forbidden steps are scored ones, of minus infinity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from kernelfields.data.allowed import AllowedLabels
from kernelfields.inference import chain
from kernelfields.numerics.threads import Workers

# Places of a block from which on it is written down once for all steps between equal lists.
_LARGE = 2048
# Of a table of which no more than this share has a score, those alone are looked for.
_FEW = 0.2
# A table of so many numbers, 256 KiB, stays in the cache.
_SMALL = 2**15


@dataclass(frozen=True, eq=False)
class ScoredSteps:
    """Pairs of labels with a score of their own: ``outcomes`` (P,), sorted, among L^2."""

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
    """Scores of all steps, (1 or N, L, L), and of scored steps, (P,), if a look-up costs less."""

    def __init__(self, edge: np.ndarray):
        self.edge = edge

    @cached_property
    def listed(self) -> ScoredSteps | None:
        """The scored steps; None if the table costs no more."""
        edge = self.edge
        if len(edge) > 1 or not should_list_steps(int(np.count_nonzero(edge)), edge.shape[-1]):
            return None
        return ScoredSteps(np.flatnonzero(edge), edge.shape[-1])

    @cached_property
    def values(self) -> np.ndarray:
        """The scores of the listed steps, (P,), or of all steps."""
        return self.edge if self.listed is None else self.edge.reshape(-1)[self.listed.outcomes]


def should_list_steps(n_scored: int, n_labels: int, share: float = _FEW, small: int = _SMALL) -> bool:
    """Whether a list of scored steps costs less than a table of all steps: for large tables with few scores."""
    return small < n_labels**2 and n_scored <= share * n_labels**2


def marked(rows: np.ndarray, begin: np.ndarray, labels: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return bits and ranks (R, W) of pairs begin[f] .. begin[f + 1] - 1 for f in ``rows`` with sorted labels."""
    shape = len(rows), -(-n_labels // 64)
    bits, ranks = np.zeros(shape, dtype=np.uint64), np.zeros(shape, dtype=np.uint32)
    chain.lists_compiled.mark_pairs(rows, begin, labels, bits, ranks)
    return bits, ranks


class StepBlocks:
    """The scored steps of chains with lists of allowed labels, stored for many passes.

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
        write_steps = chain.lists_compiled.write_steps
        self.table, self.outcomes = steps.table, steps.outcomes
        arrays, sizes = compiled_lists(lists), np.diff(lists.begin)
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
        """The block of each position, the begins of its matches, their places and their pairs."""
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
    """Return a number for each position, equal for equal lists, (N,), zero for other positions."""
    kinds, sizes, known = np.zeros(lists.n_positions, dtype=np.int64), np.diff(lists.begin)[positions], 0
    for size in np.unique(sizes):
        rows = positions[sizes == size]
        labels = lists.labels[lists.begin[rows][:, None] + np.arange(size)]
        whole = labels.view(f"V{size * labels.itemsize}").ravel()
        distinct, kinds[rows] = np.unique(whole, return_inverse=True)
        kinds[rows] += known
        known += len(distinct)
    return kinds


def compiled_lists(allowed: AllowedLabels) -> tuple[np.ndarray, np.ndarray]:
    """Return the lists for compiled code, with unsigned numbers."""
    return allowed.begin, allowed.labels.view(np.uint32)
