"""Instances: rows of a table with several yes-or-no labels each, of which pairs meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.data.cliques import CliqueSet, EdgeCliques
from kernelfields.data.label_cliques import LabelCliques, LabelledInstances, LabelPairs
from kernelfields.data.reading import check_sample_weight
from kernelfields.data.table_reader import TableReader
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.graph_families import plan_labels
from kernelfields.models.build import NamedCliques, split_sum
from kernelfields.models.instance_terms import InstanceTerms, named_cliques, pair_names
from kernelfields.models.label_graph import label_edges
from kernelfields.numerics.parameters import is_whole
from kernelfields.structures.indicators import INSTANCES, read_indicator
from kernelfields.structures.rows import TableStructure

if TYPE_CHECKING:
    from kernelfields.engines.engine import Sample
    from kernelfields.models.model_file import Document
    from kernelfields.objective.designs.design import Design
    from kernelfields.objective.term import Term

# The prior variance of log odds ratios, unless edges has another.
_EDGE_VARIANCE = 10.0


@dataclass(frozen=True, eq=False)
class InstanceStructure(TableStructure[LabelledInstances]):
    """Several yes-or-no labels of each instance, with names as ``classes``."""

    kind = "instances"

    @property
    def labels(self) -> np.ndarray:
        # scikit-learn has the values 0 and 1 of each label for the classes of a fitted estimator.
        return self.classes if np.ndim(self.classes) == 1 else self.settings.label_names_

    @property
    def edges(self) -> CliqueSet:
        """The clique set of pairs of labels."""
        return EdgeCliques() if self.settings.edges is None else self.settings.edges

    # ---- data

    def learn(
        self, X: object, y: object, sample_weight: object, part_of: tuple[TableReader, np.ndarray] | None = None
    ) -> tuple[TableReader, LabelledInstances, np.ndarray]:
        reader = self.new_reader(X)
        inputs, _ = reader.learn_rows(self.settings, X)
        labels, partial, columns = read_indicator(y, inputs.shape[0])
        weights = check_sample_weight(sample_weight, len(labels), INSTANCES)
        names: list = list(range(labels.shape[1])) if columns is None else columns
        if len(set(names)) < len(names):
            raise ValueError(f"columns of Y must have different names, got {', '.join(map(str, names))}")
        return reader, LabelledInstances.build(inputs, len(names), {}, labels, weights, partial), np.array(names)

    def read(self, X: object, y: object = None, sample_weight: object = None) -> LabelledInstances:
        (inputs, _), labels, partial, weights = self.reader.read_rows(self.settings, X), None, None, None
        if y is not None:
            labels, partial, _ = read_indicator(y, inputs.shape[0], self.labels.tolist())
            weights = check_sample_weight(sample_weight, len(labels), INSTANCES)
        return LabelledInstances.build(inputs, len(self.labels), {}, labels, weights, partial)

    def all_classes(self, y: Any, classes: ArrayLike | None) -> np.ndarray:
        # The labels of an instance are those of the first batch; reading y raises where it has others.
        return self.classes

    def count_labels(self, y: Any, lengths: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        labels, _, columns = read_indicator(y, len(lengths))
        return np.array(range(labels.shape[1]) if columns is None else columns), None

    def item_labels(self, training: Any, y: object) -> list[np.ndarray]:
        data = training.data
        table = (data.required_labels * data.given.informative()).reshape(data.n_instances, -1)
        # One more label for instances that have none, so that folds share them as well.
        return [np.flatnonzero(row) for row in np.column_stack([table, ~table.any(axis=1)])]

    # ---- the family

    @property
    def method(self) -> Any:
        return self.settings.inference

    def family(self, classes: np.ndarray, data: LabelledInstances | None) -> FamilySpec:
        names = classes.tolist()
        pairs = pair_names(label_edges(self.settings.label_graph, data, names), names)
        return FamilySpec(self.kind, 2, method=self.method, n_names=len(names), pairs=pairs)

    def approximate_method(self, training: Any) -> str | None:
        one = training.data.subset(slice(0, 1)).with_pairs(training.spec.pairs)
        members = [factors.members for factors in one.factors]
        family = plan_labels(one.offsets, members, training.spec.method, tied=self.edges.kernel is None)
        return None if family.exact else family.method

    def continued_parameters(self) -> dict[str, Any]:
        return {"label_graph": list(self.spec.pairs.values())}

    # ---- clique sets

    def _kinds(self) -> tuple[NamedCliques, NamedCliques]:
        """Return the clique sets of every label and of every pair of labels, with the names of their kinds."""
        given = self.settings
        shared: dict[str, Any] = {"basis": given.basis, "rank": given.rank}
        labels: NamedCliques = [("label", LabelCliques(given.kernel, prior_variance=given.prior_variance, **shared))]
        if given.bias_prior_variance is not None:
            labels = [("bias", LabelCliques(prior_variance=given.bias_prior_variance)), *labels]
        edges = self.edges.with_defaults(prior_variance=_EDGE_VARIANCE, **shared)
        pairs: NamedCliques = [("pair", LabelPairs(prior_variance=edges.prior_variance))]
        if edges.kernel is not None:
            pairs = [*pairs, ("inputs", LabelPairs(**edges.get_params(deep=False)))]
        return labels, pairs

    def clique_sets(self, training: Any) -> NamedCliques:
        """Return one clique set of each kind that has features; the terms of all labels share them."""
        return [part for kind in self._kinds() for name, clique in kind for part in split_sum(name, clique)]

    def instance_terms(self, sample: Sample, training: Any) -> InstanceTerms:
        """Return the maker of the terms of labels and pairs of labels on a sample."""
        labels, pairs = self._kinds()
        return InstanceTerms(sample, training.classes.tolist(), labels, pairs, training.run.options.random)

    def term_cliques(self, training: Any, cliques: NamedCliques) -> NamedCliques:
        return named_cliques(training.classes.tolist(), training.spec.pairs, *self._kinds())

    def term_variances(self, training: Any) -> list[float]:
        counts = len(training.classes), len(training.spec.pairs)
        return [
            part.prior_variance
            for kinds, count in zip(self._kinds(), counts, strict=True)
            for name, clique in kinds
            for _, part in split_sum(name, clique)
            for _ in range(count)
        ]

    def designs(self, training: Any, sample: Sample, cliques: NamedCliques) -> list[Design]:
        return self.instance_terms(sample, training).designs(list(training.spec.pairs.values()))

    # ---- after a fit

    def views(self, terms: Sequence[Term]) -> dict[str, Any]:
        names, pairs = self.labels.tolist(), self.spec.pairs
        first = {term.name: float(term.known[0, 0]) for term in terms}
        edges = [(names[j], names[k]) for j, k in pairs.values()]
        return {
            **super().views(terms),
            "n_labels_": len(names),
            "label_names_": np.array(names),
            "classes_": np.array([[0, 1]] * len(names)),
            "coef_": {term.name: term.known[:, 0] for term in terms},
            "label_edges_": edges,
            "edge_scores_": {edge: first[name] for edge, name in zip(edges, pairs, strict=True)},
        }

    def describe_classes(self) -> list:
        return self.labels.tolist()

    @classmethod
    def rebuild_classes(cls, described: Any) -> np.ndarray:
        names = np.array(list(described))
        if names.ndim != 1 or names.dtype.kind not in "biufU" or not len(names) == len(set(names.tolist())) > 0:
            raise ValueError("the names of the labels must be different texts or numbers, one or more")
        return names

    def describe(self) -> Document:
        return {"pairs": [[name, *edge] for name, edge in self.spec.pairs.items()]}

    @classmethod
    def rebuild_spec(cls, described: Mapping[str, Any], classes: np.ndarray) -> FamilySpec:
        pairs = {str(name): (int(j), int(k)) for name, j, k in described["pairs"]}
        for name, (j, k) in pairs.items():
            if not 0 <= j < k < len(classes):
                raise ValueError(f"{name!r} joins labels that do not exist")
        return FamilySpec(cls.kind, 2, n_names=len(classes), pairs=pairs)

    @classmethod
    def check_terms(cls, terms: Sequence[Term], reader: TableReader, spec: FamilySpec) -> None:
        for term in terms:
            if term.group is not None and term.group not in spec.pairs:
                raise ValueError(f"set {term.name!r} scores the unknown pair {term.group!r}")
            label = term.clique.label if isinstance(term.clique, LabelCliques) else 0
            if not is_whole(label) or not 0 <= label < spec.n_names:
                raise ValueError(f"set {term.name!r} scores a label that does not exist")
