"""In which order to eliminate the nodes of graphs, so that the tables of their cliques stay small.

Three orders are tried, cheap ones first, once per distinct structure:

    natural      the order of the rows: best for chains, also of higher order or with lags
    min-degree   always the node with the fewest neighbours; leaves go first, so trees have width 1
    min-fill     the node whose elimination adds the fewest edges, by networkx; only where tables are large enough
                 for it to pay, and only where networkx is installed

Cost: the min-degree order takes about N log N for small widths, min-fill about N^2.
Fails: :class:`TooWide` where no order keeps the tables within memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from importlib.util import find_spec

import numpy as np

from kernelfields.inference.junction_elimination import LARGEST_CLIQUE, eliminate, grouped, later_neighbours

# Tables of more entries than this are worth the search for a min-fill order.
WORTH_MIN_FILL = 1_000_000
# Beyond this many nodes the search for a min-fill order takes longer than it can save.
MOST_NODES_FOR_MIN_FILL = 400


class TooWide(MemoryError):
    """Exact inference does not fit; ``reason`` says how wide and how large in half a sentence."""

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(
            f'{reason}; use "trw", "loopy" or "mean-field", fewer labels or fewer factors, or allow more memory'
        )


def improve_order(
    order: np.ndarray,
    wide: np.ndarray,
    offsets: np.ndarray,
    members: Sequence[np.ndarray],
    n_labels: int,
    memory: float,
) -> None:
    """Replace the order of the graphs listed by the best one found, once per distinct structure."""
    lists = [grouped(np.searchsorted(offsets, each[:, 0], side="right") - 1, len(offsets) - 1) for each in members]
    fits = LARGEST_CLIQUE
    if n_labels > 1:
        # A table and its derivative; the small number is for powers that come out a little low.
        fits = int(min(fits, max(1.0, np.log(max(memory, 16.0) / 16.0) / np.log(n_labels) + 1e-9)))
    known: dict[tuple[int, tuple[bytes, ...]], np.ndarray] = {}
    for graph in wide.tolist():
        size = int(offsets[graph + 1] - offsets[graph])
        rows = [
            each[found[starts[graph] : starts[graph + 1]]] - offsets[graph]
            for each, (starts, found) in zip(members, lists, strict=True)
        ]
        key = size, tuple(each.tobytes() for each in rows)
        if key not in known:
            known[key] = _best_order(graph, size, rows, n_labels, fits)
        order[offsets[graph] : offsets[graph + 1]] = offsets[graph] + known[key]


def _best_order(graph: int, size: int, rows: list[np.ndarray], n_labels: int, fits: int) -> np.ndarray:
    """Return the order whose tables have the fewest entries; TooWide if none stays within ``fits`` nodes."""
    bounds = np.array([0, size])
    found: list[tuple[float, np.ndarray]] = []

    def consider(order: np.ndarray | None) -> None:
        if order is not None:
            starts, _, _, largest = eliminate(bounds, *later_neighbours(order, rows), fits)
            if largest[0] <= fits:
                found.append((float(np.sum(float(n_labels) ** (np.diff(starts) + 1))), order))

    neighbours = neighbour_sets(size, rows)
    consider(np.arange(size))
    consider(min_degree_order(neighbours, fits))
    if not found or min(entries for entries, _ in found) > WORTH_MIN_FILL:
        consider(min_fill_order(neighbours))
    if not found:
        hint = "" if find_spec("networkx") else "; one more order is tried where networkx is installed"
        raise TooWide(
            f"exact inference needs tables over more than {fits} nodes at once (graph {graph}, width {fits} or "
            f"more, {n_labels} labels), so {amount(16.0 * float(n_labels) ** (fits + 1))} or more{hint}"
        )
    return min(found, key=lambda each: each[0])[1]


def neighbour_sets(n_nodes: int, factors: Iterable[np.ndarray]) -> list[set[int]]:
    """Return the nodes that share a factor with each node; ``factors`` are arrays (M, k) of nodes."""
    neighbours: list[set[int]] = [set() for _ in range(n_nodes)]
    for members in factors:
        for row in members.tolist():
            for v in row:
                neighbours[v].update(row)
    for v, each in enumerate(neighbours):
        each.discard(v)
    return neighbours


def min_degree_order(neighbours: list[set[int]], widest: int) -> np.ndarray | None:
    """Return the nodes, fewest neighbours first; None if a clique of more than ``widest`` nodes comes up."""
    neighbours = [set(each) for each in neighbours]
    heap = [(len(each), v) for v, each in enumerate(neighbours)]
    heapq.heapify(heap)
    order = []
    eliminated = [False] * len(neighbours)
    while heap:
        degree, v = heapq.heappop(heap)
        if eliminated[v] or degree != len(neighbours[v]):
            continue  # an entry from before the degree changed
        if degree >= widest:
            return None
        eliminated[v] = True
        order.append(v)
        around = neighbours[v]
        for u in around:
            mine = neighbours[u]
            mine |= around
            mine.discard(u)
            mine.discard(v)
            heapq.heappush(heap, (len(mine), u))
    return np.array(order, dtype=np.int64)


def min_fill_order(neighbours: list[set[int]]) -> np.ndarray | None:
    """Return an order from networkx's min-fill decomposition; None for many nodes or without networkx."""
    if len(neighbours) > MOST_NODES_FOR_MIN_FILL or find_spec("networkx") is None:
        return None
    import networkx
    from networkx.algorithms.approximation import treewidth_min_fill_in

    graph = networkx.Graph()
    graph.add_nodes_from(range(len(neighbours)))
    graph.add_edges_from((v, u) for v, each in enumerate(neighbours) for u in sorted(each) if u > v)
    _, tree = treewidth_min_fill_in(graph)
    # A bag's nodes that its parent lacks are in no bag above it: eliminate bags from the leaves to the root.
    order: list[int] = []
    for component in networkx.connected_components(tree):
        root = min(component, key=sorted)
        above = {bag: parent for parent, bag in networkx.bfs_edges(tree, root)}
        for bag in [*above][::-1]:
            order.extend(sorted(bag - above[bag]))
        order.extend(sorted(root))
    return np.array(order, dtype=np.int64)


def amount(n_bytes: float) -> str:
    """Return a number of bytes in words."""
    for unit, size in (("GiB", 1024.0**3), ("MiB", 1024.0**2), ("KiB", 1024.0)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes:.0f} bytes"
