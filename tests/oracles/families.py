"""Every labelling of some short items, one by one: the oracle that families of labellings are compared with.

    p(y; u) = exp(log p0(y) + <Phi(y), u>) / sum_y'          g, E Phi, Cov Phi, best labellings: sums over all y

An :class:`Enumeration` lists the labellings of each item (segmentations for segments) and the counts Phi of each, dense
and by the plain definition; potentials, directions and means are dicts from groups to arrays (1 or rows, labellings).
Nothing of the library is used. An item of n positions and L labels costs O(L^n), so items are a few positions long.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tests.oracles.labellings import all_labellings, all_segmentations
from tests.oracles.segments import segment_counts


@dataclass(frozen=True)
class Cliques:
    """A group of cliques: the positions of each, (M, k), its row (None: the number of the clique), of ``n_rows``.

    ``listed`` are the numbers of the labellings that have a score, None for all L^k.
    """

    name: str | None
    members: np.ndarray
    tied: bool = False
    rows: np.ndarray | None = None
    n_rows: int | None = None
    listed: np.ndarray | None = None

    def size(self, n_labels):
        """Number of labellings that have a score."""
        return n_labels ** self.members.shape[1] if self.listed is None else len(self.listed)

    @property
    def height(self):
        """Number of rows."""
        return len(self.members) if self.n_rows is None else self.n_rows


class Item:
    """All labellings of an item: labels (K, n), counts of each group (K, rows * labellings), steps (K, L * L)."""

    def __init__(self, labels, counts, steps, begins=None):
        self.labels, self.counts, self.steps, self.begins = labels, counts, steps, begins


class Enumeration:
    """All labellings of items that lie end to end, and the counts of their cliques."""

    #: Whether rows of a group belong to no item.
    shared_rows: frozenset = frozenset()

    def __init__(self, offsets, n_labels, groups, steps=None):
        """Items end to end; ``steps`` (M, 2) are the neighbours that p0 weighs, None for those in a row."""
        self.offsets, self.n_labels = np.asarray(offsets), n_labels
        if steps is None:
            later = np.setdiff1d(np.arange(self.offsets[-1]), self.offsets[:-1])
            steps = np.column_stack([later - 1, later])
        self._steps = steps
        nodes = Cliques(None, np.arange(self.offsets[-1])[:, None])
        self.groups = {group.name: group for group in (nodes, *groups)}
        self.items = [self._item(begin, end) for begin, end in pairwise(self.offsets.tolist())]

    def shape(self, name):
        """Rows and labellings of a group, as if it were not tied."""
        return self.groups[name].height, self.groups[name].size(self.n_labels)

    def _item(self, begin, end):
        labels = all_labellings(end - begin, self.n_labels)
        counts = {}
        for name, group in self.groups.items():
            height, size = self.shape(name)
            table = np.zeros((len(labels), height, size))
            for number, positions in enumerate(group.members):
                if begin <= positions[0] < end:
                    row = number if group.rows is None else group.rows[number]
                    numbers = labels[:, positions - begin] @ self.n_labels ** np.arange(len(positions))[::-1]
                    listed = range(size) if group.listed is None else group.listed
                    table[:, row] += numbers[:, None] == np.asarray(listed)
            counts[name] = table.reshape(len(labels), -1)
        steps = np.zeros((len(labels), self.n_labels, self.n_labels))
        for before, after in self._steps - begin:
            if 0 <= after < end - begin:
                np.add.at(steps, (np.arange(len(labels)), labels[:, before], labels[:, after]), 1.0)
        return Item(labels, counts, steps.reshape(len(labels), -1))

    def base_scores(self, position, step):
        """log p0 of all labellings of each item: weights of labels (N, L) and of steps (L, L)."""
        return [_times(item.counts[None], position) + _times(item.steps, step) for item in self.items]

    def scores(self, potentials):
        """<Phi(y), u> of all labellings of each item."""
        return [
            sum(_times(item.counts[name], self._untied(name, potentials[name])) for name in self.groups)
            for item in self.items
        ]

    def _untied(self, name, table):
        shape = self.shape(name)
        return np.broadcast_to(np.asarray(table).reshape(-1, shape[1]), shape)

    def distribution(self, potentials, position, step, weights=None):
        """The distribution at potentials and a base measure."""
        base, own = self.base_scores(position, step), self.scores(potentials)
        return Distribution(self, [b + s for b, s in zip(base, own, strict=True)], weights)

    def counts(self, choice, weights=None):
        """Weighted counts of one labelling of each item, by its number; summed where groups are tied."""
        chosen = [np.eye(len(item.labels))[number] for item, number in zip(self.items, choice, strict=True)]
        return self.summed(chosen, weights)

    def summed(self, masses, weights=None):
        """Weighted sums of counts, each labelling with a mass; summed over rows where groups are tied."""
        weights = np.ones(len(self.items)) if weights is None else weights
        sums = {}
        for name, group in self.groups.items():
            parts = (w * mass @ item.counts[name] for w, mass, item in zip(weights, masses, self.items, strict=True))
            table = sum(parts).reshape(self.shape(name))
            sums[name] = table.sum(axis=0, keepdims=True) if group.tied else table
        return sums


class SegmentEnumeration(Enumeration):
    """All segmentations: labels, steps into the first position of a segment, and durations."""

    shared_rows = frozenset(["duration"])

    def __init__(self, offsets, n_labels, longest, *, tied, shortest=None):
        n_positions, self._longest = int(offsets[-1]), longest
        self._shortest = (1,) * n_labels if shortest is None else shortest
        pairs = np.zeros((0, 2), dtype=np.int64)
        groups = [
            Cliques("edge", pairs, tied, n_rows=n_positions),
            Cliques("duration", np.zeros((0, 1), dtype=np.int64), n_rows=longest),
        ]
        super().__init__(offsets, n_labels, groups)

    def _item(self, begin, end):
        every = all_segmentations(end - begin, self.n_labels, self._longest)
        found = [own for own in every if all(last - first >= self._shortest[label] for first, last, label in own)]
        labels, begins = np.zeros((2, len(found), end - begin), dtype=np.int64)
        tables = {name: np.zeros((len(found), *self.shape(name))) for name in self.groups}
        steps = np.zeros((len(found), self.n_labels**2))
        for which, segments in enumerate(found):
            own = segment_counts(segments, end - begin, self.n_labels, self._longest)
            labels[which] = own[0].argmax(axis=1)
            begins[which, [first for first, _, _ in segments]] = 1
            steps[which] = own[1].sum(axis=0).ravel()
            for name, table in zip((None, "edge", "duration"), own, strict=True):
                rows = slice(None) if name == "duration" else slice(begin, end)
                tables[name][which, rows] = table.reshape(len(table), -1)
        counts = {name: table.reshape(len(found), -1) for name, table in tables.items()}
        return Item(labels, counts, steps, begins.astype(bool))


class Distribution:
    """Probabilities of all labellings; items of which all are forbidden have g = -inf and no probabilities."""

    def __init__(self, enumeration, scores, weights=None):
        self.enumeration, self.scores, self.weights = enumeration, scores, weights
        peaks = np.array([each.max() for each in scores])
        # The best score is subtracted first: a large log partition would take digits.
        masses = [np.exp(each - max(peak, -1e300)) for each, peak in zip(scores, peaks, strict=True)]
        totals = np.array([mass.sum() for mass in masses])
        self.log_partition = peaks + np.log(np.maximum(totals, 1.0))
        self.probabilities = [mass / max(total, 1.0) for mass, total in zip(masses, totals, strict=True)]

    def times(self, log_weights):
        """The distribution with p0 multiplied by weights of labels, exp log_weights (N, L)."""
        items = self.enumeration.items
        return Distribution(
            self.enumeration,
            [scores + _times(item.counts[None], log_weights) for scores, item in zip(self.scores, items, strict=True)],
            self.weights,
        )

    def weighted(self, weights):
        """The same distribution with other weights of items."""
        other = copy.copy(self)
        other.weights = weights
        return other

    @property
    def possible(self):
        """Whether every item has a labelling."""
        return bool(np.isfinite(self.log_partition).all())

    def mean(self):
        """The weighted sum of E Phi."""
        return self.enumeration.summed(self.probabilities, self.weights)

    def marginals(self, name):
        """E of the counts of each row, (rows, labellings), items not weighted."""
        parts = (p @ item.counts[name] for p, item in zip(self.probabilities, self.enumeration.items, strict=True))
        return sum(parts).reshape(self.enumeration.shape(name))

    def covariance_product(self, direction):
        """The weighted sum of Cov(Phi) d."""
        slopes = self.enumeration.scores(direction)
        moved = [p * (d - p @ d) for p, d in zip(self.probabilities, slopes, strict=True)]
        return self.enumeration.summed(moved, self.weights)

    def entropy(self):
        """Minus the sum of p log p of each item."""
        return np.array([-(p[p > 0] @ np.log(p[p > 0])) for p in self.probabilities])

    def ranked(self, item, k):
        """The k largest scores of an item, largest first, no forbidden ones."""
        scores = self.scores[item]
        return np.sort(scores[scores > -np.inf])[::-1][:k]

    def labellings(self, item):
        """The labels of all labellings of an item as tuples, with their probabilities and their best score."""
        found = {}
        rows = self.enumeration.items[item].labels.tolist()
        for row, chance, score in zip(rows, self.probabilities[item], self.scores[item], strict=True):
            known = found.get(tuple(row), (0.0, -np.inf))
            found[tuple(row)] = known[0] + chance, max(known[1], score)
        return found


def _times(counts, values):
    """Counts (K, n) times values, minus infinity where one of those is counted."""
    values = np.asarray(values, dtype=np.float64).reshape(-1)
    forbidden = np.isneginf(values)
    total = counts @ np.where(forbidden, 0.0, values)
    total[(counts[:, forbidden] > 0).any(axis=1)] = -np.inf
    return total
