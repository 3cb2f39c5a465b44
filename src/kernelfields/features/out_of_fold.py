"""Any classifier inside a field, without leakage: its predictions for inputs that it was not fitted to.

    fit_transform    for every fold:  classifier fitted to the other folds  ->  log p(y | x) of this fold
                     and one classifier fitted to all                       ->  kept for new inputs
    transform        new inputs       ->  log p(y | x) of the classifier fitted to all

Folds hold whole sequences or graphs, never parts of one; rows of a table, and the nodes where there is one graph only,
are folded one by one. A field on probabilities of inputs that the classifier has learned would trust them too far: they
are near zero and one. Positions whose label is not known are left out of the classifier's training and get predictions
all the same. Probabilities are clipped before the logarithm, as zero is a count of few trees rather than a certainty.

As for scikit-learn's TargetEncoder, ``fit_transform(X, y)`` is not ``fit(X, y).transform(X)``; a Pipeline calls the
first.
Cost: one fit of the classifier for each fold and one more.
Fails: ValueError or TypeError naming the parameter, or the fold; nothing is kept of a fit that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.utils.validation import check_array, check_is_fitted

from kernelfields.data.dicts import FeatureDictEncoder
from kernelfields.data.graph_reading import GRAPHS, holds_graphs, read_graphs
from kernelfields.data.readers import is_feature_sequences
from kernelfields.data.reading import SAMPLES, SEQUENCES, ItemNames, Matrix, is_empty, pack_inputs
from kernelfields.features.folds import assign_folds, check_training_labels, known_labels, labels_by_position
from kernelfields.features.stored_classifiers import StoredClassifier, store_classifier
from kernelfields.features.text import TRANSFORMERS
from kernelfields.numerics.windows import check_window, window_view

_METHODS = ("predict_proba", "decision_function", "predict")


@dataclass(frozen=True, eq=False)
class _Inputs:
    """Rows (N, d) of sequences, graphs or a table, and how rows of predictions come back in the same form."""

    rows: Matrix
    offsets: np.ndarray
    nouns: ItemNames
    form: Callable[[Matrix], Any]

    @property
    def is_table(self) -> bool:
        """Whether each row is an input of its own."""
        return self.nouns is SAMPLES

    @property
    def units(self) -> np.ndarray:
        """What is never cut by folds: the number of the sequence or graph of each row, or of the row, (N,)."""
        alone = self.is_table or (self.nouns is GRAPHS and len(self.offsets) == 2)
        lengths = np.ones(self.offsets[-1], dtype=np.int64) if alone else np.diff(self.offsets)
        return np.repeat(np.arange(len(lengths)), lengths)

    def labels(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return a label for each row, (N,) or (N, m), and a mask of the rows whose label is known."""
        n_rows = self.rows.shape[0]
        if self.is_table and getattr(y, "ndim", 1) == 2:
            table: np.ndarray = np.asarray(y, dtype=np.float64)
            if len(table) != n_rows:
                raise ValueError(f"X has {n_rows} rows, y {len(table)}")
            return table, np.all(np.isfinite(table), axis=1)
        lengths = np.diff(self.offsets)
        return known_labels(labels_by_position(y, lengths) if self.nouns is SEQUENCES else y, lengths, self.nouns)


@TRANSFORMERS.register("out of fold")
class OutOfFold(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Turn a classifier or regressor on positions into a transformer for fields.

    Inputs are sequences of arrays or of feature dicts, graphs, of which the features of nodes are replaced, or a table
    with an input in each row. Attributes after fit: ``estimator_``, fitted to all positions with a known label,
    ``classes_`` of a classifier, ``n_features_in_``, and after ``fit_transform`` ``folds_``, the number of the fold of
    each sequence, graph or row.

    Parameters
    ----------
    estimator : classifier or regressor of scikit-learn, or with its methods
    cv : int or splitter, default 5
        Folds over sequences or graphs; over rows of a table, stratified by label.
    method : {"auto", "predict_proba", "decision_function", "predict"}, default "auto"
        "auto" takes the first of these that the estimator has. Probabilities come as logarithms.
    window : odd int or (before, after), default 1
        Neighbours of a position in its sequence that the estimator sees beside it.
    groups : function of a sequence, a graph or a row, or None
        Those with an equal result share a fold, for example recordings of one speaker. ``fit_transform`` takes
        ``groups``, an entry for each sequence, as well.
    clip : float, default 1e-3
        Least probability before the logarithm.
    passthrough : bool, default False
        Whether inputs are kept beside the predictions.
    random_state : int or None, default 0
        Folds of a number ``cv`` are drawn by it.
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        cv: Any = 5,
        method: str = "auto",
        window: Any = 1,
        groups: Callable[[Any], Any] | None = None,
        clip: float = 1e-3,
        passthrough: bool = False,
        random_state: int | None = 0,
    ):
        self.estimator = estimator
        self.cv = cv
        self.method = method
        self.window = window
        self.groups = groups
        self.clip = clip
        self.passthrough = passthrough
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the estimator to all positions; ``fit_transform`` gives predictions out of fold as well."""
        self._check_fittable()
        encoder = _encoder_of(X)
        inputs = self._read(X, encoder)
        labels, known = inputs.labels(y)
        return self._keep(inputs, encoder, self._fitted(self._seen(inputs), labels, known, "the fit to all"))

    def fit_transform(self, X: Any, y: Any, groups: Sequence | None = None) -> Any:
        """Return predictions out of fold in the form of X, and fit the estimator to all positions."""
        self._check_fittable()
        encoder = _encoder_of(X)
        inputs = self._read(X, encoder)
        labels, known = inputs.labels(y)
        folds, rows = self._folds(X, inputs, labels, groups), self._seen(inputs)
        fold_of_row, n_folds = folds[inputs.units], int(folds.max()) + 1
        classes = np.unique(labels[known]) if is_classifier(self.estimator) and labels.ndim == 1 else None
        parts = {}
        for fold in range(n_folds):
            here, what = fold_of_row == fold, f"fold {fold + 1} of {n_folds}"
            model = self._fitted(rows, labels, known & ~here, what)
            with _named(what, self.estimator):
                parts[fold] = self._predictions(model, rows[here], classes)
        whole = self._fitted(rows, labels, known, "the fit to all")
        predictions = np.empty((len(fold_of_row), parts[0].shape[1]))
        for fold, own in parts.items():
            predictions[fold_of_row == fold] = own
        self._keep(inputs, encoder, whole)
        self.folds_ = folds
        return self._formed(inputs, predictions)

    def transform(self, X: Any) -> Any:
        """Return predictions of the estimator that was fitted to all positions, in the form of X."""
        check_is_fitted(self, "estimator_")
        if is_empty(X):
            return []
        inputs = self._read(X, self._encoder, self.n_features_in_)
        return self._formed(inputs, self._predictions(self.estimator_, self._seen(inputs)))

    def describe(self) -> dict[str, object]:
        """Return the estimator as arrays, and how inputs come to it; TypeError for an estimator that is no data."""
        check_is_fitted(self, "estimator_")
        names = None if self._encoder is None else self._encoder.spec()
        settings = {name: getattr(self, name) for name in ("method", "clip", "passthrough")}
        window, width = list(check_window(self.window)), self.n_features_in_
        model = store_classifier(self.estimator_)
        return {**settings, "window": window, "n_features": width, "names": names, "estimator": model}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any]) -> Self:
        """Return the transformer that was described; it transforms, and cannot be fitted again."""
        model = StoredClassifier(described["estimator"])
        settings = {name: described[name] for name in ("method", "clip", "passthrough")}
        made = cls(model, window=tuple(described["window"]), **settings)
        made._check_parameters()
        names = described["names"]
        made._encoder = None if names is None else FeatureDictEncoder.from_spec(names)
        made.estimator_, made.classes_ = model, model.classes_
        made.n_features_in_ = int(described["n_features"])
        return made

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each prediction, such as "log p(rain)"."""
        check_is_fitted(self, "estimator_")
        if self.passthrough:
            raise ValueError("names are those of predictions alone: use passthrough=False")
        if self._method(self.estimator_) == "predict_proba":
            return np.array([f"log p({label})" for label in self.classes_], dtype=object)
        return np.array([f"prediction of {label}" for label in getattr(self, "classes_", ["y"])], dtype=object)

    def _check_fittable(self) -> None:
        self._check_parameters()
        if isinstance(self.estimator, StoredClassifier):
            raise TypeError("this transformer was read from a file of data and cannot be fitted again")

    def _check_parameters(self) -> None:
        if self.method not in ("auto", *_METHODS):
            raise ValueError(f"method must be 'auto', {', '.join(map(repr, _METHODS))}, got {self.method!r}")
        if not any(hasattr(self.estimator, name) for name in _METHODS):
            raise TypeError(
                f"estimator must have predict_proba, decision_function or predict, got {self.estimator!r:.60}"
            )
        if not 0.0 < self.clip < 1.0:
            raise ValueError(f"clip must be a probability between 0 and 1, got {self.clip!r}")
        self._method(self.estimator)
        check_window(self.window)

    def _read(self, X: Any, encoder: FeatureDictEncoder | None, width: int | None = None) -> _Inputs:
        """Return inputs as rows, with their neighbours; ValueError where their width is not that of the fit."""
        inputs = _rows_of(X, encoder)
        if inputs.nouns is not SEQUENCES and check_window(self.window) != (0, 0):
            raise ValueError(
                f"window={self.window!r} is for sequences: {inputs.nouns.part}s have no order; use window=1"
            )
        if width is not None and inputs.rows.shape[1] != width:
            raise ValueError(f"X has {inputs.rows.shape[1]} features, but the estimator was fitted with {width}")
        return inputs

    def _seen(self, inputs: _Inputs) -> Matrix:
        """Return the rows as the estimator sees them: each with its neighbours."""
        return window_view(inputs.rows, inputs.offsets, self.window)

    def _folds(self, X: Any, inputs: _Inputs, labels: np.ndarray, groups: Sequence | None) -> np.ndarray:
        """Return the number of the fold of each sequence, graph or row."""
        n_units = int(inputs.units[-1]) + 1
        if groups is None and self.groups is not None:
            groups = [self.groups(x) for x in (np.asarray(X) if inputs.is_table else X)]
        strata = labels if inputs.is_table and labels.ndim == 1 else None
        return assign_folds(n_units, self.cv, groups, nouns=inputs.nouns, strata=strata, random_state=self.random_state)

    def _fitted(self, rows: Matrix, labels: np.ndarray, known: np.ndarray, what: str) -> Any:
        """Return a copy of the estimator, fitted to the rows with a known label."""
        check_training_labels(labels, known, what, classifies=is_classifier(self.estimator))
        with _named(what, self.estimator):
            return clone(self.estimator).fit(rows[known], labels[known])

    def _method(self, model: BaseEstimator) -> str:
        names = _METHODS if self.method == "auto" else [self.method]
        for name in names:
            if hasattr(model, name):
                return name
        raise TypeError(f"method={self.method!r}: {type(model).__name__} has no {' or '.join(names)}")

    def _predictions(self, model: BaseEstimator, rows: Matrix, classes: Any = None) -> np.ndarray:
        """Return predictions (n, m): a column for each of ``classes``, which the model may have seen in part."""
        method = self._method(model)
        made = getattr(model, method)(rows)
        if isinstance(made, list):  # a table of probabilities for each of several labels
            made = np.hstack([own[:, 1:] for own in made])
        made = np.asarray(made, dtype=np.float64)
        made = made[:, None] if made.ndim == 1 else made
        own = getattr(model, "classes_", classes)
        if classes is not None and method != "predict" and not np.array_equal(own, classes):
            if made.shape[1] == 1:
                made = np.hstack([-made, made])
            wide = np.zeros((len(made), len(classes))) if method == "predict_proba" else made.min(axis=1, keepdims=True)
            wide = np.array(np.broadcast_to(wide, (len(made), len(classes))))
            wide[:, np.searchsorted(classes, own)] = made
            made = wide[:, 1:] if method == "decision_function" and len(classes) == 2 else wide
        return np.log(np.maximum(made, self.clip)) if method == "predict_proba" else made

    def _keep(self, inputs: _Inputs, encoder: FeatureDictEncoder | None, model: BaseEstimator) -> Self:
        self.estimator_, self._encoder, self.n_features_in_ = model, encoder, inputs.rows.shape[1]
        self.__dict__.pop("classes_", None)
        if hasattr(model, "classes_"):
            self.classes_ = model.classes_
        return self

    def _formed(self, inputs: _Inputs, predictions: np.ndarray) -> Any:
        if not self.passthrough:
            return inputs.form(predictions)
        joined = sp.hstack if sp.issparse(inputs.rows) else np.hstack
        made = joined([inputs.rows, predictions])
        return inputs.form(sp.csr_array(made) if sp.issparse(made) else made)


@contextmanager
def _named(what: str, estimator: object) -> Iterator[None]:
    """Name the fold and the estimator in whatever error it raises."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{what}: {type(estimator).__name__} failed: {error}") from error


def _encoder_of(X: Any) -> FeatureDictEncoder | None:
    """Return an encoder of the feature dicts or strings of X; None where X holds numbers."""
    return FeatureDictEncoder().fit(X) if is_feature_sequences(X) else None


def _rows_of(X: Any, encoder: FeatureDictEncoder | None) -> _Inputs:
    """Return sequences, graphs or a table as rows."""
    if encoder is not None:
        rows, offsets = encoder.transform(X)
        return _Inputs(rows, offsets, SEQUENCES, lambda made: _cut(made, offsets))
    if sp.issparse(X) or len(getattr(X, "shape", ())) == 2:
        rows = check_array(X, accept_sparse="csr", ensure_all_finite=False)
        return _Inputs(rows, np.arange(rows.shape[0] + 1), SAMPLES, lambda made: made)
    if holds_graphs(X):
        rows, offsets, *_ = read_graphs(X)
        return _Inputs(rows, offsets, GRAPHS, lambda made: [*map(_with_nodes, X, _cut(made, offsets))])
    rows, offsets = pack_inputs(X, finite=False)
    return _Inputs(rows, offsets, SEQUENCES, lambda made: _cut(made, offsets))


def _cut(rows: Matrix, offsets: np.ndarray) -> list:
    return [rows[first:last] for first, last in pairwise(offsets.tolist())]


def _with_nodes(graph: Any, rows: np.ndarray) -> Any:
    """Return a graph with other features of its nodes."""
    return {**graph, "x": rows} if isinstance(graph, Mapping) else (rows, *graph[1:])
