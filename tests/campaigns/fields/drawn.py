"""Random small fields: data, base measures, what is known of labels, and their enumeration.

A field is drawn from a generator of random numbers alone. It has few labels and positions, so that all labellings can
be listed; ``unscored`` lists those of one item, with the logarithm of the base measure and the rows of each term, from
the inputs as they are passed and from what was drawn, never from the package's own reading of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields import MultiLabelCRF
from kernelfields.kernels import RBF, Laplacian, Linear, Matern, Polynomial
from tests.campaigns.fields.columns import scale_of
from tests.campaigns.fields.terms import Enumerated, PlainTerm, scored

#: Labels as users write them; the first of each list are taken.
NAMES = (["a", "b", "c", "d", "e"], [0, 1, 2, 3, 4], [-1, 3, 7, 12, 40], ["B-X", "I-X", "O", "P", "Q"])
LONGEST = {1: 6, 2: 6, 3: 5, 4: 4, 5: 4}
#: Nats that scores of single cliques are about, where coefficients are drawn.
SPREADS = (0.3, 1.0, 4.0, 30.0, 300.0)


class Redraw(Exception):
    """What was drawn has no labelling, or too few labels: draw again."""


@dataclass
class Target:
    """What is known of the labels of an item in a fit: log-weights (T, L), or targets of labels and of neighbours."""

    entry: Any
    logs: np.ndarray
    pairs: np.ndarray | None = None
    soft: np.ndarray | None = None
    #: Segments, where labels are written so.
    cuts: tuple | None = None

    @property
    def labels(self) -> np.ndarray:
        """The labels, where each is known."""
        return self.logs.argmax(axis=1)


@dataclass
class Criterion:
    """The expected share of one label, by its number, with its weight."""

    label: int
    share: float
    weight: float


def dense(table: Any) -> np.ndarray:
    return np.asarray(table.toarray() if scipy.sparse.issparse(table) else table, dtype=np.float64)


def windowed(inputs: np.ndarray, window: tuple[int, int], ring: bool) -> np.ndarray:
    """Return the inputs around each position side by side: zeros beyond the ends, or from the other end."""
    before, after = window
    rows = []
    for place in range(len(inputs)):
        parts = []
        for other in range(place - before, place + after + 1):
            inside = 0 <= other < len(inputs)
            parts.append(inputs[other % len(inputs)] if ring or inside else np.zeros(inputs.shape[1]))
        rows.append(np.concatenate(parts))
    return np.array(rows)


def drawn_kernel(random: np.random.Generator, *, sparse: bool = False, explicit: bool = False) -> Any:
    """Return a kernel of which there is a formula in enumeration.py."""
    if explicit or random.random() < 0.35:
        return random.choice(["linear", Linear()])
    kernels = [RBF(gamma=0.7), Polynomial(degree=2, gamma=0.4, coef0=0.5)]
    if not sparse:
        kernels += [Laplacian(gamma=0.5), Matern(nu=1.5, length_scale=1.3), Linear() + RBF(gamma=0.5), "rbf"]
    return kernels[random.integers(len(kernels))]


def beside(random: np.random.Generator) -> np.random.Generator:
    """Return another generator that follows from the same seed, and leaves the draws of this one as they are."""
    return np.random.default_rng(random.bit_generator.seed_seq.spawn(1)[0])  # type: ignore[attr-defined]


def drawn_scale(random: np.random.Generator) -> bool | str:
    """Return whether columns are brought to one scale."""
    return [False, False, True, "auto"][beside(random).integers(4)]


def drawn_settings(random: np.random.Generator) -> dict[str, Any]:
    """Return settings of a fit that all estimators have; most fits end after a few iterations."""
    return {
        "prior_variance": float(random.choice([0.5, 2.0])),
        "solver": str(random.choice(["auto", "newton", "newton-cg", "lbfgs"])),
        "scale": drawn_scale(random),
        "rank": 3,
        "max_iter": int(random.choice([1, 4, 100])),
        "tol": 1e-7,
        "n_jobs": int(random.choice([1, 2])),
        "random_state": 0,
    }


def drawn_entry(random: np.random.Generator, label: int, n_labels: int) -> tuple[Any, np.ndarray]:
    """Return what may be known of a label, as numbers: itself, None, a set or weights; and log-weights (L,)."""
    kind = random.choice(["label", "none", "set", "weights"], p=[0.45, 0.25, 0.2, 0.1])
    logs = np.full(n_labels, -np.inf)
    logs[label] = 0.0
    if kind == "label":
        return label, logs
    if kind == "none":
        return None, np.zeros(n_labels)
    others = [other for other in range(n_labels) if other != label and random.random() < 0.5]
    if kind == "set":
        logs[others] = 0.0
        return {label, *others}, logs
    weights = {number: float(random.choice([0.1, 0.5, 1.0, 3.0])) for number in (label, *others)}
    logs[list(weights)] = np.log(list(weights.values()))
    return weights, logs - logs.max()


def drawn_gaps(random: np.random.Generator, labels: np.ndarray, n_labels: int) -> tuple[list, np.ndarray]:
    """Return labels of which some are not known, as numbers, and log-weights (T, L)."""
    hidden = random.random(len(labels)) < 0.4
    logs = np.where(labels[:, None] == np.arange(n_labels), 0.0, -np.inf)
    logs[hidden] = 0.0
    return [None if none else int(label) for none, label in zip(hidden, labels, strict=True)], logs


def named(entry: Any, classes: Sequence) -> Any:
    """Return an entry of numbers as one of labels."""
    if entry is None:
        return None
    if isinstance(entry, set):
        return {classes[number] for number in entry}
    if isinstance(entry, dict):
        return {classes[number]: weight for number, weight in entry.items()}
    return classes[entry]


class Drawn:
    """A fitted field of known structure. Derived classes draw it, list its labellings, and give X and y their form."""

    model: Any
    classes: list
    #: What the fit was given.
    items: list
    targets: list[Target]
    weights: np.ndarray | None = None
    criterion: Criterion | None = None
    #: New items that have a labelling, and some that have none.
    new: list
    impossible: Sequence = ()
    #: What the field cannot be asked.
    lacks: tuple[str, ...] = ()
    #: Line that shows the estimator.
    note = ""
    #: What the fit was given as y.
    given: Any = None
    #: What ``predict`` means by default: "viterbi" or "posterior".
    decodes = "posterior"

    # ---- forms

    def x_of(self, items: Sequence) -> Any:
        return list(items)

    def y_of(self, labels: Sequence[np.ndarray]) -> Any:
        """Return labels, given by numbers, as they are passed."""
        return [[self.classes[number] for number in own] for own in labels]

    def known_of(self, entries: Sequence[Sequence]) -> Any:
        """Return what is known of labels, given by numbers, as it is passed."""
        return [[named(entry, self.classes) for entry in own] for own in entries]

    def numbers_of(self, answer: Any) -> list[np.ndarray]:
        """Return the labels of an answer by their numbers, for each item."""
        places = {label: number for number, label in enumerate(self.classes)}
        return [np.array([places[label] for label in np.asarray(own).tolist()]) for own in answer]

    def tables_of(self, answer: Any) -> list[np.ndarray]:
        """Return the marginals of an answer for each item."""
        return list(answer)

    def ranked_of(self, ranked: Any) -> list[np.ndarray]:
        """Return the labellings of one item, as predict_nbest gives them, by their numbers."""
        return self.numbers_of([labels for labels, _ in ranked])

    def draws_of(self, answer: Any, place: int) -> np.ndarray:
        """Return the labellings that were drawn for one item, by their numbers, (k, T)."""
        return np.array(self.numbers_of(answer[place]))

    def share_right(self, found: Sequence[np.ndarray], truths: Sequence[np.ndarray]) -> float:
        """Return the score of predicted labels."""
        return float(np.mean(np.concatenate(found) == np.concatenate(truths)))

    # ---- enumeration

    def log_probability(self, whole: Enumerated, labels: np.ndarray) -> float:
        """Return log p(labels) as log_likelihood means it."""
        return whole.log_probability(labels)

    def compared(self, whole: Enumerated, labels: np.ndarray, position: Any) -> tuple[float, float]:
        """Return the log-probabilities of labels, and of those with the other label of an explained position."""
        rival = labels.copy()
        rival[position.position] = self.classes.index(position.other)
        return whole.log_probability(labels), whole.log_probability(rival)

    @property
    def n_labels(self) -> int:
        return len(self.classes)

    @property
    def fitted(self) -> Any:
        """The estimator with the terms."""
        return self.model

    @property
    def terms(self) -> list[PlainTerm]:
        return [PlainTerm.of(term, self.n_labels) for term in self.fitted.field_.terms]

    def unscored(self, item: Any, target: Target | None = None) -> tuple[Enumerated, np.ndarray]:
        """Return all labellings of an item, and the logarithm of their base measure, (K,).

        ``target`` is what a fit was given of its labels.
        """
        raise NotImplementedError

    def enumerated(self, item: Any, target: Target | None = None) -> Enumerated:
        """Return the distribution of an item under the fitted coefficients."""
        item, base = self.unscored(item, target)
        terms = self.terms
        return scored(item, base, terms, [term.coefficients for term in terms])

    def length(self, item: Any) -> int:
        return len(item)

    def columns(self, item: Any) -> np.ndarray:
        """Return the columns of an item that are read, (T, d)."""
        return np.atleast_2d(item)

    def joined(self, item: Any) -> np.ndarray:
        """Return the columns with those that the field joins."""
        return self.columns(item)

    def inputs(self, item: Any) -> np.ndarray:
        """Return the columns that the fitted field sees, on one scale where it has one."""
        centre, spread = self._scale
        return (self.joined(item) - centre) / spread

    @cached_property
    def _scale(self) -> tuple[np.ndarray, np.ndarray]:
        rows = [self.joined(item) for item in self.items]
        width = rows[0].shape[1]
        if not self.fitted.scale_:
            return np.zeros(width), np.ones(width)
        weights = np.ones(len(rows)) if self.weights is None else self.weights
        centre, spread = scale_of(np.vstack(rows), np.repeat(weights, [len(own) for own in rows]))
        categories = self.categories()
        centre[categories], spread[categories] = 0.0, 1.0
        return centre, spread

    def categories(self) -> list[int]:
        """Return the numbers of columns that are there or not, and have no scale."""
        return []

    def groups(self) -> dict[str, int]:
        """Return the names of groups of cliques whose marginals can be asked for, each with one of its terms."""
        return {term.group: number for number, term in enumerate(self.terms) if term.group is not None}

    def listed_labellings(self, group: str) -> np.ndarray | None:
        """Return the labellings of a group whose marginals are given where n-grams seen in training are listed."""
        return None

    def truth(self, random: np.random.Generator, item: Any) -> np.ndarray:
        """Return labels of an item that its base measure allows."""
        whole, base = self.unscored(item)
        places = np.flatnonzero(base > -np.inf)
        if not len(places):
            raise Redraw
        return whole.labellings[random.choice(places)]

    # ---- drawing

    def _fit(self, estimator: Any, targets: Any, **settings: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.given = targets
            self.model = estimator.fit(self.x_of(self.items), targets, self.weights, **settings)

    def _draw_weights(self, random: np.random.Generator) -> None:
        if random.random() < 0.4:
            self.weights = random.choice([0.5, 1.0, 2.0, 0.0], size=len(self.items), p=[0.3, 0.3, 0.3, 0.1])
            if not self.weights.any():
                self.weights = None

    def _hidden(self, random: np.random.Generator, labels: np.ndarray, n_labels: int) -> tuple[list, np.ndarray]:
        entries = [drawn_entry(random, int(label), n_labels) for label in labels]
        return [entry for entry, _ in entries], np.array([logs for _, logs in entries])

    def _draw_targets(self, random: np.random.Generator, truths: Sequence[np.ndarray], partly: bool) -> None:
        """Set what the fit is given of the labels, all of them or a part."""
        n_labels = self.n_labels
        while True:
            self.targets = []
            for labels in truths:
                entries, logs = self._hidden(random, labels, n_labels)
                if not partly:
                    entries, logs = labels.tolist(), np.where(labels[:, None] == np.arange(n_labels), 0.0, -np.inf)
                self.targets.append(Target(entries, logs))
            if not partly or any((target.logs != 0).any() for target in self.targets):
                return

    def draw_coefficients(self, random: np.random.Generator) -> float:
        """Put drawn coefficients in the place of the fitted ones; return about how many nats scores are."""
        spread = float(random.choice(SPREADS))
        parts = []
        for term in self.fitted.field_.terms:
            drawn = random.normal(size=term.coefficients.shape)
            plain = PlainTerm.of(term, self.n_labels)
            seen = [self.unscored(item)[0] for item in self.new[:2]]
            place = self.fitted.field_.terms.index(term)
            sizes = [np.abs(plain.scores(item.rows[place].features, drawn)).max(initial=0.0) for item in seen]
            largest = max([1e-3, *sizes])
            parts.append(term.fitted(drawn * spread / largest))
        self.fitted.field_ = type(self.fitted.field_)(parts, self.fitted.field_.spec)
        if not isinstance(self.fitted, MultiLabelCRF):  # which has its views already, and no further names
            self.fitted._set_views()
        return spread


def sides_of(window: Any) -> tuple[int, int]:
    if window is None:
        return 0, 0
    return (window // 2, window // 2) if isinstance(window, int) else tuple(window)


_TORCH: list = []


def torch_on_cpu() -> Any:
    """Return the torch engine on the processor; None where torch is not installed."""
    if not _TORCH:
        try:
            import torch

            torch.set_num_threads(1)
            from kernelfields.engines import Torch

            _TORCH.append(Torch("cpu"))
        except ImportError:
            _TORCH.append(None)
    return _TORCH[0]
