"""Graphs of labels: the pairs of labels of an instance that meet.

    "none"          no edges: labels are independent given the inputs
    "tree"          the spanning tree of largest mutual information I(y_j; y_k) (Chow and Liu), O(n K^2)
    "full"          all pairs
    "auto"          "full" as long as a table of all labellings is small, else "tree"
    [(j, k), ..]    these pairs, by number or by name

Mutual information is counted over the instances whose two labels are known.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from kernelfields.data.label_cliques import LabelledInstances
from kernelfields.models.instance_terms import Edge
from kernelfields.numerics.parameters import is_whole, resolve_open

GRAPHS = ("auto", "none", "tree", "full")
#: Labels up to which "auto" joins all pairs: 65,536 labellings of an instance.
MOST_LABELS_IN_FULL = 16


def label_edges(label_graph: object, instances: LabelledInstances | None, names: Sequence[object]) -> list[Edge]:
    """Return the edges j < k between labels, from the parameter and the instances of a fit."""
    n_labels = len(names)
    if isinstance(label_graph, str):
        if label_graph not in GRAPHS:
            raise ValueError(
                f"label_graph must be one of {', '.join(map(repr, GRAPHS))} or a list of pairs, such as "
                f"kernelfields.selection.StructureSearch chooses, got {label_graph!r}"
            )
        label_graph = resolve_open(label_graph, "full" if n_labels <= MOST_LABELS_IN_FULL else "tree")
        if label_graph == "none":
            return []
        if label_graph == "full":
            return list(itertools.combinations(range(n_labels), 2))
        if not isinstance(instances, LabelledInstances):
            raise ValueError(
                f"label_graph='tree', the usual one of more than {MOST_LABELS_IN_FULL} labels, is read off labels of "
                "this process: name the pairs for Dask collections, or use label_graph='full' or 'none'"
            )
        table = instances.required_labels.reshape(-1, n_labels)
        known = instances.given.informative().reshape(table.shape)
        return spanning_tree(mutual_information(table, instances.weights, known))
    if not isinstance(label_graph, list | tuple | np.ndarray):
        raise TypeError(
            f"label_graph must be one of {', '.join(map(repr, GRAPHS))} or a list of pairs, got {label_graph!r}"
        )
    return read_given_edges(label_graph, list(names), "label_graph")


def read_given_edges(pairs: Iterable, names: list, given: str) -> list[Edge]:
    """Return pairs of labels as sorted numbers; errors name invalid pairs of the parameter ``given``."""
    edges: list[Edge] = []
    for index, pair in enumerate(pairs):
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise ValueError(f"{given}[{index}] is {pair!r}, expected a pair of labels (j, k)")
        j, k = sorted(_label_number(label, names, f"{given}[{index}]") for label in pair)
        if j == k:
            raise ValueError(f"{given}[{index}] joins label {names[j]!r} with itself: leave it out")
        if (j, k) in edges:
            raise ValueError(
                f"{given}[{index}] joins labels {names[j]!r} and {names[k]!r} again: name each pair once, in "
                "either order"
            )
        edges.append((j, k))
    return edges


def _label_number(label: object, names: list, place: str) -> int:
    if isinstance(label, str):
        if label in names:
            return names.index(label)
        known = ", ".join(map(repr, names[:10])) + (", .." if len(names) > 10 else "")
        raise ValueError(f"{place} names the label {label!r}, but labels are {known}")
    if not is_whole(label) or not 0 <= label < len(names):
        raise ValueError(f"{place} holds {label!r}, but labels are numbered 0 to {len(names) - 1}")
    return int(label)


def mutual_information(Y: np.ndarray, weights: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """Return I(y_j; y_k) in nats, (K, K), from labels (n, K) with half an instance added to each of four cells.

    A pair is counted over the instances of which both labels are ``known``.
    """
    mask = np.ones(Y.shape) if known is None else known.astype(np.float64)
    weighted = mask * weights[:, None]
    total = weighted.T @ mask + 2.0
    both = (Y * weighted).T @ (Y * mask) + 0.5
    first = (Y * weighted).T @ mask + 1.0
    cells = {(1, 1): both, (1, 0): first - both, (0, 1): first.T - both, (0, 0): total - first - first.T + both}
    information = np.zeros(both.shape)
    for (a, b), count in cells.items():
        expected = (first if a else total - first) * (first.T if b else total - first.T) / total
        information += count / total * np.log(count / expected)
    np.fill_diagonal(information, 0.0)
    return information


def spanning_tree(weight: np.ndarray) -> list[Edge]:
    """Return the edges j < k of a spanning tree of largest total weight, sorted; weights (K, K) are not negative."""
    # A weight of zero is no edge to SciPy, so that all are moved above zero.
    tree = minimum_spanning_tree(np.triu(1.0 + weight.max(initial=0.0) - weight, 1))
    return sorted(zip(*(nodes.tolist() for nodes in tree.nonzero()), strict=True))
