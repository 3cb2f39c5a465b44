"""Candidates of a structure search: values of a parameter of a field, and the terms that they add.

    cliques        clique sets of the labels of a sequence, beside those of the field
    label_graph    pairs of labels of an instance

Pairs of labels are evaluated by a table of parameters without inputs; with an edge kernel, the final fit adds functions
of the inputs to the chosen pairs. The marginals of a candidate pair need inference on a graph with that edge: with few
labels one table of all labellings serves all pairs, else pairs are evaluated in batches of small treewidth. Pairs that
make the treewidth too large for exact inference are left out.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sklearn.base import clone

from kernelfields.data.cliques import CliqueSet
from kernelfields.data.ties import resolve_ties
from kernelfields.engines.engine import PackedData, Sample
from kernelfields.estimators.fit_state import FitState
from kernelfields.inference.graph_families import has_exact_labels
from kernelfields.models.label_graph import read_given_edges
from kernelfields.models.structure import Predicate
from kernelfields.numerics.parameters import is_auto, with_values
from kernelfields.objective.designs.design import Design


@dataclass(frozen=True)
class PlacedCandidates:
    """The terms of a field and of all candidates on a sample."""

    sample: Sample
    base: Sequence[Design]
    others: Sequence[Design]
    #: Whether a field of some terms can be inferred; None if every one can.
    fits: Predicate | None = None


class Candidates(ABC):
    """The candidates for a parameter of a field; ``given`` are those of the user."""

    #: The parameter that says which labels meet.
    parameter: ClassVar[str]

    def __init__(self, given: Any):
        self.given = given

    @abstractmethod
    def start(self, field: Any) -> object:
        """Return the initial value of the parameter; raise if the field does not support a search."""

    @abstractmethod
    def place(self, problem: FitState, data: PackedData) -> PlacedCandidates:
        """Place data on the engine of a fit, with the terms of the field and of all candidates."""

    @abstractmethod
    def value(self, names: Sequence[str]) -> object:
        """Return the value of the parameter that consists of named candidates."""


class CliqueCandidates(Candidates):
    """Candidate clique sets of sequences."""

    parameter = "cliques"

    def start(self, field: Any) -> object:
        """Return the clique sets of the field; ValueError if its labels share weights."""
        if not isinstance(self.given, list | tuple):
            raise TypeError(
                f"candidates must be a list of clique sets such as SkipCliques(lag=2), got {self.given!r:.200}"
            )
        why = "a StructureSearch judges sets whose labels share no weights: leave out ties, or name the sets"
        resolve_ties(field.ties).refuse(why)
        return field.cliques

    def place(self, problem: FitState, data: PackedData) -> PlacedCandidates:
        """Place data on the engine, with the clique sets of the field and of the candidates; sums are split."""
        structure = problem.estimator.structure
        self._described: list[CliqueSet] = list(structure.described_cliques())
        whole = with_values(problem.estimator, {"cliques": [*self._described, *self.given]}).structure
        self._named = dict(whole.clique_sets(problem))
        n_base = len(structure.clique_sets(problem))
        sample = problem.place(data, list(self._named.items()))
        designs = whole.designs(problem, sample, list(self._named.items()))
        return PlacedCandidates(sample, designs[:n_base], designs[n_base:])

    def value(self, names: Sequence[str]) -> list[CliqueSet]:
        """Return the clique sets of the field and the chosen ones, with their names in the search."""
        places = {name: place for place, name in enumerate(self._named)}
        chosen = [(name, self._named[name]) for name in sorted(names, key=lambda name: places[name])]
        return [
            *self._described,
            *(
                clique if name == (clique.name or clique.default_name) else clone(clique).set_params(name=name)
                for name, clique in chosen
            ),
        ]


class PairCandidates(Candidates):
    """Candidate edges between the labels of an instance."""

    parameter = "label_graph"

    def start(self, field: Any) -> object:
        """Return the label graph of the field; for "auto" a graph without edges."""
        if not (self.given is None or isinstance(self.given, list | tuple)):
            raise TypeError(f"candidates must be a list of pairs of labels, or None for all, got {self.given!r:.200}")
        return "none" if is_auto(field.label_graph) else field.label_graph

    def place(self, problem: FitState, data: PackedData) -> PlacedCandidates:
        """Place data on the engine, with the terms of labels, and a table for each current or candidate edge."""
        structure, names = problem.estimator.structure, problem.classes.tolist()
        self._base = list(problem.spec.pairs.values())
        every = list(itertools.combinations(range(len(names)), 2))
        listed = every if self.given is None else read_given_edges(self.given, names, "candidates")
        edges = [*self._base, *(edge for edge in listed if edge not in self._base)]
        spec = with_values(problem.estimator, {"label_graph": edges}).structure.family(problem.classes, data)
        self._pairs = spec.pairs
        sample = replace(problem, spec=spec).place(data, structure.clique_sets(problem))
        made = structure.instance_terms(sample, problem)
        tables = [design for design in made.pair_designs(edges) if design.name in spec.pairs]
        tied, n_instances = structure.edges.kernel is None, len(problem.data.weights)

        def fits(designs: Sequence[Design]) -> bool:
            meeting = [spec.pairs[design.group] for design in designs if design.group is not None]
            return has_exact_labels(len(names), meeting, structure.method, n_instances=n_instances, tied=tied)

        n_base = len(self._base)
        return PlacedCandidates(sample, [*made.label_designs(), *tables[:n_base]], tables[n_base:], fits)

    def value(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return the edges of the label graph, in order."""
        return sorted([*self._base, *(self._pairs[name] for name in names)])


#: What is chosen from, by the parameter that a field has.
KINDS: dict[str, type[Candidates]] = {kind.parameter: kind for kind in (CliqueCandidates, PairCandidates)}
