"""Rows of a table, each with one label."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from kernelfields.data.graph_cliques import GraphNodes
from kernelfields.data.graphs import Graphs
from kernelfields.data.partial_labels import LabelWeights, are_partly_known
from kernelfields.data.readers import read_labels
from kernelfields.data.reading import SAMPLES, Matrix, is_sequence, warn_of_minus_one
from kernelfields.data.table_reader import TableReader
from kernelfields.data.whole_numbers import find_whole_places, labels_as_array
from kernelfields.models.build import name_cliques
from kernelfields.numerics.containers import find_shape
from kernelfields.numerics.parameters import with_values
from kernelfields.structures import library
from kernelfields.structures.class_weights import weigh_samples
from kernelfields.structures.structure import Data, Structure

if TYPE_CHECKING:
    from kernelfields.objective.designs.design import Design
    from kernelfields.solvers.choice import FitOptions

# Problems with this few feature values are solved as exactly as doubles allow: it takes hundredths of a second.
_SMALL = 100_000
_POLISHED = 1e-13


@dataclass(frozen=True, eq=False)
class TableStructure(Structure[Data, TableReader]):
    """Labels of the rows of a table, one or several for each row."""

    reads = TableReader

    def with_reader(self, reader: TableReader, classes: np.ndarray, spec: library.FamilySpec | None = None) -> Self:
        settings = copy.copy(self.settings)
        # scikit-learn compares new rows with these.
        settings.n_features_in_ = reader.rows.n_features
        if reader.rows.names is not None:
            settings.feature_names_in_ = np.array(reader.rows.names, dtype=object)
        return replace(super().with_reader(reader, classes, spec), settings=settings)


@dataclass(frozen=True, eq=False)
class RowStructure(TableStructure[Graphs]):
    """One label for each row, without neighbours."""

    kind = "single"
    item_names = SAMPLES

    @property
    def class_weight(self) -> Any:
        return self.settings.class_weight

    def with_class_weight(self, class_weight: Any) -> Self:
        return replace(self, settings=with_values(self.settings, {"class_weight": class_weight}))

    def learn(
        self, X: object, y: object, sample_weight: object, part_of: tuple[TableReader, np.ndarray] | None = None
    ) -> tuple[TableReader, Graphs, np.ndarray]:
        reader, estimator = self.new_reader(X), self.settings
        known = self.declared_classes if part_of is None else part_of[1]
        if are_partly_known(y) or (y is not None and known is not None and part_of is None):
            data, classes = partly_labelled(reader.learn_rows(estimator, X)[0], y, sample_weight, known)
        else:
            _refuse_rows(y)
            inputs, targets = reader.learn_rows(estimator, X, _restore_labels(y))
            check_classification_targets(targets)
            classes, labels = np.unique(targets, return_inverse=True)
            if len(classes) < 2:
                raise ValueError(
                    f"y holds the one class {classes.tolist()[0]!r}: a classifier needs samples of at least 2 classes"
                )
            if part_of is None:
                warn_of_minus_one(classes)
            weights = _check_sample_weight(sample_weight, inputs, dtype=np.float64, ensure_non_negative=True)
            if part_of is not None:
                labels, classes = find_whole_places(part_of[1], classes)[labels], part_of[1]
            data = single_nodes(inputs, labels, weights)
        data = weigh_samples(data, classes, self.class_weight)
        if len(data.given.possible(data.weights)) < 2:
            raise ValueError("samples of at least 2 classes must have a positive weight")
        return reader, data, classes

    def read(self, X: object, y: object = None, sample_weight: object = None) -> Graphs:
        reader, estimator = self.reader, self.settings
        if y is None:
            return single_nodes(reader.read_rows(estimator, X)[0])
        if are_partly_known(y):
            return partly_labelled(reader.read_rows(estimator, X)[0], y, sample_weight, self.classes)[0]
        inputs, targets = reader.read_rows(estimator, X, _restore_labels(y))
        unknown = set(np.unique(targets).tolist()) - set(self.classes.tolist())
        if unknown:
            raise ValueError(f"y holds labels that the classifier was not fitted to: {sorted(unknown)[:5]}")
        weights = _check_sample_weight(sample_weight, inputs, dtype=np.float64, ensure_non_negative=True)
        return single_nodes(inputs, find_whole_places(self.classes, targets), weights)

    def read_training(self, X: object, y: object, sample_weight: object) -> Graphs:
        return weigh_samples(super().read_training(X, y, sample_weight), self.classes, self.class_weight)

    def all_classes(self, y: Any, classes: ArrayLike | None) -> np.ndarray:
        if not are_partly_known(y):
            check_classification_targets(_restore_labels(y))
        return super().all_classes([y], classes)

    def clique_sets(self, training: Any) -> library.NamedCliques:
        given = self.settings
        cliques = [GraphNodes(given.kernel, basis=given.basis, rank=given.rank, prior_variance=given.prior_variance)]
        if given.bias:
            cliques.append(GraphNodes(None, name="bias", prior_variance=self.first_variance))
        return name_cliques(cliques)

    def final_options(self, training: Any, designs: Sequence[Design]) -> FitOptions:
        options: FitOptions = training.run.options
        values = training.data.n_positions * sum(design.term.subspace.rank for design in designs)
        return replace(options, tol=min(options.tol, _POLISHED)) if values <= _SMALL else options


def _restore_labels(y: object) -> object:
    """Return labels as an array with exact whole numbers."""
    return labels_as_array(y) if isinstance(y, list | tuple) else y


def _refuse_rows(y: object) -> None:
    """Raise for samples with several columns of labels."""
    shape = find_shape(y) or ()
    if isinstance(y, list | tuple) and y and is_sequence(y[0]):
        shape = (len(y), len(y[0]))
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y should be a 1d array of one label for each sample, got an array of shape {shape}: y.argmax(axis=1) for "
            "one-hot rows, SoftTargets(y, classes=[...]) for rows of probabilities; MultiLabelCRF fits several labels"
        )


def single_nodes(
    inputs: Matrix,
    labels: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    partial: LabelWeights | None = None,
) -> Graphs:
    """Return inputs as graphs of one node each, for clique sets."""
    weights = np.ones(inputs.shape[0]) if weights is None else weights
    return Graphs(inputs, np.arange(inputs.shape[0] + 1), labels, weights, partial)


def partly_labelled(
    inputs: Matrix, y: object, sample_weight: object, classes: Iterable | None
) -> tuple[Graphs, np.ndarray]:
    """Return single nodes whose labels are partly known, and the sorted classes."""
    labels, partial, known = read_labels(y, classes, np.ones(inputs.shape[0]), SAMPLES)
    weights = _check_sample_weight(sample_weight, inputs, dtype=np.float64, ensure_non_negative=True)
    return single_nodes(inputs, labels, weights, partial), known
