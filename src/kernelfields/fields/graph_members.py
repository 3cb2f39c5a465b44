"""Edges and cliques as users pass them, stacked and checked: S tables (m_i, k) of node numbers become one (M, k).

    row j of graph i joins the nodes t[j, 0], .., t[j, k - 1] of that graph, each in 0 .. n_i - 1

Result: members (M, k) int64 in numbers of packed nodes, offsets (S + 1,) int64. The members of a row are distinct,
and no two rows of a type join the same nodes, in whatever order.
Cost: O(M k log M), in NumPy; Python walks graphs, never edges.
Fails: ValueError naming the graph (counted from 0), the row and what to do about it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from kernelfields.fields.sequences import locate, offsets_of

#: The type of edges that come without one.
PLAIN = "edge"


def of_type(argument: str, kind: str) -> str:
    """Return what messages call the part of an argument that is of a type, as in ``edges['horizontal']``."""
    return argument if kind == PLAIN else f"{argument}[{kind!r}]"


def member_table(item: Any, where: str, width: int | None = None) -> np.ndarray:
    """Return node numbers (m, k) as int64; an empty list has m = 0 and the width asked for, or k = 0.

    ``width`` is how many nodes a row must name; None takes any number from two on.
    """
    if sp.issparse(item):
        raise ValueError(
            f"{where} is a sparse matrix. If it is an adjacency matrix, list the pairs: "
            "np.column_stack(scipy.sparse.triu(adjacency).nonzero())."
        )
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
    offsets = offsets_of(counts)
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
    members = members + np.repeat(offsets_of(lengths)[:-1], counts)[:, None]
    _check_distinct(members, lengths, offsets, name)
    return members, offsets


def _wrong_shape(table: np.ndarray, where: str, width: int | None) -> str:
    expected = "(edges, 2)" if width == 2 else f"(cliques, {width or '2 or more'})"
    message = (
        f"{where} has shape {table.shape}, expected {expected}: each row holds the numbers of the nodes it joins."
    )
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
    starts = offsets_of(lengths)
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
    """One number for each set of nodes: digits in base N where they fit into 64 bits, else the rank of the row."""
    if float(n_nodes) ** ordered.shape[1] < 2.0**62:
        return ordered @ (n_nodes ** np.arange(ordered.shape[1], dtype=np.int64))
    return np.unique(ordered, axis=0, return_inverse=True)[1].reshape(-1)
