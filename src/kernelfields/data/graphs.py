"""Graphs laid end to end: one array of nodes, and for each type of clique one array of the nodes that meet.

    graph i owns nodes offsets[i] .. offsets[i + 1] - 1,    i = 0 .. S - 1
    factor j of a type joins the nodes members[j, 0], .., members[j, k - 1], all of one graph

Arrays: those of chains.py, with nodes for positions. Of each type with M factors: members (M, k) int64, numbers of
packed nodes, k >= 2, sorted by graph; offsets (S + 1,); inputs None or (M, e). The first axis of a table of potentials
belongs to members[:, 0]. Graphs may be disconnected, and M may be 0. Nodes may have types. The checks are in
graph_reading.py and reading.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index as whole_number
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np

from kernelfields.data.chains import Chains, Packed
from kernelfields.data.graph_reading import NodeTypes, read_graphs
from kernelfields.data.reading import Matrix, listed
from kernelfields.inputs.step import Layout, Table
from kernelfields.numerics.sparse_rows import entries_of


@dataclass(frozen=True, eq=False)
class Factors:
    """Cliques of one type in packed graphs, with their own inputs or None; see the module for the arrays."""

    name: str
    members: np.ndarray
    offsets: np.ndarray
    inputs: Matrix | None = None

    @property
    def n_factors(self) -> int:
        """Number of factors M, all graphs together."""
        return len(self.members)

    @property
    def labels_per_clique(self) -> int:
        """How many labels meet in a factor, k."""
        return self.members.shape[1]

    @property
    def counts(self) -> np.ndarray:
        """Number of factors of every graph, (S,)."""
        return np.diff(self.offsets)


@dataclass(frozen=True, eq=False)
class Graphs(Packed):
    """Packed graphs with their factors, labels and types of nodes (None where unknown), a weight per graph."""

    factors: tuple[Factors, ...] = ()
    node_types: NodeTypes | None = None

    part: ClassVar[str] = "node"
    row_fields: ClassVar[tuple[str, ...]] = (*Packed.row_fields, "node_types")

    @classmethod
    def from_graphs(
        cls,
        X: object,
        types: Mapping[str, int] | None = None,
        node_types: Sequence[str] | None = None,
    ) -> Graphs:
        """Check and pack a list of graphs in the forms of graph_reading.py, without labels.

        ``types`` declares the types of edges and how many nodes each joins, in the order wanted, ``node_types`` those
        of nodes; None takes those that appear. Labels among the attributes of a networkx graph are not looked at.
        """
        inputs, offsets, groups, kinds = read_graphs(X, types, node_types)
        return cls(inputs, offsets, factors=tuple(Factors(*group) for group in groups), node_types=kinds)

    @classmethod
    def from_chains(cls, chains: Chains, lags: Iterable[int] = (1,), orders: Iterable[int] = ()) -> Graphs:
        """Give the positions of sequences edges and longer cliques; arrays of the chains are shared.

        Lag k joins the positions (t - k, t) under the name ``"lag{k}"``, neighbours under ``"edge"``; order k joins
        (t - k, .., t), k + 1 labels, under the name ``"order{k}"``. A sequence too short for a clique simply has none.
        """
        steps: list[tuple[int, ...]] = [(_reach(lag, 1, "lags"), 0) for lag in lags]
        steps += [tuple(range(_reach(order, 2, "orders"), -1, -1)) for order in orders]
        factors = []
        for steps_back in dict.fromkeys(steps):
            ends = chains.following(steps_back[0])
            offsets = np.searchsorted(ends, chains.offsets)
            members = chains.before(ends[:, None], np.array(steps_back))
            factors.append(Factors(group_name(steps_back), members, offsets))
        return cls(chains.inputs, chains.offsets, chains.labels, chains.weights, chains.partial, factors=tuple(factors))

    @property
    def n_graphs(self) -> int:
        """Number of graphs S."""
        return len(self.offsets) - 1

    def group(self, name: str) -> Factors:
        """Return the factors of the given name."""
        for factors in self.factors:
            if factors.name == name:
                return factors
        known = listed(factors.name for factors in self.factors)
        raise ValueError(f"no factors are called {name!r}; there are {known}")

    def factor_weights(self, name: str) -> np.ndarray:
        """Return the weight of its graph for every factor of the given name, (M,)."""
        return np.repeat(self.weights, self.group(name).counts)

    @property
    def tables(self) -> dict[str | None, Table]:
        """The rows that steps of inputs see: of nodes, under None, and of types of factors with features."""
        layout = Layout(self.offsets, {factors.name: factors.members for factors in self.factors})
        tables: dict[str | None, Table] = {None: Table(self.inputs, layout, self.position_weights)}
        for factors in sorted(self.factors, key=lambda factors: factors.name):  # in all processes alike
            if factors.inputs is not None:
                own = Layout(factors.offsets)
                tables[factors.name] = Table(factors.inputs, own, self.factor_weights(factors.name))
        return tables

    def with_rows(self, rows: Mapping[str | None, Matrix]) -> Self:
        """Return the same graphs with other rows of nodes and of factors."""
        factors = tuple(replace(each, inputs=rows.get(each.name)) for each in self.factors)
        return replace(self, inputs=rows[None], factors=factors)

    def labelled_nodes(self) -> Graphs:
        """Return the nodes whose label is known, each as a graph of its own."""
        nodes = np.flatnonzero(self.given.certain())
        kinds = None if self.node_types is None else self.node_types[nodes]
        labels, weights = self.required_labels[nodes], self.position_weights[nodes]
        return Graphs(self.inputs[nodes], np.arange(len(nodes) + 1), labels, weights, node_types=kinds)

    def _parts(self, chosen: np.ndarray, offsets: np.ndarray) -> dict[str, Any]:
        shift = offsets[:-1] - self.starts[chosen]
        factors = []
        for group in self.factors:
            kept, after = entries_of(group.offsets, chosen)
            members = group.members[kept] + np.repeat(shift, np.diff(after))[:, None]
            factors.append(Factors(group.name, members, after, None if group.inputs is None else group.inputs[kept]))
        return {"factors": tuple(factors)}


def group_name(steps_back: Sequence[int]) -> str:
    """Return the name of cliques of chains whose labels stand so many steps before the last one, the earliest first."""
    if len(steps_back) > 2:
        return f"order{steps_back[0]}"
    return "edge" if steps_back[0] == 1 else f"lag{steps_back[0]}"


def _reach(value: int, least: int, parameter: str) -> int:
    if whole_number(value) < least:
        hint = "; for pairs of neighbours use lags=(1,)" if parameter == "orders" else ""
        raise ValueError(f"{parameter} must be whole numbers from {least} on, got {value}{hint}")
    return whole_number(value)


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

    Node r * columns + c lies in row r and column c. ``by_direction=True`` returns a dict with one array for each
    direction, so that each can have a potential of its own:

        horizontal     (r, c) - (r, c + 1)
        vertical       (r, c) - (r + 1, c)
        diagonal       (r, c) - (r + 1, c + 1)        with connectivity 8 only, as the next
        antidiagonal   (r, c + 1) - (r + 1, c)

    The number of the first node is always the smaller one. Cost: O(rows columns). Fails: ValueError or TypeError for
    sizes below one and for another connectivity.
    """
    if min(whole_number(rows), whole_number(columns)) < 1:
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
