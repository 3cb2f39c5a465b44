"""SequenceClassifier: classes of whole sequences, by a chain whose states are hidden.

    p(c | x) = sum over h in H_c of p(h | x),      H_c: all labellings by the states of class c

Every class has states of its own, and states of two classes are never neighbours: a labelling belongs to one class, and
p(c | x) is the probability that the first state is one of c. The field is a ChainCRF over all states, fitted to
partial labels (data/partial_labels.py): at every position one of the states of the class. The states of a class are
alike at first, and zero is a saddle: a fit begins at the field of a first guess, the states of a class in turn from
the first position to the last.

Minima are local.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.chunks import check_sequence
from kernelfields.data.cliques import EdgeCliques, NodeCliques, StartCliques
from kernelfields.data.graphs import Graphs
from kernelfields.data.partial_labels import SoftTargets, certain, log_weights, share_right, tells_partly
from kernelfields.data.readers import read_labels
from kernelfields.data.reading import (
    SAMPLES,
    check_class_weight,
    is_feature_sequences,
    is_sequence,
    list_sequences,
    warn_of_minus_one,
)
from kernelfields.engines.choice import is_collection
from kernelfields.estimators.chain_crf import ChainCRF, ChainTraining, check_features, features_for
from kernelfields.estimators.edges import EdgeParameters, clique_set
from kernelfields.estimators.fit_state import NoProgress
from kernelfields.estimators.inspecting.explanations import check_one_sequence
from kernelfields.estimators.kept_field import EngineLike, KernelLike
from kernelfields.estimators.kernel_classifier import partly_labelled, single_nodes
from kernelfields.estimators.questions import LabelQuestions
from kernelfields.inference.answers import Answers
from kernelfields.inference.family import Potentials
from kernelfields.inference.packing import first_largest
from kernelfields.inference.single import SingleFamily
from kernelfields.models.documents import checked_classes, describe_parameters, rebuild_estimator
from kernelfields.models.model_file import Document
from kernelfields.models.partial import PartialLabels
from kernelfields.models.stored import Functions
from kernelfields.numerics.containers import n_rows_of
from kernelfields.numerics.parameters import (
    attribute,
    check_count,
    check_prior_variance,
    check_window,
    declares_parameters,
    is_auto,
    parameter,
)
from kernelfields.numerics.threads import Workers
from kernelfields.reports.inspection import (
    Explanation,
    ModelSummary,
    WeightsTable,
)
from kernelfields.reports.sequences import LabelledSequence
from kernelfields.solvers.loop import Solution

# Parameters of the chain over states.
_OF_THE_CHAIN = ("scale", "tol", "max_iter", "dtype", "n_jobs", "engine", "random_state", "verbose")
# A guess is a place to start from, and not worth more.
_GUESS_TOLERANCE = 0.1
# Where a class is impossible, the limit of p log p.
_LOWEST = -1e300


def _check_variance(value: object, name: str) -> None:
    if is_auto(value):
        raise ValueError(
            f"{name} of hidden states is not chosen by pilot fits, whose states are others: FieldSearchCV does"
        )
    check_prior_variance(value, name)


@declares_parameters
class SequenceClassifier(ClassifierMixin, LabelQuestions[Graphs], EdgeParameters):
    """Classifier of whole sequences: each class is a chain of hidden states, in reproducing kernel Hilbert spaces.

    Parameters
    ----------
    kernel : "auto", Kernel, str, callable or scikit-learn kernel, default "auto"
        Kernel on the inputs of a position. "auto" is "linear" for feature dicts and strings, else "rbf".
    n_states : int, default 3
        Hidden states of every class. With one, the score of a sequence is the sum over its positions.
    window, rank, basis : as in ChainCRF
    prior_variance : float, default 1.0
        Prior variance of the functions of the inputs.
    edges : EdgeCliques or None
        Transitions between states, as in ChainCRF; their prior variance is also that of first states.
        What the set leaves open (window, basis, rank, prior_variance) is that of the estimator.
    scale : "auto", True or False, default "auto"
        Whether columns of numbers are brought to one scale, as in ChainCRF.
    class_weight : dict of classes, "balanced" or None
    tol, max_iter, dtype, n_jobs, engine, random_state, verbose, features : as in ChainCRF

    Attributes
    ----------
    classes_ : the sorted classes
    estimator_ : the ChainCRF over states; state ``k`` of class ``c`` has the label ``c * n_states + k``
    n_features_in_ : number of input features
    solution_ : Solution of that chain
    """

    kind = "SequenceClassifier"
    item_names = SAMPLES
    place_headings = ("sequence", "")
    is_single = True

    kernel: KernelLike = parameter("auto", first=True)
    n_states: int = parameter(3, check_count)
    window: int | tuple[int, int] = parameter(1, check_window)
    prior_variance: float = parameter(1.0, _check_variance)
    edges: EdgeCliques | None = parameter(None, clique_set(EdgeCliques))
    class_weight: Mapping[object, float] | str | None = parameter(None, lambda value, name: check_class_weight(value))
    engine: EngineLike = parameter("auto")
    features: Any = parameter("auto", check_features)

    classes_: np.ndarray = attribute()
    estimator_: ChainCRF = attribute()

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to sequences X and their classes y (n,); ``sample_weight`` holds one weight per sequence.

        A class may be None where it is not known, a set of possible ones, or a dict of weights.
        """
        self.check_parameters()
        read = _read_classes(X, y)
        classes, lengths, possible = read.classes, read.lengths, self._possible_states(read)
        # Features that learn from labels learn from classes, and once.
        features = features_for(self.features, X)
        X = X if features is None else features.fit_transform(X, y)
        if self.class_weight is not None:
            weights = np.ones(len(lengths))
            weights[read.known] = compute_sample_weight(self.class_weight, classes[read.numbers[read.known]])
            sample_weight = weights if sample_weight is None else weights * np.asarray(sample_weight)
        field = self._chain(X, len(classes))
        in_turn = [np.arange(length) * self.n_states // length for length in lengths]
        states = [
            number * self.n_states + own if known else other
            for number, own, known, other in zip(read.numbers, in_turn, read.known, possible, strict=True)
        ]
        if self.n_states == 1:
            field.fit(X, states, sample_weight)
        else:
            field.set_params(tol=_GUESS_TOLERANCE).fit(X, states, sample_weight)
            field.set_params(tol=self.tol, warm_start=True).fit(X, possible, sample_weight)
        field.set_params(warm_start=False)
        self.classes_, self.estimator_ = classes, field if features is None else field.behind(features)
        return self

    def behind(self, transformer: Any) -> Self:
        model = copy.copy(self)
        model.estimator_ = self.estimator_.behind(transformer)
        model.features = model.estimator_.features
        return model

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
        shared: dict[str, Any] = {"window": self.window, "rank": self.rank, "basis": self.basis}
        shared["prior_variance"] = self.prior_variance
        edges = self._edges.filled(**shared)
        first = edges.prior_variance
        states = range(n_classes * self.n_states)
        apart = [(a, b) for a in states for b in states if a // self.n_states != b // self.n_states]
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

    def fit_state(self, X: Any, y: Any, sample_weight: object, progress: NoProgress) -> ChainTraining:
        """Return the data as the chain over states reads them, all positions in the first state of their class."""
        read, features = _read_classes(X, y), features_for(self.features, X)
        X = X if features is None else features.fit_transform(X, y)
        states: list = self._possible_states(read)
        if read.weights is None:
            first = read.numbers * self.n_states
            states = [np.full(length, number) for number, length in zip(first, read.lengths, strict=True)]
        return self._chain(X, len(read.classes)).fit_state(X, states, sample_weight, progress)

    def item_labels(self, training: ChainTraining, y: Any) -> list[np.ndarray]:
        """Return the number of the class of each sequence, in an array of its own; an empty one if it is not known."""
        numbers, weights, _ = read_labels(list(y), None, None, SAMPLES)
        known = np.ones(len(numbers), bool) if weights is None else certain(weights)
        return [np.array([number])[: int(sure)] for number, sure in zip(numbers, known, strict=True)]

    @property
    def solution_(self) -> Solution:
        """The Solution of the chain over states."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.solution_

    def predict_proba(self, X: object, *, known: object = None) -> np.ndarray:
        """Return p(c | x), (n, classes), columns as in ``classes_``, given what is ``known``, in the form of a y."""
        check_is_fitted(self, "estimator_")
        if known is not None:
            return np.exp(self.predict_log_proba(X, known=known))
        # A labelling belongs to the class of its first state; a sequence without positions says nothing of its class.
        n_states = len(self.classes_) * self.n_states
        nothing = np.full(n_states, 1.0 / n_states)
        first = [marginals[0] if len(marginals) else nothing for marginals in self.estimator_.predict_marginals(X)]
        states = np.array(first).reshape(len(first), len(self.classes_), self.n_states)
        return states.sum(axis=2)

    def predict(self, X: object, *, known: object = None) -> np.ndarray:
        """Return the most probable class of each sequence, (n,), given what is ``known``, in the form of a y."""
        probabilities = self.predict_proba(X, known=known)
        return self.classes_[first_largest(probabilities)]

    def predict_states(self, X: Any) -> list[np.ndarray]:
        """Return the most probable states of each sequence, (T,): 0 to n_states - 1 within its class.

        The class is the one that :meth:`predict` gives, and the states are the most probable given this class. The most
        probable states of all classes may belong to another one, whose other states are less probable.
        """
        first = first_largest(self.predict_proba(X)) * self.n_states
        found = self.estimator_.predict(X, decode="viterbi", known=self._states_of(first, _lengths(X)))
        return [np.asarray(states, dtype=np.int64) - begin for begin, states in zip(first, found, strict=True)]

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of sequences whose class is that of :meth:`predict`, of those that have a known one."""
        check_is_fitted(self, "estimator_")
        if not tells_partly(y):
            return super().score(X, y, sample_weight)
        lengths = np.ones(len(X), dtype=np.int64)
        return share_right(list(y), self.classes_, lengths, lambda: self.predict(X), sample_weight, SAMPLES)

    def share_of_fit(self, X: object) -> float:
        return self.estimator_.share_of_fit(X)

    # ---- questions about classes: those of single labels, with the log Z of the states of each class as potentials

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def _travelling(self) -> Self:
        model = copy.copy(self)
        model.estimator_ = self.estimator_._travelling()
        return model

    def answers(self, X: object, y: object = None, known: object = None) -> Iterator[Answers]:
        check_is_fitted(self)
        classes = np.arange(len(self.classes_))
        own_states = np.where(classes[:, None] == np.repeat(classes, self.n_states), 0.0, -np.inf)
        totals: list[np.ndarray] = []
        for batch in self.estimator_.answers(X):
            by_class = [batch.given(np.tile(own, (batch.data.n_positions, 1))).log_partition for own in own_states]
            # A sequence without positions has nothing that speaks for a class.
            totals += batch.by_item(np.column_stack(by_class), np.zeros(len(classes)))
        inputs = np.empty((len(totals), 0))
        data = single_nodes(inputs) if y is None else partly_labelled(inputs, y, None, self.classes_)[0]
        potentials = Potentials(np.array(totals).reshape(-1, len(classes)))
        answers = Answers(data, SingleFamily(len(totals), len(classes)), potentials, Workers(self.n_jobs))
        yield answers.given(None if known is None else self.known_log_weights(known, data))

    def predict_log_proba(self, X: object, *, known: object = None) -> np.ndarray:
        """Return log p(c | x), (n, classes), given what is ``known`` of the classes, in the form of a y."""
        (answers,) = self.answers(X, known=known)
        return answers.node - answers.log_partition[:, None]

    # ---- inspection: the chain over states, which are named by their class

    def _named_states(self) -> ChainCRF:
        check_is_fitted(self, "estimator_")
        named = copy.copy(self.estimator_)
        named.classes_ = np.array([f"{c} {state}" for c in self.classes_ for state in range(self.n_states)])
        return named

    def weights(self, *arguments: Any, **settings: Any) -> WeightsTable:
        """Return the largest weights of every state, named "class state"; parameters as in :meth:`ChainCRF.weights`."""
        return self._named_states().weights(*arguments, **settings)

    def summary(self) -> ModelSummary:
        """Return the chain over states at a glance."""
        return replace(self._named_states().summary(), name=type(self).__name__)

    def show(self, x: Any, *, tokens: Sequence | None = None, caption: str = "") -> LabelledSequence:
        """Return one sequence with its most probable states, those of :meth:`predict_states`."""
        states, chain = self._states(x), self._named_states()
        marginals = self.estimator_.predict_marginals([x])[0]
        tokens = chain._usual_tokens(x) if tokens is None else tokens
        return LabelledSequence(chain.classes_[states], marginals, chain.classes_.tolist(), tokens, None, caption)

    def explain(self, x: Any, **settings: Any) -> Explanation:
        """Return what moved the state of each position of one sequence; parameters as in :meth:`ChainCRF.explain`."""
        chain = self._named_states()
        return chain.explain(x, chain.classes_[self._states(x)].tolist(), **settings)

    def _states(self, x: Any) -> np.ndarray:
        """Return the most probable states of one sequence, in its most probable class, as labels of the chain."""
        check_one_sequence(x, "a picture")
        first = int(self.predict_proba([x])[0].argmax()) * self.n_states
        return first + self.predict_states([x])[0]

    @property
    def n_features_in_(self) -> int:
        """Number of input features."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the input features, where they have some."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.feature_names_in_

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
        model.check_parameters()
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
    if is_collection(X) or is_collection(y):
        raise ValueError("classes of sequences are read in this process: pass lists; engine='dask' cuts them up")
    X = list_sequences(X)
    if isinstance(y, SoftTargets):
        raise ValueError("SoftTargets are for labels of positions: give a dict of weights for each class of y")
    if not is_sequence(y) or len(y) != len(X):
        count = len(y) if is_sequence(y) else repr(y)[:60]
        raise ValueError(f"X has {len(X)} sequences and y {count}: each sequence needs one class")
    if any(is_sequence(label) for label in y):
        raise ValueError("y has lists of labels: one class for each sequence is needed; ChainCRF labels each position")
    weights: np.ndarray | None = None
    if tells_partly(y):
        numbers, partial, classes = read_labels(list(y), None, None, SAMPLES)
        weights = None if partial is None else log_weights(partial)
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
    for index, sequence in enumerate(X):
        check_sequence(sequence, f"sequence {index}")
    return [n_rows_of(sequence) for sequence in X]
