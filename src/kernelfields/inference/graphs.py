"""Families of labellings of packed graphs: the common part of every method of inference.

S graphs are laid end to end; graph i owns the nodes offsets[i] .. offsets[i + 1] - 1, N in all, each with one of L
labels. A group of factors is a kind of clique ("edge", "horizontal", "triple"):

    offsets     (S + 1,)                 rising from 0 to N
    members[f]  (M_f, k_f), k_f >= 2     nodes of each factor, rows of node, in the order of its axes
    node        (N, L)                   potentials of labels
    tables[f]   (1, L, .., L)            one table for all factors of the group (tied), or
                (M_f, L, .., L)          one table each

    score(y)       = sum_v node[v, y_v] + sum_f sum_m tables[f][m or 0][y at members[f][m]]
    F(node, tables) = sum_i weight_i log Z_i,      Z_i = sum_y exp score_i(y)

Minus infinity forbids a label or a combination of labels. Graphs may be disconnected, nodes isolated, groups empty,
and several factors may share their nodes.

Raises ValueError naming the group, factor or graph that is wrong, or the graph whose labellings are all forbidden.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, Self

import numpy as np

from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.family import LabelFamily, Labellings, Member, RankedLabellings
from kernelfields.inference.packed_graphs import group_places
from kernelfields.inference.packing import check_values
from kernelfields.inference.potentials import EDGE, Arrangement, Group, Observed, Potentials
from kernelfields.numerics.sparse_rows import gather_entries
from kernelfields.numerics.threads import Workers

#: What a method reports of its work, by name: arrays with one entry per graph or label, counts, or sentences.
Diagnostics = dict[str, "np.ndarray | int | list[str]"]


class GraphPotentials(NamedTuple):
    """Checked potentials, and the weights of the graphs."""

    node: np.ndarray
    tables: list[np.ndarray]  # factors, group by group
    tied: tuple[bool, ...]  # for each group whether it has one table for all factors
    weights: np.ndarray | None = None  # (S,)

    @property
    def has_forbidden(self) -> bool:
        """Whether some labels are forbidden."""
        # Sums are minus infinity exactly where an entry is: potentials are never plus infinity here.
        return not all(np.isfinite(array.sum()) for array in (self.node, *self.tables))


class GraphMember(Member):
    """Log partition functions (or bounds) and marginals of packed graphs.

    Derived classes write ``_table_marginals``, exact ones ``_responses``, and ``_expected_tables`` where marginals
    can be summed without making all of them. Groups are numbered in the order of the family's ``members``.
    """

    family: GraphFamily

    def __init__(
        self,
        family: GraphFamily,
        checked: GraphPotentials,
        log_partition: np.ndarray,
        node_marginals: np.ndarray,
        workers: Workers | None = None,
        diagnostics: Diagnostics | None = None,
    ):
        potentials = Potentials(checked.node, dict(zip(family.names, checked.tables, strict=True)))
        super().__init__(family, potentials, log_partition, checked.weights)
        self.node_marginals = node_marginals
        self.tied, self._checked = checked.tied, checked
        #: What the method reports of its work, by name.
        self.diagnostics = diagnostics or {}
        notes = self.diagnostics.get("warnings", [])
        self.warnings = notes if isinstance(notes, list) else ()
        self._workers = workers or Workers(1)

    def marginals(self, group: str | None = None) -> np.ndarray:
        """Return the marginals of nodes (N, L), or of the labels at the factors of a group, (M, L, .., L)."""
        return self.node_marginals if group is None else self._table_marginals(self.family.index(group))

    def mean(self) -> Potentials:
        """Return the gradient of the weighted log partition, shaped like the potentials."""
        node = self._weighted(self.node_marginals, self.family.position_items)
        return self.potentials.with_arrays(array.copy() for array in (node, *self._expected_tables()))

    def _table_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, .., L) of the labels at the factors of a group."""
        raise NotImplementedError

    def _expected_tables(self) -> list[np.ndarray]:
        """Return the gradient in the tables."""
        return [self._sum_factors(group, self._table_marginals(group)) for group in range(len(self.tied))]

    def covariance_product(self, direction: Potentials) -> Potentials:
        """Return the Hessian of the weighted log partition times the direction, shaped like it, if exact."""
        if not self.family.exact:
            raise TypeError(
                f"Hessian products need exact inference, and {self.family.method!r} is approximate; "
                'use "tree" or "junction" where the graphs allow it, or a solver that needs gradients only'
            )
        node = np.ascontiguousarray(direction.node, dtype=np.float64)
        if node.shape != self.node_marginals.shape:
            raise ValueError(f"node direction has shape {node.shape}, expected {self.node_marginals.shape}")
        tables = [np.ascontiguousarray(table, dtype=np.float64) for table in direction.tables.values()]
        if len(tables) != len(self.tied):
            raise ValueError(f"the direction has {len(tables)} factor groups, expected {len(self.tied)}")
        for group, (table, tied) in enumerate(zip(tables, self.tied, strict=True)):
            expected = self.family.table_shape(group, tied)
            if table.shape != expected:
                raise ValueError(f"direction of factor group {group} has shape {table.shape}, expected {expected}")
        response, tables = self._responses(node, tables)
        return direction.with_arrays([response, *tables])

    def _responses(self, d_node: np.ndarray, d_tables: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the Hessian product with a checked direction."""
        raise NotImplementedError

    def _sum_factors(self, group: int, rows: np.ndarray) -> np.ndarray:
        """Weight one row per factor, and sum the result to the shape of the group's potentials."""
        rows = self._weighted(rows, self.family.factor_items(group))
        return rows.sum(axis=0, keepdims=True) if self.tied[group] else rows


class GraphLabellings(Labellings):
    """The best labellings of graphs, and draws, by the method of their family."""

    family: GraphFamily

    @cached_property
    def checked(self) -> GraphPotentials:
        """The potentials, checked."""
        return self.family.check_potentials(self.potentials)

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,), and its score for each graph, (S,)."""
        # Equal scores have a fixed winner. A score of -inf says that an approximate method found no allowed labelling.
        return self.family._decode(self.checked, self.workers)

    def _n_best(self, k: int) -> RankedLabellings:
        return self.family._ranked(self.checked, k, self.workers)

    def _sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        return self.family._draw(self.checked, n_samples, random, self.workers)


class GraphFamily(LabelFamily):
    """Labellings of packed graphs, with a prepared method of inference.

    Derived classes set ``method`` and ``description``, ``exact`` and ``bound`` if they are approximate, and write
    ``_member``, ``_decode``, ``_ranked``, ``_draw``, and ``_with_other_graphs`` if they have options. Arrays as checked
    by ``check_structure``. Groups are called "0", "1", .. until :meth:`named` gives them names.
    """

    _labellings_type: type[Labellings] = GraphLabellings
    #: The numbers of the labellings that potentials have, for groups that do not have all of them.
    listed: Mapping[int, np.ndarray] = MappingProxyType({})

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int):
        self.members = tuple(members)
        self.names = tuple(map(str, range(len(self.members))))
        super().__init__(offsets, n_labels)
        self._set_groups(())

    def _set_groups(self, tied: Collection[str]) -> None:
        rows = (self.table_shape(group, True)[1:] for group in range(len(self.members)))
        factors = zip(self.names, rows, self.members, strict=True)
        self.groups = (
            self.groups[0],
            *(
                Group(name, row, len(members), self.factor_items(group), name in tied, listed=self.listed.get(group))
                for group, (name, row, members) in enumerate(factors)
            ),
        )
        self.arrangement = Arrangement(self.offsets, self.groups)

    def with_names(self, names: Sequence[str], tied: Collection[str] = (), base: BaseMeasure | None = None) -> Self:
        """Return the same plan with names of its groups, tied groups, and a base measure.

        Parameters
        ----------
        names : sequence of str
            The names.
        tied : collection of str, default ()
            The names of the groups with one table for all factors.
        base : BaseMeasure, optional
            The base measure; by default all labellings count alike.

        Returns
        -------
        GraphFamily
            The plan.
        """
        other = copy.copy(self)
        other.names = tuple(names)
        other.base = None if base is None or base.is_trivial else base
        other._set_groups(tied)
        return other

    def index(self, name: str) -> int:
        """Return the number of a group of factors.

        Parameters
        ----------
        name : str
            The name.

        Returns
        -------
        int
            The number.

        Raises
        ------
        ValueError
            If there is no group of that name.
        """
        if name not in self.names:
            self.arrangement.group(name)
        return self.names.index(name)

    def clique_members(self, group: str) -> np.ndarray:
        """Return the nodes of each factor of a group.

        Parameters
        ----------
        group : str
            The name of the group.

        Returns
        -------
        array (M, k)
            Numbers of nodes.
        """
        return self.members[self.index(group)]

    def step_pairs(self) -> np.ndarray:
        """Return the two ends of every edge, the pairs of the base measure.

        Returns
        -------
        array (M, 2)
            The first and the second positions.
        """
        return self.clique_members(EDGE) if EDGE in self.names else np.empty((0, 2), dtype=np.int64)

    def _impossible(self) -> np.ndarray:
        """Return the mask of graphs with a node without possible labels.

        Labels without a partner at the other end of an edge are struck out until none is. What is left at a forest's
        nodes has a labelling; with circles there may be none.
        """
        assert self.base is not None
        left = np.ones((self.n_positions, self.n_labels), dtype=bool)
        if self.base.position is not None:
            left &= self.base.position > -np.inf
        first, second = self.step_pairs().T
        if self.base.step is not None and len(first):
            legal, before = self.base.step > -np.inf, -1
            while (count := int(np.count_nonzero(left))) != before:
                before = count
                np.logical_and.at(left, second, left[first] @ legal)
                np.logical_and.at(left, first, left[second] @ legal.T)
        return ~np.logical_and.reduceat(left.any(axis=1), self.offsets[:-1])

    def observed(self, labels: np.ndarray) -> dict[str | None, Observed]:
        """Find the cliques of labelled data in each group.

        Parameters
        ----------
        labels : array (N,)
            Numbers of labels.

        Returns
        -------
        dict
            For the name of each group an Observed: rows, labellings, items.
        """
        found = super().observed(labels)
        for group, (name, members) in enumerate(zip(self.names, self.members, strict=True)):
            labellings = np.ravel_multi_index(tuple(labels[members].T), (self.n_labels,) * members.shape[1])
            found[name] = Observed(np.arange(len(members)), labellings, self.factor_items(group))
        return found

    def _infer(self, potentials: Potentials, weights: np.ndarray | None, workers: Workers) -> GraphMember:
        return self._member(self.check_potentials(potentials, weights), workers)

    @abstractmethod
    def _member(self, checked: GraphPotentials, workers: Workers) -> GraphMember:
        """Return the distribution at checked potentials."""

    @abstractmethod
    def _decode(self, checked: GraphPotentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        """Return the best labelling (N,) and its scores (S,)."""

    @abstractmethod
    def _ranked(self, checked: GraphPotentials, k: int, workers: Workers) -> RankedLabellings:
        """Return the k best labellings of each graph and their scores, or fewer."""

    @abstractmethod
    def _draw(
        self, checked: GraphPotentials, n_samples: int, random: np.random.Generator, workers: Workers
    ) -> np.ndarray:
        """Draw labellings, (n_samples, N)."""

    def _with_other_graphs(self, offsets: np.ndarray, members: Sequence[np.ndarray]) -> GraphFamily:
        """Return the same method for other graphs."""
        return type(self)(offsets, members, self.n_labels)

    def part(self, first: int, last: int) -> GraphFamily:
        """Return the family of items first..last-1.

        Parameters
        ----------
        first : int
            The first item.
        last : int
            The item after the last.

        Returns
        -------
        LabelFamily
            The family of the part.
        """
        begin = int(self.offsets[first])
        members = []
        for group, nodes in enumerate(self.members):
            graphs = self.factor_items(group)
            members.append(nodes[(graphs >= first) & (graphs < last)] - begin)
        family = self._with_other_graphs(self.offsets[first : last + 1] - begin, members)
        tied = [group.name for group in self.groups if group.tied and group.name is not None]
        return family.with_names(self.names, tied, self.base and self.base.part(first, last))

    def repeat_graphs(self, items: np.ndarray, potentials: Potentials) -> tuple[GraphFamily, Potentials]:
        """Return the family and the potentials of some graphs, with repetitions.

        Parameters
        ----------
        items : array (n,)
            Numbers of graphs.
        potentials : Potentials
            The potentials of all graphs.

        Returns
        -------
        pair
            The family and its potentials.
        """
        nodes, offsets = gather_entries(self.offsets, items)
        moved, members, tables = offsets[:-1] - self.offsets[items], [], {}
        for number, (group, own) in enumerate(zip(self.groups[1:], self.members, strict=True)):
            starts, order = group_places(self.factor_items(number), self.n_items)
            entries, begin = gather_entries(starts, items)
            rows = order[entries]
            members.append(own[rows] + np.repeat(moved, np.diff(begin))[:, None])
            assert group.name is not None
            tables[group.name] = potentials[group.name] if group.tied else potentials[group.name][rows]
        base = None if self.base is None else self.base.gather(nodes, offsets)
        tied = [name for name, group in zip(self.names, self.groups[1:], strict=True) if group.tied]
        family = self._with_other_graphs(offsets, members).with_names(self.names, tied, base)
        return family, Potentials(potentials.node[nodes], tables)

    def factor_items(self, group: int) -> np.ndarray:
        """Return the graph of every factor of a group.

        Parameters
        ----------
        group : int
            The number of the group.

        Returns
        -------
        array (M,)
            Numbers of graphs.
        """
        return self.position_items[self.members[group][:, 0]]

    def table_shape(self, group: int, tied: bool) -> tuple[int, ...]:
        """Return the shape of the potentials of a group.

        Parameters
        ----------
        group : int
            The number of the group.
        tied : bool
            Whether one table serves all factors.

        Returns
        -------
        tuple of int
            The shape.
        """
        count, order = self.members[group].shape
        return (1 if tied else count, *(self.n_labels,) * order)

    def check_potentials(self, potentials: Potentials, weights: np.ndarray | None = None) -> GraphPotentials:
        """Check potentials, and lay them out as contiguous arrays of float64.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.
        weights : array (S,), optional
            The weights of items; ones by default.

        Returns
        -------
        GraphPotentials
            The arrays, and which groups are tied.

        Raises
        ------
        ValueError
            If a shape or a value is wrong.
        """
        node = np.ascontiguousarray(potentials.node, dtype=np.float64)
        if node.shape != (self.n_positions, self.n_labels):
            raise ValueError(
                f"node potentials must have shape (nodes, labels) = ({self.n_positions}, {self.n_labels}), got "
                f"{node.shape}"
            )
        if len(potentials.tables) != len(self.members):
            raise ValueError(
                f"expected potentials for {len(self.members)} factor groups, got {len(potentials.tables)}; "
                "pass one array per group"
            )
        tables = [np.ascontiguousarray(potentials[name], dtype=np.float64) for name in self.names]
        for group, table in enumerate(tables):
            shared, own = self.table_shape(group, True), self.table_shape(group, False)
            if table.shape not in (shared, own):
                raise ValueError(
                    f"potentials of factor group {group} must have shape {shared}, one table for all factors, "
                    f"or {own}, one per factor, got {table.shape}"
                )
            check_values(f"potentials of factor group {group}", table)
        check_values("node potentials", node)
        if weights is not None:
            weights = np.ascontiguousarray(weights, dtype=np.float64)
            if weights.shape != (self.n_items,):
                raise ValueError(f"weights must have shape ({self.n_items},), one per graph, got {weights.shape}")
        return GraphPotentials(node, tables, tuple(len(table) == 1 for table in tables), weights)
