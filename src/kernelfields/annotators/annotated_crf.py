"""AnnotatedCRF: a field fitted to the labels of several annotators together with their confusion matrices."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kernelfields.annotators.annotations import UNSAID, Annotations, PresumedLabels, are_annotations, read_annotations
from kernelfields.annotators.completion import CrossFitting
from kernelfields.annotators.confusions import Confusions, prior_counts
from kernelfields.annotators.reliability import AnnotatorReliability, AnnotatorTable
from kernelfields.data.given_labels import resolve_partial_labels
from kernelfields.data.reading import SAMPLES, SEQUENCES, check_sample_weight, has_words, is_feature_sequences
from kernelfields.engines.choice import refuse_collections
from kernelfields.estimators.answering.decisions import resolve_decision
from kernelfields.estimators.answering.formats import ByItem, get_answer_format
from kernelfields.estimators.answering.lengths import cut_by_lengths
from kernelfields.estimators.base import fit_in_steps
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.estimators.going_on import note_parameters
from kernelfields.estimators.graph_crf import GraphCRF
from kernelfields.estimators.kernel_classifier import KernelClassifier
from kernelfields.estimators.ring_crf import RingCRF
from kernelfields.estimators.workers import distribute_method
from kernelfields.inference.answers import Answers
from kernelfields.inference.choice import refuse_approximate
from kernelfields.models.documents import NotData, describe_parameters, describe_value, rebuild_estimator, rebuild_value
from kernelfields.models.model_file import Document
from kernelfields.models.partial import PartialLabels
from kernelfields.models.stored import Functions, StoredEstimator, describe_stored, kinds_by_name
from kernelfields.models.wrapped_field import (
    FITTED,
    OF_LABELS,
    OF_PROBABILITIES,
    WrappedField,
    besides,
    forward_questions,
    refuse_questions,
)
from kernelfields.numerics.parameters import (
    attribute,
    check_count,
    check_declared,
    check_penalty,
    declares_parameters,
    get_open_parameters,
    is_auto,
    is_real,
    is_whole,
    or_auto,
    parameter,
    resolve_open,
    set_open_parameters,
)
from kernelfields.numerics.stored_arrays import finite_array, whole_array
from kernelfields.numerics.threads import Workers
from kernelfields.numerics.user_warnings import warn_user

# Questions of the field that can be asked here, in its words; attributes of its fit can be, too.
_OWN = ("predict", "score", "predict_marginals", "predict_proba", "log_likelihood", "classes_")
_OF_THE_FIELD = (*besides(OF_LABELS + OF_PROBABILITIES, *_OWN), "explain", "weights", "summary")
# What needs labels that are known.
_OF_KNOWN_LABELS = ("partial_fit", "laplace", "certify", "sample_coefficients", "predict_variances")
# Parameters of the field that are others in the fit.
_SET_FOR_THE_FIT = ("partial_labels", "engine", "support", "l1")
# Numbers of folds for few and for many data, and the number of positions of many data.
_FOLDS, _FEW_FOLDS, _MANY_POSITIONS = 5, 2, 20_000
#: The fields that annotators can be fitted with.
Annotated: TypeAlias = ChainCRF | GraphCRF | KernelClassifier
_KINDS: dict[str, type[Annotated]] = kinds_by_name((ChainCRF, RingCRF, GraphCRF, KernelClassifier))


def _check_prior(value: object, name: str) -> None:
    pair = isinstance(value, tuple | list) and len(value) == 2
    if not pair or not all(is_real(count) and 0 < count < np.inf for count in value):  # type: ignore[attr-defined]
        raise ValueError(f"{name} must be two numbers above zero, (right, wrong), got {value!r}")


def _check_cv(value: object, name: str) -> None:
    if value is None or isinstance(value, bool | float | str) or (is_whole(value) and value < 2):
        raise ValueError(
            f"{name} must be 'auto', a number of folds of at least 2, a splitter or a list of (train, test) indices, "
            f"got {value!r}"
        )


@refuse_questions(**dict.fromkeys(_OF_KNOWN_LABELS, "labels are not known here, and estimated with the confusions"))
@forward_questions(*_OF_THE_FIELD, *besides(FITTED, *_OWN), like=(ChainCRF, KernelClassifier))
@declares_parameters
class AnnotatedCRF(WrappedField, StoredEstimator):
    """Fit a field and the confusion matrices of annotators together.

    Annotator r says z_t^r where the label is y_t, with probability pi^r(y_t, z_t^r). The field models how labels depend
    on inputs and on each other. Labels are completed from what was said and from the field, and confusions and field
    fitted to them, in turn. Predictions are those of the field: labels, not what some annotator would say.
    docs/annotators.md.

    Parameters
    ----------
    estimator : ChainCRF, GraphCRF, KernelClassifier or None, default None
        The field; None means ``ChainCRF()``. With ``prior_variance="auto"`` the variance is chosen by held-out
        consensus labels of the start; ``support="auto"`` is "observed" for named features.
    prior : (float, float), default (4.0, 1.0)
        The pseudo-counts of each row of a confusion matrix, of the label itself and of all others together: as many
        positions for each label as an annotator has been seen right and wrong on before.
    cv : "auto", int, splitter or list of (train, test), default "auto"
        The folds; the labels of each are completed by a field that was fitted to the others. "auto" is 5, and 2 from
        20,000 positions on.
    tol : float, default 1e-2
        The share of positions that get another most probable label below which rounds end.
    max_steps : int, default 20
        The most rounds.

    Attributes
    ----------
    estimator_ : estimator
        The fitted field, for ``weights()`` and all else.
    annotators_ : list
        The names of the annotators.
    confusions_ : dict
        The array (L, L) of p(said | label) of each annotator, rows and columns as in ``classes_``.
    consensus_ : list of arrays
        The completed labels of the items of the fit, by fields of other folds; not kept in files.
    label_changes_ : ndarray
        The share of positions whose label changed in each round.
    classes_ : ndarray (L,)
        The labels.

    References
    ----------
    .. [1] A. P. Dawid and A. M. Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm",
       Journal of the Royal Statistical Society C 28, 1979.
    .. [2] F. Rodrigues, F. Pereira and B. Ribeiro, "Sequence labeling with multiple annotators", Machine Learning 95,
       2014.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import AnnotatedCRF, ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])] * 3
    >>> right = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]] * 3
    >>> hasty = [["sun", "rain", "rain", "rain"], ["rain", None, "rain"]] * 3
    >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
    >>> model = AnnotatedCRF(field, cv=2).fit(X, {"Ada": right, "Bob": hasty, "Eve": right})
    >>> model.predict([np.array([[21.0], [10.0]])])
    [['sun', 'rain']]
    >>> print(model.reliability().rows[-1].annotator)
    Bob
    """

    _kind = "AnnotatedCRF"

    estimator: Annotated | None = parameter(None, first=True)
    prior: tuple[float, float] = parameter((4.0, 1.0), _check_prior)
    cv: object = parameter("auto", or_auto(_check_cv))
    tol: float = parameter(1e-2, check_penalty)
    max_steps: int = parameter(20, check_count)

    estimator_: Annotated = attribute()

    @distribute_method
    def fit(
        self,
        X: object,
        y: object,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
    ) -> Self:
        """Fit the field and the confusions to the labels of annotators.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that the estimator takes.
        y : dict or list
            A dict annotator -> labels of all sequences, or a list with, for each sequence, a dict annotator -> labels
            or an array (T, R) with a column for each annotator; None or an empty text where one said nothing.
        sample_weight : array (n_items,) or None, default None
            One weight for each sequence, graph or row.
        groups : array (n_items,) or None, default None
            The document, or the like, of each item: folds do not cut them.
        lengths : array (n_items,) or mask (n_items, T), default None
            The lengths of sequences in one array, as for the estimator.

        Returns
        -------
        Self
            The fitted estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import AnnotatedCRF, ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])] * 3
        >>> right = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]] * 3
        >>> hasty = [["sun", "rain", "rain", "rain"], ["rain", None, "rain"]] * 3
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
        >>> model = AnnotatedCRF(field, cv=2).fit(X, {"Ada": right, "Bob": hasty, "Eve": right})
        >>> model.predict([np.array([[21.0], [10.0]])])
        [['sun', 'rain']]
        """
        field = self._check_field()
        given = {name: value for name, value in field.get_params(deep=False).items() if name in _SET_FOR_THE_FIT}
        elsewhere = "labels of annotators are read in this process: pass lists; engine='dask' cuts them up"
        refuse_collections(X, y, error=ValueError(elsewhere))
        if lengths is not None:
            X, y = cut_by_lengths(get_answer_format(field), X, y, lengths)
        usual = resolve_partial_labels(field.partial_labels)
        if usual.has_expected_shares:
            raise ValueError("annotators are fitted without expectations: leave them out")
        single = is_classifier(field)
        annotations = read_annotations(y, single=single, classes=usual.classes)
        if annotations.n_annotators == 1:
            warn_user(
                f"{annotations.annotators[0]!r} is the only annotator: errors of one alone are separated from labels "
                "by the inputs and the prior only",
            )
        lengths = np.ones(len(annotations.codes), dtype=np.int64) if single else np.diff(annotations.offsets)
        weights = np.repeat(check_sample_weight(sample_weight, len(lengths), SAMPLES if single else SEQUENCES), lengths)
        confusions = Confusions(annotations, self._pseudo_counts(len(annotations.classes)), weights=weights)
        start = confusions.log_consensus(weights)
        cv = resolve_open(self.cv, _FEW_FOLDS if len(start) >= _MANY_POSITIONS else _FOLDS)
        folds = self._assign_folds(cv, len(lengths), start.argmax(axis=1) if single else None, groups)
        rounds = CrossFitting(confusions, self.max_steps, folds, self.tol)
        field.partial_labels = PartialLabels(classes=annotations.classes.tolist())
        field.engine = resolve_open(field.engine, "threads")
        named = is_feature_sequences(X) or (isinstance(field, ChainCRF) and is_auto(field.features) and has_words(X))
        if named and "support" in get_open_parameters(field):
            # Pairs that nobody said would be most of the weights, and completed labels hardly ever need them.
            set_open_parameters(field, {"support": "observed", "l1": 0.0})
        try:
            fit_in_steps(field, X, PresumedLabels(annotations, start), sample_weight, steps=[rounds])
        finally:
            for name, value in given.items():
                setattr(field, name, value)
        # Whoever goes on from the field has the parameters that are there now.
        note_parameters(field)
        counts = np.sum(annotations.codes != UNSAID, axis=0)
        shares = weights @ rounds.marginals / weights.sum()
        self._set_fitted(field, annotations.annotators, confusions.matrices, counts, shares)
        self.label_changes_ = np.array(rounds.changes)
        best = rounds.best if resolve_decision(field).jointly else rounds.marginals.argmax(axis=1)
        self.consensus_ = get_answer_format(field).arrange_labels([(annotations, self.classes_[best])])
        if len(self.label_changes_) == self.max_steps and self.label_changes_[-1] > self.tol:
            warn_user(
                f"{self.label_changes_[-1]:.2%} of the labels changed in the last of max_steps={self.max_steps} "
                f"rounds, more than tol={self.tol:g}: raise max_steps, or tol",
                ConvergenceWarning,
            )
        return self

    def _set_fitted(
        self, field: Annotated, names: list, matrices: np.ndarray, n_labelled: np.ndarray, shares: np.ndarray
    ) -> None:
        """Set the fitted attributes from labelled positions ``n_labelled`` (R,) and label frequencies (L,)."""
        self.estimator_ = field
        self.annotators_ = names
        self.confusions_ = dict(zip(names, matrices, strict=True))
        self._n_labelled, self._label_shares = n_labelled, shares

    def _pseudo_counts(self, n_labels: int) -> np.ndarray:
        return prior_counts(*self.prior, n_labels)

    @staticmethod
    def _assign_folds(cv: Any, n_items: int, labels: np.ndarray | None, groups: ArrayLike | None) -> np.ndarray:
        """Assign a fold to each item, (S,), stratified by ``labels`` for single labels."""
        if is_whole(cv) and cv > n_items:
            raise ValueError(f"cv={cv} folds need at least as many sequences, X has {n_items}: lower cv")
        splitter = check_cv(cv, labels, classifier=labels is not None)
        if groups is not None and is_whole(cv):
            splitter = GroupKFold(cv)
        folds, times = np.zeros(n_items, dtype=np.int64), np.zeros(n_items, dtype=np.int64)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            for number, (_, held_out) in enumerate(splitter.split(np.empty((n_items, 0)), labels, groups)):
                folds[held_out] = number
                times[held_out] += 1
        if np.any(times != 1):
            raise ValueError("cv must hold out every sequence exactly once, as KFold and GroupKFold do")
        return folds

    def _check_field(self) -> Annotated:
        """Return a copy of the estimator to fit; raise if it, or a parameter, is unsuitable."""
        check_declared(self)
        given = ChainCRF() if self.estimator is None else self.estimator
        if not isinstance(given, Annotated):
            advice = ""
            if isinstance(given, Pipeline):
                advice = (
                    ". Fit its transformers first, and the field to what they make of X: "
                    "AnnotatedCRF(pipeline[-1]).fit(pipeline[:-1].fit_transform(X), y)"
                )
            elif isinstance(given, BaseEstimator) and "cv" in given.get_params(deep=False):
                advice = ". Search around it: GridSearchCV(AnnotatedCRF(), {'estimator__prior_variance': [...]})"
            raise TypeError(
                f"estimator must be a ChainCRF, RingCRF, GraphCRF or KernelClassifier, got {given!r:.200}{advice}"
            )
        if getattr(given, "warm_start", False):
            raise ValueError("annotators are fitted afresh, with their confusions: leave out warm_start")
        return clone(given)

    @property
    def classes_(self) -> np.ndarray:
        """The labels of the fitted field."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.classes_

    def predict(self, X: object, decode: str | None = None, **settings: Any) -> ByItem:
        """Return the labels that the field predicts.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.
        decode : {"auto", "viterbi", "posterior"} or None, default None
            How labels are chosen; None means ``decode`` of the estimator.
        **settings : object
            Further arguments of the estimator, such as ``known``.

        Returns
        -------
        list of lists or arrays (T,)
            The labels of each item; for rows one array (n,).

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import AnnotatedCRF, ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])] * 3
        >>> right = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]] * 3
        >>> hasty = [["sun", "rain", "rain", "rain"], ["rain", None, "rain"]] * 3
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
        >>> model = AnnotatedCRF(field, cv=2).fit(X, {"Ada": right, "Bob": hasty, "Eve": right})
        >>> model.predict([np.array([[21.0], [10.0]])])
        [['sun', 'rain']]
        """
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict(X, decode, **settings)

    @available_if(lambda self: self.estimator is None or not is_classifier(self.estimator))
    def predict_marginals(self, X: object, **settings: Any) -> ByItem:
        """Return the probabilities p(y_t | x) of labels, position by position.

        Parameters
        ----------
        X : inputs
            Sequences or graphs, in a form that :meth:`fit` takes.
        **settings : object
            Further arguments of the estimator, such as ``known``.

        Returns
        -------
        list of arrays (T, L)
            The marginals of each item, columns as in ``classes_``.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import AnnotatedCRF, ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])] * 3
        >>> right = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]] * 3
        >>> hasty = [["sun", "rain", "rain", "rain"], ["rain", None, "rain"]] * 3
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
        >>> model = AnnotatedCRF(field, cv=2).fit(X, {"Ada": right, "Bob": hasty, "Eve": right})
        >>> model.predict_marginals([np.array([[21.0], [10.0]])])[0].argmax(axis=1)
        array([1, 0])
        """
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict_marginals(X, **settings)

    @available_if(lambda self: self.estimator is None or hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: object, **settings: Any) -> ByItem:
        """Return the probabilities p(y | x) of classes; for sequences the marginals of :meth:`predict_marginals`.

        Parameters
        ----------
        X : array (n, d)
            The rows.
        **settings : object
            Further arguments of the estimator, such as ``known``.

        Returns
        -------
        ndarray (n, L) or list of arrays (T, L)
            The probabilities, columns as in ``classes_``.

        Examples
        --------
        >>> from kernelfields import AnnotatedCRF, KernelClassifier
        >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
        >>> y = {"Ada": ["a", "a", "a", "b", "b", "b"], "Bob": ["a", "b", None, "b", "b", "b"]}
        >>> model = AnnotatedCRF(KernelClassifier("rbf", prior_variance=10.0, random_state=0), cv=2).fit(X, y)
        >>> model.predict_proba([[0.0], [1.2]]).argmax(axis=1)
        array([0, 1])
        """
        check_is_fitted(self, "estimator_")
        assert not isinstance(self.estimator_, GraphCRF)
        return self.estimator_.predict_proba(X, **settings)

    def score(
        self, X: object, y: object, sample_weight: ArrayLike | None = None, *, decode: str | None = None
    ) -> float:
        """Return a score for data outside the fit; larger is better.

        For labels of annotators it is the mean of their log-likelihood, in nats for each label that was said;
        annotators who were not in the fit have the confusions of the prior. It needs no label that is known to be
        right, so that a search can choose by it. For labels that are known to be right it is the score of the
        estimator, the share of right ones.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.
        y : labels
            Labels of annotators, in a form that :meth:`fit` takes, or labels that are known to be right.
        sample_weight : array (n_items,) or None, default None
            One weight for each sequence, graph or row.
        decode : {"auto", "viterbi", "posterior"} or None, default None
            As in :meth:`predict`, for labels that are known to be right.

        Returns
        -------
        float
            The score.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import AnnotatedCRF, ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])] * 3
        >>> right = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]] * 3
        >>> hasty = [["sun", "rain", "rain", "rain"], ["rain", None, "rain"]] * 3
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
        >>> model = AnnotatedCRF(field, cv=2).fit(X, {"Ada": right, "Bob": hasty, "Eve": right})
        >>> model.score([np.array([[21.0], [10.0]])], [["sun", "rain"]])
        1.0
        """
        check_is_fitted(self, "estimator_")
        single = is_classifier(self.estimator_)
        if not are_annotations(y, single=single):
            return self.estimator_.score(X, y, sample_weight, decode=decode)
        said = read_annotations(y, single=single, classes=self.classes_)
        counts = np.sum(said.codes != UNSAID, axis=1)
        by_item = counts if single else np.add.reduceat(counts, said.offsets[:-1])
        weights = check_sample_weight(sample_weight, len(by_item), SAMPLES if single else SEQUENCES)
        return float(weights @ self._log_likelihoods(X, said) / (weights @ by_item))

    def to_be_fitted(self) -> Any:
        """Return the unfitted estimator.

        Returns
        -------
        estimator
            The one given, or a ``ChainCRF()``.
        """
        return ChainCRF() if self.estimator is None else self.estimator

    def consensus(self, X: object, y: object) -> ByItem:
        """Return the most probable labels of each item, given the inputs and the labels of annotators.

        They are decoded as by :meth:`predict`. For the data of the fit, ``consensus_`` holds those of fields of other
        folds.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.
        y : dict or list
            The labels of annotators of the fit, in a form that :meth:`fit` takes.

        Returns
        -------
        list of lists or arrays (T,)
            The labels of each item; for rows one array (n,).

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import AnnotatedCRF, ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])] * 3
        >>> right = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]] * 3
        >>> hasty = [["sun", "rain", "rain", "rain"], ["rain", None, "rain"]] * 3
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
        >>> model = AnnotatedCRF(field, cv=2).fit(X, {"Ada": right, "Bob": hasty, "Eve": right})
        >>> model.consensus([np.array([[21.0], [10.0]])], {"Ada": [["sun", "rain"]]})
        [['sun', 'rain']]
        """
        said, field = self._get_annotations(y), self.estimator_
        decision = resolve_decision(field)
        return get_answer_format(field).arrange_labels(
            (given.data, self.classes_[decision.choose(given)]) for _, given in self._iterate_beliefs(X, said)
        )

    def consensus_marginals(self, X: object, y: object) -> ByItem:
        """Return the probabilities of labels, given the inputs and the labels of annotators.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.
        y : dict or list
            The labels of annotators of the fit, in a form that :meth:`fit` takes.

        Returns
        -------
        list of arrays (T, L)
            The marginals of each item, columns as in ``classes_``; for rows one array (n, L).

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import AnnotatedCRF, ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])] * 3
        >>> right = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]] * 3
        >>> hasty = [["sun", "rain", "rain", "rain"], ["rain", None, "rain"]] * 3
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
        >>> model = AnnotatedCRF(field, cv=2).fit(X, {"Ada": right, "Bob": hasty, "Eve": right})
        >>> alone = model.predict_marginals([np.array([[21.0]])])[0]
        >>> agreed = model.consensus_marginals([np.array([[21.0]])], {"Ada": [["sun"]], "Bob": [["sun"]]})[0]
        >>> bool(agreed[0, 1] > alone[0, 1])
        True
        """
        said = self._get_annotations(y)
        form = get_answer_format(self.estimator_)
        return form.arrange((given.data, given.marginals) for _, given in self._iterate_beliefs(X, said))

    def log_likelihood(self, X: object, y: object, *, per_item: bool = False) -> float | np.ndarray:
        """Return the log-likelihood log p(z | x) of the labels of annotators.

        An annotator of the fit may be silent here; one who was not there is an error. For labels that are known to be
        right it is their log-likelihood by the field.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.
        y : labels
            Labels of annotators, in a form that :meth:`fit` takes, or labels that are known to be right.
        per_item : bool, default False
            Whether to return one number for each item instead of their sum.

        Returns
        -------
        float or ndarray (n_items,)
            The sum over items, or the log-likelihood of each.

        Raises
        ------
        ValueError
            If inference is approximate, or an annotator was not in the fit.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import AnnotatedCRF, ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])] * 3
        >>> right = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]] * 3
        >>> hasty = [["sun", "rain", "rain", "rain"], ["rain", None, "rain"]] * 3
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
        >>> model = AnnotatedCRF(field, cv=2).fit(X, {"Ada": right, "Bob": hasty, "Eve": right})
        >>> likely = model.log_likelihood([np.array([[21.0]])], {"Ada": [["sun"]]})
        >>> bool(likely > model.log_likelihood([np.array([[21.0]])], {"Ada": [["rain"]]}))
        True
        """
        check_is_fitted(self, "estimator_")
        if not are_annotations(y, single=is_classifier(self.estimator_)):
            return self.estimator_.log_likelihood(X, y, per_item=per_item)
        values = self._log_likelihoods(X, self._get_annotations(y))
        return values if per_item else float(values.sum())

    def reliability(self) -> AnnotatorTable:
        """Return the reliability of all annotators, the best first.

        Returns
        -------
        AnnotatorTable
            Their accuracy and kappa, to be printed, shown by a notebook, or plotted.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import AnnotatedCRF, ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])] * 3
        >>> right = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]] * 3
        >>> hasty = [["sun", "rain", "rain", "rain"], ["rain", None, "rain"]] * 3
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
        >>> model = AnnotatedCRF(field, cv=2).fit(X, {"Ada": right, "Bob": hasty, "Eve": right})
        >>> model.reliability().rows[-1].annotator
        'Bob'
        """
        check_is_fitted(self, "estimator_")
        labels = self.classes_.tolist()
        rows = [
            AnnotatorReliability.from_confusions(name, count, self.confusions_[name], self._label_shares, labels)
            for name, count in zip(self.annotators_, self._n_labelled.tolist(), strict=True)
        ]
        return AnnotatorTable(sorted(rows, key=lambda row: -row.accuracy), labels, self.confusions_)

    def _get_annotations(self, y: object) -> Annotations:
        """Return the annotations of the fit."""
        check_is_fitted(self, "estimator_")
        single, known = is_classifier(self.estimator_), self.annotators_
        return read_annotations(y, single=single, classes=self.classes_, annotators=known)

    def _log_likelihoods(self, X: object, said: Annotations) -> np.ndarray:
        """Compute log p(z | x) of each item, (S,)."""
        parts = []
        for free, given in self._iterate_beliefs(X, said):
            refuse_approximate(free.family, "a log-likelihood")
            parts.append(given.log_partition - free.log_partition)
        return np.concatenate(parts)

    def _iterate_beliefs(self, X: object, said: Annotations) -> Iterator[tuple[Answers, Answers]]:
        """Yield the answers of the field for batches, and the answers conditioned on the annotations."""
        field = self.estimator_
        data = field.structure.read(X)
        alike = is_classifier(field) or np.array_equal(data.offsets, said.offsets)
        if data.n_positions != said.offsets[-1] or not alike:
            raise ValueError("X and y have different lengths: each position of X needs an entry of every annotator")
        counts = self._pseudo_counts(len(self.classes_))
        expected = counts / counts.sum(axis=1, keepdims=True)
        matrices = np.stack([self.confusions_.get(name, expected) for name in said.annotators])
        data = replace(data, partial=Confusions(said, counts, matrices).log_weights())
        workers = Workers(field.n_jobs)
        for batch in field.field_.batches(data):
            free = field.field_.answers(batch, workers)
            yield free, free.condition(batch.partial)  # type: ignore[arg-type]  # an array

    # ---- files

    def _to_document(self) -> Document:
        """Convert the fitted estimator to plain values and arrays."""
        try:
            names = describe_value(self.annotators_)
        except NotData as error:
            raise TypeError(f"names of annotators must be text or numbers to be kept in a file, not {error}") from error
        kind, document = describe_stored(self.estimator_)
        return {
            "parameters": describe_parameters(self),
            "field": {"kind": kind, **document},
            "annotators": names,
            "confusions": np.stack([self.confusions_[name] for name in self.annotators_]),
            "n_labelled": self._n_labelled,
            "label_shares": self._label_shares,
            "label_changes": self.label_changes_,
        }

    @classmethod
    def _from_document(cls, document: Document, callables: Functions | None = None) -> Self:
        """Rebuild the fitted estimator from its document; errors of any kind for an invalid one."""
        functions = callables or {}
        model = rebuild_estimator(cls, document["parameters"], functions)
        check_declared(model)
        described = document["field"]
        if described["kind"] not in _KINDS:
            raise ValueError(f"a field of the unknown kind {described['kind']!r:.60}")
        field = _KINDS[described["kind"]]._from_document(described, functions)
        names: Any = rebuild_value(document["annotators"], functions)
        if not isinstance(names, list) or len(set(names)) < len(names) or not names:
            raise ValueError("it must name its annotators, each once")
        n_labels, n_annotators = len(field.classes_), len(names)
        matrices = finite_array(document["confusions"], "the confusions", (n_annotators, n_labels, n_labels))
        if not (matrices > 0).all() or not np.allclose(matrices.sum(axis=2), 1.0):
            raise ValueError("the confusions must be probabilities above zero that add up to one")
        shares = finite_array(document["label_shares"], "the shares of labels", (n_labels,))
        counts = whole_array(document["n_labelled"], "the positions of annotators", (n_annotators,))
        model._set_fitted(field, names, matrices, counts, shares)
        model.estimator = clone(field)
        model.label_changes_ = finite_array(document["label_changes"], "label_changes", (None,))
        return model
