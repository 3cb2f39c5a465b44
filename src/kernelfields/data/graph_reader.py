"""The reader of graphs: width and kind of the inputs of nodes and of each type of factors.

Raises ValueError that names the type whose inputs differ from those of the fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np

from kernelfields.data.cliques import CliqueSet
from kernelfields.data.column_names import check_columns, shared_columns
from kernelfields.data.graph_reading import GRAPHS, get_feature_tables
from kernelfields.data.graphs import Factors, Graphs
from kernelfields.data.readers import InputReader, RowReader, check_own_column, same_kind
from kernelfields.data.ties import TiedColumns
from kernelfields.inputs.steps import ColumnSteps


@dataclass(eq=False)
class FactorReader(RowReader):
    """Kind of the inputs of one type of factors, with ``n_nodes`` nodes each; a width of 0 for no inputs."""

    n_nodes: int = 2

    @classmethod
    def learn(cls, factors: Factors, tables: list | None) -> FactorReader:
        """Learn the kind of the factors of a fit from their ``tables`` of inputs."""
        reader = cls(columns=shared_columns(tables or (), "graph"), n_nodes=factors.labels_per_clique)
        if factors.inputs is not None:
            reader.learn_kind(factors.inputs)
        return reader

    def read_factors(self, factors: Factors) -> Factors:
        """Read factors of the kind of the fit; ValueError for other features."""
        came, expected = 0 if factors.inputs is None else factors.inputs.shape[1], self.n_features
        if came != expected and factors.n_factors > 0:
            given, fitted = (f"{width or 'no'} features" for width in (came, expected))
            raise ValueError(
                f"factors named {factors.name!r} have {given}, but this model was fitted with {fitted}; pass the "
                "same features in the same order"
            )
        if expected == 0:
            return replace(factors, inputs=None)
        # Without a factor there is no row that could be wrong.
        inputs = factors.inputs if came == expected else np.zeros((0, expected))
        return replace(factors, inputs=same_kind(inputs, self.sparse))


@dataclass(eq=False)
class GraphReader(InputReader):
    """Width and kind of the inputs of nodes, and of each type of factors, learnt by ``learn``.

    ``factors`` are readers by name of the type. ``node_types`` are the names of the types of nodes, None where nodes
    had none.
    """

    rows: RowReader = field(default_factory=partial(RowReader, nouns=GRAPHS))
    factors: dict[str, FactorReader] = field(default_factory=dict)
    node_types: tuple[str, ...] | None = None

    packs, nouns = Graphs, GRAPHS

    def column_names(self, group: str | None) -> list[str] | None:
        """Return the names of the columns of nodes, under None, or of a type of factors."""
        return self.rows.columns if group is None else self.factors[group].columns

    def tied_columns(self, group: str | None = None) -> TiedColumns:
        """Return the columns that ties permute: of nodes, or of a type of factors."""
        return (self.rows if group is None else self.factors[group]).tied_columns

    def learn_items(self, X: object, *, keep_zeros: bool = False) -> Graphs:
        """Learn the kind of inputs, and the types of nodes and factors; return graphs without labels."""
        graphs, tables = Graphs.from_graphs(X), get_feature_tables(X)
        self.rows.columns = shared_columns(tables.get(None, ()), "graph")
        self.rows.learn_kind(graphs.inputs)
        for column in self.own.rows:
            check_own_column(self, column)
        self.node_types = None if graphs.node_types is None else graphs.node_types.names
        self.factors = {kind.name: FactorReader.learn(kind, tables.get(kind.name)) for kind in graphs.factors}
        return graphs

    def read_items(self, X: object) -> Graphs:
        """Read new graphs without labels, dense or sparse as in the fit, before scaling."""
        types = {name: reader.n_nodes for name, reader in self.factors.items()}
        graphs = Graphs.from_graphs(X, types, self.node_types)
        if (graphs.node_types is None) != (self.node_types is None):
            came, before = ("no types", "them") if graphs.node_types is None else ("types", "none")
            raise ValueError(f"the nodes of X have {came}, but this model was fitted to graphs with {before}")
        for kind, tables in get_feature_tables(X).items():
            check_columns(tables, self.column_names(kind), "graph")
        self.rows.check_width(graphs.inputs)
        inputs = same_kind(graphs.inputs, self.rows.sparse)
        factors = tuple(self.factors[kind.name].read_factors(kind) for kind in graphs.factors)
        return replace(graphs, inputs=inputs, factors=factors)

    def width(self, clique: CliqueSet) -> int | None:
        """Return the number of input columns of a clique set; None for factors without features."""
        if clique.group is None:
            return self.n_columns
        return self.factors[clique.group].n_features or None

    def describe(self) -> dict[str, object]:
        """Return plain values and arrays for a model file."""
        factors = {
            name: {"n_nodes": kind.n_nodes, **kind.describe(), **self.steps.describe(name)}
            for name, kind in self.factors.items()
        }
        node_types = None if self.node_types is None else list(self.node_types)
        return {**super().describe(), "factors": factors, "node_types": node_types}

    @classmethod
    def rebuild(cls, described: Mapping) -> Self:
        """Rebuild the reader from its description."""
        reader, node_types = super().rebuild(described), described["node_types"]
        reader.node_types = None if node_types is None else tuple(map(str, node_types))
        for name, factors in described["factors"].items():
            kind = FactorReader.rebuild({**factors, "scaling": None})
            reader.factors[str(name)] = replace(kind, n_nodes=int(factors["n_nodes"]))
        reader.steps = ColumnSteps.rebuild({None: described, **described["factors"]})
        return reader
