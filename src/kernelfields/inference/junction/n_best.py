"""The n best labellings of packed graphs, exactly, by lists of the k best on the way up their junction trees.

    m_i(s)[1..k] = the k largest of  node_i(a) + factors_i(a, s) + sum_{children c} m_c(s_c)[r_c]   over a, r_c = 1..k

s is an entry of the separator of clique i, a the label of the node that i eliminates, s_c what (a, s) says about the
separator of child c, and r_c a place in its list. The lists are sorted, so that of two of them only sums of places
r, r' with r r' <= k can be among the k best, about k log k in all. On the way down every one of the k labellings reads
off which label and which places its entry was made of. Best labellings of components are put together the same way.

Cost: O(sum over nodes of L^(1 + later neighbours) (1 + children) k log k) in NumPy, node by node; memory: k entries for
every entry of a separator. Fails: TooWide where that is more than there is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelfields.inference.junction.plan import Layout, TooWide, amount, available_memory, plan_junction
from kernelfields.inference.packing import InfeasibleGraph

# Scores of lists, and two whole numbers for each: which label, and which place of a child.
_BYTES = 16.0


def n_best_labellings(
    offsets: np.ndarray,
    members: Sequence[np.ndarray],
    node: np.ndarray,
    factors: Sequence[np.ndarray],
    k: int,
    *,
    layout: Layout | None = None,
    memory: float | None = None,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return, for each graph, its k best labellings (k, n) and their scores (k,), fewer where there are no more.

    Arrays as in inference/graphs.py; ``layout`` is that of a plan if there is one already.
    """
    if layout is None:
        layout = plan_junction(offsets, members, node.shape[1], memory).layout
    allowed = available_memory() if memory is None else memory
    needed = _BYTES * k * (float(layout.separator_start[-1]) + layout.n_labels * float(np.max(_sizes(layout))))
    if needed > allowed:
        raise TooWide(f"lists of the {k:,} best labellings need {amount(needed)}, more than {amount(allowed)}")
    labellings, scores = [], []
    for graph, (first, last) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        lists = _KBest(layout, node, factors, k)
        found = lists.of_graph(first, last)
        if not len(found[1]):
            raise InfeasibleGraph(graph)
        labellings.append(found[0])
        scores.append(found[1])
    return labellings, scores


def _sizes(layout: Layout) -> np.ndarray:
    return np.diff(layout.separator_start)


class _KBest:
    """The lists of one graph: best scores (s, k) of each clique, and what each of them was made of."""

    def __init__(self, layout: Layout, node: np.ndarray, factors: Sequence[np.ndarray], k: int):
        self._layout, self._node, self._factors, self._k = layout, node, factors, k
        self._scores: dict[int, np.ndarray] = {}
        self._labels: dict[int, np.ndarray] = {}
        #: For each clique (s, k, children): the places in the lists of the children.
        self._places: dict[int, np.ndarray] = {}

    def of_graph(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the labellings (k, n) of the graph with these cliques, and their scores (k,)."""
        layout = self._layout
        for clique in range(first, last):
            self._solve(clique)
        roots = [clique for clique in range(first, last) if layout.parent[clique] < 0]
        total = _Sums(np.zeros((1, 1)), self._k)
        for root in roots:
            total.add(self._scores[root])
        possible = np.isfinite(total.scores[0])
        slots = dict(zip(roots, total.places[0][possible].T, strict=True))
        scores = total.scores[0][possible]
        return self._read(first, last, slots, len(scores)), scores

    def _solve(self, clique: int) -> None:
        """Fill the lists of one clique from those of its children."""
        layout = self._layout
        table = np.repeat(self._node[layout.order[clique]], _sizes(layout)[clique])
        for item in range(layout.item_start[clique], layout.item_start[clique + 1]):
            tables = self._factors[layout.item_group[item]]
            row = layout.item_factor[item] if len(tables) > 1 else 0
            table = table + tables[row].reshape(-1)[self._entries(layout.item_pattern[item])]
        sums = _Sums(table[:, None], self._k)
        for child in self._children(clique):
            sums.add(self._scores[child][self._entries(layout.message_pattern[child])])
        # (label, separator) -> the best of all labels for every entry of the separator.
        n_entries, width = _sizes(layout)[clique], sums.scores.shape[1]
        joined = sums.scores.reshape(layout.n_labels, n_entries, width).transpose(1, 0, 2).reshape(n_entries, -1)
        best = _largest(joined, self._k)
        label, slot = best // width, best % width
        self._scores[clique] = np.take_along_axis(joined, best, axis=1)
        self._labels[clique] = label
        self._places[clique] = sums.places[label * n_entries + np.arange(n_entries)[:, None], slot]

    def _read(self, first: int, last: int, slots: dict[int, np.ndarray], count: int) -> np.ndarray:
        """Go down from the roots: ``slots`` says which place of its list each labelling takes at a clique."""
        layout = self._layout
        labels = np.zeros((count, last - first), dtype=np.int64)
        for clique in range(last - 1, first - 1, -1):
            scope = layout.scopes[layout.scope_start[clique] : layout.scope_start[clique + 1]]
            entry = np.zeros(count, dtype=np.int64)
            for node in scope - first:
                entry = entry * layout.n_labels + labels[:, node]
            slot = slots.pop(clique)
            labels[:, layout.order[clique] - first] = self._labels[clique][entry, slot]
            places = self._places[clique][entry, slot]
            for child, place in zip(self._children(clique), places.T, strict=True):
                slots[child] = place
        return labels

    def _children(self, clique: int) -> list[int]:
        start = self._layout.child_start
        return self._layout.children[start[clique] : start[clique + 1]].tolist()

    def _entries(self, pattern: int) -> np.ndarray:
        """Return, for every entry of a clique's table, the entry of a part of it."""
        layout = self._layout
        high = layout.high[layout.high_start[pattern] : layout.high_start[pattern + 1]]
        low = layout.low[layout.low_start[pattern] : layout.low_start[pattern + 1]]
        return (high[:, None] + low).ravel()


class _Sums:
    """Sorted lists (e, w) of sums of one entry from each of several lists, and the places of those entries."""

    def __init__(self, scores: np.ndarray, k: int):
        self.scores = scores
        self.places = np.zeros((*scores.shape, 0), dtype=np.int32)
        self._k = k

    def add(self, others: np.ndarray) -> None:
        """Take in one more list (e, w') for each entry."""
        own, other = np.meshgrid(np.arange(self.scores.shape[1]), np.arange(others.shape[1]), indexing="ij")
        # Before a sum of places r and r' come all of smaller places, (r + 1)(r' + 1) - 1 of them.
        kept = (own + 1) * (other + 1) <= self._k
        own, other = own[kept], other[kept]
        sums = self.scores[:, own] + others[:, other]
        best = _largest(sums, self._k)
        self.scores = np.take_along_axis(sums, best, axis=1)
        before = np.take_along_axis(self.places, own[best][..., None], axis=1)
        self.places = np.concatenate([before, other[best][..., None].astype(np.int32)], axis=2)


def _largest(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the places of the k largest in each row, falling, the first among equals."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]
