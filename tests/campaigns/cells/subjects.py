"""The estimators of the matrix, each with a tiny data set and the law of its labels from inputs and coefficients.

An :class:`Item` holds the inputs of one sequence, graph, sample or instance and its labels, one for each position. A
subject packs items into what its estimator takes, and unpacks answers into one list or table for each item, so that a
feature is asked of all subjects in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import scipy.sparse

from kernelfields import (
    AnnotatedCRF,
    ChainCRF,
    ChainCRFCV,
    ExponentialFamilyDensity,
    FieldSearchCV,
    FrameCRF,
    GraphCRF,
    KernelClassifier,
    MultiLabelCRF,
    RingCRF,
    SegmentCRF,
    SequenceClassifier,
)
from kernelfields.compat import CRF
from tests.campaigns.cells.verdicts import Inexpressible
from tests.oracles.labellings import Labellings

#: Fits that are near enough to the optimum to be compared.
TIGHT: dict[str, Any] = {
    "kernel": "linear",
    "prior_variance": 1.0,
    "scale": False,
    "tol": 1e-9,
    "max_iter": 2000,
    "n_jobs": 1,
    "random_state": 0,
}
FORMS = ("arrays", "float32", "sparse", "dicts", "strings", "words", "frames")
N_FEATURES = 3


@dataclass(frozen=True)
class Item:
    """Inputs (T, d), labels of the positions (or of the item), and the edges (M, 2) of a graph."""

    x: np.ndarray
    labels: list
    edges: np.ndarray | None = None
    edge_inputs: np.ndarray | None = None


def names_of(x: np.ndarray) -> list[str]:
    """Names of the columns of inputs."""
    return [f"f{column}" for column in range(x.shape[1])]


def in_form(x: np.ndarray, form: str) -> Any:
    """Inputs (T, d) in one of the forms that a user may have them in."""
    if form == "arrays":
        return x
    if form == "float32":
        return x.astype(np.float32)
    if form == "sparse":
        return scipy.sparse.csr_array(x)
    if form == "dicts":
        return [dict(zip(names_of(x), row, strict=True)) for row in x.tolist()]
    if form == "strings":
        return [[name for name, value in zip(names_of(x), row, strict=True) if value > 0] for row in x.tolist()]
    if form == "words":
        return ["".join("pm"[int(value > 0)] for value in row) for row in x.tolist()]
    return pd.DataFrame(x, columns=names_of(x))


@dataclass
class Scores:
    """Scores of the labels of one item: of single ones (T, L), of some together, and of the whole labelling."""

    node: np.ndarray
    factors: list[tuple[tuple[int, ...], np.ndarray]] = field(default_factory=list)
    whole: Callable[[np.ndarray], float] | None = None

    def law(self) -> Labellings:
        """Return the distribution of the labels."""
        return Labellings.of(self.node, self.factors, self.whole)


class Subject:
    """An estimator, its data, and how it is asked."""

    name: ClassVar[str]
    kind: ClassVar[Any] = ChainCRF
    #: What stands for the settings that this estimator does not have.
    fixed: ClassVar[dict[str, Any]] = {}
    classes: ClassVar[list] = ["a", "b", "c"]
    #: Whether predictions are the best labelling as a whole, and whether inference is exact.
    jointly: ClassVar[bool] = False
    exact: ClassVar[bool] = True
    #: By how much the answers of equal fits may differ, at least.
    coarseness: ClassVar[float] = 0.0
    #: Whether items are rows of one table, and whether fits need labels.
    rows: ClassVar[bool] = False
    labelled: ClassVar[bool] = True
    #: Whether inputs are words.
    of_words: ClassVar[bool] = False
    n_items: ClassVar[int] = 14
    #: The method that gives the probabilities of labels.
    probabilities: ClassVar[str] = "predict_marginals"
    #: The group of cliques whose joint marginals are asked for.
    group: ClassVar[str] = "edge"
    #: The clique sets that an l1 penalty is on.
    penalised: ClassVar[tuple[str, ...]] = ("node", "edge")
    #: Whether a law follows from coefficients alone, so that drawn ones may take their place.
    redrawn: ClassVar[bool] = True

    # ---- data

    def draw(self, random: np.random.Generator, count: int) -> list[Item]:
        """Draw items: labels that tend to stay, and inputs around the centre of their label; the last is noise."""
        centres = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, -1.0, 0.0]])
        items = []
        for number in range(count):
            length, label = 2 + number % 3, int(random.integers(3))
            numbers = []
            for _ in range(length):
                label = label if random.random() < 0.6 else int(random.integers(3))
                numbers.append(label)
            x = centres[numbers] + random.normal(scale=0.9, size=(length, N_FEATURES))
            items.append(self.labelled_as(x, numbers))
        return items

    def labelled_as(self, x: np.ndarray, numbers: list[int]) -> Item:
        """Return an item of inputs with these labels."""
        return Item(x, [self.classes[number] for number in numbers])

    @cached_property
    def items(self) -> list[Item]:
        """Items of the fit."""
        return self.draw(np.random.default_rng(0), self.n_items)

    @cached_property
    def new(self) -> list[Item]:
        """Items that the fit has not seen."""
        return self.draw(np.random.default_rng(1), 5)

    def pack(self, items: Sequence[Item], form: str = "arrays") -> Any:
        """Return the inputs of items, as the estimator takes them."""
        return [in_form(item.x, form) for item in items]

    def pack_labels(self, labels: Sequence[list]) -> Any:
        """Return the labels of items, as ``fit`` takes them."""
        return list(labels)

    def truth(self, items: Sequence[Item]) -> Any:
        """Return the labels of items, as ``score`` takes them."""
        return self.pack_labels([item.labels for item in items])

    def known(self, labels: Sequence[list]) -> Any:
        """Return what is known of labels, as questions take it."""
        return self.pack_labels(labels)

    def one(self, item: Item) -> Any:
        """Return one item, as ``explain`` and ``show`` take it."""
        return self.pack([item])[0]

    def one_labels(self, item: Item) -> Any:
        """Return the labels of one item, as ``explain`` and ``show`` take them."""
        return item.labels

    def weights_of(self, items: Sequence[Item], weights: Sequence[float]) -> Any:
        """Return the weight of each item, as ``sample_weight`` takes it."""
        return np.asarray(weights, dtype=float)

    # ---- fits

    def make(self, **settings: Any) -> Any:
        """Return the estimator, not fitted."""
        return self.kind(**{**TIGHT, **self.fixed, **settings})

    def fit(
        self,
        items: Sequence[Item] | None = None,
        labels: Sequence[list] | None = None,
        *,
        form: str = "arrays",
        fitting: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Any:
        """Return the estimator fitted to items, ``settings`` are its parameters and ``fitting`` those of ``fit``."""
        items = self.items if items is None else items
        known = [item.labels for item in items] if labels is None else labels
        return self.fit_to(self.make(**settings), self.pack(items, form), known, fitting or {})

    def fit_to(self, estimator: Any, X: Any, labels: Sequence[list], fitting: dict[str, Any]) -> Any:
        """Fit an estimator to packed inputs."""
        return estimator.fit(X, self.pack_labels(labels), **fitting) if self.labelled else estimator.fit(X, **fitting)

    @cached_property
    def model(self) -> Any:
        """The estimator fitted to its data; nothing may change it."""
        return self.fit()

    @cached_property
    def X(self) -> Any:
        """Inputs of the fit."""
        return self.pack(self.items)

    @cached_property
    def y(self) -> Any:
        """Labels of the fit."""
        return self.pack_labels([item.labels for item in self.items])

    @cached_property
    def X_new(self) -> Any:
        """Inputs that the fit has not seen."""
        return self.pack(self.new)

    def field(self, model: Any) -> Any:
        """Return the field inside a fitted model, which has the coefficients."""
        return model

    # ---- answers

    def labels(self, answer: Any) -> list[list]:
        """Return labels as one list for each item."""
        return [np.asarray(labels).tolist() for labels in answer]

    def tables(self, answer: Any) -> list[np.ndarray]:
        """Return probabilities as one table (T, L) for each item."""
        return [np.asarray(table, dtype=float) for table in answer]

    def marginals(self, model: Any, X: Any = None, **settings: Any) -> list[np.ndarray]:
        """Return the probabilities of labels, (T, L) for each item."""
        return self.tables(getattr(model, self.probabilities)(self.X_new if X is None else X, **settings))

    def numbers(self, labels: Iterable) -> list[int]:
        """Return the numbers of labels."""
        return [self.classes.index(label) for label in labels]

    def pairs(self, item: Item) -> list[tuple[int, int]]:
        """Return the positions whose joint marginals are asked for."""
        return list(pairwise(range(len(item.x))))

    def joint(self, law: Labellings, pair: tuple[int, int]) -> np.ndarray:
        """Return the joint marginals of two positions that a law has."""
        return law.joint(pair)

    # ---- laws

    def scores(self, model: Any, item: Item) -> Scores:
        """Return the scores of the labels of an item, from inputs and coefficients."""
        coef, n_labels = self.field(model).coef_, len(self.field(model).classes_)
        node = item.x @ as_array(coef["node"])
        factors = []
        for last in range(1, len(item.x)):
            table = as_array(coef["edge"])
            seen = table[0] if len(table) == 1 else item.x[last] @ table
            factors.append(((last - 1, last), seen.reshape(n_labels, n_labels)))
        return Scores(node, factors)

    def law(self, model: Any, item: Item) -> Labellings:
        """Return the law of the labels of an item."""
        return self.scores(model, item).law()

    def squares(self, model: Any) -> float:
        """Return the sum of squared coefficients, each over its prior variance."""
        field = self.field(model)
        return sum(
            float(np.sum(np.asarray(as_array(term.known)) ** 2)) / term.prior_variance for term in field.field_.terms
        )


def as_array(table: Any) -> np.ndarray:
    """Return coefficients, dense or sparse, as an array."""
    return table.toarray() if scipy.sparse.issparse(table) else np.asarray(table)


class Chain(Subject):
    """Sequences."""

    name = "ChainCRF"

    def scores(self, model: Any, item: Item) -> Scores:
        """Return the scores of positions, neighbours, and of longer and first and last cliques, if there are any."""
        found, field = super().scores(model, item), self.field(model)
        for name, table in field.coef_.items():
            n_labels, length = len(field.classes_), len(item.x)
            dense = as_array(table)
            if name == "start":
                found.factors.append(((0,), dense[0]))
            elif name == "end":
                found.factors.append(((length - 1,), dense[0]))
            elif name not in ("node", "edge"):
                skip = name.startswith(("skip", "lag"))
                order = 2 if skip else 3
                reach = 2
                cube = dense.reshape((n_labels,) * order)
                found.factors += [
                    ((last - reach, last) if skip else (last - 2, last - 1, last), cube)
                    for last in range(reach, length)
                ]
        return found


class Ring(Chain):
    """Closed sequences."""

    name = "RingCRF"
    kind = RingCRF

    def pairs(self, item: Item) -> list[tuple[int, int]]:
        """Return neighbours; the first position comes after the last."""
        length = len(item.x)
        return [] if length < 2 else [((place - 1) % length, place) for place in range(length)]

    def scores(self, model: Any, item: Item) -> Scores:
        """Return the scores of positions and of neighbours around the ring."""
        coef, n_labels, length = model.coef_, len(model.classes_), len(item.x)
        found = Scores(item.x @ as_array(coef["node"]))
        for name, table in coef.items():
            dense = as_array(table)
            if name == "node":
                continue
            reach = 1 if name == "edge" else 2
            members = (reach, 0) if dense.shape[1] == n_labels**2 else (2, 1, 0)
            for place in range(length if length > reach else 0):
                seen = dense[0] if len(dense) == 1 else item.x[place] @ dense
                cube = seen.reshape((n_labels,) * len(members))
                found.factors.append((tuple((place - back) % length for back in members), cube))
        return found


class Segments(Subject):
    """Sequences that are cut into segments."""

    name = "SegmentCRF"
    kind = SegmentCRF
    fixed: ClassVar[dict[str, Any]] = {"max_duration": 3}
    jointly = True
    redrawn = False

    def joint(self, law: Labellings, pair: tuple[int, int]) -> np.ndarray:
        """Return the probabilities of steps from one segment to the next: labels that stay are one segment."""
        steps = law.joint(pair)
        return steps - np.diag(np.diag(steps))

    def scores(self, model: Any, item: Item) -> Scores:
        """Return the scores of positions, and those of the durations and steps of segments."""
        coef, n_labels, longest = model.coef_, len(model.classes_), model.max_duration_
        edge = as_array(coef["edge"])
        durations = np.zeros((longest, n_labels)) if model.durations_ is None else model.durations_

        def whole(labels: np.ndarray) -> float:
            begins = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
            total = 0.0
            for begin, end in pairwise(begins):
                if end - begin > longest:
                    return -np.inf
                total += durations[end - begin - 1, labels[begin]]
                if begin:
                    seen = edge[0] if len(edge) == 1 else item.x[begin] @ edge
                    total += seen.reshape(n_labels, n_labels)[labels[begin - 1], labels[begin]]
            return total

        return Scores(item.x @ as_array(coef["node"]), whole=whole)


class Graph(Subject):
    """Graphs; new ones have no cycles, so that what is approximate in others is exact there."""

    name = "GraphCRF"
    kind = GraphCRF
    fixed: ClassVar[dict[str, Any]] = {"inference": "auto"}

    def draw(self, random: np.random.Generator, count: int) -> list[Item]:
        """Draw sequences, and close every other of three or more nodes to a cycle."""
        items = []
        for number, item in enumerate(super().draw(random, count)):
            length = len(item.x)
            edges = [(place, place + 1) for place in range(length - 1)]
            if count > 5 and number % 2 and length > 2:
                edges.append((0, length - 1))
            items.append(replace(item, edges=np.array(edges, dtype=np.int64).reshape(-1, 2)))
        return items

    def pack(self, items: Sequence[Item], form: str = "arrays") -> Any:
        """Return pairs of features of nodes and edges, with features of edges where there are some."""
        extra = [() if item.edge_inputs is None else (item.edge_inputs,) for item in items]
        return [(in_form(item.x, form), item.edges, *more) for item, more in zip(items, extra, strict=True)]

    def pairs(self, item: Item) -> list[tuple[int, int]]:
        """Return the edges."""
        assert item.edges is not None
        return [(int(a), int(b)) for a, b in item.edges]

    def scores(self, model: Any, item: Item) -> Scores:
        """Return the scores of nodes and edges."""
        field = self.field(model)
        coef, n_labels = field.coef_, len(field.classes_)
        found = Scores(item.x @ as_array(coef["node"]))
        for number, pair in enumerate(self.pairs(item)):
            table = sum(
                (as_array(table)[0] if name == "edge" else item.edge_inputs[number] @ as_array(table))  # type: ignore[index]
                for name, table in coef.items()
                if name.startswith("edge")
            )
            found.factors.append((pair, np.asarray(table).reshape(n_labels, n_labels)))
        return found


class LoopyGraph(Graph):
    """Graphs whose labels are inferred by messages, which is exact without cycles only."""

    name = "GraphCRF loopy"
    fixed: ClassVar[dict[str, Any]] = {"inference": "loopy", "tol": 1e-6}
    exact = False


class OneLabel(Subject):
    """Items with one label each."""

    def labels(self, answer: Any) -> list[list]:
        """Return the label of each item in a list."""
        return [[label] for label in np.asarray(answer).tolist()]

    def tables(self, answer: Any) -> list[np.ndarray]:
        """Return a table of one row for each item."""
        return [row[None] for row in np.asarray(answer, dtype=float)]

    def pairs(self, item: Item) -> list[tuple[int, int]]:
        """Return nothing: single labels have no neighbours."""
        return []


class Rows(Subject):
    """Items that are rows of one table."""

    rows = True
    n_columns: ClassVar[int] = N_FEATURES

    def pack(self, items: Sequence[Item], form: str = "arrays") -> Any:
        """Return one table."""
        return in_form(np.concatenate([np.empty((0, self.n_columns)), *(item.x for item in items)]), form)

    def one(self, item: Item) -> Any:
        """Return a table of one row."""
        return item.x


class Classifier(Rows, OneLabel):
    """Single inputs with one label each."""

    name = "KernelClassifier"
    kind = KernelClassifier
    n_items = 30

    def draw(self, random: np.random.Generator, count: int) -> list[Item]:
        """Draw single inputs."""
        items = []
        while len(items) < count:
            for item in super().draw(random, 3):
                items += [Item(item.x[t : t + 1], item.labels[t : t + 1]) for t in range(len(item.x))]
        return items[:count]

    def pack_labels(self, labels: Sequence[list]) -> Any:
        """Return one label for each row."""
        flat = [label for own in labels for label in own]
        plain = all(isinstance(label, str | int) for label in flat)
        return np.array(flat) if plain else flat

    def scores(self, model: Any, item: Item) -> Scores:
        """Return the scores of the classes."""
        coef = self.field(model).coef_
        bias = as_array(coef["bias"]) if "bias" in coef else 0.0
        return Scores(item.x @ as_array(coef["node"]) + bias)


class MultiLabel(Rows):
    """Several yes-or-no labels of an instance: an item has one row of inputs and K labels."""

    name = "MultiLabelCRF"
    kind = MultiLabelCRF
    fixed: ClassVar[dict[str, Any]] = {"decision": "hamming", "label_graph": "full"}
    classes: ClassVar[list] = [0, 1]
    n_items = 30
    redrawn = False
    penalised = ("label",)
    n_names: ClassVar[int] = 3

    def draw(self, random: np.random.Generator, count: int) -> list[Item]:
        """Draw instances."""
        x = random.normal(size=(count, N_FEATURES))
        shared = random.normal(size=(count, 1))
        labels = (x[:, [0, 1, 0]] + shared + 0.7 * random.normal(size=(count, self.n_names)) > 0).astype(int)
        return [Item(x[row : row + 1], labels[row].tolist()) for row in range(count)]

    def pack_labels(self, labels: Sequence[list]) -> Any:
        """Return a table of 0 and 1, NaN for labels that are not known."""
        plain = [[np.nan if label is None or label == {0, 1} else label for label in own] for own in labels]
        if any(isinstance(label, set | dict) for own in plain for label in own):
            raise Inexpressible("a yes-or-no label is known or NaN")
        table = np.array(plain, dtype=float).reshape(len(labels), -1)
        return table if np.isnan(table).any() else table.astype(int)

    def labels(self, answer: Any) -> list[list]:
        """Return a list of 0 and 1 for each row."""
        return np.asarray(answer).tolist()

    def pairs(self, item: Item) -> list[tuple[int, int]]:
        """Return the pair of labels whose joint marginals are asked for."""
        return [(0, 1)]

    @property
    def group(self) -> str:  # type: ignore[override]
        """The name of the first pair."""
        return next(iter(self.field(self.model).field_.spec.pairs))

    def scores(self, model: Any, item: Item) -> Scores:
        """Return the scores of the labels, s = y - 1/2, and of their pairs."""
        field = self.field(model)
        signs, K = np.array([-0.5, 0.5]), field.n_labels_
        odds = np.zeros(K)
        for label in range(K):
            for name, coef in field.coef_.items():
                if name.split()[-1] == str(field.label_names_[label]) and "|" not in name:
                    if name.startswith("bias"):
                        odds[label] += coef[0]
                    elif name.startswith("label"):
                        odds[label] += (item.x @ coef)[0]
        pairs = zip(field.field_.spec.pairs.values(), field.edge_scores_.values(), strict=True)
        factors = [(pair, weight * np.outer(signs, signs)) for pair, weight in pairs]
        return Scores(odds[:, None] * signs, factors)


class Whole(OneLabel):
    """Whole sequences with one class each."""

    name = "SequenceClassifier"
    kind = SequenceClassifier
    fixed: ClassVar[dict[str, Any]] = {"n_states": 2}
    classes: ClassVar[list] = ["a", "b"]
    probabilities = "predict_proba"
    n_items = 16

    def labelled_as(self, x: np.ndarray, numbers: list[int]) -> Item:
        """Return a sequence with the class of its first label."""
        return Item(x, [self.classes[numbers[0] % 2]])

    def pack_labels(self, labels: Sequence[list]) -> Any:
        """Return one class for each sequence."""
        return [own[0] for own in labels]

    def field(self, model: Any) -> Any:
        """Return the chain over states."""
        return model.estimator_

    def law(self, model: Any, item: Item) -> Labellings:
        """Return the law of the class: the sum over all labellings by its states."""
        chain, n_states = model.estimator_, model.n_states
        owner = np.arange(len(chain.classes_)) // n_states
        found = self.scores(model, item)
        found.node[0] += as_array(chain.coef_["start"])[0]
        apart = owner[:, None] != owner
        states = Labellings.of(found.node, [(ends, np.where(apart, -np.inf, edge)) for ends, edge in found.factors])
        totals = np.array(
            [np.logaddexp.reduce(states.scores[owner[states.labellings[:, 0]] == c]) for c in range(owner[-1] + 1)]
        )
        return Labellings(np.arange(len(totals))[:, None], totals, len(totals))


class Points(Rows):
    """Points on a line, of which a density is estimated."""

    name = "ExponentialFamilyDensity"
    kind = ExponentialFamilyDensity
    labelled = False
    n_columns = 1
    n_items = 40

    def draw(self, random: np.random.Generator, count: int) -> list[Item]:
        """Draw points."""
        return [Item(np.clip(random.normal(size=(1, 1)), -2.4, 2.4), []) for _ in range(count)]

    def make(self, **settings: Any) -> Any:
        """Return the estimator, not fitted."""
        usual = {"prior_variance": 1.0, "random_state": 0, "box": [[-3.0, 3.0]], "rank": 20}
        return self.kind(**{**usual, **settings})


class Frames(Chain):
    """Sequences in a data frame, with a row for each position."""

    name = "FrameCRF"

    def make(self, **settings: Any) -> Any:
        """Return the estimator around a chain."""
        return FrameCRF(super().make(**settings))

    def pack(self, items: Sequence[Item], form: str = "arrays") -> Any:
        """Return a data frame with ids of sequences."""
        if form in ("sparse", "strings", "words"):
            raise Inexpressible("a data frame has columns of numbers or text")
        rows = [(number, *row) for number, item in enumerate(items) for row in item.x.tolist()]
        frame = pd.DataFrame(rows, columns=["sequence", *names_of(np.empty((0, N_FEATURES)))])
        if form == "dicts":
            frame["f0"] = [f"{value:.1f}" for value in frame["f0"]]
        return frame.astype(dict.fromkeys(frame.columns[1:], np.float32)) if form == "float32" else frame

    def pack_labels(self, labels: Sequence[list]) -> Any:
        """Return a label for each row."""
        return pd.Series([label for own in labels for label in own], dtype=object)

    def fit_to(self, estimator: Any, X: Any, labels: Sequence[list], fitting: dict[str, Any]) -> Any:
        """Fit with a column of labels."""
        return estimator.fit(X.assign(label=self.pack_labels(labels).to_numpy()), **fitting)

    def one(self, item: Item) -> Any:
        """Return the rows of one sequence."""
        return self.pack([item])

    def one_labels(self, item: Item) -> Any:
        """Return the labels of one sequence."""
        return self.pack_labels([item.labels])

    def field(self, model: Any) -> Any:
        """Return the chain."""
        return model.estimator_

    def labels(self, answer: Any) -> list[list]:
        """Return the labels of each of the new sequences."""
        return self.split(np.asarray(answer))

    def tables(self, answer: Any) -> list[np.ndarray]:
        """Return the probabilities of each of the new sequences."""
        return [np.array(rows, dtype=float) for rows in self.split(np.asarray(answer))]

    def split(self, values: np.ndarray) -> list[list]:
        """Return one list for each sequence, of the new ones or those of the fit."""
        lengths = [len(item.x) for item in (self.new if len(values) < 30 else self.items)]
        return [part.tolist() for part in np.split(values, np.cumsum(lengths)[:-1])]


class Annotated(Chain):
    """Sequences with the labels of two annotators."""

    name = "AnnotatedCRF"
    # Fields of the folds are fitted to a tenth only.
    coarseness = 2e-2

    def make(self, **settings: Any) -> Any:
        """Return the estimator around a chain."""
        return AnnotatedCRF(super().make(**{"tol": 1e-7, **settings}), cv=2, max_steps=200)

    def pack_labels(self, labels: Sequence[list]) -> Any:
        """Return what two annotators said: the labels, and the labels with one wrong in sequences of three."""
        other = [list(own) for own in labels]
        for own in other:
            if len(own) == 3 and isinstance(own[0], str):
                own[0] = self.classes[(self.classes.index(own[0]) + 1) % 3]
        return [{"first": list(own), "second": said} for own, said in zip(labels, other, strict=True)]

    def truth(self, items: Sequence[Item]) -> Any:
        """Return the labels themselves."""
        return [item.labels for item in items]

    def known(self, labels: Sequence[list]) -> Any:
        """Return what is known, in the form of labels."""
        return list(labels)

    def field(self, model: Any) -> Any:
        """Return the chain."""
        return model.estimator_


class Compat(Chain):
    """Feature dicts, by the interface of sklearn-crfsuite."""

    name = "compat.CRF"
    jointly = True

    def make(self, **settings: Any) -> Any:
        """Return the estimator; its prior variance is 1 / (2 c2)."""
        usual = {"c1": 0.0, "c2": 0.5, "all_possible_states": True, "all_possible_transitions": True}
        return CRF(**{**usual, "epsilon": 1e-9, "delta": 1e-12, "period": 50, "random_state": 0, **settings})

    def pack(self, items: Sequence[Item], form: str = "arrays") -> Any:
        """Return feature dicts, or strings."""
        if form in ("sparse", "frames", "float32", "words"):
            raise Inexpressible("sklearn-crfsuite takes feature dicts and strings")
        return [in_form(item.x, "dicts" if form == "arrays" else form) for item in items]

    def field(self, model: Any) -> Any:
        """Return the chain."""
        return model.chain_

    def tables(self, answer: Any) -> list[np.ndarray]:
        """Return probabilities from dicts."""
        return [np.array([[row[label] for label in sorted(row)] for row in own], dtype=float) for own in answer]


class Searched(Subject):
    """A search around an estimator, over one candidate, so that the best one is known."""

    search: ClassVar[Any]

    def make(self, **settings: Any) -> Any:
        """Return the search around the estimator."""
        kernel = settings.pop("kernel", "linear")
        inner = super().make(kernel=kernel, **settings)
        return self.search(inner, kernels=[kernel], prior_variances=[1.0], cv=2, halving=False)

    def field(self, model: Any) -> Any:
        """Return the best field."""
        return super().field(model.best_estimator_)


class ChainSearch(Searched, Chain):
    """A search around a chain."""

    name = "ChainCRFCV"
    search = ChainCRFCV


class ClassifierSearch(Searched, Classifier):
    """A search around a classifier."""

    name = "FieldSearchCV of rows"
    search = FieldSearchCV


SUBJECTS: tuple[Subject, ...] = tuple(
    kind()
    for kind in (
        *(Chain, Ring, Segments, Graph, LoopyGraph, MultiLabel, Classifier, Whole),
        *(Points, Frames, Annotated, Compat, ChainSearch, ClassifierSearch),
    )
)
