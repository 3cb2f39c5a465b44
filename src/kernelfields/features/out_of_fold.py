"""Predictions of any classifier as inputs of a field, without leakage: each by a classifier fitted to other inputs.

    fit_transform    for every fold:  classifier fitted to the other folds  ->  log p(y | x) of this fold
                     and one classifier fitted to all                       ->  used for new inputs
    transform        new inputs       ->  log p(y | x) of the classifier fitted to all

Folds contain whole sequences or graphs; rows of a table, and the nodes of a single graph, are assigned separately. A
field fitted to probabilities of the classifier's training inputs, which are near zero and one, would rely on them too
much. Positions with an unknown label are left out of the classifier's training, but get predictions. Probabilities are
clipped before the logarithm, because a zero may come from a few trees.

As for scikit-learn's TargetEncoder, ``fit_transform(X, y)`` is not ``fit(X, y).transform(X)``; a Pipeline calls the
first.
Cost: one fit of the classifier for each fold, and one to all data.
Raises ValueError or TypeError with the parameter or the fold; a failed fit leaves the transformer unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted

from kernelfields.data.graph_reading import GRAPHS, is_list_of_graphs, read_graphs
from kernelfields.data.readers import RowReader
from kernelfields.data.reading import SAMPLES, SEQUENCES, ItemNames, Matrix, is_empty, is_feature_sequences
from kernelfields.features.folds import assign_folds, check_training_labels, known_labels, repeat_labels
from kernelfields.features.stored_classifiers import StoredClassifier, store_classifier
from kernelfields.features.text import TRANSFORMERS
from kernelfields.features.text_reader import TextReader, choose_reader
from kernelfields.numerics.containers import n_dimensions


@dataclass(frozen=True, eq=False)
class _Inputs:
    """Rows (N, d) of sequences, graphs or a table, and a function that restores their structure."""

    rows: Matrix
    offsets: np.ndarray
    nouns: ItemNames
    form: Callable[[Matrix], Any]

    @property
    def n_columns(self) -> int:
        """Number of columns; one for strings."""
        return self.rows.shape[1] if self.rows.ndim == 2 else 1

    @property
    def is_table(self) -> bool:
        """Whether each row is a separate input."""
        return self.nouns is SAMPLES

    @property
    def units(self) -> np.ndarray:
        """The unit of each row, (N,): its sequence, its graph or itself; folds never split a unit."""
        alone = self.is_table or (self.nouns is GRAPHS and len(self.offsets) == 2)
        lengths = np.ones(self.offsets[-1], dtype=np.int64) if alone else np.diff(self.offsets)
        return np.repeat(np.arange(len(lengths)), lengths)

    def labels(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the label of each row, (N,) or (N, m), and a mask of the rows with a known label."""
        n_rows = self.rows.shape[0]
        if self.is_table and n_dimensions(y) == 2:
            table: np.ndarray = np.asarray(y, dtype=np.float64)
            if len(table) != n_rows:
                raise ValueError(f"X has {n_rows} rows, y {len(table)}")
            return table, np.all(np.isfinite(table), axis=1)
        lengths = np.diff(self.offsets)
        return known_labels(repeat_labels(y, lengths) if self.nouns is SEQUENCES else y, lengths, self.nouns)


@TRANSFORMERS.register("out of fold")
class OutOfFold(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Convert a classifier of positions to inputs of a field: its log-probabilities, predicted out of fold.

    Inputs are sequences of arrays, of feature dicts or, for pipelines that begin with a vectorizer, of texts; graphs,
    of which the features of nodes are replaced, or a table with an input in each row. Attributes after fit:
    ``estimator_``, fitted to all positions with a known label, its ``classes_``, ``n_features_in_``, and after
    ``fit_transform`` ``folds_``, the number of the fold of each sequence, graph or row.

    Parameters
    ----------
    estimator : classifier
        A classifier of scikit-learn, or with its methods, that has predict_proba.
    cv : int or splitter, default 5
        Folds over sequences or graphs; over rows of a table, stratified by label.
    groups : callable, optional
        A function of a sequence, a graph or a row: those with an equal result share a fold, for example recordings of
        one speaker.
    clip : float, default 1e-3
        The least probability before the logarithm.
    random_state : int or None, default 0
        The seed of folds of a number ``cv``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from kernelfields import ChainCRF, OutOfFold
    >>> random = np.random.default_rng(0)
    >>> y = [np.repeat(random.integers(2, size=4), 5) for _ in range(10)]
    >>> X = [labels[:, None] + random.normal(size=(20, 2)) for labels in y]
    >>> forest = RandomForestClassifier(n_estimators=20, random_state=0)
    >>> field = make_pipeline(OutOfFold(forest), ChainCRF("linear", prior_variance=1.0, random_state=0)).fit(X, y)
    >>> len(field.predict(X[:2])[0])
    20
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        cv: Any = 5,
        groups: Callable[[Any], Any] | None = None,
        clip: float = 1e-3,
        random_state: int | None = 0,
    ):
        self.estimator = estimator
        self.cv = cv
        self.groups = groups
        self.clip = clip
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the estimator to all positions.

        ``fit_transform`` gives predictions out of fold as well.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        y : list of sequences
            The labels.

        Returns
        -------
        self
            The fitted transformer.
        """
        self._check_fittable()
        reader = choose_reader(X)
        inputs = _to_rows(X, reader, reader.learn_inputs)
        labels, known = inputs.labels(y)
        whole = self._fit_labelled(inputs.rows, labels, known, "the fit to all")
        return self._set_fitted(inputs, reader, whole, _distinct_values(labels[known]))

    def fit_transform(self, X: Any, y: Any) -> Any:
        """Return predictions out of fold in the form of X, and fit the estimator to all positions.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        y : list of sequences
            The labels.

        Returns
        -------
        list
            The log-probabilities.
        """
        self._check_fittable()
        reader = choose_reader(X)
        inputs = _to_rows(X, reader, reader.learn_inputs)
        rows, (labels, known) = inputs.rows, inputs.labels(y)
        folds = self._folds(X, inputs, labels)
        fold_of_row, n_folds = folds[inputs.units], int(folds.max()) + 1
        classes = _distinct_values(labels[known])
        parts = {}
        for fold in range(n_folds):
            here, what = fold_of_row == fold, f"fold {fold + 1} of {n_folds}"
            model = self._fit_labelled(rows, labels, known & ~here, what)
            with _add_context(what, self.estimator):
                parts[fold] = self._predictions(model, rows[here], classes)
        whole = self._fit_labelled(rows, labels, known, "the fit to all")
        predictions = np.empty((len(fold_of_row), parts[0].shape[1]))
        for fold, own in parts.items():
            predictions[fold_of_row == fold] = own
        self._set_fitted(inputs, reader, whole, classes)
        self.folds_ = folds
        return inputs.form(predictions)

    def transform(self, X: Any) -> Any:
        """Return predictions of the estimator fitted to all positions, in the form of X.

        Parameters
        ----------
        X : list of sequences
            The sequences.

        Returns
        -------
        list
            The log-probabilities.
        """
        check_is_fitted(self, "estimator_")
        if is_empty(X):
            return []
        inputs, width = _to_rows(X, self._reader, self._reader.read_inputs), self.n_features_in_
        if inputs.n_columns != width:
            raise ValueError(f"X has {inputs.n_columns} features, but the estimator was fitted with {width}")
        return inputs.form(self._predictions(self.estimator_, inputs.rows, self.classes_))

    def describe(self) -> dict[str, object]:
        """Return the fitted transformer as plain values and arrays, for a model file.

        Returns
        -------
        dict
            The description.

        Raises
        ------
        TypeError
            If a part of it is no data.
        """
        check_is_fitted(self, "estimator_")
        encoder = self._reader.encoder
        names = None if encoder is None else encoder.spec()
        model = store_classifier(self.estimator_)
        return {"clip": self.clip, "n_features": self.n_features_in_, "names": names, "estimator": model}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any]) -> Self:
        """Rebuild the transformer from its description; it can transform, but not be fitted again.

        Parameters
        ----------
        described : dict
            What ``describe`` returned.

        Returns
        -------
        OutOfFold
            The transformer.
        """
        model = StoredClassifier(described["estimator"])
        made = cls(model, clip=described["clip"])
        made._check_parameters()
        made.estimator_, made.classes_ = model, model.classes_
        made.n_features_in_ = int(described["n_features"])
        made._reader = TextReader() if model.is_text_transformer else made._make_reader(described["names"])
        return made

    def _make_reader(self, names: Any) -> RowReader:
        return RowReader.from_names(names, self.n_features_in_, finite=False, warns=False)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each prediction, such as "log p(rain)"; with several labels "log p(label 3)".

        Parameters
        ----------
        input_features : list of str, optional
            The names of the columns of inputs; those of the fit by default.

        Returns
        -------
        array of str
            The names.
        """
        check_is_fitted(self, "estimator_")
        if not _is_multilabel(self.classes_):
            return np.array([f"log p({label})" for label in self.classes_], dtype=object)
        names = [
            f"log p(label {number})" if len(values) == 2 else f"log p(label {number} is {value:g})"
            for number, values in enumerate(self.classes_)
            for value in values[1:]
        ]
        return np.array(names, dtype=object)

    def _check_fittable(self) -> None:
        self._check_parameters()
        if isinstance(self.estimator, StoredClassifier):
            raise TypeError("this transformer was read from a file of data and cannot be fitted again")

    def _check_parameters(self) -> None:
        if not hasattr(self.estimator, "predict_proba"):
            raise TypeError(
                f"estimator must be a classifier with predict_proba, got {self.estimator!r:.60}: "
                "sklearn.calibration.CalibratedClassifierCV gives one to others"
            )
        if not 0.0 < self.clip < 1.0:
            raise ValueError(f"clip must be a probability between 0 and 1, got {self.clip!r}")

    def _folds(self, X: Any, inputs: _Inputs, labels: np.ndarray) -> np.ndarray:
        """Return the fold number of each sequence, graph or row."""
        n_units = int(inputs.units[-1]) + 1
        groups = None if self.groups is None else [self.groups(x) for x in (_rows(X) if inputs.is_table else X)]
        strata = labels if inputs.is_table and labels.ndim == 1 else None
        return assign_folds(n_units, self.cv, groups, nouns=inputs.nouns, strata=strata, random_state=self.random_state)

    def _fit_labelled(self, rows: Matrix, labels: np.ndarray, known: np.ndarray, what: str) -> Any:
        """Return a copy of the estimator, fitted to the rows with a known label."""
        check_training_labels(labels, known, what)
        with _add_context(what, self.estimator):
            return clone(self.estimator).fit(rows[known], labels[known])

    def _predictions(self, model: Any, rows: Matrix, classes: Any) -> np.ndarray:
        """Return log-probabilities (n, m) with a column for each of ``classes``, also those unknown to the model.

        Of several labels there is one for each value but the first, of 0 and 1 that of 1.
        """
        made = model.predict_proba(rows)
        if isinstance(made, list):  # a table for each of several labels
            parts = zip(made, model.classes_, classes, strict=True)
            made = np.hstack([_align_columns(own, seen, values)[:, 1:] for own, seen, values in parts])
        elif not _is_multilabel(classes):
            made = _align_columns(made, model.classes_, classes)
        return np.log(np.maximum(made, self.clip))

    def _set_fitted(self, inputs: _Inputs, reader: RowReader, model: Any, classes: Any) -> Self:
        """Set the fitted attributes."""
        self.estimator_, self._reader, self.n_features_in_ = model, reader, inputs.n_columns
        self.classes_ = classes
        return self


def _distinct_values(labels: np.ndarray) -> Any:
    """Return the sorted classes of labels (n,), or 0 and 1 for each of several labels (n, m)."""
    if labels.ndim == 1:
        return np.unique(labels)
    values = [np.unique(column) for column in labels.T]
    return [np.array([0.0, 1.0]) if set(own.tolist()) <= {0.0, 1.0} else own for own in values]


def _is_multilabel(classes: Any) -> bool:
    """Whether classes are given for each of several labels."""
    return len(classes) > 0 and np.ndim(classes[0]) == 1


def _align_columns(made: np.ndarray, seen: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return probabilities with a column for each class; zero for classes unknown to the model."""
    if np.array_equal(seen, classes):
        return made
    wide = np.zeros((len(made), len(classes)))
    wide[:, np.searchsorted(classes, seen)] = made
    return wide


def _rows(X: Any) -> Iterator[np.ndarray]:
    """Yield the rows of a dense or sparse table as arrays."""
    if not issparse(X):
        yield from np.asarray(X)
        return
    for row in X.tocsr():
        yield row.toarray().ravel()


@contextmanager
def _add_context(what: str, estimator: object) -> Iterator[None]:
    """Return a context that adds the fold and the estimator to the message of an error."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{what}: {type(estimator).__name__} failed: {error}") from error


def _to_rows(X: Any, reader: RowReader, read: Callable[[Any], tuple[Matrix, np.ndarray]]) -> _Inputs:
    """Convert sequences, graphs or a table to rows; ``read`` is the reader's function for sequences."""
    numbers = reader.encoder is None and not is_feature_sequences(X)
    if numbers and n_dimensions(X) == 2:
        rows = check_array(X, accept_sparse="csr", ensure_all_finite=False)
        return _Inputs(rows, np.arange(rows.shape[0] + 1), SAMPLES, lambda made: made)
    if numbers and is_list_of_graphs(X):
        rows, offsets, *_ = read_graphs(X)
        return _Inputs(rows, offsets, GRAPHS, lambda made: [*map(_replace_nodes, X, _cut(made, offsets))])
    rows, offsets = read(X)
    return _Inputs(rows, offsets, SEQUENCES, lambda made: _cut(made, offsets))


def _cut(rows: Matrix, offsets: np.ndarray) -> list:
    return [rows[first:last] for first, last in pairwise(offsets.tolist())]


def _replace_nodes(graph: Any, rows: np.ndarray) -> Any:
    """Return a graph with new features of its nodes."""
    if isinstance(graph, Mapping):
        return {**graph, "x": rows}
    if isinstance(graph, tuple):
        return (rows, *graph[1:])
    copy = graph.copy()
    for node, row in zip(copy.nodes(), rows, strict=True):
        copy.nodes[node].pop("features", None)
        copy.nodes[node]["x"] = row
    return copy
