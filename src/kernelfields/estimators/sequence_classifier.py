"""SequenceClassifier: classes of whole sequences, by a chain with hidden states.

    p(c | x) = sum over h in H_c of p(h | x),      H_c: all labellings by the states of class c

Every class has states of its own, and states of two classes are never neighbours: a labelling belongs to one class, and
p(c | x) is the probability that the first state is one of c. The field is a ChainCRF over all states, fitted to
partial labels (data/partial_labels.py): at every position one of the states of the class. The states of a class are
alike at first, and zero is a saddle: a fit begins at the field of a first guess, the states of a class in turn from
the first position to the last. Minima are local.

Without hidden states a sequence is one position, whose inputs are numbers that describe the whole, summaries or local
shapes (whole_sequences.py), and a class is one label. Which of these predicts best is a matter of the data: where it is
open, all are fitted to parts of the sequences, and judged by the log-loss of those held out. So are kernels and prior
variances.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, singledispatch
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.border_cliques import StartCliques
from kernelfields.data.cliques import USUAL_RANK, EdgeCliques, NodeCliques
from kernelfields.data.given_labels import GivenLabels, KnownLabels, given_labels
from kernelfields.data.partial_labels import SoftTargets, are_partly_known, share_right
from kernelfields.data.partial_rows import PartialRows
from kernelfields.data.positions import check_sequence
from kernelfields.data.ragged import Ragged
from kernelfields.data.readers import read_labels
from kernelfields.data.reading import (
    SAMPLES,
    Seed,
    check_sample_weight,
    is_feature_sequences,
    is_sequence,
    list_sequences,
    warn_of_minus_one,
)
from kernelfields.data.whole_numbers import labels_as_array
from kernelfields.engines.choice import refuse_collections
from kernelfields.estimators import questions
from kernelfields.estimators.answering.decisions import DecisionRule
from kernelfields.estimators.answering.formats import AnswerFormat, SingleFormat
from kernelfields.estimators.answering.lengths import answer_by_lengths, cut_by_lengths
from kernelfields.estimators.base import prepare_fit
from kernelfields.estimators.chain_crf import ChainCRF, ChainTraining, check_features
from kernelfields.estimators.edges import clique_set
from kernelfields.estimators.inspecting.explanations import check_one_sequence
from kernelfields.estimators.kept_field import BasisLike, EngineLike, KernelLike, check_parameters
from kernelfields.estimators.probabilities import share_of_fit
from kernelfields.estimators.whole_sequences import ROWS, Predict, compare, draw_sequences
from kernelfields.features.sequencewise import SequenceTransformer
from kernelfields.inference.answers import Answers
from kernelfields.inference.packing import first_largest
from kernelfields.inference.potentials import Potentials
from kernelfields.inference.single import SingleFamily
from kernelfields.models.choices import Choices, Settings
from kernelfields.models.documents import check_classes, describe_parameters, rebuild_estimator
from kernelfields.models.model_file import Document
from kernelfields.models.partial import PartialLabels
from kernelfields.models.placed import FitStep
from kernelfields.models.stored import Functions, StoredEstimator
from kernelfields.numerics.containers import count_rows, find_shape
from kernelfields.numerics.parameters import (
    attribute,
    check_count,
    check_one,
    check_tolerance,
    check_verbosity,
    check_window,
    count_or_none,
    declares_parameters,
    get_open_parameters,
    or_auto,
    or_none,
    parameter,
    resolve_dtype,
    resolve_open,
    variance_or_auto,
)
from kernelfields.numerics.stored_arrays import whole_number
from kernelfields.numerics.threads import Workers
from kernelfields.reports.inspection import (
    Explanation,
    ModelSummary,
    WeightsTable,
)
from kernelfields.reports.sequences import LabelledSequence
from kernelfields.solvers.choice import resolve_tolerance
from kernelfields.solvers.loop import Solution
from kernelfields.structures.chains import make_features
from kernelfields.structures.class_weights import check_class_weight
from kernelfields.structures.classes import ClassStructure
from kernelfields.structures.rows import partly_labelled, single_nodes

# Parameters of the chain over states.
_OF_THE_CHAIN = ("scale", "tol", "max_iter", "dtype", "n_jobs", "engine", "random_state", "verbose")
# A guess is a place to start from, and not worth more; a fit that is judged by few held-out classes needs not be finer.
_GUESS_TOLERANCE, _JUDGED_TOLERANCE = 0.1, 0.01
# Hidden states of each class, and their prior variance, where these are left to the data.
_USUAL_STATES, _USUAL_VARIANCE = 3, 1.0
# What whole sequences are seen by where it is left to the data and there are too few of them.
_USUAL_ROWS = next(iter(ROWS))


@declares_parameters
class SequenceClassifier(ClassifierMixin, StoredEstimator):
    """Classifier of whole sequences: each class is a chain of hidden states, in reproducing kernel Hilbert spaces.

        p(c | x) = sum of p(h | x) over the labellings h by states of class c

    docs/sequence_classes.md.

    Parameters
    ----------
    kernel : "auto", str, Kernel, callable or scikit-learn kernel, default "auto"
        The kernel on the inputs of positions. "auto" is "linear" for feature dicts, strings and shapes, else "rbf"; for
        summaries "laplacian" if held-out data are predicted better.
    rank : "auto", int or None, default "auto"
        At most so many basis functions of a kernel without explicit features, as in :class:`ChainCRF`.
    basis : str or Basis, default "random-cholesky"
        How basis functions are chosen, as in :class:`ChainCRF`.
    scale : "auto" or bool, default "auto"
        Whether columns of numbers are brought to mean 0 and one spread. "auto" is True without hidden states; else
        held-out data decide.
    tol : "auto" or float, default "auto"
        The relative duality gap at which a fit ends, as in :class:`ChainCRF`.
    max_iter : int, default 1000
        The most iterations of the solver.
    dtype : "auto", "float32" or "float64", default "auto"
        The precision of stored features, as in :class:`ChainCRF`.
    n_jobs : int or None, default None
        The number of threads; None and -1 mean all cores.
    random_state : int, Generator, RandomState or None, default None
        The source of randomness; a number makes fits repeatable.
    verbose : "auto" or int, default "auto"
        What a fit prints on standard error, as in :class:`ChainCRF`.
    n_states : "auto" or int, default "auto"
        The number of hidden states of every class. With 0 a class depends on numbers that describe the whole, see
        ``whole``. "auto" is 3, or 0 if held-out data are predicted better.
    whole : "auto", "summaries" or "shapes", default "auto"
        What a class depends on without hidden states: numbers that summarise the whole, or maxima and shares of random
        convolutions, see :class:`kernelfields.features.LocalShapes`. "auto" is what predicts held-out data better.
    window : odd int or (before, after), default 1
        The positions that kernels see around each one.
    prior_variance : "auto" or float, default "auto"
        The variance of the Gaussian prior. "auto" is 1; without hidden states it is chosen by held-out data, from 1, 10
        and 100 for summaries and from 0.01, 0.1 and 1 for shapes.
    edges : EdgeCliques or None, default None
        The transitions between states; their prior variance is also that of first states. What the set leaves open is
        that of the estimator.
    class_weight : dict, "balanced" or None, default None
        The weight of each class; "balanced" gives each class the same total weight.
    engine : "auto", "threads", "torch", "dask" or Engine, default "auto"
        Where features are kept and the fit runs, as in :class:`ChainCRF`.
    features : "auto", transformer, list of transformers or None, default "auto"
        What makes inputs of X, as in :class:`ChainCRF`.

    Attributes
    ----------
    classes_ : ndarray (L,)
        The sorted classes.
    n_states_ : int
        The number of hidden states of every class.
    choices_ : Choices
        How settings were compared.
    estimator_ : ChainCRF
        The chain over states; state ``k`` of class ``c`` has the label ``c * n_states + k``.
    n_features_in_ : int
        The number of input features.
    prior_variance_ : float
        The prior variance of the functions of the inputs.
    solution_ : Solution
        The end of the solver of the chain.

    See Also
    --------
    ChainCRF : A label for each position.

    References
    ----------
    .. [1] A. Quattoni, S. Wang, L.-P. Morency, M. Collins and T. Darrell, "Hidden conditional random fields", IEEE
       Transactions on Pattern Analysis and Machine Intelligence 29, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import SequenceClassifier
    >>> X = [np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]]), np.array([[2.0], [0.0]])]
    >>> y = ["up", "up", "down"]
    >>> model = SequenceClassifier("rbf", n_states=2, random_state=0).fit(X, y)
    >>> model.predict([np.array([[0.1], [0.9], [1.8]])])
    array(['up'], dtype='<U4')
    >>> model.predict_proba([np.array([[0.1], [0.9], [1.8]])]).round(2)
    array([[0.25, 0.75]])
    """

    _kind = "SequenceClassifier"
    _answer_format: ClassVar[AnswerFormat[Any]] = SingleFormat(SAMPLES, ("sequence", ""))
    _decision_rule: ClassVar[DecisionRule] = DecisionRule()

    # Questions that the distribution of classes answers.
    predict_nbest = questions.predict_nbest
    sample = questions.sample
    entropy = questions.entropy
    log_likelihood = questions.log_likelihood

    rank: int | str | None = parameter("auto", or_auto(count_or_none), usual=USUAL_RANK)
    basis: BasisLike = parameter("random-cholesky")
    scale: bool | str = parameter("auto", check_one("auto", True, False), usual=False)
    tol: float | str = parameter("auto", or_auto(lambda value, name: check_tolerance(value)))
    max_iter: int = parameter(1000, check_count)
    dtype: object = parameter("auto", lambda value, name: resolve_dtype(value))
    n_jobs: int | None = parameter(None)
    random_state: Seed = parameter(None)
    verbose: int | str = parameter("auto", check_verbosity)
    kernel: KernelLike = parameter("auto", first=True, usual="rbf", tried=("rbf", "laplacian"))
    n_states: int | str = parameter(
        "auto", or_auto(partial(check_count, least=0)), usual=_USUAL_STATES, tried=(0, _USUAL_STATES)
    )
    whole: str = parameter("auto", check_one("auto", *ROWS), usual=_USUAL_ROWS, tried=tuple(ROWS))
    window: int | tuple[int, int] = parameter(1, check_window)
    prior_variance: float | str = parameter(
        "auto", variance_or_auto, usual=_USUAL_VARIANCE, tried=ROWS[_USUAL_ROWS].variances
    )
    edges: EdgeCliques | None = parameter(None, clique_set(EdgeCliques), nested=EdgeCliques)
    class_weight: Mapping[object, float] | str | None = parameter(None, lambda value, name: check_class_weight(value))
    engine: EngineLike = parameter("auto")
    features: Any = parameter("auto", or_auto(or_none(check_features)))

    classes_: np.ndarray = attribute()
    n_states_: int = attribute()
    choices_: Choices = attribute()
    estimator_: ChainCRF = attribute()

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, lengths: ArrayLike | None = None) -> Self:
        """Fit the classifier to sequences and their classes.

        Parameters
        ----------
        X : list of sequences
            The sequences, in a form that :class:`ChainCRF` takes.
        y : sequence (n,)
            The class of each sequence; None for an unknown one, a set of possible ones, or a dict of weights.
        sample_weight : array (n,) or None, default None
            One weight for each sequence.
        lengths : array (n_items,) or mask (n_items, T), default None
            The lengths of sequences that are one array: all positions end to end, X (N, d), or padded, X (n, T, d),
            for which it may be a mask of the positions that count.

        Returns
        -------
        Self
            The fitted estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import SequenceClassifier
        >>> X = [np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]]), np.array([[2.0], [0.0]])]
        >>> y = ["up", "up", "down"]
        >>> model = SequenceClassifier("rbf", n_states=2, random_state=0).fit(X, y)
        >>> model.predict([np.array([[0.1], [0.9], [1.8]])])
        array(['up'], dtype='<U4')
        """
        check_parameters(self)
        if lengths is not None:
            X, y = cut_by_lengths(self._answer_format, X, y, lengths)
        read = _read_classes(X, y)
        # Features that learn from labels learn from classes, and once.
        features = make_features(self.features, X)
        X = X if features is None else features.fit_transform(X, y)
        weights = check_sample_weight(sample_weight, len(read.lengths), SAMPLES)
        if self.class_weight is not None:
            weights = weights.copy()
            weights[read.known] *= compute_sample_weight(self.class_weight, read.classes[read.numbers[read.known]])
        fitted: dict[str, SequenceTransformer] = {}
        chosen, choices = self, Choices()
        if features is None and (candidates := self._candidates(X, read)):
            choices, fitted = self._compare(X, read, weights, candidates)
            chosen = self._with(choices.chosen)
        field = chosen._fitted_chain(X, read, weights, fitted)
        self.classes_, self.n_states_, self.choices_ = read.classes, chosen._usual_states, choices
        self.estimator_ = field if features is None or self.n_states_ == 0 else field._with_preprocessor(features)
        return self

    def _with_preprocessor(self, transformer: Any) -> Self:
        model = copy.copy(self)
        model.estimator_ = self.estimator_._with_preprocessor(transformer)
        model.features = model.estimator_.features
        return model

    @property
    def prior_variance_(self) -> float:
        """The prior variance of the functions of the inputs."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.prior_variance_

    @property
    def _usual_states(self) -> int:
        """The default number of hidden states of every class."""
        return _USUAL_STATES if isinstance(self.n_states, str) else self.n_states

    def _with(self, settings: Settings) -> Self:
        """Return a copy with other parameters."""
        chosen = copy.copy(self)
        for name, value in settings.items():
            setattr(chosen, name, value)
        return chosen

    def _candidates(self, X: Any, read: _Classes) -> list[Settings]:
        """Return the candidate settings: for whole sequences first, then for hidden states.

        There is nothing to choose by unless sequences of numbers have known classes, two or more of each.
        """
        numbers = not is_feature_sequences(X) and not any(map(scipy.sparse.issparse, X))
        classes = read.given.decided
        if not numbers or classes is None or np.bincount(classes).min() < 2:
            return []
        left = get_open_parameters(self)
        names, states = (left.get(name, [getattr(self, name)]) for name in ("whole", "n_states"))
        found: list[Settings] = [
            {"n_states": 0, "whole": name, "kernel": kernel, "prior_variance": variance}
            for name in names
            for kernel in (ROWS[name].kernels if "kernel" in left else [self.kernel])
            for variance in (ROWS[name].variances if "prior_variance" in left else [self.prior_variance])
            if 0 in states
        ]
        found += [{"n_states": number} for number in states if number]
        return found if len(found) > 1 else []

    def _compare(
        self, X: Any, read: _Classes, weights: np.ndarray, candidates: Sequence[Settings]
    ) -> tuple[Choices, dict[str, SequenceTransformer]]:
        """Return the losses of held-out sequences for each of the settings, and the transformers of whole sequences."""
        names = dict.fromkeys(own["whole"] for own in candidates if own["n_states"] == 0)
        fitted = {name: ROWS[name].transformer(self.random_state).fit(X) for name in names}
        drawn = draw_sequences(read.lengths)
        some = [X[number] for number in drawn[0]]
        tables: dict[str, Any] = {
            name: dict(zip(drawn[0].tolist(), transformer.transform(some), strict=True))
            for name, transformer in fitted.items()
        }

        def predict(settings: Settings) -> Predict:
            judged = self._with(settings)
            judged.tol, judged.verbose = max(resolve_tolerance(self.tol), _JUDGED_TOLERANCE), 0
            inputs = tables[settings["whole"]] if settings["n_states"] == 0 else X

            def predicted(train: np.ndarray, test: np.ndarray) -> np.ndarray:
                given, asked = ([inputs[number] for number in chosen] for chosen in (train, test))
                fit = judged._fitted_chain if settings["n_states"] else judged._fitted_rows
                return _class_shares(fit(given, read.select(train), weights[train]), asked, len(read.classes))

            return predicted

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the last fit has warnings of its own
            trials = compare(
                [(own, predict(own)) for own in candidates if own["n_states"] == 0],
                [(own, predict(own)) for own in candidates if own["n_states"]],
                drawn,
                read.numbers,
                weights,
            )
        return Choices(min(trials, key=lambda trial: trial.log_loss or 0.0).settings, tuple(trials)), fitted

    def _fitted_rows(self, rows: Any, read: _Classes, weights: np.ndarray) -> ChainCRF:
        """Fit a classifier to the row of each sequence."""
        field = self._chain(rows, len(read.classes), 1)
        # Numbers of different kinds, level beside slope, are brought to one scale.
        field.scale = resolve_open(self.scale, True)
        return field.fit(rows, _possible_states(read.given, [1] * len(read.lengths), 1), weights)

    def _fitted_chain(
        self, X: Any, read: _Classes, weights: np.ndarray, fitted: Mapping[str, SequenceTransformer] | None = None
    ) -> ChainCRF:
        """Fit the chain over the states of all classes, on rows of whole sequences without hidden states.

        ``fitted`` are transformers of whole sequences by their names.
        """
        n_states, n_classes = self._usual_states, len(read.classes)
        if n_states == 0:
            if resolve_open(self.features, None) is not None:
                raise ValueError("n_states=0 summarises columns of numbers as they come: leave out features")
            name = resolve_open(self.whole, _USUAL_ROWS)
            transformer = (fitted or {}).get(name) or ROWS[name].transformer(self.random_state).fit(X)
            return self._fitted_rows(transformer.transform(X), read, weights)._with_preprocessor(transformer)
        field, possible = self._chain(X, n_classes, n_states), _possible_states(read.given, read.lengths, n_states)
        in_turn = [np.arange(length) * n_states // length for length in read.lengths]
        states = [
            number * n_states + own if known else other
            for number, own, known, other in zip(read.numbers, in_turn, read.known, possible, strict=True)
        ]
        if n_states == 1:
            return field.fit(X, states, weights)
        field.set_params(tol=_GUESS_TOLERANCE).fit(X, states, weights)
        return field.set_params(tol=self.tol, warm_start=True).fit(X, possible, weights).set_params(warm_start=False)

    def _chain(self, X: Any, n_classes: int, n_states: int) -> ChainCRF:
        """Return an unfitted chain over the states of all classes, with no steps between classes."""
        usual_kernel, usual_variance = "linear" if is_feature_sequences(X) else "rbf", _USUAL_VARIANCE
        if self._usual_states == 0:
            rows = ROWS[resolve_open(self.whole, _USUAL_ROWS)]
            usual_kernel, usual_variance = rows.kernels[0], rows.usual_variance
        kernel = resolve_open(self.kernel, usual_kernel)
        shared: dict[str, Any] = {"window": self.window, "rank": self.rank, "basis": self.basis}
        shared["prior_variance"] = resolve_open(self.prior_variance, usual_variance)
        edges = (EdgeCliques() if self.edges is None else self.edges).with_defaults(**shared)
        first = edges.prior_variance
        states = range(n_classes * n_states)
        apart = [(a, b) for a in states for b in states if a // n_states != b // n_states]
        return ChainCRF(
            kernel,
            cliques=[
                NodeCliques(kernel, **shared),
                edges,
                StartCliques(prior_variance=first[0] if isinstance(first, list | tuple) else first),
            ],
            constraints=apart,
            features=None,
            partial_labels=PartialLabels(classes=list(states)),
            **{name: value for name, value in self.get_params(deep=False).items() if name in _OF_THE_CHAIN},
        )

    # ---- what a search by cross-validation needs, as FieldEstimator has it

    def _prepare_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: object,
        *,
        steps: Sequence[FitStep] = (),
        every_item: bool = False,
    ) -> ChainTraining:
        """Prepare the fit of the chain over states, with all positions in the first state of their class."""
        read, features = _read_classes(X, y), make_features(self.features, X)
        X, n_states = X if features is None else features.fit_transform(X, y), max(1, self._usual_states)
        states = _first_states(read.given, read.lengths, n_states)
        chain = self._chain(X, len(read.classes), n_states)
        return prepare_fit(chain, X, states, sample_weight, steps=steps, every_item=every_item)

    @property
    def structure(self) -> ClassStructure:
        """The structure of labels: one class for each sequence."""
        return ClassStructure()

    @property
    def solution_(self) -> Solution:
        """The Solution of the chain over states."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.solution_

    def predict_proba(self, X: object, *, known: object = None, lengths: ArrayLike | None = None) -> np.ndarray:
        """Return the probabilities p(c | x) of classes.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        known : labels or None, default None
            What is known of the classes, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.
        lengths : array (n_items,) or mask (n_items, T), default None
            The lengths of sequences in one array, as for :meth:`fit`.

        Returns
        -------
        ndarray (n, L)
            The probabilities, columns as in ``classes_``.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import SequenceClassifier
        >>> X = [np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]]), np.array([[2.0], [0.0]])]
        >>> y = ["up", "up", "down"]
        >>> model = SequenceClassifier("rbf", n_states=2, random_state=0).fit(X, y)
        >>> model.classes_.tolist()
        ['down', 'up']
        >>> model.predict_proba([np.array([[0.1], [0.9], [1.8]])]).round(2)
        array([[0.25, 0.75]])
        """
        check_is_fitted(self, "estimator_")
        if lengths is not None:
            return answer_by_lengths(SequenceClassifier.predict_proba, self, X, lengths, known=known)
        if known is not None:
            return np.exp(self.predict_log_proba(X, known=known))
        return _class_shares(self.estimator_, X, len(self.classes_))

    def predict(self, X: object, *, known: object = None, lengths: ArrayLike | None = None) -> np.ndarray:
        """Return the most probable class of each sequence.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        known : labels or None, default None
            What is known of the classes, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.
        lengths : array (n_items,) or mask (n_items, T), default None
            The lengths of sequences in one array, as for :meth:`fit`.

        Returns
        -------
        ndarray (n,)
            The classes.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import SequenceClassifier
        >>> X = [np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]]), np.array([[2.0], [0.0]])]
        >>> y = ["up", "up", "down"]
        >>> model = SequenceClassifier("rbf", n_states=2, random_state=0).fit(X, y)
        >>> model.predict([np.array([[0.1], [0.9], [1.8]]), np.array([[1.9], [0.1]])])
        array(['up', 'up'], dtype='<U4')
        """
        probabilities = self.predict_proba(X, known=known, lengths=lengths)
        return self.classes_[first_largest(probabilities)]

    def predict_states(self, X: Any, *, lengths: ArrayLike | None = None) -> list[np.ndarray]:
        """Return the most probable hidden states of each sequence, within its class.

        The class is that of :meth:`predict`, and the states are the most probable given this class.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        lengths : array (n_items,) or mask (n_items, T), default None
            The lengths of sequences in one array, as for :meth:`fit`.

        Returns
        -------
        list of arrays (T,)
            The states, 0 to n_states - 1.

        Raises
        ------
        ValueError
            If the classifier has no hidden states.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import SequenceClassifier
        >>> X = [np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]]), np.array([[2.0], [0.0]])]
        >>> y = ["up", "up", "down"]
        >>> model = SequenceClassifier("rbf", n_states=2, random_state=0).fit(X, y)
        >>> model.predict_states([np.array([[0.1], [0.9], [1.8]])])[0].shape
        (3,)
        """
        if lengths is not None:
            return answer_by_lengths(SequenceClassifier.predict_states, self, X, lengths)
        if self.n_states_ == 0:
            raise ValueError("this classifier has no hidden states (n_states_ is 0): n_states=3 gives each class three")
        first = first_largest(self.predict_proba(X)) * self.n_states_
        known = _select_states(first, _lengths(X), self.n_states_)
        found = self.estimator_.predict(X, decode="viterbi", known=known)
        return Ragged(np.asarray(states, dtype=np.int64) - begin for begin, states in zip(first, found, strict=True))

    def score(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, lengths: ArrayLike | None = None
    ) -> float:
        """Return the share of sequences with the right class.

        Sequences whose class is not known do not count.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        y : sequence (n,)
            The true classes.
        sample_weight : array (n,) or None, default None
            One weight for each sequence.
        lengths : array (n_items,) or mask (n_items, T), default None
            The lengths of sequences in one array, as for :meth:`fit`.

        Returns
        -------
        float
            The share, between 0 and 1.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import SequenceClassifier
        >>> X = [np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]]), np.array([[2.0], [0.0]])]
        >>> y = ["up", "up", "down"]
        >>> model = SequenceClassifier("rbf", n_states=2, random_state=0).fit(X, y)
        >>> model.score([np.array([[0.1], [0.9], [1.8]]), np.array([[1.9], [0.1]])], ["up", "up"])
        1.0
        """
        check_is_fitted(self, "estimator_")
        if lengths is not None:
            X, y = cut_by_lengths(self._answer_format, X, y, lengths)
        if not are_partly_known(y):
            return super().score(X, y, sample_weight)
        ones = np.ones(len(X), dtype=np.int64)
        return share_right(list(y), self.classes_, ones, lambda: self.predict(X), sample_weight, SAMPLES)

    # ---- questions about classes: those of single labels, with the log Z of the states of each class as potentials

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def _picklable(self) -> Self:
        model = copy.copy(self)
        model.estimator_ = self.estimator_._picklable()
        return model

    def answers(self, X: object, y: object = None, known: object = None) -> Iterator[Answers]:
        """Yield the distribution of the classes of all sequences.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        y : labels or None, default None
            The classes, for data with labels.
        known : labels or None, default None
            What is known of the classes, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.

        Yields
        ------
        Answers
            The answers.
        """
        check_is_fitted(self)
        classes = np.arange(len(self.classes_))
        own_states = np.where(classes[:, None] == np.repeat(classes, max(1, self.n_states_)), 0.0, -np.inf)
        totals: list[np.ndarray] = []
        for batch in self.estimator_.answers(X):
            by_class = [batch.condition(np.tile(own, (batch.data.n_positions, 1))).log_partition for own in own_states]
            # A sequence without positions has nothing that speaks for a class.
            totals += batch.by_item(np.column_stack(by_class), np.zeros(len(classes)))
        inputs = np.empty((len(totals), 0))
        data = single_nodes(inputs) if y is None else partly_labelled(inputs, y, None, self.classes_)[0]
        potentials = Potentials(np.array(totals).reshape(-1, len(classes)))
        answers = Answers(data, SingleFamily(len(totals), len(classes)), potentials, Workers(self.n_jobs))
        yield answers.condition(None if known is None else self._answer_format.known_log_weights(self, known, data))

    def predict_log_proba(self, X: object, *, known: object = None, lengths: ArrayLike | None = None) -> np.ndarray:
        """Return the logarithms of the probabilities of classes.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        known : labels or None, default None
            What is known of the classes, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.
        lengths : array (n_items,) or mask (n_items, T), default None
            The lengths of sequences in one array, as for :meth:`fit`.

        Returns
        -------
        ndarray (n, L)
            The values of log p(c | x), columns as in ``classes_``.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import SequenceClassifier
        >>> X = [np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]]), np.array([[2.0], [0.0]])]
        >>> y = ["up", "up", "down"]
        >>> model = SequenceClassifier("rbf", n_states=2, random_state=0).fit(X, y)
        >>> model.predict_log_proba([np.array([[0.1], [0.9], [1.8]])]).round(1)
        array([[-1.4, -0.3]])
        """
        if lengths is not None:
            return answer_by_lengths(SequenceClassifier.predict_log_proba, self, X, lengths, known=known)
        (answers,) = self.answers(X, known=known)
        return answers.node - answers.log_partition[:, None]

    # ---- inspection: the chain over states, which are named by their class

    def _named_states(self) -> ChainCRF:
        check_is_fitted(self, "estimator_")
        named = copy.copy(self.estimator_)
        named.classes_ = np.array([f"{c} {state}" for c in self.classes_ for state in range(self.n_states_)])
        if self.n_states_ == 0:
            named.classes_ = np.array([str(c) for c in self.classes_])
        return named

    def weights(self, *arguments: Any, **settings: Any) -> WeightsTable:
        """Return the largest weights of every hidden state, named "class state".

        Parameters
        ----------
        *arguments : object
            As in :meth:`ChainCRF.weights`.
        **settings : object
            As in :meth:`ChainCRF.weights`.

        Returns
        -------
        WeightsTable
            The weights, to be printed, shown by a notebook or taken as rows by ``to_rows()``.

        Examples
        --------
        >>> from kernelfields import SequenceClassifier
        >>> X = [[{"good": 1.0}, {"bad": 0.2}], [{"bad": 1.0}]]
        >>> model = SequenceClassifier("linear", n_states=1, random_state=0).fit(X, ["praise", "blame"])
        >>> table = model.weights(top=1, labels=["praise 0"])
        >>> [(row["label"], row["feature"]) for row in table.to_rows() if row["feature"]]
        [('praise 0', 'good')]
        """
        return self._named_states().weights(*arguments, **settings)

    def summary(self) -> ModelSummary:
        """Return a summary of the chain over hidden states.

        Returns
        -------
        ModelSummary
            States, clique sets and the fit, to be printed, shown by a notebook or put on a page of a report.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import SequenceClassifier
        >>> X = [np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]]), np.array([[2.0], [0.0]])]
        >>> y = ["up", "up", "down"]
        >>> model = SequenceClassifier("rbf", n_states=2, random_state=0).fit(X, y)
        >>> print(str(model.summary()).splitlines()[1])
        labels: down 0, down 1, up 0, up 1
        """
        return replace(self._named_states().summary(), name=type(self).__name__)

    def show(self, x: Any, *, tokens: Sequence | None = None, caption: str = "") -> LabelledSequence:
        """Return one sequence with its most probable hidden states, in colours, for a notebook or a page.

        Parameters
        ----------
        x : sequence
            One sequence.
        tokens : sequence or None, default None
            What to show for each position, such as its word.
        caption : str, default ""
            A line above the picture.

        Returns
        -------
        LabelledSequence
            The states with their probabilities, to be shown by a notebook or put on a page of a report.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import SequenceClassifier
        >>> X = [np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]]), np.array([[2.0], [0.0]])]
        >>> y = ["up", "up", "down"]
        >>> model = SequenceClassifier("rbf", n_states=2, random_state=0).fit(X, y)
        >>> {state.split()[0] for state in model.show(np.array([[0.1], [0.9], [1.8]])).labels}
        {'up'}
        """
        states, chain = self._states(x), self._named_states()
        marginals = self.estimator_.predict_marginals([x])[0]
        if self.n_states_ == 0:
            tokens = ["the whole sequence"]
        tokens = chain._inspection.tokens(chain, x) if tokens is None else tokens
        return LabelledSequence(chain.classes_[states], marginals, chain.classes_.tolist(), tokens, None, caption)

    def explain(self, x: Any, **settings: Any) -> Explanation:
        """Explain the hidden state of each position of one sequence by contributions.

        Parameters
        ----------
        x : sequence
            One sequence.
        **settings : object
            As in :meth:`ChainCRF.explain`.

        Returns
        -------
        Explanation
            The contributions at each position, to be printed, shown by a notebook or taken as rows by ``to_rows()``.

        Examples
        --------
        >>> from kernelfields import SequenceClassifier
        >>> X = [[{"good": 1.0}, {"bad": 0.2}], [{"bad": 1.0}]]
        >>> model = SequenceClassifier("linear", n_states=1, random_state=0).fit(X, ["praise", "blame"])
        >>> print(model.explain([{"good": 1.0}], top=1))
        Scores of labels over others, the labels of their neighbours held fixed,
        and what they are the sums of. Probabilities are given in brackets.
        <BLANKLINE>
        0: praise 0 (0.609) over blame 0 (0.391), +0.442
            +0.548  good
            -0.106  start
        """
        chain = self._named_states()
        return chain.explain(x, chain.classes_[self._states(x)].tolist(), **settings)

    def _states(self, x: Any) -> np.ndarray:
        """Return the most probable states of one sequence, in its most probable class, as labels of the chain."""
        check_one_sequence(x, "a picture")
        likeliest = int(self.predict_proba([x])[0].argmax())
        if self.n_states_ == 0:
            return np.array([likeliest])
        return likeliest * self.n_states_ + self.predict_states([x])[0]

    @property
    def n_features_in_(self) -> int:
        """Number of input features."""
        check_is_fitted(self, "estimator_")
        return self._reads_inputs.n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the input features; absent for unnamed features."""
        check_is_fitted(self, "estimator_")
        return self._reads_inputs.feature_names_in_

    @property
    def _reads_inputs(self) -> Any:
        """The reader of the columns of sequences: the transformer if there is one, else the chain."""
        return self.estimator_ if self.n_states_ else self.estimator_.features_

    def _to_document(self) -> Document:
        """Return the fitted estimator as plain values and arrays."""
        return {
            "parameters": describe_parameters(self),
            "classes": self.classes_,
            "n_states": self.n_states_,
            "choices": self.choices_.describe(),
            "field": self.estimator_._to_document(),
        }

    @classmethod
    def _from_document(cls, document: Document, callables: Functions | None = None) -> Self:
        """Rebuild the fitted estimator from its document; errors of any kind for an unsound document."""
        functions = callables or {}
        model = rebuild_estimator(cls, document["parameters"], functions)
        check_parameters(model)
        model.classes_ = check_classes(document["classes"])
        model.estimator_ = ChainCRF._from_document(document["field"], functions)
        model.n_states_ = whole_number(document.get("n_states", model.n_states), "the number of states")
        model.choices_ = Choices.rebuild(document.get("choices"))
        states, n_classes = len(model.estimator_.classes_), len(model.classes_)
        if states != n_classes * max(1, model.n_states_):
            raise ValueError(f"{states} states do not make {n_classes} classes of {model.n_states_}")
        return model


@share_of_fit.register
def _share_of_chain(model: SequenceClassifier, X: object) -> float:
    return share_of_fit(model.estimator_, X)


class _Classes(NamedTuple):
    """The sorted classes, the given class of every sequence, and the lengths of sequences."""

    classes: np.ndarray
    given: GivenLabels
    lengths: list[int]

    @property
    def numbers(self) -> np.ndarray:
        """The class number of every sequence, the most probable one if it is unknown."""
        return self.given.numbers

    @property
    def known(self) -> np.ndarray:
        """Mask of sequences with known classes."""
        return self.given.certain()

    def select(self, chosen: np.ndarray) -> _Classes:
        """Select sequences with known classes."""
        lengths = [self.lengths[index] for index in chosen]
        return self._replace(given=KnownLabels(self.numbers[chosen]), lengths=lengths)


@singledispatch
def _possible_states(given: GivenLabels, lengths: Sequence[int], n_states: int) -> list[list]:
    """Return the possible states at each position: the states of the class."""
    raise TypeError(f"no states of {type(given).__name__}")


@_possible_states.register
def _of_known(given: KnownLabels, lengths: Sequence[int], n_states: int) -> list[list]:
    return _select_states(given.numbers * n_states, lengths, n_states)


@_possible_states.register
def _of_weighed(given: PartialRows, lengths: Sequence[int], n_states: int) -> list[list]:
    shares = np.exp(np.repeat(given.weights, n_states, axis=1))
    firsts = [{state: float(own) for state, own in enumerate(row) if own > 0} for row in shares]
    return [[first, *[None] * (length - 1)] for first, length in zip(firsts, lengths, strict=True)]


@singledispatch
def _first_states(given: GivenLabels, lengths: Sequence[int], n_states: int) -> list:
    """Return the first state of its class at all positions of each sequence; any first state for unknown classes."""
    return _possible_states(given, lengths, n_states)


@_first_states.register
def _of_known_class(given: KnownLabels, lengths: Sequence[int], n_states: int) -> list:
    return [np.full(length, number * n_states) for number, length in zip(given.numbers, lengths, strict=True)]


def _select_states(first: np.ndarray, lengths: Sequence[int], n_states: int) -> list[list[set[int]]]:
    """Return the states of one class at all positions of each sequence; ``first`` are the first states."""
    states = [set(range(begin, begin + n_states)) for begin in first.tolist()]
    return [[own] * length for own, length in zip(states, lengths, strict=True)]


def _class_shares(field: ChainCRF, X: Any, n_classes: int) -> np.ndarray:
    """Return p(c | x), (n, classes), by the chain over the states of all classes."""
    # A labelling belongs to the class of its first state; a sequence without positions says nothing of its class.
    n_states = len(field.classes_)
    nothing = np.full(n_states, 1.0 / n_states)
    first = [marginals[0] if len(marginals) else nothing for marginals in field.predict_marginals(X)]
    return np.array(first).reshape(len(first), n_classes, n_states // n_classes).sum(axis=2)


def _read_classes(X: Any, y: Any) -> _Classes:
    elsewhere = "classes of sequences are read in this process: pass lists; engine='dask' cuts them up"
    refuse_collections(X, y, error=ValueError(elsewhere))
    shape = find_shape(X) or ()
    if len(shape) == 3 and shape[1] < shape[2]:
        raise ValueError(
            f"X of shape {shape} looks like (sequences, features, positions), as sktime has it: pass "
            f"X.transpose(0, 2, 1), or list(X) if each sequence has {shape[1]} positions of {shape[2]} features"
        )
    X = list_sequences(X)
    if isinstance(y, SoftTargets):
        raise ValueError("SoftTargets are for labels of positions: give a dict of weights for each class of y")
    if not is_sequence(y) or len(y) != len(X):
        count = len(y) if is_sequence(y) else repr(y)[:60]
        raise ValueError(f"X has {len(X)} sequences and y {count}: each sequence needs one class")
    if any(is_sequence(label) for label in y):
        raise ValueError("y has lists of labels: one class for each sequence is needed; ChainCRF labels each position")
    if are_partly_known(y):
        numbers, weights, classes = read_labels(list(y), None, None, SAMPLES)
        given = given_labels(numbers, weights)
    else:
        targets = labels_as_array(y)
        check_classification_targets(targets)
        classes, numbers = np.unique(targets, return_inverse=True)
        given = KnownLabels(numbers)
    if len(classes) < 2:
        raise ValueError(f"y holds the one class {classes.tolist()[0]!r}: a classifier needs sequences of at least 2")
    warn_of_minus_one(classes)
    lengths = _lengths(X)
    if 0 in lengths:
        raise ValueError(f"sequence {lengths.index(0)} of X is empty: remove it from X and y")
    return _Classes(classes, given, lengths)


def _lengths(X: Any) -> list[int]:
    """Return the lengths of the sequences."""
    for index, sequence in enumerate(X):
        check_sequence(sequence, f"sequence {index}")
    return [count_rows(sequence) for sequence in X]
