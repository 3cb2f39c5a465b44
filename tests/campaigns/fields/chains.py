"""ChainCRF and RingCRF, drawn: cliques of any reach, constraints, dictionaries, forms of inputs and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields import (
    ChainCRF,
    Constraints,
    EdgeCliques,
    EndCliques,
    LabelDictionary,
    LabelNgrams,
    NodeCliques,
    PartialLabels,
    RingCRF,
    SkipCliques,
    SoftTargets,
    StartCliques,
)
from kernelfields.data import OrderCliques
from kernelfields.engines import Threads
from kernelfields.estimators import LabelShares
from kernelfields.kernels import Linear
from tests.campaigns.fields.columns import with_statistics
from tests.campaigns.fields.drawn import (
    LONGEST,
    NAMES,
    Criterion,
    Drawn,
    Redraw,
    Target,
    beside,
    dense,
    drawn_kernel,
    drawn_scale,
    sides_of,
    torch_on_cpu,
    windowed,
)
from tests.campaigns.fields.terms import Enumerated, Rows, rows_of, scored
from tests.oracles.labellings import all_labellings


class Chain(Drawn):
    """ChainCRF or RingCRF: neighbours, skips, n-grams, constraints, dictionaries, all forms of inputs."""

    #: Whether inputs have statistics of windows beside their own columns.
    statistics = False

    def __init__(self, random: np.random.Generator, ring: bool = False, plain: bool = False):
        self.ring = ring
        names = NAMES[random.integers(len(NAMES))]
        n_labels = int(random.choice([2, 3, 4, 5], p=[0.3, 0.4, 0.15, 0.15]))
        self.form = str(random.choice(["array", "csr", "dicts", "strings"], p=[0.55, 0.15, 0.2, 0.1]))
        self.width = int(random.integers(1, 3))
        self.lists = self._draw_lists(random, n_labels)
        self.rule = None if plain else random.choice([None, "dictionary"], p=[0.6, 0.4])
        self.masks = {"edge": set(), "start": set(), "end": set(), "label": set()}
        self.rings = ring
        longest = LONGEST[n_labels]
        self.items = [self._draw_item(random, int(random.integers(1, longest + 1))) for _ in range(5)]
        labels = [self._draw_labels(random, item, n_labels) for item in self.items]
        seen = sorted({int(label) for own in labels for label in own})
        # Two labels that nothing was seen of score the same: their ties are exact.
        extra = [n_labels, n_labels + 1] if n_labels < 4 and not plain and random.random() < 0.15 else []
        extra = extra[: int(random.integers(1, 3))] if n_labels < 3 else extra[:1]
        self.classes = [names[number] for number in [*seen, *extra]]
        self.extra = len(seen) if extra else None
        if len(seen) < 2:
            raise Redraw
        # Names are sorted as numbers are, so that classes_ has this order.
        truths = [np.searchsorted(seen, own) for own in labels]
        self._draw_weights(random)
        constraints = None if plain else self._draw_constraints(random, truths)
        way = "full" if plain else self._draw_way(random)
        self._draw_targets(random, truths, way in ("partial", "asked"))
        settings = self._draw_cliques(random, neighbours_only=way == "soft")
        if way == "soft" and (self.ring or self.extra is not None):
            raise Redraw
        settings["partial_labels"] = self._partial_settings(random, way)
        self._draw_allowed(random)
        settings |= {
            "constraints": constraints,
            "allowed": self.allowed,
            "engine": self._draw_engine(random, settings, way),
        }
        if way in ("full", "soft") and "l1" not in settings and random.random() < 0.3:
            settings["solver"] = str(random.choice(["newton", "newton-cg", "lbfgs"]))
        settings |= {
            "scale": drawn_scale(random),
            "rank": random.choice([None, 3]),
            "max_iter": int(random.choice([1, 4, 100])),
        }
        settings |= {"tol": 1e-7, "n_jobs": int(random.choice([1, 2])), "random_state": 0, "prior_variance": 2.0}
        if way == "soft":
            self._draw_soft(random)
        self._check_targets()
        kind = RingCRF if ring else ChainCRF
        estimator = kind(**settings)
        self.note = repr(estimator)
        try:
            self._fit_drawn(random, estimator, way)
        except MemoryError as error:
            if not isinstance(settings["engine"], Threads):
                raise
            raise Redraw from error  # the solver of many labellings may need more than its budget
        self._draw_new(random, longest)

    def _draw_way(self, random: np.random.Generator) -> str:
        """Return what the fit is given: labels, a part of them, targets, or a part with shares."""
        return str(random.choice(["full", "partial", "soft", "asked"], p=[0.45, 0.35, 0.1, 0.1]))

    def _fit_drawn(self, random: np.random.Generator, estimator: Any, way: str) -> None:
        self._fit(estimator, self._given(way))

    # inputs

    def _draw_lists(self, random: np.random.Generator, n_labels: int) -> list[list[int]]:
        """Return the labels that each of some words has."""
        short = random.random() < 0.6
        sizes = random.integers(1, 3 if short else n_labels + 1, size=4)
        return [sorted(random.choice(n_labels, size=min(size, n_labels), replace=False).tolist()) for size in sizes]

    def _draw_item(self, random: np.random.Generator, length: int, words: int = 4) -> Any:
        which = random.integers(words, size=length)
        values = np.round(random.normal(size=(length, self.width)), 3)
        if self.form == "dicts":
            return [
                {"w": f"word{word}", **{f"f{column}": float(value) for column, value in enumerate(row)}}
                for word, row in zip(which, values, strict=True)
            ]
        if self.form == "strings":
            return [
                [f"w=word{word}", *(f"big{column}" for column, value in enumerate(row) if value > 0)]
                for word, row in zip(which, values, strict=True)
            ]
        table = np.column_stack([which.astype(float), values])
        return scipy.sparse.csr_array(table) if self.form == "csr" else table

    def words(self, item: Any) -> list:
        """Return the word at each position of an item."""
        if self.form == "dicts":
            return [position["w"] for position in item]
        if self.form == "strings":
            return [position[0] for position in item]
        return dense(item)[:, 0].tolist()

    def joined(self, item: Any) -> np.ndarray:
        """Return the columns with statistics of windows, where the field has them."""
        columns = self.columns(item)
        return with_statistics(columns) if self.statistics else columns

    def categories(self) -> list[int]:
        """Return the numbers of columns of words."""
        names = self.fitted.feature_names_in_.tolist() if self.form in ("dicts", "strings") else []
        return [number for number, name in enumerate(names) if name.startswith("w")]

    def columns(self, item: Any) -> np.ndarray:
        """Return the columns that are read, dense."""
        if self.form in ("array", "csr"):
            return dense(item)
        names = self.fitted.feature_names_in_.tolist()
        table = np.zeros((len(item), len(names)))
        for row, position in enumerate(item):
            pairs = (
                [("w:" + position["w"], 1.0), *((name, value) for name, value in position.items() if name != "w")]
                if self.form == "dicts"
                else [(name, 1.0) for name in position]
            )
            for name, value in pairs:
                if name in names:
                    table[row, names.index(name)] += value
        return table

    def length(self, item: Any) -> int:
        return item.shape[0] if hasattr(item, "shape") else len(item)

    def _draw_labels(self, random: np.random.Generator, item: Any, n_labels: int) -> np.ndarray:
        words = [int(str(word).removeprefix("w=").removeprefix("word").split(".")[0]) for word in self.words(item)]
        if self.rule == "dictionary":
            return np.array([random.choice(self.lists[word]) for word in words])
        return random.integers(n_labels, size=len(words))

    # base measure

    def _draw_constraints(self, random: np.random.Generator, truths: Sequence[np.ndarray]) -> Any:
        """Forbid some of what the labels do not do; return it in one of the forms that users write."""
        if self.classes == ["B-X", "I-X", "O"] and not self.ring and random.random() < 0.5:
            return self._entities(truths)
        if random.random() < 0.5:
            return None
        n_labels, classes = self.n_labels, self.classes
        steps, starts, ends = set(), {int(own[0]) for own in truths}, {int(own[-1]) for own in truths}
        for own in truths:
            places = range(len(own)) if self.ring and len(own) > 1 else range(1, len(own))
            steps |= {(int(own[place - 1]), int(own[place])) for place in places}
        free = [(a, b) for a in range(n_labels) for b in range(n_labels) if (a, b) not in steps]
        masks = self.masks
        masks["edge"] = {pair for pair in free if random.random() < 0.6}
        if not self.ring:
            masks["start"] = {label for label in range(n_labels) if label not in starts and random.random() < 0.5}
            masks["end"] = {label for label in range(n_labels) if label not in ends and random.random() < 0.5}
        if self.extra is not None and random.random() < 0.5:
            masks["label"] = {self.extra}
        pairs = [(classes[a], classes[b]) for a, b in sorted(masks["edge"])]
        if not any(masks[name] for name in ("start", "end", "label")) and random.random() < 0.5:
            return pairs or None
        parts = {name: [classes[label] for label in sorted(masks[name])] for name in ("start", "end")}
        parts |= {"transitions": pairs, "labels": [classes[label] for label in sorted(masks["label"])]}
        return Constraints(**parts) if random.random() < 0.5 else parts

    def _entities(self, truths: Sequence[np.ndarray]) -> str:
        """Make the labels those of entities, and forbid all else: I-X follows B-X or I-X."""
        begin, inside, outside = range(3)
        for own in truths:
            for place in range(len(own)):
                if own[place] == inside and (place == 0 or own[place - 1] == outside):
                    own[place] = begin
        if len({int(label) for own in truths for label in own}) < 3:
            raise Redraw
        self.masks["edge"], self.masks["start"] = {(outside, inside)}, {inside}
        return "bio"

    def _draw_allowed(self, random: np.random.Generator) -> None:
        self.allowed = None
        if self.rule == "dictionary":
            feature = {"dicts": "w", "strings": "w="}.get(self.form, 0)
            unknown: Any = random.choice(["all", "rare", "list"])
            self.least, self.open = int(random.choice([1, 2])), unknown
            if unknown == "list":
                self.open = sorted(random.choice(self.n_labels, size=2, replace=False).tolist())
                unknown = [self.classes[number] for number in self.open]
            self.entries = {}
            if random.random() < 0.3:
                word = {"dicts": "word1", "strings": "w=word1"}.get(self.form, 1.0)
                self.entries = {word: [int(random.integers(self.n_labels))]}
            entries = {word: [self.classes[number] for number in own] for word, own in self.entries.items()}
            self.allowed = LabelDictionary(feature, min_count=self.least, unknown=unknown, entries=entries or None)

    def _dictionary(self) -> tuple[dict, list[int]]:
        """Return the labels of known words, and of others, as a dictionary learns them from the data of the fit."""
        seen: dict[Any, set] = {}
        counts: Counter = Counter()
        weights = np.ones(len(self.items)) if self.weights is None else self.weights
        told = zip(self.items, self.targets, weights, strict=True)
        # An item of weight zero teaches no word.
        for item, target in ((item, target) for item, target, weight in told if weight):
            for place, word in enumerate(self.words(item)):
                counts[word] += 1
                own = seen.setdefault(word, set())
                if target.soft is not None:
                    own |= set(np.flatnonzero(target.soft[place] > 0).tolist())
                    continue
                if (target.logs[place] != 0).any():
                    own |= set(np.flatnonzero(target.logs[place] > -np.inf).tolist())
        rare = [word for word in seen if counts[word] < self.least]
        known = {word: own for word, own in seen.items() if word not in rare}
        for word, own in self.entries.items():
            known[word] = seen.get(word, set()) | set(own)
        known = {word: sorted(own) for word, own in known.items() if own}
        unknown = list(range(self.n_labels))
        if self.open == "rare":
            unknown = sorted(set().union(*(seen[word] for word in rare))) or unknown
        elif not isinstance(self.open, str):
            unknown = self.open
        return known, unknown

    def lists_of(self, item: Any) -> list[list[int]]:
        """Return the labels that are allowed at each position of an item."""
        if self.rule == "dictionary":
            known, unknown = self._dictionary()
            return [known.get(word, unknown) for word in self.words(item)]
        return [list(range(self.n_labels))] * self.length(item)

    def base(self, labellings: np.ndarray, item: Any, target: Target | None, ended: bool = True) -> np.ndarray:
        """Return the logarithm of the base measure of all labellings of an item, (K,)."""
        allowed = np.ones(len(labellings), dtype=bool)
        length = labellings.shape[1]
        exact = target is not None and target.soft is None and (target.logs > -np.inf).sum() == length
        whole = exact and all((own.logs > -np.inf).sum() == len(own.logs) for own in self.targets)
        for place, labels in enumerate(self.lists_of(item)):
            # Labels of a fit are allowed where they stand.
            own = {*labels, int(target.labels[place])} if whole and target is not None else set(labels)
            allowed &= np.isin(labellings[:, place], sorted(own))
            allowed &= ~np.isin(labellings[:, place], sorted(self.masks["label"]))
        steps = [(place - 1, place) for place in range(1, length)]
        if self.ring and length > 1:
            steps.append((length - 1, 0))
        forbidden = np.zeros((self.n_labels, self.n_labels), dtype=bool)
        for a, b in self.masks["edge"]:
            forbidden[a, b] = True
        for first, second in steps:
            allowed &= ~forbidden[labellings[:, first], labellings[:, second]]
        allowed &= ~np.isin(labellings[:, 0], sorted(self.masks["start"]))
        if ended:
            allowed &= ~np.isin(labellings[:, -1], sorted(self.masks["end"]))
        return np.where(allowed, 0.0, -np.inf)

    def _check_targets(self) -> None:
        """Draw again where what is known of a training item leaves it no labelling, or shares no label."""
        weights = np.ones(len(self.items)) if self.weights is None else self.weights
        possible: set[int] = set()
        for item, target, weight in zip(self.items, self.targets, weights, strict=True):
            labellings = all_labellings(self.length(item), self.n_labels)
            base = self.base(labellings, item, target)
            if weight > 0:
                possible |= set(np.unique(labellings[base > -np.inf]).tolist())
            told = np.zeros(len(base))
            logs = target.logs if target.soft is None else np.where(target.soft > 0, 0.0, -np.inf)
            for place, row in enumerate(logs):
                told = told + row[labellings[:, place]]
            if not (base + told > -np.inf).any():
                raise Redraw
            if target.soft is not None and self.rule is not None:
                lists = self.lists_of(item)
                if any(set(np.flatnonzero(row > 0)) - set(own) for row, own in zip(target.soft, lists, strict=True)):
                    raise Redraw
        if self.criterion is not None and (self.criterion.label not in possible or len(possible) == 1):
            raise Redraw

    # the field

    def _draw_cliques(self, random: np.random.Generator, neighbours_only: bool) -> dict[str, Any]:
        sparse = self.form != "array"
        # Kernels need a clique that sees something.
        longest = max(self.length(item) for item in self.items)
        window: Any = [1, 1, 3, (1, 0), (0, 1)][random.integers(5)]
        self.statistics = bool(self.form == "array" and not self.ring and beside(random).random() < 0.15)
        self.torch = not sparse and not self.ring
        edge_kernel = drawn_kernel(random, sparse=sparse) if longest > 1 and random.random() < 0.3 else None
        if random.random() < 0.5:
            kernel = drawn_kernel(random, sparse=sparse)
            linear = isinstance(kernel, Linear) or kernel == "linear"
            support: Any = "observed" if linear and random.random() < 0.4 else "all"
            if support == "observed":
                self.torch, edge_kernel = False, None
            edges = None if edge_kernel is None else EdgeCliques(edge_kernel)
            window = "statistics" if self.statistics else window
            return {"kernel": kernel, "window": window, "support": support, "edges": edges}
        self.statistics = False
        explicit = random.random() < 0.3
        cliques: list = [NodeCliques(drawn_kernel(random, sparse=sparse, explicit=explicit), window=window, rank=3)]
        if random.random() < 0.2:
            root = random.normal(size=(self.n_labels, self.n_labels))
            cliques[0].label_kernel = root @ root.T
        if random.random() < 0.9:
            cliques.append(EdgeCliques(edge_kernel, window=window if edge_kernel is not None else None, rank=3))
        if not self.ring and random.random() < 0.3:
            cliques.append(StartCliques(drawn_kernel(random, sparse=sparse) if random.random() < 0.3 else None))
        if not self.ring and random.random() < 0.3:
            cliques.append(EndCliques(drawn_kernel(random, sparse=sparse) if random.random() < 0.3 else None))
        if not neighbours_only and random.random() < 0.6:
            self.torch = False
            far = random.choice(["skip", "order", "seen order", "n-grams", "all n-grams", "skip and order"])
            inputs = drawn_kernel(random, sparse=sparse) if random.random() < 0.3 else None
            if "skip" in far:
                lag = int(random.choice([2, 3]))
                cliques.append(SkipCliques(inputs if longest > lag else None, lag=lag, rank=3))
            if far in ("order", "skip and order"):
                cliques.append(OrderCliques(inputs if longest > 2 else None, order=2, rank=3))
            if far == "seen order":
                cliques.append(OrderCliques(order=int(random.choice([2, 3])), support="observed"))
            if "n-grams" in far:
                order = int(random.choice([3, 4]))
                cliques.append(LabelNgrams(n=order, support="all" if far == "all n-grams" else "observed"))
        for clique in cliques:
            clique.prior_variance = float(random.choice([0.5, 2.0]))
        return {"cliques": cliques}

    def _partial_settings(self, random: np.random.Generator, way: str) -> PartialLabels | None:
        if way == "asked":
            self.criterion = Criterion(0, 0.3, 5.0)
            shares = [LabelShares({self.classes[0]: 0.3}, weight=5.0)]
            return PartialLabels(classes=self.classes, expectations=shares)
        return PartialLabels(classes=self.classes) if way == "partial" or self.extra is not None else None

    def _draw_engine(self, random: np.random.Generator, settings: dict, way: str) -> Any:
        if self.torch and self.allowed is None and way in ("full", "partial", "soft") and random.random() < 0.3:
            torch_engine = torch_on_cpu()
            if torch_engine is not None:
                return torch_engine
        return random.choice(["auto", "threads", Threads(memory="1MB")])

    def _draw_soft(self, random: np.random.Generator) -> None:
        """Put marginals of a random distribution of allowed labellings in the place of labels."""
        masses = []
        for item, target in zip(self.items, self.targets, strict=True):
            labellings = all_labellings(self.length(item), self.n_labels)
            rule, self.rule = self.rule, None
            base = self.base(labellings, item, None)
            self.rule = rule
            weights = random.exponential(size=len(base)) * (base > -np.inf) * (random.random(len(base)) < 0.5)
            # The labels that were drawn are allowed.
            weights[(labellings == target.labels).all(axis=1)] += 0.1
            masses.append(weights / weights.sum())
            nodes = np.array([np.bincount(column, masses[-1], self.n_labels) for column in labellings.T])
            pairs = [
                np.bincount(labellings[:, t - 1] * self.n_labels + labellings[:, t], masses[-1], self.n_labels**2)
                for t in range(1, labellings.shape[1])
            ]
            target.soft = nodes / nodes.sum(axis=1, keepdims=True)
            if ((target.soft > 0) & (target.soft < 0.01)).any():
                raise Redraw  # so little may or may not count as seen
            target.pairs = np.reshape(pairs, (-1, self.n_labels, self.n_labels))

    def _given(self, way: str) -> Any:
        if way == "soft":
            nodes, pairs = [target.soft for target in self.targets], [target.pairs for target in self.targets]
            return SoftTargets(nodes, pairs, classes=self.classes)
        return self.known_of([target.entry for target in self.targets])

    def _draw_new(self, random: np.random.Generator, longest: int) -> None:
        # One word more than in training.
        drawn = [self._draw_item(random, int(random.integers(1, longest + 1)), words=5) for _ in range(20)]
        drawn.append(self.items[0])
        self.new, impossible = [], []
        for item in drawn:
            labellings = all_labellings(self.length(item), self.n_labels)
            (self.new if (self.base(labellings, item, None) > -np.inf).any() else impossible).append(item)
        self.impossible = impossible
        if not self.new:
            raise Redraw

    # enumeration

    @property
    def decodes(self) -> str:  # type: ignore[override]
        if any(self.masks.values()):
            return "viterbi"
        return "unsettled" if "B-X" in self.classes or "I-X" in self.classes else "posterior"

    @property
    def neighbours_only(self) -> bool:
        """Whether labels that meet are neighbours."""
        return all(term.group in (None, "edge") for term in self.fitted.field_.terms)

    def listed_labellings(self, group: str) -> np.ndarray | None:
        terms = self.fitted.field_.terms
        far = [term for term in terms if term.group not in (None, "edge")]
        automaton = not self.ring and all(str(term.group).startswith("order") and term.is_constant for term in far)
        supports = [term.pairs for term in terms if term.group == group]
        if not automaton or any(support.listing is None for support in supports):
            return None
        return np.unique(np.concatenate([support.outcomes for support in supports]))

    @property
    def streams(self) -> bool:
        """Whether the field labels streams."""
        return not self.ring and self.neighbours_only and not self.statistics

    servable = streams

    @property
    def ahead(self) -> int:
        """How many positions windows look ahead."""
        terms = [term for term in self.fitted.field_.terms if term.clique.kernel is not None]
        return max((sides_of(term.clique.window)[1] for term in terms), default=0)

    def enumerated_part(self, item: Any, length: int, ended: bool) -> Enumerated:
        """Return the distribution of the first positions of an item, which may or may not end there."""
        whole, base = self.unscored(item[:length], ended=ended)
        terms = self.terms
        return scored(whole, base, terms, [term.coefficients for term in terms])

    def unscored(self, item: Any, target: Target | None = None, ended: bool = True) -> tuple[Enumerated, np.ndarray]:
        inputs = self.inputs(item)
        labellings = all_labellings(len(inputs), self.n_labels)
        rows = chain_rows(self, inputs, labellings, ring=self.ring, ended=ended)
        whole = Enumerated(labellings, np.zeros(len(labellings)), self.n_labels, rows)
        return whole, self.base(labellings, item, target, ended)


def members_of(clique: Any, length: int, ring: bool, ended: bool) -> list[tuple[int, ...]]:
    """Return the places of the labels that meet in each clique of a set, in the order of the last of them."""
    kind = type(clique).__name__
    if kind == "NodeCliques":
        return [(place,) for place in range(length)]
    if kind == "StartCliques":
        return [(0,)]
    if kind == "EndCliques":
        return [(length - 1,)] if ended else []
    back = {"EdgeCliques": [1, 0], "SkipCliques": [getattr(clique, "lag", 0), 0]}.get(kind)
    if back is None:
        back = list(range(clique.order, -1, -1))
    places = range(length) if ring and length > back[0] else range(back[0], length)
    return [tuple((place - step) % length for step in back) for place in places]


def chain_rows(
    drawn: Drawn, inputs: np.ndarray, labellings: np.ndarray, ring: bool = False, ended: bool = True
) -> list[Rows]:
    """Return the terms of a field of chains on one sequence of inputs (T, d)."""
    rows = []
    for term, plain in zip(drawn.fitted.field_.terms, drawn.terms, strict=True):
        members = members_of(term.clique, len(inputs), ring, ended)
        seen = windowed(inputs, sides_of(term.clique.window), ring)
        seen = np.array([seen[places[-1]] for places in members]).reshape(len(members), seen.shape[1])
        rows.append(rows_of(plain, labellings, members, seen, drawn.n_labels))
    return rows
