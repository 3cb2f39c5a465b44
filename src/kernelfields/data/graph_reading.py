"""Graphs in one of four forms, checked and packed: a list with one entry per graph.

    (node_features, edges)                    node_features (n, d) dense or sparse, edges (m, 2) whole numbers
    (node_features, edges, edge_features)     edge_features (m, e) dense or sparse
    {"x": node_features, "edges": edges}      "edge_features" and "node_types", n strings, if wanted
    a networkx graph                          attributes "x" or "features" of nodes and, if wanted, of edges

Row j of the edges of graph i joins nodes of that graph, each in 0 .. n_i - 1. Edges of several types are a dict
type -> (m, k) with k = 2 for edges, 3 and more for cliques of more labels; edge_features is then a dict, too, for
some or all types. A type that a graph lacks is empty there. Edges that come as one array have the type "edge".

networkx is not imported: ``is_networkx`` recognises a graph by its methods. The attribute "type" of a node or
an edge is its type, nodes are numbered in the order of graph.nodes, and edges have the direction in which
graph.edges lists them. Features of edges belong to all edges of a type or to none.

Result: packed inputs (N, d) and offsets (S + 1,), for each type of edges its name, members (M, k) int64 in numbers of
packed nodes, offsets (S + 1,) int64 and inputs None or (M, e), and the types of the nodes or None: node v has the type
names[codes[v]], codes (N,) int64, names sorted or as declared. The members of a row are distinct, and no two rows of a
type join the same nodes, in whatever order. Cost: one copy of the data and O(M k log M) in NumPy; Python loops run over
graphs, and over nodes and edges of networkx graphs only. Raises ValueError or TypeError naming the graph (counted from
0), the row, or the node or edge of a networkx graph by its own name, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeGuard

import numpy as np
import scipy.sparse as sp

from kernelfields.data.reading import (
    ItemNames,
    Matrix,
    is_sequence,
    list_wholes,
    listed,
    locate,
    rows_if_any,
    stack_tables,
)
from kernelfields.numerics.containers import find_shape, n_dimensions, refuse_tensor
from kernelfields.numerics.sparse_rows import make_offsets

#: The type of edges that come without one.
PLAIN = "edge"
#: What messages call graphs and their nodes.
GRAPHS = ItemNames(
    "graph",
    "node",
    words="Turn words and categories into numbers first, for example by sklearn.preprocessing.OneHotEncoder.",
)
_EXPECTED_X = (
    "X must be a list of graphs, each (node_features, edges), (node_features, edges, edge_features), a dict with "
    "'x' and 'edges', or a networkx graph"
)
# Keys of a graph that comes as a dict, and attributes of networkx that hold features.
_PARTS = ("x", "edges", "edge_features", "node_types")
_FEATURES = ("x", "features")


@dataclass(frozen=True, eq=False)
class NodeTypes:
    """The type of every packed node, as a number, and the names of the types."""

    names: tuple[str, ...]
    codes: np.ndarray

    def select_nodes(self, name: str) -> np.ndarray:
        """Return the packed nodes of a type, in rising order."""
        if name not in self.names:
            raise ValueError(f"no nodes have the type {name!r}; there are {listed(self.names)}")
        return np.flatnonzero(self.codes == self.names.index(name))

    def __getitem__(self, nodes: slice | np.ndarray) -> NodeTypes:
        """Select the types of nodes; names are kept."""
        return NodeTypes(self.names, self.codes[nodes])


@dataclass(frozen=True)
class _Graph:
    """One unpacked graph: tables of node numbers and of features, by type."""

    nodes: object
    members: dict[str, np.ndarray]
    features: dict[str, object]
    #: Whether the types of edges were named; an empty list of edges names none.
    typed: bool
    #: The types of the nodes, (n,) strings, or None.
    node_types: np.ndarray | None


def read_graphs(
    X: object, types: Mapping[str, int] | None = None, node_types: Sequence[str] | None = None
) -> tuple[Matrix, np.ndarray, list[tuple[str, np.ndarray, np.ndarray, Matrix | None]], NodeTypes | None]:
    """Check and pack graphs: node inputs, offsets, (name, members, offsets, inputs) of edges, types of nodes.

    ``types`` declares names and how many nodes each type of edges joins, ``node_types`` the names of types of
    nodes; None takes those that appear.
    """
    graphs = [_read_graph(item, GRAPHS.name(index)) for index, item in enumerate(_list_graphs(X))]
    inputs, offsets = stack_tables([graph.nodes for graph in graphs], replace(GRAPHS, table="node_features of "))
    groups = []
    for kind, width in _types(graphs, types).items():
        none = np.empty((0, 0), np.int64)
        tables = [graph.members.get(kind, none) for graph in graphs]
        members, places = stack_members(tables, np.diff(offsets), of_type("edges", kind), width)
        features = [graph.features.get(kind) for graph in graphs]
        groups.append((kind, members, places, _stack_features(features, np.diff(places), kind)))
    return inputs, offsets, groups, _stack_types([graph.node_types for graph in graphs], offsets, node_types)


def get_feature_tables(X: object) -> dict[str | None, list]:
    """Return the tables of features of graphs before packing: of nodes under None, of edges by their type.

    Types that are named nowhere are not in it, nor are networkx graphs, which have no tables.
    """
    tables: dict[str | None, list] = {}
    for item in X:  # type: ignore[attr-defined]  # it was read as a list of graphs
        if isinstance(item, Mapping):
            nodes, features = item["x"], item.get("edge_features")
        elif isinstance(item, tuple | list):
            nodes, features = item[0], item[2] if len(item) > 2 else None
        else:
            continue
        by_type = features if isinstance(features, Mapping) else {PLAIN: features}
        for kind, table in {None: nodes, **by_type}.items():
            if table is not None:
                tables.setdefault(kind, []).append(table)
    return tables


def _list_graphs(X: object) -> list:
    one_graph = isinstance(X, tuple) and len(X) in (2, 3) and len(find_shape(X[0]) or ()) == 2
    if one_graph or is_networkx(X) or (isinstance(X, Mapping) and "x" in X):
        raise ValueError(f"{_EXPECTED_X}, got one graph: wrap it, [X]")
    return list_wholes(X, _EXPECTED_X, GRAPHS)


def _read_graph(item: object, name: str) -> _Graph:
    kinds: object = None
    if isinstance(item, Mapping):
        item, kinds = _read_parts(item, name)
    elif not isinstance(item, tuple | list) and is_networkx(item):
        nodes, edges, features, kinds = read_networkx(item, name)
        item = (nodes, edges or [], features or None)
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        came = f"{type(item).__name__} of {len(item)}" if isinstance(item, tuple | list) else type(item).__name__
        raise ValueError(
            f"{name} is a {came}, expected (node_features, edges) or (node_features, edges, edge_features)."
            " For a graph without edges pass (node_features, []); if X is one graph, wrap it: [X]."
        )
    nodes, edges, features = (*item, None)[:3]
    typed = isinstance(edges, Mapping)
    if isinstance(edges, Mapping):
        if (other := [kind for kind in edges if not isinstance(kind, str)]) != []:
            raise _unnamed(other[0], f"edges of {name}")
        members = {kind: member_table(table, f"{of_type('edges', kind)} of {name}") for kind, table in edges.items()}
    else:
        members = {PLAIN: member_table(edges, f"edges of {name}", 2)}
    types = None if kinds is None else _read_types(kinds, name)
    return _Graph(nodes, members, _features_by_type(features, members, typed, name), typed, types)


def _read_parts(item: Mapping, name: str) -> tuple[tuple, object]:
    """Return the parts of a graph given as a dict, as a tuple, and the types of its nodes."""
    if unknown := [part for part in item if part not in _PARTS]:
        raise ValueError(f"{name} is a dict with the key {unknown[0]!r}, known are {listed(_PARTS)}")
    if "x" not in item:
        raise ValueError(f"{name} is a dict without 'x': the features of its nodes, one row for each")
    edges = item.get("edges")
    return (item["x"], [] if edges is None else edges, item.get("edge_features")), item.get("node_types")


def _features_by_type(features: object, members: dict[str, np.ndarray], typed: bool, name: str) -> dict[str, object]:
    if features is None:
        return {}
    if not isinstance(features, Mapping):
        if typed:
            raise ValueError(
                f"edge_features of {name} is a {type(features).__name__}, but its edges come by type: pass "
                f"a dict with the features of each, for example {{{next(iter(members), 'edge')!r}: features}}"
            )
        return {PLAIN: features}
    if unknown := [kind for kind in features if kind not in members]:
        raise ValueError(
            f"edge_features of {name} names the type {unknown[0]!r}, which its edges do not have: "
            f"there are {listed(members)}"
        )
    return {kind: table for kind, table in features.items() if table is not None}


def _types(graphs: list[_Graph], declared: Mapping[str, int] | None) -> dict[str, int | None]:
    named: dict[str, int | None] = {}
    for index, graph in enumerate(graphs):
        for kind, table in graph.members.items():
            if declared is not None and kind not in declared and len(table):
                raise ValueError(f"graph {index} has edges of the type {kind!r}, known are {listed(declared)}")
            if graph.typed or len(table):
                named[kind] = None
    return dict(declared) if declared is not None else named or {PLAIN: 2}


def _stack_features(features: list, counts: np.ndarray, kind: str) -> Matrix | None:
    """Stack the edge features of one type; None if no graph has any."""
    present = [table is not None for table in features]
    if not any(present):
        return None
    edges, table_name = of_type("edges", kind), of_type("edge_features", kind)
    first = present.index(True)
    for index, (table, count) in enumerate(zip(features, counts.tolist(), strict=True)):
        if table is None:
            if count:
                raise ValueError(
                    f"graph {index} has {edges} without {table_name}, but graph {first} has them: pass features "
                    "for all graphs or for none"
                )
            continue
        if (rows := rows_if_any(table) or 0) != count:
            raise ValueError(
                f"{table_name} of graph {index} has {rows} rows but {edges} has {count}: each edge needs "
                "one row of features"
            )
    filled = np.flatnonzero(counts)
    if filled.size:
        nouns = replace(GRAPHS, part="edge", table=f"{table_name} of ")
        return stack_tables([features[graph] for graph in filled], nouns, filled.tolist())[0]
    # No graph has an edge of this type; an array without rows still has a width.
    empty = next((table for table in features if len(find_shape(table) or ()) == 2), None)
    if empty is None:
        return None
    return sp.csr_array(empty.shape) if sp.issparse(empty) else np.empty(empty.shape)


def _read_types(given: object, name: str) -> np.ndarray:
    """Return the types of the nodes of a graph as an array of strings, (n,)."""
    if not is_sequence(given):
        raise ValueError(f"node_types of {name} is {given!r:.60}, expected a list with one string for each node")
    # As objects: NumPy would turn numbers among strings into strings.
    textual = isinstance(given, np.ndarray) and given.dtype.kind == "U"
    types: np.ndarray = given if textual else np.asarray(given, dtype=object)
    if types.ndim != 1:
        raise ValueError(f"node_types of {name} has shape {types.shape}, expected one string for each node")
    if types.dtype.kind == "U":
        return types
    for node, kind in enumerate(types):
        if not isinstance(kind, str):
            raise ValueError(f"node_types of {name} holds {kind!r:.60} at node {node}: types are named by strings")
    return types


def _stack_types(tables: list, offsets: np.ndarray, declared: Sequence[str] | None) -> NodeTypes | None:
    """Stack the types of the nodes of graphs, packed at ``offsets``; None if no graph has any."""
    present = [table is not None for table in tables]
    if not any(present):
        return None
    if not all(present):
        raise ValueError(
            f"graph {present.index(False)} has no node_types, but graph {present.index(True)} has them: give them "
            "for all graphs or for none"
        )
    for index, (table, count) in enumerate(zip(tables, np.diff(offsets).tolist(), strict=True)):
        if len(table) != count:
            raise ValueError(
                f"node_types of graph {index} has {len(table)} entries but node_features has {count} rows: each "
                "node needs one type"
            )
    stacked = np.concatenate([np.asarray(table, dtype=object) for table in tables])
    names, codes = np.unique(stacked, return_inverse=True)
    if declared is None:
        return NodeTypes(tuple(map(str, names)), codes.astype(np.int64, copy=False))
    place = {name: number for number, name in enumerate(declared)}
    numbers = np.array([place.get(name, -1) for name in names], dtype=np.int64)[codes]
    if (numbers < 0).any():
        row = int((numbers < 0).argmax())
        graph, node = locate(offsets, row)
        raise ValueError(f"node {node} of graph {graph} has the type {stacked[row]!r}, known are {listed(declared)}")
    return NodeTypes(tuple(declared), numbers)


def of_type(argument: str, kind: str) -> str:
    """Return the name of a type's part of an argument in messages, such as ``edges['horizontal']``."""
    return argument if kind == PLAIN else f"{argument}[{kind!r}]"


def _unnamed(kind: object, owner: str) -> ValueError:
    return ValueError(f"{owner} has the type {kind!r}: types are named by strings")


def member_table(item: object, where: str, width: int | None = None) -> np.ndarray:
    """Return node numbers (m, k) as int64; an empty list has m = 0 and the given width, or k = 0.

    ``width`` is how many nodes a row must name; None takes any number from two on.
    """
    if sp.issparse(item):
        raise ValueError(
            f"{where} is a sparse matrix. If it is an adjacency matrix, list the pairs: "
            "np.column_stack(scipy.sparse.triu(adjacency).nonzero())."
        )
    refuse_tensor(item, where)
    try:
        table = np.asarray(item)
    except ValueError as error:
        raise ValueError(f"{where} cannot be read as rows of node numbers: {error}") from error
    if table.size == 0 and table.ndim > 0 and len(table) == 0:
        # An empty list has no width and a type of its own, float64.
        return np.empty((0, table.shape[1] if table.ndim == 2 else width or 0), np.int64)
    if table.ndim != 2 or table.shape[1] < 2 or (width is not None and table.shape[1] != width):
        raise ValueError(_wrong_shape(table, where, width))
    if table.dtype.kind not in "iu":
        raise ValueError(_not_whole(table, where))
    return table.astype(np.int64, copy=False)


def stack_members(
    tables: list[np.ndarray], lengths: np.ndarray, name: str, width: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Stack the tables of one type, one per graph; return packed members (M, k) and offsets (S + 1,).

    ``lengths`` holds the number of nodes of every graph, ``name`` is how messages call the tables. ``width`` is
    the k that was declared; None takes that of the first graph with rows.
    """
    counts = np.array([len(table) for table in tables], dtype=np.int64)
    offsets = make_offsets(counts)
    filled = np.flatnonzero(counts)
    if not filled.size:
        widest = max(table.shape[1] for table in tables)
        return np.empty((0, width or max(widest, 2)), np.int64), offsets
    widths = np.array([tables[graph].shape[1] for graph in filled])
    expected = int(widths[0]) if width is None else width
    if (other := np.flatnonzero(widths != expected)).size:
        source = f"those of graph {filled[0]}" if width is None else "they were declared to"
        raise ValueError(
            f"{name} of graph {filled[other[0]]} joins {widths[other[0]]} nodes in a row, {source} join "
            f"{expected}: give cliques of another size a type of their own"
        )
    members = np.ascontiguousarray(np.concatenate([tables[graph] for graph in filled]))
    _check_range(members, lengths, offsets, name)
    members = members + np.repeat(make_offsets(lengths)[:-1], counts)[:, None]
    _check_distinct(members, lengths, offsets, name)
    return members, offsets


def _wrong_shape(table: np.ndarray, where: str, width: int | None) -> str:
    expected = "(edges, 2)" if width == 2 else f"(cliques, {width or '2 or more'})"
    message = f"{where} has shape {table.shape}, expected {expected}: each row holds the numbers of the nodes it joins."
    if table.ndim == 2 and width == 2:
        if table.shape[0] == table.shape[1]:
            return f"{message} If it is an adjacency matrix, pass np.argwhere(np.triu(adjacency))."
        if table.shape[0] == 2:
            return f"{message} It seems to lie on its side: pass edges.T."
        if table.shape[1] > 2:
            return f"{message} Cliques of more nodes are passed by type, for example {{'triple': edges}}."
    return f"{message} For none pass []."


def _not_whole(table: np.ndarray, where: str) -> str:
    row = 0
    if table.dtype.kind == "f":
        row = int((table != np.floor(table)).any(axis=1).argmax())
    elif table.dtype.kind == "O":
        whole = [all(isinstance(node, int | np.integer) for node in nodes) for nodes in table]
        row = whole.index(False) if False in whole else 0
    return (
        f"{where} holds {table.dtype} values, in row {row} {table[row].tolist()!r:.60}: nodes are named by whole "
        "numbers, the rows of node_features counted from 0. If they are whole already, use edges.astype(int)."
    )


def _check_range(members: np.ndarray, lengths: np.ndarray, offsets: np.ndarray, name: str) -> None:
    outside = (members < 0) | (members >= np.repeat(lengths, np.diff(offsets))[:, None])
    if outside.any():
        entry = int(outside.argmax())
        graph, row = locate(offsets, entry // members.shape[1])
        raise ValueError(
            f"row {row} of {name} of graph {graph} names node {members.flat[entry]}, but the graph has "
            f"{lengths[graph]} nodes, 0 to {lengths[graph] - 1}: nodes are rows of node_features, counted from 0"
        )


def _check_distinct(members: np.ndarray, lengths: np.ndarray, offsets: np.ndarray, name: str) -> None:
    ordered = np.sort(members, axis=1)
    starts = make_offsets(lengths)
    if (loops := (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)).any():
        first = int(loops.argmax())
        graph, row = locate(offsets, first)
        nodes = (members[first] - starts[graph]).tolist()
        if members.shape[1] == 2:
            raise ValueError(
                f"row {row} of {name} of graph {graph} joins node {nodes[0]} with itself: remove self loops; what "
                "depends on one label alone belongs to the node's features"
            )
        raise ValueError(
            f"row {row} of {name} of graph {graph} names a node twice, {nodes}: the nodes of a clique must differ"
        )
    keys = _keys(ordered, int(starts[-1]))
    order = np.argsort(keys, kind="stable")
    repeated = keys[order[1:]] == keys[order[:-1]]
    if repeated.any():
        second = int(order[1:][repeated].min())
        first = int(np.flatnonzero(keys == keys[second])[0])
        graph, row = locate(offsets, second)
        raise ValueError(
            f"row {row} of {name} of graph {graph} joins the nodes {(members[second] - starts[graph]).tolist()}, "
            f"which row {first - offsets[graph]} joins already: keep one of the two, or give them different types."
            " The order of the nodes in a row does not make another edge."
        )


def _keys(ordered: np.ndarray, n_nodes: int) -> np.ndarray:
    """Return one number for each set of nodes: digits in base N if they fit into 64 bits, else the rank of the row."""
    if float(n_nodes) ** ordered.shape[1] < 2.0**62:
        return ordered @ (n_nodes ** np.arange(ordered.shape[1], dtype=np.int64))
    return np.unique(ordered, axis=0, return_inverse=True)[1].reshape(-1)


class AttributedGraph(Protocol):
    """A graph with attributes of nodes and edges, as in networkx."""

    def nodes(self, data: bool) -> Iterable[tuple[Hashable, Mapping]]:
        """Return the nodes with their attributes."""

    def edges(self, data: bool) -> Iterable[tuple[Hashable, Hashable, Mapping]]:
        """Return the pairs of nodes of edges, with the attributes of the edge."""


def is_list_of_graphs(items: object) -> bool:
    """Whether the first item is a graph: a tuple (nodes, edges, ...), a mapping, or one of networkx."""
    first = next(iter(items), None) if isinstance(items, Iterable) else None
    return isinstance(first, tuple | Mapping) or is_networkx(first)


def is_networkx(graph: object) -> TypeGuard[AttributedGraph]:
    """Whether a graph has nodes and edges with attributes, as in networkx."""
    return all(callable(getattr(graph, name, None)) for name in ("nodes", "edges", "is_directed"))


def read_networkx(graph: AttributedGraph, name: str) -> tuple[list, dict[str, list], dict[str, list], list | None]:
    """Return rows of node features, by type the pairs of node numbers and rows of edge features, types of nodes.

    The types of nodes are None where no node has one. ``name`` is how messages call the graph.
    """
    numbers: dict[Hashable, int] = {}
    nodes = []
    types: dict[Hashable, str] = {}
    for number, (node, attributes) in enumerate(graph.nodes(data=True)):
        numbers[node] = number
        features = _features(attributes)
        if features is None:
            raise ValueError(
                f"node {node!r} of {name} has no attribute 'x' or 'features': set "
                f"graph.nodes[{node!r}]['x'] to its row of features"
            )
        nodes.append(features)
        if "type" in attributes:
            types[node] = attributes["type"]
            if not isinstance(types[node], str):
                raise _unnamed(types[node], f"node {node!r} of {name}")
    if not nodes:
        raise ValueError(f"{name} has no nodes: remove empty graphs from X and y")
    if types and len(types) < len(nodes):
        without = next(node for node in numbers if node not in types)
        raise ValueError(
            f"node {without!r} of {name} has no attribute 'type', but other nodes have one: set it for all "
            "nodes or for none"
        )
    edges: dict[str, list] = {}
    features_of: dict[str, list] = {}
    for one, other, attributes in graph.edges(data=True):
        kind = attributes.get("type", PLAIN)
        if not isinstance(kind, str):
            raise _unnamed(kind, f"the edge {one!r} - {other!r} of {name}")
        pairs = edges.setdefault(kind, [])
        rows = features_of.setdefault(kind, [])
        features = _features(attributes)
        if (features is not None) != (len(rows) == len(pairs)) and pairs:
            has, lacks = ("has", "have none") if features is not None else ("lacks", "have them")
            raise ValueError(
                f"the edge {one!r} - {other!r} of {name} {has} features ('x' or 'features'), but edges of "
                f"the type {kind!r} before it {lacks}: set them for all edges of a type or for none"
            )
        pairs.append((numbers[one], numbers[other]))
        if features is not None:
            rows.append(features)
    with_features = {kind: rows for kind, rows in features_of.items() if rows}
    return nodes, edges, with_features, list(types.values()) or None


def _features(attributes: Mapping) -> Sequence | None:
    """Return the features as a row: a number becomes a row of one; None stays None."""
    for name in _FEATURES:
        if name in attributes:
            value = attributes[name]
            return value if is_sequence(value) and n_dimensions(value) != 0 else [value]
    return None
