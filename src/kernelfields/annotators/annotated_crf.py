"""AnnotatedCRF: a field fitted to the labels of several annotators, whose confusions are estimated with it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kernelfields.annotators.annotations import UNSAID, read_annotations
from kernelfields.annotators.confusions import AnnotatedLabels, Confusions, prior_counts
from kernelfields.annotators.reliability import AnnotatorReliability, AnnotatorTable
from kernelfields.engines.threads import Threads
from kernelfields.estimators.base import ByItem
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.estimators.graph_crf import GraphCRF
from kernelfields.estimators.hints import AdvisedEstimator
from kernelfields.estimators.kernel_classifier import KernelClassifier
from kernelfields.fields.ragged import Ragged, plain_strings
from kernelfields.inference.answers import Answers
from kernelfields.inference.choice import refuse_approximate
from kernelfields.models.partial import resolve_partial_labels
from kernelfields.numerics.parameters import (
    attribute,
    check_count,
    check_declared,
    declares_parameters,
    is_real,
    parameter,
)
from kernelfields.numerics.threads import Workers

# Questions of the field that can be asked here, in its words; attributes of its fit can be, too.
_OF_THE_FIELD = (*("predict_nbest", "sample", "entropy", "filled", "explain", "weights", "summary", "show", "stream"),)
#: The fields that annotators can be fitted with.
Annotated: TypeAlias = ChainCRF | GraphCRF | KernelClassifier


def _check_prior(value: object, name: str) -> None:
    pair = isinstance(value, tuple | list) and len(value) == 2
    if not pair or not all(is_real(count) and 0 < count < np.inf for count in value):  # type: ignore[attr-defined]
        raise ValueError(f"{name} must be two numbers above zero, (right, wrong), got {value!r}")


@declares_parameters
class AnnotatedCRF(AdvisedEstimator):
    """A field and the confusion matrices of annotators, fitted together: no vote has to be taken before.

    Annotator r says z_t^r where the label is y_t, with probability pi^r(y_t, z_t^r). The field models how labels
    depend on inputs and on each other; pi and the field are the maximum a posteriori of all that was said.
    Predictions are those of the field: labels, not what some annotator would say.

    ``y`` is a dict annotator -> labels of all sequences, or a list with, for each sequence, a dict annotator ->
    labels or an array (T, R) with a column per annotator. None stands where an annotator said nothing.

    Parameters
    ----------
    estimator : ChainCRF, GraphCRF, KernelClassifier or None
        The field; None means ``ChainCRF()``. It is fitted by threads of this process.
    prior : (right, wrong), default (4.0, 1.0)
        Pseudo-counts of each row of a confusion matrix, of the label itself and of all others together: as many
        positions for each label as an annotator has been seen right and wrong on before. Both above zero.
    max_steps : int, default 100
        Most steps of field and confusions in turn; ``tol`` of the estimator ends them before.
    updates : int, default 3
        How often confusions are estimated again in a step. Neither this nor the steps can raise the objective.

    Attributes
    ----------
    estimator_ : the fitted field, for ``save``, ``weights()`` and all else
    annotators_ : names of the annotators
    confusions_ : dict, annotator -> (L, L) array p(said | label), rows and columns as in ``classes_``
    objective_path_ : the negative log posterior after each step, which never rises
    classes_ : the labels
    """

    estimator: Annotated | None = parameter(None, first=True)
    prior: tuple[float, float] = parameter((4.0, 1.0), _check_prior)
    max_steps: int = parameter(100, check_count)
    updates: int = parameter(3, check_count)

    estimator_: Annotated = attribute()

    def fit(self, X: object, y: object, sample_weight: ArrayLike | None = None) -> Self:
        """Fit field and confusions to the labels of annotators for X; ``sample_weight`` is that of the estimator."""
        field = self._checked_field()
        usual = resolve_partial_labels(field.partial_labels)
        if usual.ask_of_unlabelled:
            raise ValueError("annotators are fitted without entropies and expectations: leave them out")
        single = is_classifier(field)
        annotations = read_annotations(y, single=single, classes=usual.classes)
        if annotations.n_annotators == 1:
            warnings.warn(
                f"{annotations.annotators[0]!r} is the only annotator: errors of one alone are separated from labels "
                "by the inputs and the prior only",
                stacklevel=2,
            )
        confusions = Confusions(annotations, prior_counts(*self.prior, len(annotations.classes)))
        settings = AnnotatedLabels(confusions, usual, self.max_steps, self.updates)
        given, engine = field.partial_labels, field.engine
        field.partial_labels = settings
        field.engine = engine if isinstance(engine, Threads) else "threads"
        possible = annotations.possible()
        try:
            field.fit(X, possible if single else annotations.split(possible), sample_weight)
        finally:
            field.partial_labels, field.engine = given, engine
        self.estimator_ = field
        self.annotators_ = annotations.annotators
        self.confusions_ = dict(zip(annotations.annotators, confusions.matrices, strict=True))
        self.objective_path_ = np.array(settings.path)
        self._n_labelled = dict(
            zip(annotations.annotators, np.sum(annotations.codes != UNSAID, axis=0).tolist(), strict=True)
        )
        self._label_shares = np.mean(np.vstack(self.consensus_marginals(X, y)), axis=0)
        return self

    def _checked_field(self) -> Annotated:
        """Return a copy of the estimator to be fitted; raise if it, or a parameter, cannot be used."""
        check_declared(self)
        given = ChainCRF() if self.estimator is None else self.estimator
        if not isinstance(given, Annotated):
            raise TypeError(f"estimator must be a ChainCRF, GraphCRF or KernelClassifier, got {given!r}")
        field, engine = clone(given), given.engine
        if not isinstance(engine, Threads) and engine not in ("auto", "threads"):
            raise ValueError(f"annotators are for fields fitted by threads: engine='threads', got engine={engine!r}")
        return field

    @property
    def classes_(self) -> np.ndarray:
        """The labels of the fitted field."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.classes_

    def predict(self, X: object, **settings: Any) -> ByItem:
        """Return the labels that the field predicts; ``settings``, such as ``decode``, go to the estimator."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict(X, **settings)

    @available_if(lambda self: self.estimator is None or not is_classifier(self.estimator))
    def predict_marginals(self, X: object, **settings: Any) -> ByItem:
        """Return p(y_t | x) of each sequence or graph, columns as in ``classes_``."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict_marginals(X, **settings)

    @available_if(lambda self: self.estimator is not None and is_classifier(self.estimator))
    def predict_proba(self, X: object, **settings: Any) -> np.ndarray:
        """Return p(y | x), (n, classes), columns as in ``classes_``."""
        check_is_fitted(self, "estimator_")
        assert isinstance(self.estimator_, KernelClassifier)
        return self.estimator_.predict_proba(X, **settings)

    def score(
        self, X: object, y: object, sample_weight: ArrayLike | None = None, *, decode: str | None = None
    ) -> float:
        """Return the estimator's score against labels y that are known to be right, not those of annotators."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.score(X, y, sample_weight, decode=decode)

    def __getattr__(self, name: str) -> Any:
        # Only what is not found here comes this way.
        of_the_fit = "estimator_" in vars(self) and name.endswith("_") and not name.startswith("_")
        if name in _OF_THE_FIELD or of_the_fit:
            check_is_fitted(self, "estimator_")
            return getattr(self.estimator_, name)
        return super().__getattr__(name)

    def _asked_field(self, X: object, y: object) -> tuple[Annotated, object, object]:
        """Return the field, with X and labels y that are known to be right: what evaluations ask."""
        check_is_fitted(self, "estimator_")
        return self.estimator_, X, y

    def consensus(self, X: object, y: object) -> ByItem:
        """Return the most probable label at each position, given the inputs and what annotators said of them."""
        marginals = self.consensus_marginals(X, y)
        if isinstance(marginals, np.ndarray):
            return self.classes_[marginals.argmax(axis=1)]
        return plain_strings([self.classes_[rows.argmax(axis=1)] for rows in marginals])

    def consensus_marginals(self, X: object, y: object) -> ByItem:
        """Return p(y_t | x, what annotators said): a (T, L) array per sequence, one (n, L) for samples."""
        parts = [rows for _, given in self._beliefs(X, y) for rows in given.data.split(given.marginals)]
        return np.concatenate(parts) if is_classifier(self.estimator_) else Ragged(parts)

    def log_likelihood(self, X: object, y: object, *, per_item: bool = False) -> float | np.ndarray:
        """Return log p(z | x) of what all annotators said, summed over sequences or for each.

        An annotator of the fit may be silent here; one who was not there is an error.
        """
        parts = []
        for free, given in self._beliefs(X, y):
            refuse_approximate(free.family, "a log-likelihood")
            parts.append(given.log_partition - free.log_partition)
        values = np.concatenate(parts)
        return values if per_item else float(values.sum())

    def reliability(self) -> AnnotatorTable:
        """Return who is reliable, the best first, to be printed, shown by a notebook, or plotted."""
        check_is_fitted(self, "estimator_")
        labels = self.classes_.tolist()
        rows = [
            AnnotatorReliability.of(name, self._n_labelled[name], matrix, self._label_shares, labels)
            for name, matrix in self.confusions_.items()
        ]
        return AnnotatorTable(sorted(rows, key=lambda row: -row.accuracy), labels, self.confusions_)

    def _beliefs(self, X: object, y: object) -> Iterator[tuple[Answers, Answers]]:
        """Yield the answers of the field for batches of data, and those given the labels of the annotators."""
        check_is_fitted(self, "estimator_")
        field = self.estimator_
        single = is_classifier(field)
        said = read_annotations(y, single=single, classes=field.classes_, annotators=self.annotators_)
        data = field._read(X)
        if data.n_positions != said.offsets[-1] or (not single and not np.array_equal(data.offsets, said.offsets)):
            raise ValueError("X and y have different lengths: each position of X needs an entry of every annotator")
        matrices = np.stack([self.confusions_[name] for name in self.annotators_])
        confusions = Confusions(said, prior_counts(*self.prior, len(self.classes_)), matrices)
        data = replace(data, evidence=confusions.log_evidence())
        workers = Workers(field.n_jobs)
        for batch in field.field_.batches(data):
            free = field.field_.answers(batch, workers)
            yield free, free.given(batch.evidence)  # type: ignore[arg-type]  # an array
