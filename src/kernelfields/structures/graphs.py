"""Graphs: a label at each node, with cliques of edges and larger factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
from sklearn.base import clone

from kernelfields.data.cliques import CliqueSet, EdgeCliques, NodeCliques
from kernelfields.data.graph_cliques import GraphFactors, GraphNodes
from kernelfields.data.graph_reader import GraphReader
from kernelfields.data.graph_reading import GRAPHS
from kernelfields.data.graphs import Factors, Graphs
from kernelfields.inference.checks import check_labels
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.graph_families import graph_family
from kernelfields.models.build import NamedCliques, name_cliques
from kernelfields.numerics.parameters import is_auto
from kernelfields.objective.term import Term
from kernelfields.structures import library
from kernelfields.structures.structure import Structure

Value = TypeVar("Value")
#: A kernel, its name, or what stands for one.
KernelLike: TypeAlias = Any


def usual_edges() -> GraphFactors:
    """Return the default clique set of edges."""
    return GraphFactors("auto")


@dataclass(frozen=True, eq=False)
class GraphStructure(Structure[Graphs, GraphReader]):
    """Labels of the nodes of graphs with cliques of edges and larger factors."""

    kind = "graph"
    item_names = GRAPHS
    reads = GraphReader

    @property
    def has_explicit_cliques(self) -> bool:
        return self.settings.cliques is not None

    @property
    def method(self) -> Any:
        return self.settings.inference

    def family(self, classes: np.ndarray, data: Graphs | None) -> FamilySpec:
        return replace(super().family(classes, data), method=self.method)

    def learn(
        self, X: object, y: object, sample_weight: object, part_of: tuple[GraphReader, np.ndarray] | None = None
    ) -> tuple[GraphReader, Graphs, np.ndarray]:
        if self.settings.neighbours is True:
            why = "ties move columns of nodes, and neighbours=True adds columns that they do not name"
            library.resolve_ties(self.settings.ties).refuse(why)
        if part_of is not None:
            # The types of nodes and edges are those of all graphs, whichever the part holds.
            asked, classes = self.new_reader(X), part_of[1]
            reader = replace(part_of[0], steps=asked.steps, own=asked.own)
            graphs = reader.read(X, y, sample_weight, classes)
        else:
            if y is None:
                message = "GraphCRF requires y to be passed, but the target y is None: give an array for each graph"
                raise ValueError(message)
            reader, declared = self.new_reader(X), self.declared_classes
            graphs, classes = reader.learn(X, y, sample_weight, classes=declared)
        check_labels(graphs, self.family(classes, graphs), classes)
        return reader, graphs, classes

    def read(self, X: object, y: object = None, sample_weight: object = None) -> Graphs:
        return self.reader.read(X, y, sample_weight, self.classes)

    def clique_sets(self, training: Any) -> NamedCliques:
        graphs, given = training.data.own, self.settings  # graphs that have the types of nodes and edges of all
        if given.cliques is not None:
            return name_cliques(_name_graph_cliques(given.cliques))
        shared: dict[str, Any] = {"basis": given.basis, "rank": given.rank, "prior_variance": given.prior_variance}
        cliques: list = [
            GraphNodes(kernel, node_type=kind, name=_node_name(kind), **shared)
            for kind, kernel in _node_kernels(given.kernel, graphs)
        ]
        _check_types(given.edges, "edges", [factors.name for factors in graphs.factors])
        for factors in graphs.factors:
            edges = self._find_edges(factors).with_defaults(**shared)
            if not is_auto(edges.kernel):
                cliques.append(edges)
                continue
            cliques.append(edges.with_defaults().set_params(kernel=None))
            if factors.inputs is not None:
                cliques.append(edges.set_params(kernel="linear", name=f"{edges.name or factors.name} features"))
        return name_cliques(cliques)

    def _find_edges(self, factors: Factors) -> GraphFactors:
        """Return the clique set of one type of factors, given for it or for all types."""
        name, n_nodes, usual = factors.name, factors.labels_per_clique, usual_edges()
        given = usual if self.settings.edges is None else self.settings.edges
        edges = GraphFactors(**_select_type(given, name, usual).get_params(deep=False))
        if edges.group not in ("edge", name) or edges.order not in (2, n_nodes):
            raise ValueError(
                f"edges has {edges!r} for factors named {name!r} of {n_nodes} nodes: leave out group and order, and "
                "name types as keys of a dict"
            )
        if edges.symmetric and n_nodes != 2:
            raise ValueError(f"symmetric is for pairs of labels, and factors named {name!r} join {n_nodes}")
        return edges.set_params(group=name, order=n_nodes)

    def approximate_method(self, training: Any) -> str | None:
        family = graph_family(training.data, (), training.spec)
        return None if family.exact else family.method

    def views(self, terms: Sequence[Term]) -> dict[str, Any]:
        n_labels = len(self.classes)
        tables = {
            term.group: term.tied_scores.reshape((n_labels,) * term.labels_per_clique)
            for term in terms
            if term.group is not None and term.is_constant
        }
        return {**super().views(terms), "edge_scores_": tables}

    @classmethod
    def check_terms(cls, terms: Sequence[Term], reader: GraphReader, spec: FamilySpec) -> None:
        bases = [id(term.subspace) for term in terms]
        if len(set(bases)) < len(bases):
            raise ValueError("two of its clique sets have one basis, which sees the inputs of one of them")
        for term in terms:
            if term.group is not None and term.group not in reader.factors:
                raise ValueError(f"set {term.name!r} scores factors of the unknown type {term.group!r}")
            kind = term.clique.node_type if isinstance(term.clique, GraphNodes) else None
            if kind is not None and kind not in (reader.node_types or ()):
                raise ValueError(f"set {term.name!r} scores nodes of the unknown type {kind!r}")


def _node_kernels(given: KernelLike | Mapping[str, KernelLike], graphs: Graphs) -> list[tuple[str | None, KernelLike]]:
    """Return the kernel of each type of nodes; for nodes without types one kernel, under None."""
    if graphs.node_types is None:
        if isinstance(given, Mapping):
            raise ValueError(
                "kernel is a dict by type of node, and the graphs have no types of nodes: pass dicts with 'x', "
                "'edges' and 'node_types', or set the attribute 'type' of networkx nodes"
            )
        return [(None, given)]
    names = graphs.node_types.names
    _check_types(given, "kernel", list(names), "nodes")
    if isinstance(given, Mapping) and (missing := [name for name in names if name not in given]):
        raise ValueError(f"kernel has no entry for nodes of the type {missing[0]!r}: name one for each type")
    return [(name, _select_type(given, name, None)) for name in names]


def _node_name(kind: str | None) -> str | None:
    return None if kind is None else f"node {kind}"


def _name_graph_cliques(cliques: Sequence[CliqueSet]) -> Sequence[CliqueSet]:
    """Name unnamed clique sets of graphs by the types of their nodes.

    NodeCliques and EdgeCliques mean the same in graphs; other sets of sequences are refused.
    """
    if not isinstance(cliques, list | tuple):
        return cliques
    found: list[CliqueSet] = []
    for clique in cliques:
        if isinstance(clique, NodeCliques | EdgeCliques):
            kind = GraphNodes if isinstance(clique, NodeCliques) else GraphFactors
            clique = kind(**clique.get_params(deep=False))
        elif isinstance(clique, CliqueSet) and not isinstance(clique, GraphNodes | GraphFactors):
            raise TypeError(f"nodes of graphs have no order, and {clique!r} needs one: use GraphNodes and GraphFactors")
        if isinstance(clique, GraphNodes) and clique.name is None:
            clique = clone(clique).set_params(name=_node_name(clique.node_type))
        found.append(clique)
    return found


def _select_type(given: Value | Mapping[str, Value], name: str, default: Value) -> Value:
    """Return the value for a type: by name, or the common one."""
    return given.get(name, default) if isinstance(given, Mapping) else given


def _check_types(given: object, parameter: str, names: list[str], what: str = "edges") -> None:
    unknown = sorted(set(given) - set(names)) if isinstance(given, Mapping) else []
    if unknown:
        known = ", ".join(map(repr, names)) or "none"
        raise ValueError(f"{parameter} names the type {unknown[0]!r}, which no {what} have: there are {known}")
