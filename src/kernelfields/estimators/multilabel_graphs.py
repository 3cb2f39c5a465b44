"""Which labels meet: the graph of a multi-label field, given or found from the labels, and how it is inferred.

"none"          no edges: labels are independent given the inputs
"tree"          the spanning tree of largest mutual information I(y_j; y_k) (Chow and Liu), O(n K^2)
"full"          all pairs
"auto"          "full" as long as a table of all labellings is small, else "tree"
"learn"         those that a search chooses (multilabel_structure.py)
[(j, k), ..]    these pairs, by number or by name
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields.estimators.parameters import is_whole
from kernelfields.fields.label_cliques import LabelledInstances
from kernelfields.inference.graph import GraphInference, plan_inference

GRAPHS = ("auto", "none", "tree", "full", "learn")
#: Labels up to which "auto" joins all pairs: 65,536 labellings of an instance.
MOST_LABELS_IN_FULL = 16
# Labels up to which a table of all labellings beats any junction tree.
_SMALL_TABLE = 14
# With tables of pairs that depend on the inputs, one for each instance, tables of labellings are, too.
_MOST_LABELS = {True: 20, False: 16}

Edge = tuple[int, int]


def label_edges(label_graph: Any, Y: np.ndarray, weights: np.ndarray, names: Sequence[Any]) -> list[Edge]:
    """Return the pairs j < k of labels that meet, given the parameter and the training labels Y (n, K)."""
    n_labels = Y.shape[1]
    if isinstance(label_graph, str):
        if label_graph not in GRAPHS:
            raise ValueError(
                f"label_graph must be one of {', '.join(map(repr, GRAPHS))} or a list of pairs, "
                f"got {label_graph!r}"
            )
        if label_graph == "auto":
            label_graph = "full" if n_labels <= MOST_LABELS_IN_FULL else "tree"
        if label_graph == "none":
            return []
        if label_graph == "full":
            return list(itertools.combinations(range(n_labels), 2))
        return spanning_tree(mutual_information(Y, weights))
    return given_edges(label_graph, list(names))


def given_edges(pairs: Any, names: list) -> list[Edge]:
    """Return pairs of labels by number or name as sorted numbers; errors name what cannot be used."""
    if not isinstance(pairs, list | tuple | np.ndarray):
        raise TypeError(
            f"label_graph must be one of {', '.join(map(repr, GRAPHS))} or a list of pairs, got {pairs!r}"
        )
    edges: list[Edge] = []
    for index, pair in enumerate(pairs):
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise ValueError(f"label_graph[{index}] is {pair!r}, expected a pair of labels (j, k)")
        j, k = sorted(_label_number(each, names, index) for each in pair)
        if j == k:
            raise ValueError(f"label_graph[{index}] joins label {names[j]!r} with itself: leave it out")
        if (j, k) in edges:
            raise ValueError(
                f"label_graph[{index}] joins labels {names[j]!r} and {names[k]!r} again: name each pair once, in "
                "either order"
            )
        edges.append((j, k))
    return edges


def _label_number(label: Any, names: list, index: int) -> int:
    if isinstance(label, str):
        if label in names:
            return names.index(label)
        known = ", ".join(map(repr, names[:10])) + (", .." if len(names) > 10 else "")
        raise ValueError(f"label_graph[{index}] names the label {label!r}, but labels are {known}")
    if not is_whole(label) or not 0 <= label < len(names):
        raise ValueError(f"label_graph[{index}] holds {label!r}, but labels are numbered 0 to {len(names) - 1}")
    return int(label)


def mutual_information(Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return I(y_j; y_k) in nats, (K, K), of labels (n, K) with half an instance added to each of four cells."""
    total = float(weights.sum()) + 2.0
    weighted = Y * weights[:, None]
    both = weighted.T @ Y + 0.5
    first = (weighted.sum(axis=0) + 1.0)[:, None]
    cells = {(1, 1): both, (1, 0): first - both, (0, 1): first.T - both, (0, 0): total - first - first.T + both}
    information = np.zeros(both.shape)
    for (a, b), count in cells.items():
        expected = (first if a else total - first) * (first.T if b else total - first.T) / total
        information += count / total * np.log(count / expected)
    np.fill_diagonal(information, 0.0)
    return information


def spanning_tree(weight: np.ndarray) -> list[Edge]:
    """Return the edges j < k of a spanning tree of largest total weight (Prim), sorted."""
    n_nodes = len(weight)
    best, origin = weight[0].copy(), np.zeros(n_nodes, dtype=np.int64)
    outside = np.arange(n_nodes) > 0
    edges = []
    for _ in range(n_nodes - 1):
        new = int(np.argmax(np.where(outside, best, -np.inf)))
        edges.append((min(new, int(origin[new])), max(new, int(origin[new]))))
        outside[new] = False
        closer = outside & (weight[new] > best)
        best[closer], origin[closer] = weight[new][closer], new
    return sorted(edges)


def plan_labels(
    offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int, method: Any, *, tied: bool
) -> GraphInference:
    """Return how instances with K labels are inferred: by a named method, or by the one "auto" chooses.

    "auto": "tree" for forests; else "table", a table of all labellings, for few labels; else "junction" where the
    graph is narrow enough, "table" where it still fits, and "trw", which is approximate.
    """
    from kernelfields.inference.label_tables import LabelTables

    if isinstance(method, str) and method == "table":
        return LabelTables(offsets, members, 2)
    if not (isinstance(method, str) and method == "auto") or len(members) == 0:
        return plan_inference(offsets, members, 2, method)
    if not _has_circle(offsets, members):
        return plan_inference(offsets, members, 2, "tree")
    if n_labels <= _SMALL_TABLE:
        return LabelTables(offsets, members, 2)
    chosen = plan_inference(offsets, members, 2, "auto")
    # A table of all labellings is two halves of K / 2 labels, multiplied by fast matrix products.
    narrow = chosen.exact and chosen.plan.width < n_labels // 2  # type: ignore[attr-defined]
    return chosen if narrow or n_labels > _MOST_LABELS[tied] else LabelTables(offsets, members, 2)


def plan_instances(instances: LabelledInstances, method: Any, *, tied: bool) -> GraphInference:
    """Return how the labels of instances are inferred."""
    graphs = instances.graphs
    members = [factors.members for factors in graphs.factors]
    return plan_labels(graphs.offsets, members, int(graphs.offsets[1]), method, tied=tied)


def _has_circle(offsets: np.ndarray, members: Sequence[np.ndarray]) -> bool:
    """Whether the edges of one instance, the same for all, hold a circle."""
    root = list(range(int(offsets[1])))
    for each in members:
        ends = []
        for node in each[0].tolist():
            while root[node] != node:
                node = root[node]
            ends.append(node)
        if ends[0] == ends[1]:
            return True
        root[ends[0]] = ends[1]
    return False
