"""Packed graphs: one array of nodes, and for each type of clique one array of member nodes.

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
from kernelfields.numerics.sparse_rows import gather_entries


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
        """Number of labels of a factor, k."""
        return self.members.shape[1]

    @property
    def counts(self) -> np.ndarray:
        """Number of factors of every graph, (S,)."""
        return np.diff(self.offsets)


@dataclass(frozen=True, eq=False)
class Graphs(Packed):
    """Packed graphs with their factors, labels, types of nodes and weights.

    Parameters
    ----------
    inputs : array or CSR matrix (N, d)
        The inputs of all nodes, those of the first graph first.
    offsets : array (S + 1,)
        The row at which each graph begins, and N.
    labels : array (N,), optional
        Numbers of labels in the sorted classes.
    weights : array (S,), optional
        The weight of each graph; ones by default.
    partial : LabelWeights, optional
        What is known of labels that are not; by default all are known, or none.
    allowed : AllowedLabels, optional
        The labels that nodes may have; by default any.
    factors : tuple of Factors, default ()
        The cliques of each type, with the nodes that meet in them.
    node_types : NodeTypes, optional
        The type of each node.

    See Also
    --------
    Chains : Holds sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.data import Graphs
    >>> graphs = Graphs.from_graphs([(np.zeros((3, 1)), [[0, 1], [1, 2]]), (np.ones((2, 1)), [[0, 1]])])
    >>> graphs.n_graphs, graphs.n_positions, graphs.group("edge").members.tolist()
    (2, 5, [[0, 1], [1, 2], [3, 4]])
    """

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
        """Check and pack a list of graphs, without labels.

        Labels among the attributes of a networkx graph are not looked at.

        Parameters
        ----------
        X : list of tuples, dicts or networkx graphs
            The graphs, in the forms that :class:`~kernelfields.GraphCRF` takes.
        types : dict, optional
            The types of edges, in the order wanted, and how many nodes each joins; by default those that appear.
        node_types : sequence of str, optional
            The types of nodes, in the order wanted; by default those that appear.

        Returns
        -------
        Graphs
            The packed graphs.

        Raises
        ------
        ValueError
            If a graph is not sound; the message names it.
        """
        inputs, offsets, groups, kinds = read_graphs(X, types, node_types)
        return cls(inputs, offsets, factors=tuple(Factors(*group) for group in groups), node_types=kinds)

    @classmethod
    def from_chains(cls, chains: Chains, lags: Iterable[int] = (1,), orders: Iterable[int] = ()) -> Graphs:
        """Make graphs of packed sequences, with edges and longer cliques; arrays are shared.

        A sequence that is too short for a clique has none.

        Parameters
        ----------
        chains : Chains
            The sequences.
        lags : iterable of int, default (1,)
            The lags: k joins the positions (t - k, t) under the name ``"lag{k}"``, neighbours under ``"edge"``.
        orders : iterable of int, default ()
            The orders: k joins (t - k, .., t), k + 1 labels, under the name ``"order{k}"``.

        Returns
        -------
        Graphs
            The sequences as graphs.

        Raises
        ------
        ValueError
            If a lag or an order is too small.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.data import Chains, Graphs
        >>> chains = Chains(np.zeros((4, 1)), np.array([0, 4]))
        >>> Graphs.from_chains(chains, lags=[1, 2]).group("lag2").members.tolist()
        [[0, 2], [1, 3]]
        """
        steps: list[tuple[int, ...]] = [(_reach(lag, 1, "lags"), 0) for lag in lags]
        steps += [tuple(range(_reach(order, 2, "orders"), -1, -1)) for order in orders]
        factors = []
        for steps_back in dict.fromkeys(steps):
            ends = chains.find_followers(steps_back[0])
            offsets = np.searchsorted(ends, chains.offsets)
            members = chains.find_predecessors(ends[:, None], np.array(steps_back))
            factors.append(Factors(group_name(steps_back), members, offsets))
        return cls(chains.inputs, chains.offsets, chains.labels, chains.weights, chains.partial, factors=tuple(factors))

    @property
    def n_graphs(self) -> int:
        """Number of graphs S."""
        return len(self.offsets) - 1

    def without_factors(self) -> Self:
        """Return the nodes without factors.

        Returns
        -------
        Graphs
            The graphs.
        """
        return replace(self, factors=())

    def group(self, name: str) -> Factors:
        """Return the factors of a name.

        Parameters
        ----------
        name : str
            The name.

        Returns
        -------
        Factors
            The factors.

        Raises
        ------
        ValueError
            If no factors have that name.
        """
        for factors in self.factors:
            if factors.name == name:
                return factors
        known = listed(factors.name for factors in self.factors)
        raise ValueError(f"no factors are called {name!r}; there are {known}")

    def factor_weights(self, name: str) -> np.ndarray:
        """Return the weight of its graph for every factor of a name.

        Parameters
        ----------
        name : str
            The name.

        Returns
        -------
        array (M,)
            The weights.
        """
        return np.repeat(self.weights, self.group(name).counts)

    @property
    def tables(self) -> dict[str | None, Table]:
        """The tables of rows that steps of inputs transform: of nodes, and of types of factors with features."""
        layout = Layout(self.offsets, {factors.name: factors.members for factors in self.factors})
        tables: dict[str | None, Table] = {None: Table(self.inputs, layout, self.position_weights)}
        for factors in sorted(self.factors, key=lambda factors: factors.name):  # in all processes alike
            if factors.inputs is not None:
                own = Layout(factors.offsets)
                tables[factors.name] = Table(factors.inputs, own, self.factor_weights(factors.name))
        return tables

    def with_rows(self, rows: Mapping[str | None, Matrix]) -> Self:
        """Return the graphs with other rows of nodes and of factors.

        Parameters
        ----------
        rows : dict
            The rows of nodes under None, and those of types of factors under their names.

        Returns
        -------
        Graphs
            The graphs.
        """
        factors = tuple(replace(each, inputs=rows.get(each.name)) for each in self.factors)
        return replace(self, inputs=rows[None], factors=factors)

    def select_labelled_nodes(self) -> Graphs:
        """Return the nodes with known labels, each as a graph.

        Returns
        -------
        Graphs
            The nodes.
        """
        nodes = np.flatnonzero(self.given.certain())
        kinds = None if self.node_types is None else self.node_types[nodes]
        labels, weights = self.required_labels[nodes], self.position_weights[nodes]
        return Graphs(self.inputs[nodes], np.arange(len(nodes) + 1), labels, weights, node_types=kinds)

    def _parts(self, chosen: np.ndarray, offsets: np.ndarray) -> dict[str, Any]:
        shift = offsets[:-1] - self.starts[chosen]
        factors = []
        for group in self.factors:
            kept, after = gather_entries(group.offsets, chosen)
            members = group.members[kept] + np.repeat(shift, np.diff(after))[:, None]
            factors.append(Factors(group.name, members, after, None if group.inputs is None else group.inputs[kept]))
        return {"factors": tuple(factors)}


def group_name(steps_back: Sequence[int]) -> str:
    """Return the name of cliques of chains by the steps between each label and the last one."""
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
    """List the edges of a grid whose nodes are numbered row by row.

    Node r * columns + c lies in row r and column c. The number of the first node of an edge is always the smaller one.

    Parameters
    ----------
    rows : int
        The number of rows.
    columns : int
        The number of columns.
    connectivity : {4, 8}, default 4
        The number of neighbours of a node; 8 are those on diagonals, too.
    by_direction : bool, default False
        Whether to return the edges of each direction by themselves, so that each can have a potential of its own.

    Returns
    -------
    array (m, 2) or dict of arrays
        The edges; by direction "horizontal", (r, c) to (r, c + 1), "vertical", (r, c) to (r + 1, c), and with eight
        neighbours "diagonal", (r, c) to (r + 1, c + 1), and "antidiagonal", (r, c + 1) to (r + 1, c).

    Raises
    ------
    ValueError
        If a size is below one, or for another connectivity.

    Examples
    --------
    >>> from kernelfields.data import grid_edges
    >>> grid_edges(2, 2).tolist()
    [[0, 1], [2, 3], [0, 2], [1, 3]]
    >>> grid_edges(2, 2, connectivity=8, by_direction=True)["antidiagonal"].tolist()
    [[1, 2]]
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
