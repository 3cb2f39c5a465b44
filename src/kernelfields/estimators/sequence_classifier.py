"""SequenceClassifier: classes of whole sequences, by a chain whose states are hidden.

    p(c | x) = sum over h in H_c of p(h | x),      H_c: all labellings by the states of class c

Every class has states of its own, and states of two classes are never neighbours: a labelling belongs to one class, and
p(c | x) is the probability that the first state is one of c. The field is a ChainCRF over all states, fitted to labels
that are partly known (fields/evidence.py): at every position one of the states of the class. The states of a class are
alike at first, and zero is a saddle: a fit begins at the field of a first guess of states.

Minima are local; all but the first of ``n_init`` starts are drawn from the prior.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from kernelfields.estimators.auto_parameters import NoProgress
from kernelfields.estimators.base import EngineLike, FieldParameters, KernelLike
from kernelfields.estimators.chain_crf import ChainCRF, ChainTraining
from kernelfields.estimators.stored import Functions
from kernelfields.features.readers import is_feature_sequences
from kernelfields.fields.cliques import EdgeCliques, NodeCliques, StartCliques
from kernelfields.fields.evidence import SoftTargets, certain, log_weights, read_labels, share_right, tells_partly
from kernelfields.fields.reading import (
    SAMPLES,
    check_class_weight,
    is_sequence,
    pack_inputs,
    random_generator,
    warn_of_minus_one,
)
from kernelfields.formats.model_file import Document
from kernelfields.models.documents import checked_classes, describe_parameters, rebuild_estimator
from kernelfields.models.partial import PartialLabels
from kernelfields.numerics.parameters import (
    attribute,
    check_count,
    check_prior_variance,
    declares_parameters,
    is_auto,
    one_of,
    or_none,
    parameter,
)
from kernelfields.numerics.sparse_rows import offsets_of
from kernelfields.numerics.windows import window_of_inputs
from kernelfields.solvers.loop import Solution

# Parameters of the chain over states.
_OF_THE_CHAIN = ("scale", "solver", "tol", "max_iter", "dtype", "n_jobs", "engine", "random_state", "verbose")
# A guess is a place to start from, and not worth more.
_GUESS_TOLERANCE = 0.1


@declares_parameters
class SequenceClassifier(ClassifierMixin, FieldParameters):
    """Classifier of whole sequences: each class is a chain of hidden states, in reproducing kernel Hilbert spaces.

    Parameters
    ----------
    kernel : "auto", Kernel, str, callable or scikit-learn kernel, default "auto"
        Kernel on the inputs of a position. "auto" is "linear" for feature dicts and strings, else "rbf".
    n_states : int, default 3
        Hidden states of every class. With one, the score of a sequence is the sum over its positions.
    init : "segments", "kmeans" or "random", default "segments"
        What a fit begins with: the states of a class in turn from the first position to the last, clusters of the
        inputs of a class, or states drawn for each position.
    n_init : int, default 1
        Starts, all but the first drawn from the prior; the fit with the lowest objective is kept.
    window, rank, basis : as in ChainCRF
    prior_variance : float, default 1.0
        Prior variance of the functions of the inputs.
    edge_prior_variance : float or None
        Prior variance of transitions and of first states; None means ``prior_variance``.
    scale : "auto", True or False, default "auto"
        Whether columns of numbers are brought to one scale, as in ChainCRF.
    class_weight : dict of classes, "balanced" or None
    solver, tol, max_iter, dtype, n_jobs, engine, random_state, verbose : as in ChainCRF

    Attributes
    ----------
    classes_ : the sorted classes
    estimator_ : the ChainCRF over states; state ``k`` of class ``c`` has the label ``c * n_states + k``
    n_features_in_ : number of input features
    solution_ : Solution of that chain
    """

    kind = "SequenceClassifier"

    kernel: KernelLike = parameter("auto", first=True)
    n_states: int = parameter(3, check_count)
    init: str = parameter("segments", one_of("segments", "kmeans", "random"))
    n_init: int = parameter(1, check_count)
    window: int | tuple[int, int] = parameter(1, window_of_inputs)
    prior_variance: float = parameter(1.0, check_prior_variance)
    edge_prior_variance: float | None = parameter(None, or_none(check_prior_variance))
    class_weight: Mapping[object, float] | str | None = parameter(None, lambda value, name: check_class_weight(value))
    solver: object = parameter("auto")
    engine: EngineLike = parameter("auto")

    classes_: np.ndarray = attribute()
    estimator_: ChainCRF = attribute()

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to sequences X and their classes y (n,); ``sample_weight`` holds one weight per sequence.

        A class may be None where it is not known, a set of possible ones, or a dict of weights.
        """
        self._check_parameters()
        read = _read_classes(X, y)
        classes, lengths, possible = read.classes, read.lengths, self._possible_states(read)
        if self.class_weight is not None:
            weights = np.ones(len(lengths))
            weights[read.known] = compute_sample_weight(self.class_weight, classes[read.numbers[read.known]])
            sample_weight = weights if sample_weight is None else weights * np.asarray(sample_weight)
        field = self._chain(X, len(classes))
        guess = self._guess(X, read.numbers, lengths)
        states = [
            number * self.n_states + np.asarray(own) if known else other
            for number, own, known, other in zip(read.numbers, guess, read.known, possible, strict=True)
        ]
        if self.n_states > 1:
            field.set_params(tol=_GUESS_TOLERANCE)
        field.fit(X, states, sample_weight)
        if self.n_states > 1:
            field.set_params(tol=self.tol, warm_start=True)
            field.fit(X, possible, sample_weight).set_params(warm_start=False)
        self.classes_, self.estimator_ = classes, field
        return self

    def _possible_states(self, read: _Classes) -> list[list]:
        """Return what is known of the states of each sequence: the class decides them from the first position on."""
        if read.weights is None:
            return self._states_of(read.numbers * self.n_states, read.lengths)
        shares = np.exp(np.repeat(read.weights, self.n_states, axis=1))
        firsts = [{state: float(own) for state, own in enumerate(row) if own > 0} for row in shares]
        return [[first, *[None] * (length - 1)] for first, length in zip(firsts, read.lengths, strict=True)]

    def _states_of(self, first: np.ndarray, lengths: Sequence[int]) -> list[list[set[int]]]:
        """Return the states of one class at all positions of each sequence; ``first`` are the first of the class."""
        states = [set(range(begin, begin + self.n_states)) for begin in first.tolist()]
        return [[own] * length for own, length in zip(states, lengths, strict=True)]

    def _chain(self, X: Any, n_classes: int) -> ChainCRF:
        """Return the chain over the states of all classes, which never follow those of another."""
        kernel = self.kernel
        if is_auto(kernel):
            kernel = "linear" if is_feature_sequences(X) else "rbf"
        edge_variance = self.prior_variance if self.edge_prior_variance is None else self.edge_prior_variance
        shared: dict[str, Any] = {"window": self.window, "rank": self.rank, "basis": self.basis}
        states = range(n_classes * self.n_states)
        apart = [(a, b) for a in states for b in states if a // self.n_states != b // self.n_states]
        return ChainCRF(
            kernel,
            cliques=[
                NodeCliques(kernel, prior_variance=self.prior_variance, **shared),
                EdgeCliques(prior_variance=edge_variance),
                StartCliques(prior_variance=edge_variance),
            ],
            constraints=apart,
            partial_labels=PartialLabels(n_init=self.n_init, classes=list(states)),
            **{name: getattr(self, name) for name in _OF_THE_CHAIN},
        )

    # ---- what a search by cross-validation needs, as FieldEstimator has it

    _places: ClassVar[tuple[str, str]] = ("sequence", "position")

    def _training(self, X: Any, y: Any, sample_weight: object, progress: NoProgress) -> ChainTraining:
        """Return the data as the chain over states reads them, all positions in the first state of their class."""
        read = _read_classes(X, y)
        states: list = self._possible_states(read)
        if read.weights is None:
            first = read.numbers * self.n_states
            states = [np.full(length, number) for number, length in zip(first, read.lengths, strict=True)]
        return self._chain(X, len(read.classes))._training(X, states, sample_weight, progress)

    def _item_labels(self, training: ChainTraining, y: Any) -> list[np.ndarray]:
        """Return the number of the class of each sequence, in an array of its own; an empty one if it is not known."""
        numbers, weights, _ = read_labels([list(y)], None, np.array([len(y)]), SAMPLES)
        known = np.ones(len(numbers), bool) if weights is None else certain(weights)
        return [np.array([number])[: int(sure)] for number, sure in zip(numbers, known, strict=True)]

    @property
    def solution_(self) -> Solution:
        """The Solution of the chain over states."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.solution_

    def _guess(self, X: Any, numbers: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
        """Return a first guess of the states within a class, (T,) for each sequence."""
        if self.init == "segments":
            return [np.arange(length) * self.n_states // length for length in lengths]
        random = random_generator(self.random_state)
        if self.init == "random":
            return [random.integers(self.n_states, size=length) for length in lengths]
        return _clusters(X, numbers, lengths, self.n_states, random)

    def predict_proba(self, X: object) -> np.ndarray:
        """Return p(c | x), (n, classes), columns as in ``classes_``."""
        check_is_fitted(self, "estimator_")
        # A labelling belongs to the class of its first state; a sequence without positions says nothing of its class.
        n_states = len(self.classes_) * self.n_states
        nothing = np.full(n_states, 1.0 / n_states)
        first = [marginals[0] if len(marginals) else nothing for marginals in self.estimator_.predict_marginals(X)]
        states = np.array(first).reshape(len(first), len(self.classes_), self.n_states)
        return states.sum(axis=2)

    def predict(self, X: object) -> np.ndarray:
        """Return the most probable class of each sequence, (n,)."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_states(self, X: Any) -> list[np.ndarray]:
        """Return the most probable states of each sequence, (T,): 0 to n_states - 1 within its class.

        The class is the one that :meth:`predict` gives, and the states are the most probable given this class. The most
        probable states of all classes may belong to another one, whose other states are less probable.
        """
        first = self.predict_proba(X).argmax(axis=1) * self.n_states
        found = self.estimator_.predict(X, decode="viterbi", known=self._states_of(first, _lengths(X)))
        return [np.asarray(states, dtype=np.int64) - begin for begin, states in zip(first, found, strict=True)]

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of sequences whose class is that of :meth:`predict`, of those that have a known one."""
        check_is_fitted(self, "estimator_")
        if not tells_partly(y):
            return super().score(X, y, sample_weight)
        count = np.array([len(y)])
        return share_right([list(y)], self.classes_, count, lambda: [self.predict(X)], sample_weight, SAMPLES)

    @property
    def n_features_in_(self) -> int:
        """Number of input features."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.n_features_in_

    def to_document(self) -> Document:
        """Return the fitted estimator as plain values and arrays."""
        return {
            "parameters": describe_parameters(self),
            "classes": self.classes_,
            "field": self.estimator_.to_document(),
        }

    @classmethod
    def from_document(cls, document: Document, callables: Functions | None = None) -> Self:
        """Return the estimator that was described; errors of any kind if it is not sound."""
        functions = callables or {}
        model = rebuild_estimator(cls, document["parameters"], functions)
        model._check_parameters()
        model.classes_ = checked_classes(document["classes"])
        model.estimator_ = ChainCRF.from_document(document["field"], functions)
        if len(model.estimator_.classes_) != len(model.classes_) * model.n_states:
            raise ValueError(
                f"{len(model.estimator_.classes_)} states do not make {len(model.classes_)} classes of {model.n_states}"
            )
        return model


class _Classes(NamedTuple):
    """The sorted classes, the number of that of every sequence, whether it is known, and the lengths of sequences.

    ``weights`` are log-weights of the classes of each sequence, None where all are known.
    """

    classes: np.ndarray
    numbers: np.ndarray
    known: np.ndarray
    lengths: list[int]
    weights: np.ndarray | None


def _read_classes(X: Any, y: Any) -> _Classes:
    if not is_sequence(X) or not len(X):
        raise ValueError(
            f"X must be a list of sequences, each an array (T, d) or a list of feature dicts, got {X!r:.60}"
        )
    if isinstance(y, SoftTargets):
        raise ValueError("SoftTargets are for labels of positions: give a dict of weights for each class of y")
    if not is_sequence(y) or len(y) != len(X):
        count = len(y) if is_sequence(y) else repr(y)[:60]
        raise ValueError(f"X has {len(X)} sequences and y {count}: each sequence needs one class")
    if any(is_sequence(label) for label in y):
        raise ValueError("y has lists of labels: one class for each sequence is needed; ChainCRF labels each position")
    weights: np.ndarray | None = None
    if tells_partly(y):
        numbers, evidence, classes = read_labels([list(y)], None, np.array([len(y)]), SAMPLES)
        weights = None if evidence is None else log_weights(evidence)
    else:
        targets = np.asarray(y)
        check_classification_targets(targets)
        classes, numbers = np.unique(targets, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y holds the one class {classes.tolist()[0]!r}: a classifier needs sequences of at least 2")
    warn_of_minus_one(classes)
    lengths = _lengths(X)
    if 0 in lengths:
        raise ValueError(f"sequence {lengths.index(0)} of X is empty: remove it from X and y")
    known = np.ones(len(numbers), dtype=bool) if weights is None else certain(weights)
    return _Classes(classes, numbers, known, lengths, weights)


def _lengths(X: Any) -> list[int]:
    """Return the lengths of the sequences."""
    return [sequence.shape[0] if hasattr(sequence, "shape") else len(sequence) for sequence in X]


def _clusters(
    X: Any, numbers: np.ndarray, lengths: Sequence[int], n_states: int, random: np.random.Generator
) -> list[np.ndarray]:
    """Return clusters of the inputs of each class; columns count by their spread."""
    from sklearn.cluster import KMeans

    if is_feature_sequences(X):
        raise ValueError("init='kmeans' is for arrays of numbers: use init='segments' or 'random' for features")
    inputs = pack_inputs(X)[0]
    table = np.asarray(inputs.toarray() if hasattr(inputs, "toarray") else inputs, dtype=np.float64)
    spread = table.std(axis=0)
    table = table / np.where(spread > 0, spread, 1.0)
    owner, offsets = np.repeat(numbers, lengths), offsets_of(np.asarray(lengths))
    guess = np.zeros(len(table), dtype=np.int64)
    for number in np.unique(numbers):
        rows = np.flatnonzero(owner == number)
        n_clusters = min(n_states, len(np.unique(table[rows], axis=0)))
        means = KMeans(n_clusters, n_init=3, random_state=int(random.integers(2**31)))
        guess[rows] = means.fit_predict(table[rows])
    return [guess[begin:end] for begin, end in pairwise(offsets.tolist())]
