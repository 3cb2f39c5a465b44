"""Elimination orders of the nodes of graphs, and the cliques of an order.

Eliminating a node v joins it with the neighbours that are still there, higher(v): the clique {v} + higher(v)
needs a table of L^(1 + |higher(v)|) entries. The width of an order is the largest |higher(v)|; the smallest over
all orders is the treewidth. Positions count nodes in the order of elimination. Two orders are tried, the cheap one
first, once per distinct structure:

    natural      the order of the rows: best for chains, also of higher order or with lags
    min-degree   always the node with the fewest neighbours; leaves go first, so trees have width 1

Cost: elimination is linear in the size of its result; the min-degree order takes about N log N for small widths. Both
stop at the first clique that is too large. Raises :class:`TooWide` where no order keeps the tables within memory.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

import numpy as np

from kernelfields.inference import junction
from kernelfields.inference.packed_graphs import group_places

# No table of two labels per node is larger; also the digits that fit into an int64.
LARGEST_CLIQUE = 60


class TooWide(MemoryError):
    """Exact inference does not fit in memory; ``reason`` gives width and size as half a sentence."""

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(
            f'{reason}; use "trw", "loopy" or "mean-field", fewer labels or fewer factors, or allow more memory'
        )


def eliminate_nodes(
    order: np.ndarray, offsets: np.ndarray, members: Sequence[np.ndarray], widest: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (starts, flat, parents, cliques) of an order of all nodes, see :func:`elimination_compiled.eliminate`."""
    return junction.elimination_compiled.eliminate(offsets, *later_neighbours(order, members), widest)


def later_neighbours(order: np.ndarray, members: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return (starts, flat): for every position the later positions in the factors that begin with it."""
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    owners, others = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for nodes in members:
        ranks = np.sort(position[nodes], axis=1)
        owners.append(np.repeat(ranks[:, 0], ranks.shape[1] - 1))
        others.append(ranks[:, 1:].ravel())
    starts, indices = group_places(np.concatenate(owners), len(order))
    return starts, np.concatenate(others)[indices]


def improve_order(
    order: np.ndarray,
    wide: np.ndarray,
    offsets: np.ndarray,
    members: Sequence[np.ndarray],
    n_labels: int,
    memory: float,
) -> None:
    """Replace the order of the listed graphs by the best one found, once per distinct structure."""
    lists = [group_places(np.searchsorted(offsets, each[:, 0], side="right") - 1, len(offsets) - 1) for each in members]
    fits = LARGEST_CLIQUE
    if n_labels > 1:
        # A table and its derivative; the small number is for powers that come out a little low.
        fits = int(min(fits, max(1.0, np.log(max(memory, 16.0) / 16.0) / np.log(n_labels) + 1e-9)))
    known: dict[tuple[int, tuple[bytes, ...]], np.ndarray] = {}
    for graph in wide.tolist():
        size = int(offsets[graph + 1] - offsets[graph])
        rows = [
            each[indices[starts[graph] : starts[graph + 1]]] - offsets[graph]
            for each, (starts, indices) in zip(members, lists, strict=True)
        ]
        key = size, tuple(each.tobytes() for each in rows)
        if key not in known:
            known[key] = _best_order(graph, size, rows, n_labels, fits)
        order[offsets[graph] : offsets[graph + 1]] = offsets[graph] + known[key]


def _best_order(graph: int, size: int, rows: list[np.ndarray], n_labels: int, fits: int) -> np.ndarray:
    """Return the order with the fewest table entries; TooWide if every order exceeds ``fits`` nodes."""
    bounds = np.array([0, size])
    narrow: list[tuple[float, np.ndarray]] = []  # entries of all tables, order

    def consider(order: np.ndarray | None) -> None:
        if order is not None:
            starts, _, _, largest = eliminate_nodes(order, bounds, rows, fits)
            if largest[0] <= fits:
                narrow.append((float(np.sum(float(n_labels) ** (np.diff(starts) + 1))), order))

    consider(np.arange(size))
    consider(min_degree_order(size, rows, fits))
    if not narrow:
        raise TooWide(
            f"exact inference needs tables over more than {fits} nodes at once (graph {graph}, width {fits} or "
            f"more, {n_labels} labels), so {format_bytes(16.0 * float(n_labels) ** (fits + 1))} or more"
        )
    return min(narrow, key=lambda each: each[0])[1]


def min_degree_order(n_nodes: int, factors: Sequence[np.ndarray], widest: int) -> np.ndarray | None:
    """Return the nodes, fewest neighbours first; None if a clique has more than ``widest`` nodes.

    ``factors`` are arrays (M, k) of nodes; of nodes with equally many neighbours the first one is taken.
    """
    neighbours: list[set[int]] = [set() for _ in range(n_nodes)]
    for u, v in _joined_nodes(factors).tolist():
        neighbours[u].add(v)
        neighbours[v].add(u)
    waiting = [(len(around), v) for v, around in enumerate(neighbours)]
    heapq.heapify(waiting)
    order: dict[int, None] = {}
    while waiting:
        degree, v = heapq.heappop(waiting)
        around = neighbours[v]
        if v in order or degree != len(around):
            continue  # an entry from before the degree changed
        if degree >= widest:
            return None
        order[v] = None
        for u in around:
            neighbours[u] |= around
            neighbours[u] -= {u, v}
            heapq.heappush(waiting, (len(neighbours[u]), u))
    return np.array(list(order), dtype=np.int64)


def _joined_nodes(factors: Sequence[np.ndarray]) -> np.ndarray:
    """Return the pairs of nodes (n, 2) that share a factor, repeats included."""
    pairs = [
        members[:, list(pair)] for members in factors for pair in itertools.combinations(range(members.shape[1]), 2)
    ]
    return np.concatenate([np.zeros((0, 2), np.int64), *pairs])


def format_bytes(n_bytes: float) -> str:
    """Return a number of bytes as text."""
    for unit, size in (("GiB", 1024.0**3), ("MiB", 1024.0**2), ("KiB", 1024.0)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes:.0f} bytes"
