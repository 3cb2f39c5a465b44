"""Graphs as users pass them: a list with one entry per graph, in one of four forms.

    (node_features, edges)                    node_features (n, d) dense or sparse, edges (m, 2) whole numbers
    (node_features, edges, edge_features)     edge_features (m, e) dense or sparse
    {"x": node_features, "edges": edges}      "edge_features" and "node_types", n strings, if wanted
    a networkx graph                          attributes "x" or "features" of nodes and, if wanted, of edges

Edges of several types are a dict type -> (m, k) with k = 2 for edges, 3 and more for cliques of more labels;
edge_features is then a dict, too, for some or all types. A type that a graph lacks is empty there. Edges that come
as one array have the type "edge". In a networkx graph the attribute "type" of a node or an edge is its type, nodes
are numbered in the order of graph.nodes, and edges have the direction in which graph.edges lists them.

Result: packed inputs (N, d) and offsets (S + 1,), for each type of edges its name, members (M, k), offsets
(S + 1,) and inputs None or (M, e), and the types of the nodes or None.
Cost: one copy of the data; Python walks graphs, and edges of networkx graphs only.
Fails: ValueError or TypeError naming the graph (counted from 0), the row and what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from kernelfields.fields.graph_members import PLAIN, member_table, of_type, stack_members
from kernelfields.fields.inputs import stack_tables
from kernelfields.fields.networkx_graphs import is_networkx, read_networkx
from kernelfields.fields.node_types import NodeTypes, read_types, stack_types
from kernelfields.fields.sequences import Nouns, is_sequence

#: What messages call graphs and their nodes.
GRAPHS = Nouns(
    "graph",
    "node",
    unlabelled="partly labelled graphs are not supported.",
    words="Turn words and categories into numbers first, for example by sklearn.preprocessing.OneHotEncoder.",
)
_EXPECTED_X = (
    "X must be a list of graphs, each (node_features, edges), (node_features, edges, edge_features), a dict with "
    "'x' and 'edges', or a networkx graph"
)
_PARTS = ("x", "edges", "edge_features", "node_types")


@dataclass(frozen=True)
class _Graph:
    """One graph as it was read: tables of node numbers and of features, by type."""

    nodes: Any
    members: dict[str, np.ndarray]
    features: dict[str, Any]
    #: Whether the types of edges were named; an empty list of edges names none.
    typed: bool
    #: The types of the nodes, (n,) strings, or None.
    node_types: np.ndarray | None


def read_graphs(
    X: Any, types: Mapping[str, int] | None = None, node_types: Sequence[str] | None = None
) -> tuple[Any, np.ndarray, list[tuple[str, np.ndarray, np.ndarray, Any]], NodeTypes | None]:
    """Check and pack graphs: node inputs, offsets, (name, members, offsets, inputs) of edges, types of nodes.

    ``types`` declares names and how many nodes each type of edges joins, ``node_types`` the names of types of
    nodes; None takes those that appear.
    """
    graphs = [_read_graph(item, index) for index, item in enumerate(_list_graphs(X))]
    inputs, offsets = stack_tables([graph.nodes for graph in graphs], replace(GRAPHS, table="node_features of "))
    groups = []
    for kind, width in _types(graphs, types).items():
        none = np.empty((0, 0), np.int64)
        tables = [graph.members.get(kind, none) for graph in graphs]
        members, places = stack_members(tables, np.diff(offsets), of_type("edges", kind), width)
        features = [graph.features.get(kind) for graph in graphs]
        groups.append((kind, members, places, _stack_features(features, np.diff(places), kind)))
    return inputs, offsets, groups, stack_types([graph.node_types for graph in graphs], offsets, node_types)


def _list_graphs(X: Any) -> list:
    one_graph = isinstance(X, tuple) and len(X) in (2, 3) and getattr(X[0], "ndim", 0) == 2
    if one_graph or is_networkx(X) or (isinstance(X, Mapping) and "x" in X):
        raise ValueError(f"{_EXPECTED_X}, got one graph: wrap it, [X]")
    if getattr(X, "ndim", 1) != 1 or not is_sequence(X):
        raise TypeError(f"{_EXPECTED_X}, got {type(X).__name__}. Collect the graphs in a list first.")
    items = list(X)
    if not items:
        raise ValueError(f"{_EXPECTED_X}, got an empty one: at least one graph is needed")
    return items


def _read_graph(item: Any, index: int) -> _Graph:
    kinds = None
    if isinstance(item, Mapping):
        item, kinds = _read_parts(item, index)
    elif not isinstance(item, tuple | list) and is_networkx(item):
        nodes, edges, features, kinds = read_networkx(item, index)
        item = (nodes, edges or [], features or None)
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        came = f"{type(item).__name__} of {len(item)}" if isinstance(item, tuple | list) else type(item).__name__
        raise ValueError(
            f"graph {index} is a {came}, expected (node_features, edges) or (node_features, edges, edge_features)."
            " For a graph without edges pass (node_features, []); if X is one graph, wrap it: [X]."
        )
    nodes, edges, given = (*item, None)[:3]
    typed = isinstance(edges, Mapping)
    if typed:
        if (other := [kind for kind in edges if not isinstance(kind, str)]) != []:
            raise ValueError(f"edges of graph {index} has the type {other[0]!r}: types are named by strings")
        members = {
            kind: member_table(table, f"{of_type('edges', kind)} of graph {index}")
            for kind, table in edges.items()
        }
    else:
        members = {PLAIN: member_table(edges, f"edges of graph {index}", 2)}
    types = None if kinds is None else read_types(kinds, index)
    return _Graph(nodes, members, _features_by_type(given, members, typed, index), typed, types)


def _read_parts(item: Mapping, index: int) -> tuple[tuple, Any]:
    """Return the parts of a graph that came as a dict, as a tuple, and the types of its nodes."""
    if unknown := [part for part in item if part not in _PARTS]:
        known = ", ".join(map(repr, _PARTS))
        raise ValueError(f"graph {index} is a dict with the key {unknown[0]!r}, known are {known}")
    if "x" not in item:
        raise ValueError(f"graph {index} is a dict without 'x': the features of its nodes, one row for each")
    edges = item.get("edges")
    return (item["x"], [] if edges is None else edges, item.get("edge_features")), item.get("node_types")


def _features_by_type(given: Any, members: dict[str, np.ndarray], typed: bool, index: int) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if typed:
            raise ValueError(
                f"edge_features of graph {index} is a {type(given).__name__}, but its edges come by type: pass a "
                f"dict with the features of each, for example {{{next(iter(members), 'edge')!r}: features}}"
            )
        return {PLAIN: given}
    if unknown := [kind for kind in given if kind not in members]:
        known = ", ".join(map(repr, members)) or "none"
        raise ValueError(
            f"edge_features of graph {index} names the type {unknown[0]!r}, which its edges do not have: "
            f"there are {known}"
        )
    return {kind: table for kind, table in given.items() if table is not None}


def _types(graphs: list[_Graph], declared: Mapping[str, int] | None) -> dict[str, int | None]:
    named: dict[str, int | None] = {}
    for index, graph in enumerate(graphs):
        for kind, table in graph.members.items():
            if declared is not None and kind not in declared and len(table):
                known = ", ".join(map(repr, declared)) or "none"
                raise ValueError(f"graph {index} has edges of the type {kind!r}, known are {known}")
            if graph.typed or len(table):
                named[kind] = None
    if declared is not None:
        return dict(declared)
    return named or {PLAIN: 2}


def _stack_features(features: list, counts: np.ndarray, kind: str) -> Any:
    """Stack the edge features of one type; None where no graph has any."""
    given = [table is not None for table in features]
    if not any(given):
        return None
    edges, table_name = of_type("edges", kind), of_type("edge_features", kind)
    first = given.index(True)
    for index, (table, count) in enumerate(zip(features, counts.tolist(), strict=True)):
        if table is None:
            if count:
                raise ValueError(
                    f"graph {index} has {edges} without {table_name}, but graph {first} has them: pass features "
                    "for all graphs or for none"
                )
            continue
        shape = table.shape if hasattr(table, "shape") else (len(table),) if is_sequence(table) else ()
        rows = shape[0] if shape else 0
        if rows != count:
            raise ValueError(
                f"{table_name} of graph {index} has {rows} rows but {edges} has {count}: each edge needs "
                "one row of features"
            )
    filled = np.flatnonzero(counts)
    if filled.size:
        nouns = replace(GRAPHS, part="edge", table=f"{table_name} of ")
        return stack_tables([features[graph] for graph in filled], nouns, filled.tolist())[0]
    # Nobody has an edge of this type; an array without rows still tells the width.
    empty = next((table for table in features if getattr(table, "ndim", 0) == 2), None)
    if empty is None:
        return None
    return sp.csr_array(empty.shape) if sp.issparse(empty) else np.empty(empty.shape)
