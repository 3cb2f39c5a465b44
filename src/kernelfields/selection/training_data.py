"""Data of a search: items by their numbers, units of them for smaller parts, and the parts that folds work on.

    SequenceData    X and y lists of sequences;    long ones may be cut into pieces for the lower rungs
    GraphData       X and y lists of graphs,       which stay whole
    LabelTable      X and y tables with a row for each instance, y of 0 and 1
    ClassTable      X a table, y one class for each row

    unit u < S          item u as a whole
    unit u >= S         a piece of a sequence: rows begin .. end - 1, contiguous

A piece begins where the constraints let a sequence begin, after a label with which it may end.

Estimators read their own data (``_training``): all of them once, so that what cannot be used is said at once, and then
the training part of every fold. Every fold knows the labels of all items, those its own part lacks included:
constraints, label kernels and class weights then mean the same everywhere. But how badly a label is predicted that is
not there depends on the prior alone. So held-out items with such a label are left out of the scores, and
``n_dropped`` counts them.

Cost: one packed copy of the chosen items for each part; parts are packed when their turn comes, so that there is one
such copy at a time. Fails: ValueError or TypeError as the estimator's fit does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import _safe_indexing, column_or_1d, indexable

from kernelfields.engines.choice import is_collection
from kernelfields.estimators.base import FieldEstimator
from kernelfields.estimators.settling import Training
from kernelfields.features.indicators import read_partial_indicator
from kernelfields.fields.constraints import resolve_constraints
from kernelfields.fields.evidence import as_evidence, informative, is_partial, known_labels, read_labels
from kernelfields.fields.graphs import Graphs
from kernelfields.fields.label_cliques import LabelledInstances
from kernelfields.fields.reading import SAMPLES

#: Sequences of up to this many positions are not cut any further: a field must see what follows what.
SHORTEST_PIECE = 25


@dataclass(frozen=True, eq=False)
class Share:
    """Units of one fold by their numbers: to train on, to score, and how many cannot be scored."""

    train: np.ndarray
    scored: list[int]
    n_dropped: int


@dataclass(frozen=True, eq=False)
class Part:
    """The training part of a fold as its estimator reads it, and the held-out items that can be scored."""

    training: Training
    test: Any
    X_test: Any
    y_test: Any


class TrainingData(ABC):
    """Labelled items of a search; ``training`` is how the estimator has read all of them.

    ``labels`` of each unit are whole numbers, ``lengths`` are its positions.
    """

    #: What messages call an item, and how results count positions.
    noun: ClassVar[str]
    counted: ClassVar[str]

    labels: list[np.ndarray]
    lengths: np.ndarray
    #: Whether labels are partly known; ``labels`` then are those that are.
    partly = False

    def __init__(self, X: Any, y: Any, sample_weight: Any, training: Training):
        self.X, self.y = X, y
        self.weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.classes = training.classes
        self._learnt = training.reader, training.classes
        self._read_items(training.data)
        self.n_items = len(self.labels)

    @classmethod
    def kept(cls, values: Any) -> Any:
        """Return X or y so that it can be read again."""
        return list(values) if hasattr(values, "__next__") else values

    @abstractmethod
    def _read_items(self, data: Any) -> None:
        """Set labels and lengths from the data as the estimator has read them."""

    @abstractmethod
    def inputs(self, units: Sequence[int] | np.ndarray) -> Any:
        """Return the inputs of some units, in the form in which they were given."""

    @abstractmethod
    def targets(self, units: Sequence[int] | np.ndarray) -> Any:
        """Return the labels of some units, in the form in which they were given."""

    def _held_out(self, training: Training, description: FieldEstimator, X: Any, y: Any) -> Any:
        """Return held-out items as the estimator of a part reads them."""
        return training.reader.read(X, y, None, training.classes)

    def cut(self, length: int, constraints: Any) -> int:
        """Cut long items into pieces of about ``length``; return how many pieces there are, 0 if items stay whole."""
        return 0

    def units(self, items: np.ndarray) -> np.ndarray:
        """Return the units that smaller parts of some items are made of."""
        return items

    def share(self, train: np.ndarray, test: np.ndarray) -> Share:
        """Return which of the chosen units can be scored."""
        known = np.zeros(len(self.classes), dtype=bool)
        known[np.concatenate([self.labels[i] for i in train])] = True
        scored = [int(i) for i in test if known[self.labels[i]].all()]
        return Share(train, scored, len(test) - len(scored))

    def part(self, share: Share, description: FieldEstimator) -> Part:
        """Return the units of a fold, packed; inputs are learnt from the training ones alone."""
        X, y, weights = self.inputs(share.train), self.targets(share.train), self._weights_of(share.train)
        training = description._training(X, y, weights, description._progress(), self._learnt)
        X_test, y_test = self.inputs(share.scored), self.targets(share.scored)
        return Part(training, self._held_out(training, description, X_test, y_test), X_test, y_test)

    def _weights_of(self, units: np.ndarray) -> np.ndarray | None:
        return None if self.weights is None else self.weights[units]


class _ListedData(TrainingData):
    """Items of lists."""

    def __init__(self, X: Any, y: Any, sample_weight: Any, training: Training):
        super().__init__(list(X), list(y), sample_weight, training)

    @classmethod
    def kept(cls, values: Any) -> Any:
        """Return X or y so that it can be read again; what lies on a cluster is refused."""
        if is_collection(values):
            raise TypeError(
                f"a search deals {cls.noun}s out to folds in this process: collect them in a list first, X.compute()"
            )
        return super().kept(values)

    def _read_items(self, data: Any) -> None:
        self.labels = data.split(data.labels)
        self.lengths = np.diff(data.offsets)
        if data.evidence is not None:
            self.partly = True
            decided = data.split(
                (as_evidence(data.labels, data.evidence, len(self.classes)) > -np.inf).sum(axis=1) == 1
            )
            self.labels = [labels[own] for labels, own in zip(self.labels, decided, strict=True)]

    def inputs(self, units: Sequence[int] | np.ndarray) -> list:
        """Return some items of X."""
        return [self.X[unit] for unit in units]

    def targets(self, units: Sequence[int] | np.ndarray) -> list:
        """Return some items of y."""
        return [self.y[unit] for unit in units]


class GraphData(_ListedData):
    """Graphs, which stay whole: without their edges, nodes would be others."""

    noun = "graph"
    counted = "nodes"


class SequenceData(_ListedData):
    """Sequences, and pieces of them once they are cut."""

    noun = "sequence"
    counted = "positions"

    #: Sequence, begin and end of each piece, (P, 3), and the units of each sequence.
    _pieces = np.empty((0, 3), dtype=np.int64)
    _units: list[np.ndarray] | None = None

    def cut(self, length: int, constraints: Any) -> int:
        """Cut sequences of two such lengths and more into pieces of about ``length``, where constraints allow it."""
        if self.partly:  # where constraints allow it cannot be told
            return 0
        masks = resolve_constraints(constraints, self.classes)
        pieces: list[tuple[int, int, int]] = []
        self._units = []
        for item, labels in enumerate(self.labels):
            opens = (masks.start[labels[1:]] == 0) & (masks.end[labels[:-1]] == 0)
            bounds = [0, *_cuts(np.flatnonzero(opens) + 1, length, len(labels)), len(labels)]
            if len(bounds) == 2:
                self._units.append(np.array([item]))
                continue
            first = self.n_items + len(pieces)
            pieces += [(item, begin, end) for begin, end in pairwise(bounds)]
            self._units.append(np.arange(first, self.n_items + len(pieces)))
        self._pieces = np.array(pieces, dtype=np.int64).reshape(-1, 3)
        self.labels = [*self.labels, *(self.labels[item][begin:end] for item, begin, end in pieces)]
        self.lengths = np.concatenate([self.lengths, self._pieces[:, 2] - self._pieces[:, 1]])
        return len(pieces)

    def units(self, items: np.ndarray) -> np.ndarray:
        """Return the pieces of some sequences, those that are not cut as wholes."""
        return items if self._units is None else np.concatenate([self._units[item] for item in items])

    def inputs(self, units: Sequence[int] | np.ndarray) -> list:
        """Return whole sequences, and rows of them for pieces."""
        return [self.X[unit] if unit < self.n_items else self._piece(unit) for unit in units]

    def targets(self, units: Sequence[int] | np.ndarray) -> list:
        """Return labels of whole sequences as they were given, and those of pieces as arrays."""
        return [self.y[unit] if unit < self.n_items else self.classes[self.labels[unit]] for unit in units]

    def _piece(self, unit: int) -> Any:
        item, begin, end = self._pieces[unit - self.n_items].tolist()
        return _safe_indexing(self.X[item], slice(begin, end))

    def _weights_of(self, units: np.ndarray) -> np.ndarray | None:
        if self.weights is None:
            return None
        items = [unit if unit < self.n_items else self._pieces[unit - self.n_items, 0] for unit in units]
        return self.weights[items]


def _cuts(opens: np.ndarray, length: int, total: int) -> list[int]:
    """Return where to cut a sequence: the first openings ``length`` after each other and before the end."""
    cuts, last = [], 0
    while total - last >= 2 * length:
        place = int(np.searchsorted(opens, last + length))
        if place == len(opens) or total - opens[place] < length // 2:
            break
        last = int(opens[place])
        cuts.append(last)
    return cuts


def piece_length(n_positions: int, n_sequences: int, wanted: int, shortest: int = SHORTEST_PIECE) -> int | None:
    """Return how long pieces must be so that there are ``wanted``; None where there are as many sequences."""
    # The last piece of a sequence may be twice as long, and the others a little longer where constraints are.
    return None if n_sequences >= wanted else max(shortest, n_positions // (wanted + 2 * n_sequences))


class _TableData(TrainingData):
    """Rows of tables, dense, sparse or data frames."""

    @classmethod
    def kept(cls, values: Any) -> Any:
        """Return X or y so that its rows can be chosen by their numbers."""
        return indexable(super().kept(values))[0]

    def inputs(self, units: Sequence[int] | np.ndarray) -> Any:
        """Return some rows of X."""
        return _safe_indexing(self.X, np.asarray(units, dtype=np.int64))

    def targets(self, units: Sequence[int] | np.ndarray) -> Any:
        """Return some rows of y."""
        return _safe_indexing(self.y, np.asarray(units, dtype=np.int64))


class LabelTable(_TableData):
    """Instances with several yes-or-no labels; what counts as a label of an instance is that it has it."""

    noun = "instance"
    counted = "instances"

    def _read_items(self, data: LabelledInstances) -> None:
        table = data.labels.reshape(data.n_instances, -1)
        if data.evidence is not None:
            self.partly = True
            table = table * informative(data.evidence).reshape(table.shape)
        # One more label for those that have none, so that they are spread over the folds as well.
        present = np.column_stack([table, ~table.any(axis=1)])
        self.labels = [np.flatnonzero(row) for row in present]
        self.lengths = np.ones(len(table), dtype=np.int64)

    def share(self, train: np.ndarray, test: np.ndarray) -> Share:
        """Return all of them: 0 and 1 are known of every label."""
        return Share(train, [int(i) for i in test], 0)

    def _held_out(self, training: Training, description: FieldEstimator, X: Any, y: Any) -> LabelledInstances:
        inputs, _ = training.reader.read(description, X)
        labels, evidence, _ = read_partial_indicator(y, inputs.shape[0], training.classes.tolist())
        return LabelledInstances.build(inputs, labels.shape[1], {}, labels, None, evidence)


class ClassTable(_TableData):
    """Samples of which each has one class."""

    noun = "sample"
    counted = "samples"

    def _read_items(self, data: Graphs) -> None:
        # Not those of the data, which leave out samples of weight zero.
        if is_partial(self.y):
            self.partly = True
            codes, known = known_labels([self.y], self.classes, np.array([len(self.y)]), SAMPLES)
            self.labels = [codes[row : row + 1] if known[row] else codes[:0] for row in range(len(codes))]
        else:
            codes = np.searchsorted(self.classes, column_or_1d(self.y))
            self.labels = list(codes[:, None])
        self.lengths = np.ones(len(codes), dtype=np.int64)

    def _held_out(self, training: Training, description: FieldEstimator, X: Any, y: Any) -> Graphs:
        if is_partial(y):
            inputs, _ = training.reader.read(description, X)
            labels, evidence, _ = read_labels([y], training.classes, np.array([inputs.shape[0]]), SAMPLES)
            return Graphs(inputs, np.arange(len(labels) + 1), (), labels, evidence=evidence)
        inputs, targets = training.reader.read(description, X, y)
        labels = np.searchsorted(training.classes, targets)
        return Graphs(inputs, np.arange(len(labels) + 1), (), labels)
