"""Types of the nodes of packed graphs: words and punctuation, cells and borders.

    node v has the type names[codes[v]],    v = 0 .. N - 1

Arrays: codes (N,) int64; names are sorted, or as declared. A graph need not have nodes of every type.
Cost: O(N log N). Fails: ValueError naming the graph (counted from 0), the node and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.fields.reading import is_sequence, locate


@dataclass(frozen=True, eq=False)
class NodeTypes:
    """The type of every packed node, as a number, and the names of the types."""

    names: tuple[str, ...]
    codes: np.ndarray

    def nodes_of(self, name: str) -> np.ndarray:
        """Return the packed nodes of a type, in rising order."""
        if name not in self.names:
            raise ValueError(f"no nodes have the type {name!r}; there are {_listed(self.names)}")
        return np.flatnonzero(self.codes == self.names.index(name))

    def take(self, nodes: Any) -> NodeTypes:
        """Return the types of some nodes; names stay as they are."""
        return NodeTypes(self.names, self.codes[nodes])


def read_types(names: Any, index: int) -> np.ndarray:
    """Return the types of the nodes of graph ``index`` as an array of strings, (n,)."""
    if not is_sequence(names):
        raise ValueError(f"node_types of graph {index} is {names!r:.60}, expected a list with one string for each node")
    # As objects: NumPy would turn numbers among strings into strings.
    types = names if getattr(names, "dtype", np.dtype(object)).kind == "U" else np.asarray(names, dtype=object)
    if types.ndim != 1:
        raise ValueError(f"node_types of graph {index} has shape {types.shape}, expected one string for each node")
    if types.dtype.kind == "U":
        return types
    for node, name in enumerate(types):
        if not isinstance(name, str):
            raise ValueError(
                f"node_types of graph {index} holds {name!r:.60} at node {node}: types are named by strings"
            )
    return types


def stack_types(
    tables: Sequence[np.ndarray | None], offsets: np.ndarray, declared: Sequence[str] | None = None
) -> NodeTypes | None:
    """Stack the types of the nodes of graphs; None where no graph has any.

    ``offsets`` (S + 1,) are those of the nodes. ``declared`` are the names that may appear, in the order wanted;
    None takes those that do.
    """
    present = [table is not None for table in tables]
    if not any(present):
        return None
    if not all(present):
        raise ValueError(
            f"graph {present.index(False)} has no node_types, but graph {present.index(True)} has them: give them "
            "for all graphs or for none"
        )
    for index, (table, count) in enumerate(zip(tables, np.diff(offsets).tolist(), strict=True)):
        assert table is not None
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
        raise ValueError(f"node {node} of graph {graph} has the type {stacked[row]!r}, known are {_listed(declared)}")
    return NodeTypes(tuple(declared), numbers)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
