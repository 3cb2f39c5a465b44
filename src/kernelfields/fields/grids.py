"""Edges of a grid of nodes, as images have: node r * columns + c lies in row r and column c.

    horizontal     (r, c) - (r, c + 1)
    vertical       (r, c) - (r + 1, c)
    diagonal       (r, c) - (r + 1, c + 1)        with connectivity 8 only, as the next
    antidiagonal   (r, c + 1) - (r + 1, c)

The number of the first node is always the smaller one. Arrays: (m, 2) int64. Cost: O(rows columns).
Fails: ValueError or TypeError for sizes below one and for another connectivity.
"""

from __future__ import annotations

from operator import index
from typing import Literal, overload

import numpy as np


@overload
def grid_edges(rows: int, columns: int, connectivity: int = ..., by_direction: Literal[False] = ...) -> np.ndarray: ...


@overload
def grid_edges(
    rows: int, columns: int, connectivity: int = ..., *, by_direction: Literal[True]
) -> dict[str, np.ndarray]: ...


def grid_edges(
    rows: int, columns: int, connectivity: int = 4, by_direction: bool = False
) -> np.ndarray | dict[str, np.ndarray]:
    """Return the edges (m, 2) of a grid whose nodes are numbered row by row.

    ``connectivity=8`` adds both diagonals. ``by_direction=True`` returns a dict with one array for each
    direction, so that each can have a potential of its own; see the module for their names.
    """
    if min(index(rows), index(columns)) < 1:
        raise ValueError(f"a grid needs at least one row and one column, got {rows} and {columns}")
    if connectivity not in (4, 8):
        raise ValueError(f"connectivity is 4 or 8 neighbours, got {connectivity!r}")
    nodes = np.arange(rows * columns, dtype=np.int64).reshape(rows, columns)
    pairs = {"horizontal": (nodes[:, :-1], nodes[:, 1:]), "vertical": (nodes[:-1], nodes[1:])}
    if connectivity == 8:
        pairs["diagonal"] = (nodes[:-1, :-1], nodes[1:, 1:])
        pairs["antidiagonal"] = (nodes[:-1, 1:], nodes[1:, :-1])
    edges = {name: np.column_stack([first.ravel(), second.ravel()]) for name, (first, second) in pairs.items()}
    return edges if by_direction else np.concatenate(list(edges.values()))
