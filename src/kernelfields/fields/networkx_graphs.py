"""Reading networkx graphs without importing networkx: what is asked of a graph is listed in ``is_networkx``.

Features are the attribute "x", or else "features", of every node and, if wanted, of every edge of a type; the
attribute "type" of a node or an edge is its type. Nodes are numbered in the order of graph.nodes.
Cost: Python walks every node and edge. Fails: ValueError naming the graph, and the node or edge by its own name.
"""

from __future__ import annotations

from typing import Any

from kernelfields.fields.graph_members import PLAIN
from kernelfields.fields.sequences import is_sequence

_FEATURES = ("x", "features")


def is_networkx(graph: Any) -> bool:
    """Whether this is a graph with nodes and edges that carry attributes, as those of networkx are."""
    return all(callable(getattr(graph, name, None)) for name in ("nodes", "edges", "is_directed"))


def read_networkx(graph: Any, index: int) -> tuple[list, dict[str, list], dict[str, list], list | None]:
    """Return rows of node features, by type the pairs of node numbers and rows of edge features, types of nodes.

    The types of nodes are None where no node has one. ``index`` is the number of the graph in messages.
    """
    numbers: dict[Any, int] = {}
    nodes = []
    types: dict[Any, str] = {}
    for number, (node, attributes) in enumerate(graph.nodes(data=True)):
        numbers[node] = number
        features = _features(attributes)
        if features is None:
            raise ValueError(
                f"node {node!r} of graph {index} has no attribute 'x' or 'features': set "
                f"graph.nodes[{node!r}]['x'] to its row of features"
            )
        nodes.append(features)
        if "type" in attributes:
            types[node] = attributes["type"]
            if not isinstance(types[node], str):
                raise ValueError(
                    f"node {node!r} of graph {index} has the type {types[node]!r}: types are named by strings"
                )
    if not nodes:
        raise ValueError(f"graph {index} has no nodes: remove empty graphs from X and y")
    if types and len(types) < len(nodes):
        without = next(node for node in numbers if node not in types)
        raise ValueError(
            f"node {without!r} of graph {index} has no attribute 'type', but other nodes have one: set it for all "
            "nodes or for none"
        )
    edges: dict[str, list] = {}
    features_of: dict[str, list] = {}
    for one, other, attributes in graph.edges(data=True):
        kind = attributes.get("type", PLAIN)
        if not isinstance(kind, str):
            raise ValueError(
                f"the edge {one!r} - {other!r} of graph {index} has the type {kind!r}: types are named by strings"
            )
        pairs = edges.setdefault(kind, [])
        rows = features_of.setdefault(kind, [])
        features = _features(attributes)
        if (features is not None) != (len(rows) == len(pairs)) and pairs:
            has, lacks = ("has", "have none") if features is not None else ("lacks", "have them")
            raise ValueError(
                f"the edge {one!r} - {other!r} of graph {index} {has} features ('x' or 'features'), but edges of "
                f"the type {kind!r} before it {lacks}: set them for all edges of a type or for none"
            )
        pairs.append((numbers[one], numbers[other]))
        if features is not None:
            rows.append(features)
    with_features = {kind: rows for kind, rows in features_of.items() if rows}
    return nodes, edges, with_features, list(types.values()) or None


def _features(attributes: dict) -> Any:
    """Return a row of features, one number made a row, or None."""
    for name in _FEATURES:
        if name in attributes:
            value = attributes[name]
            return value if is_sequence(value) and getattr(value, "ndim", 1) != 0 else [value]
    return None
