"""Fields of other structure than chains, drawn: segments, graphs, single labels, several labels of an instance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from kernelfields import (
    EdgeCliques,
    GraphCRF,
    GraphFactors,
    KernelClassifier,
    LabelDictionary,
    MultiLabelCRF,
    PartialLabels,
    SegmentCRF,
    SoftTargets,
)
from kernelfields.data import DurationCliques
from kernelfields.estimators import LabelShares
from tests.campaigns.fields.drawn import (
    NAMES,
    Criterion,
    Drawn,
    Redraw,
    Target,
    drawn_gaps,
    drawn_kernel,
    drawn_settings,
    named,
    sides_of,
    torch_on_cpu,
    windowed,
)
from tests.campaigns.fields.terms import Enumerated, Rows, rows_of
from tests.oracles.labellings import all_labellings, all_segmentations
from tests.oracles.segments import segment_counts


class Segments(Drawn):
    """SegmentCRF: segments of a longest duration, with durations, repeats and constraints."""

    decodes = "viterbi"
    lacks = ("explain",)

    def __init__(self, random: np.random.Generator):
        names = NAMES[random.integers(len(NAMES))]
        n_labels = int(random.choice([2, 3]))
        self.repeats = bool(random.random() < 0.4)
        longest = {2: 5, 3: 4}[n_labels]
        self.width = int(random.integers(1, 3))
        self.listing = bool(random.random() < 0.3)
        self.items = [self._draw_item(random, longest) for _ in range(5)]
        labels = [random.integers(n_labels, size=len(item)) for item in self.items]
        seen = sorted({int(label) for own in labels for label in own})
        if len(seen) < 2:
            raise Redraw
        self.classes = [names[number] for number in seen]
        truths = [np.searchsorted(seen, own) for own in labels]
        self.longest = int(random.integers(2, 5))
        self.least = [1] * n_labels
        if random.random() < 0.3:
            self.least = random.integers(1, min(3, self.longest) + 1, size=n_labels).tolist()
        self.masks: dict[str, set] = {"edge": set(), "start": set(), "end": set()}
        self._draw_weights(random)
        self._draw_rules(random, truths)
        partly, written = random.random() < 0.35, random.random() < 0.3
        self._draw_targets(random, truths, partly)
        for item, target in zip(self.items, self.targets, strict=True):
            if not partly:
                target.cuts = self.runs(target.labels)
                if written:
                    target.cuts = self._drawn_cuts(random, item, target.labels)
            whole, base = self.listed(item)
            told = np.array([sum(row[y] for row, y in zip(target.logs, own, strict=True)) for own in whole.labellings])
            if not (base + told > -np.inf).any() or (not partly and target.cuts not in self.possible(item)):
                raise Redraw
        window: Any = [1, 1, 3, (1, 0)][random.integers(4)]
        seeing = max(map(len, self.items)) > 1 and random.random() < 0.3
        edges = EdgeCliques(drawn_kernel(random), rank=3) if seeing else None
        durations: Any = ["auto", None, DurationCliques("rbf", shared=True)][random.integers(3)]
        masks = self.masks
        constraints = {name: [self.classes[label] for label in sorted(masks[name])] for name in ("start", "end")}
        constraints["transitions"] = [(self.classes[a], self.classes[b]) for a, b in sorted(masks["edge"])]
        estimator = SegmentCRF(
            drawn_kernel(random),
            window=window,
            edges=edges,
            durations=durations,
            max_duration=self.longest,
            min_duration=self._least_durations(),
            repeats=self.repeats,
            constraints=constraints if any(constraints.values()) else None,
            allowed=LabelDictionary(0, min_count=1) if self.listing else None,
            **drawn_settings(random) | ({"solver": "lbfgs"} if partly else {}),
        )
        self.note = repr(estimator)
        if written and not partly:
            given = [[(a, b, self.classes[label]) for a, b, label in target.cuts] for target in self.targets]
        else:
            given = self.known_of([target.entry for target in self.targets])
        self._fit(estimator, given)
        if len(self.model.classes_) < self.n_labels:
            raise Redraw  # nothing was told of a label
        drawn = [self._draw_item(random, longest, words=5) for _ in range(20)]
        self.new = [item for item in drawn if self.possible(item)]
        self.impossible = [item for item in drawn if not self.possible(item)]
        if not self.new:
            raise Redraw

    def _draw_item(self, random: np.random.Generator, longest: int, words: int = 4) -> np.ndarray:
        item = np.round(random.normal(size=(int(random.integers(1, longest + 1)), self.width)), 3)
        if self.listing:
            item[:, 0] = random.integers(words, size=len(item))
        return item

    def lists_of(self, item: np.ndarray) -> list[set[int]]:
        """Return the labels that are allowed at each position: those that its word was seen with."""
        every = set(range(self.n_labels))
        if not self.listing:
            return [every] * len(item)
        seen: dict[float, set[int]] = {}
        weights = np.ones(len(self.items)) if self.weights is None else self.weights
        told = zip(self.items, self.targets, weights, strict=True)
        for own, target in ((item, target) for item, target, weight in told if weight):
            for word, logs in zip(own[:, 0].tolist(), target.logs, strict=True):
                seen.setdefault(word, set())
                if (logs != 0).any():
                    seen[word] |= set(np.flatnonzero(logs > -np.inf).tolist())
        return [seen.get(word) or every for word in item[:, 0].tolist()]

    def _draw_rules(self, random: np.random.Generator, truths: Sequence[np.ndarray]) -> None:
        if random.random() < 0.5:
            return
        n_labels = self.n_labels
        steps = {(int(a), int(b)) for own in truths for a, b in pairwise(own)}
        starts, ends = {int(own[0]) for own in truths}, {int(own[-1]) for own in truths}
        free = [(a, b) for a in range(n_labels) for b in range(n_labels) if (a, b) not in steps]
        self.masks["edge"] = {pair for pair in free if random.random() < 0.5}
        self.masks["start"] = {label for label in range(n_labels) if label not in starts and random.random() < 0.5}
        self.masks["end"] = {label for label in range(n_labels) if label not in ends and random.random() < 0.5}

    def runs(self, labels: np.ndarray) -> tuple:
        """Return the segments of labels that are not written so: runs, cut where a segment may follow its like."""
        cuts, begin = [], 0
        for place in range(1, len(labels) + 1):
            if place < len(labels) and labels[place] == labels[begin]:
                continue
            size, step = place - begin, place - begin
            if self.repeats:
                step = self.longest if max(self.least) == 1 else -(-size // -(-size // self.longest))
            ends = [*range(begin + step, place, step), place]
            cuts += [(a, b, int(labels[begin])) for a, b in pairwise([begin, *ends])]
            begin = place
        return tuple(cuts)

    def _least_durations(self) -> dict | None:
        """Return the least duration of the labels that have one."""
        named = {self.classes[label]: least for label, least in enumerate(self.least) if least > 1}
        return named or None

    def _drawn_cuts(self, random: np.random.Generator, item: np.ndarray, labels: np.ndarray) -> tuple:
        if not self.repeats:
            return self.runs(labels)
        same = [cuts for cuts in self.possible(item) if _positions(cuts) == labels.tolist()]
        return same[random.integers(len(same))] if same else ()

    def possible(self, item: np.ndarray) -> list[tuple]:
        """Return all segmentations of an item that are allowed."""
        whole, base = self.listed(item)
        assert whole.cuts is not None
        return [cuts for cuts, weight in zip(whole.cuts, base, strict=True) if weight > -np.inf]

    def _allows(self, cuts: tuple, lists: Sequence[set[int]]) -> bool:
        steps, masks = {(a[2], b[2]) for a, b in pairwise(cuts)}, self.masks
        if steps & masks["edge"] or cuts[0][2] in masks["start"] or cuts[-1][2] in masks["end"]:
            return False
        if any(end - begin < self.least[label] for begin, end, label in cuts):
            return False
        return all(label in own for label, own in zip(_positions(cuts), lists, strict=True))

    def listed(self, item: np.ndarray) -> tuple[Enumerated, np.ndarray]:
        """Return all segmentations of an item, and the logarithm of their base measure."""
        cuts = list(all_segmentations(len(item), self.n_labels, self.longest, repeats=self.repeats))
        lists = self.lists_of(item)
        labellings = np.array([_positions(own) for own in cuts], dtype=np.int64).reshape(len(cuts), len(item))
        base = np.array([0.0 if self._allows(own, lists) else -np.inf for own in cuts])
        return Enumerated(labellings, np.zeros(len(cuts)), self.n_labels, (), cuts), base

    def unscored(self, item: Any, target: Target | None = None) -> tuple[Enumerated, np.ndarray]:
        whole, base = self.listed(item)
        assert whole.cuts is not None
        every = [segment_counts(cuts, len(item), self.n_labels, self.longest) for cuts in whole.cuts]
        kinds = ("NodeCliques", "EdgeCliques", "DurationCliques")
        tables, rows = dict(zip(kinds, map(np.array, zip(*every, strict=True)), strict=True)), []
        for term, plain in zip(self.fitted.field_.terms, self.terms, strict=True):
            kind = type(term.clique).__name__
            seen, counts = windowed(self.inputs(item), sides_of(term.clique.window), False), tables[kind]
            if kind == "EdgeCliques":  # none at the first position
                seen, counts = seen[1:], counts[:, 1:]
            elif kind == "DurationCliques":
                seen = np.log(np.arange(1.0, self.longest + 1))[:, None]
            rows.append(Rows(plain.features_of(seen), counts.reshape(*counts.shape[:2], plain.n_outcomes)))
        whole.rows = rows
        return whole, base

    def groups(self) -> dict[str, int]:
        return {name: term for name, term in super().groups().items() if name == "edge"}

    def cuts_of(self, written: Sequence[tuple]) -> tuple:
        """Return segments as they are written, by the numbers of their labels."""
        return tuple((begin, end, self.classes.index(label)) for begin, end, label in written)

    def _log_of(self, whole: Enumerated, cuts: tuple) -> float:
        assert whole.cuts is not None
        return float(whole.logs[whole.cuts.index(cuts)]) if cuts in whole.cuts else -np.inf

    def log_probability(self, whole: Enumerated, labels: np.ndarray) -> float:
        return self._log_of(whole, self.runs(labels))


def _positions(cuts: tuple) -> list[int]:
    return [label for begin, end, label in cuts for _ in range(end - begin)]


class Graph(Drawn):
    """GraphCRF: trees, stars, graphs with circles; types of edges and nodes, cliques of three labels, constraints."""

    def __init__(self, random: np.random.Generator):
        names = NAMES[random.integers(len(NAMES))]
        n_labels = int(random.choice([2, 3]))
        self.most = {2: 6, 3: 5}[n_labels]
        self.typed = bool(random.random() < 0.3)
        self.featured = bool(random.random() < 0.4)
        self.triples = bool(random.random() < 0.25)
        self.node_types = bool(random.random() < 0.25)
        self.circles = bool(random.random() < 0.6)
        self.stars = bool(random.random() < 0.3)
        self.items = [self._draw_item(random) for _ in range(5)]
        labels = [random.integers(n_labels, size=self.length(item)) for item in self.items]
        seen = sorted({int(label) for own in labels for label in own})
        if len(seen) < 2:
            raise Redraw
        self.classes = [names[number] for number in seen]
        truths = [np.searchsorted(seen, own) for own in labels]
        self._draw_weights(random)
        constraints = self._draw_constraints(random, truths)
        way = str(random.choice(["full", "partial", "asked"], p=[0.55, 0.3, 0.15]))
        self._draw_targets(random, truths, way != "full")
        partial = PartialLabels(classes=self.classes) if way == "partial" else None
        if way == "asked":
            self.criterion = Criterion(0, 0.4, 3.0)
            shares = [LabelShares({self.classes[0]: 0.4}, weight=3.0)]
            partial = PartialLabels(classes=self.classes, expectations=shares)
        symmetric = bool(random.random() < 0.3 and not self.triples)
        edge_kernel: Any = ["auto", None][random.integers(2)]
        if self.featured and not self.typed and not self.triples and random.random() < 0.4:
            edge_kernel = drawn_kernel(random)
        estimator = GraphCRF(
            drawn_kernel(random),
            edges=GraphFactors(edge_kernel, symmetric=symmetric),
            inference=str(random.choice(["auto", "junction"])),
            partial_labels=partial,
            constraints=constraints,
            **drawn_settings(random)
            | ({} if way == "full" else {"solver": "lbfgs"})
            | ({"scale": False} if self.featured else {}),
        )
        self.note = repr(estimator)
        self._fit(estimator, self.known_of([target.entry for target in self.targets]))
        # Every type that the field scores must be known; graphs may lack one.
        drawn = [self._draw_item(random) for _ in range(16)]
        possible = [bool((self.base(item) > -np.inf).any()) for item in drawn]
        self.new = [item for item, some in zip(drawn, possible, strict=True) if some]
        self.impossible = [item for item, some in zip(drawn, possible, strict=True) if not some]
        if not self.new:
            raise Redraw

    def _draw_constraints(self, random: np.random.Generator, truths: Sequence[np.ndarray]) -> Any:
        """Forbid some pairs that no edge, from its first node to its second, has."""
        self.forbidden: set[tuple[int, int]] = set()
        if self.typed or random.random() < 0.4:
            return None
        ends = [
            {(int(own[v]), int(own[w])) for v, w in self._parts(item)[1]["edge"].tolist()}
            for item, own in zip(self.items, truths, strict=True)
        ]
        free = {(a, b) for a in range(self.n_labels) for b in range(self.n_labels)} - set().union(*ends)
        self.forbidden = {pair for pair in sorted(free) if random.random() < 0.7}
        pairs = [(self.classes[a], self.classes[b]) for a, b in sorted(self.forbidden)]
        return {"transitions": pairs} if random.random() < 0.5 else pairs

    def base(self, item: Any) -> np.ndarray:
        """Return the logarithm of the base measure of all labellings of a graph, (K,)."""
        labellings, broken = all_labellings(self.length(item), self.n_labels), np.zeros((self.n_labels,) * 2, bool)
        for pair in self.forbidden:
            broken[pair] = True
        edges = self._parts(item)[1].get("edge", np.empty((0, 2), dtype=np.int64))
        return np.where(broken[labellings[:, edges[:, 0]], labellings[:, edges[:, 1]]].any(axis=1), -np.inf, 0.0)

    def _draw_item(self, random: np.random.Generator) -> Any:
        size = int(random.integers(1, self.most + 1))
        nodes = np.round(random.normal(size=(size, 2)), 3)
        hubs = [0 if self.stars else int(random.integers(child)) for child in range(1, size)]
        tree = [[hub, child] for child, hub in enumerate(hubs, start=1) if random.random() < 0.9]
        if self.circles:
            pairs = [[a, b] for a in range(size) for b in range(a + 1, size)]
            tree += [pair for pair in pairs if pair not in tree and random.random() < 0.3]
        edges = np.array([pair[:: int(random.choice([-1, 1]))] for pair in tree], dtype=np.int64).reshape(-1, 2)
        kinds: dict[str, np.ndarray] = {"edge": edges}
        if self.typed:
            first = random.random(len(edges)) < 0.5
            kinds = {"near": edges[first], "far": edges[~first]}
        if self.triples:
            triples = [[0, 1, 2], [2, 1, 3]][: max(0, min(2, size - 2))]
            kinds["triple"] = np.array(triples, dtype=np.int64).reshape(-1, 3)
        features = {
            name: np.round(random.normal(size=(len(members), 2)), 3)
            for name, members in kinds.items()
            if self.featured and name != "triple"
        }
        item: dict[str, Any] = {"x": nodes, "edges": kinds}
        if features:
            item["edge_features"] = features
        if self.node_types:
            item["node_types"] = [str(kind) for kind in random.choice(["red", "blue"], size=size)]
        if not self.typed and not self.triples and not self.node_types and random.random() < 0.5:
            return (nodes, edges, features["edge"]) if features else (nodes, edges)
        return item

    def _parts(self, item: Any) -> tuple[np.ndarray, dict, dict, list | None]:
        if isinstance(item, tuple):
            return item[0], {"edge": item[1]}, {"edge": item[2]} if len(item) > 2 else {}, None
        return item["x"], item["edges"], item.get("edge_features", {}), item.get("node_types")

    def length(self, item: Any) -> int:
        return len(self._parts(item)[0])

    def columns(self, item: Any) -> np.ndarray:
        return self._parts(item)[0]

    def unscored(self, item: Any, target: Target | None = None) -> tuple[Enumerated, np.ndarray]:
        _, kinds, features, types = self._parts(item)
        nodes = self.inputs(item)
        labellings = all_labellings(len(nodes), self.n_labels)
        rows = []
        for term, plain in zip(self.fitted.field_.terms, self.terms, strict=True):
            clique = term.clique
            if type(clique).__name__ == "GraphNodes":
                places = [v for v in range(len(nodes)) if clique.node_type is None or types[v] == clique.node_type]
                members: list = [(v,) for v in places]
                seen = nodes[places]
            else:
                members = [tuple(row) for row in np.asarray(kinds.get(clique.group, [])).tolist()]
                seen = features.get(clique.group, np.zeros((len(members), 1)))
            rows.append(rows_of(plain, labellings, members, np.asarray(seen), self.n_labels))
        return Enumerated(labellings, np.zeros(len(labellings)), self.n_labels, rows), self.base(item)


class Single(Drawn):
    """KernelClassifier: labels that meet no others."""

    decodes = "viterbi"

    def __init__(self, random: np.random.Generator):
        names = NAMES[random.integers(len(NAMES))]
        n_labels = int(random.choice([2, 3, 5]))
        self.items = [np.round(row, 3) for row in random.normal(size=(12, 2))]
        labels = np.concatenate([np.arange(n_labels), random.integers(n_labels, size=12 - n_labels)])
        self.classes = [names[number] for number in range(n_labels)]
        self._draw_weights(random)
        # Every class has a sample that counts, so that the objective can be built again without the others.
        counted = {int(y) for y, w in zip(labels, [] if self.weights is None else self.weights, strict=False) if w}
        if len(counted) < n_labels:
            self.weights = None
        way = str(random.choice(["full", "partial", "soft", "asked"], p=[0.4, 0.3, 0.15, 0.15]))
        self._draw_targets(random, list(labels[:, None]), way in ("partial", "asked"))
        partial = PartialLabels(classes=self.classes) if way == "partial" else None
        if way == "asked":
            self.criterion = Criterion(0, 0.4, 3.0)
            shares = [LabelShares({self.classes[0]: 0.4}, weight=3.0)]
            partial = PartialLabels(classes=self.classes, expectations=shares)
        if way == "soft":
            for target in self.targets:
                target.soft = random.dirichlet(np.ones(n_labels), size=1)
        given: Any = self.known_of([target.entry for target in self.targets])
        if way == "soft":
            given = SoftTargets(np.vstack([target.soft for target in self.targets]), classes=self.classes)
        elsewhere = torch_on_cpu() if way == "full" and random.random() < 0.3 else None
        estimator = KernelClassifier(
            drawn_kernel(random),
            bias=bool(random.random() < 0.7),
            partial_labels=partial,
            engine="auto" if elsewhere is None else elsewhere,
            **drawn_settings(random) | {"rank": int(random.choice([3, 20])), "solver": "auto"},
        )
        self.note = repr(estimator)
        self._fit(estimator, given)
        self.new = [np.round(row, 3) for row in random.normal(size=(20, 2))]
        if self.weights is not None:
            # A sample of weight zero is none.
            kept = np.flatnonzero(self.weights)
            self.items, self.targets = [self.items[i] for i in kept], [self.targets[i] for i in kept]
            self.weights = self.weights[kept]
            self.given = given.subset(kept) if way == "soft" else [given[i] for i in kept]

    def x_of(self, items: Sequence) -> Any:
        return np.vstack(items)

    def y_of(self, labels: Sequence[np.ndarray]) -> Any:
        return [self.classes[int(own[0])] for own in labels]

    def known_of(self, entries: Sequence[Sequence]) -> Any:
        return [named(own[0], self.classes) for own in entries]

    def numbers_of(self, answer: Any) -> list[np.ndarray]:
        places = {label: number for number, label in enumerate(self.classes)}
        return [np.array([places[label]]) for label in np.asarray(answer).tolist()]

    def tables_of(self, answer: Any) -> list[np.ndarray]:
        return [row[None] for row in answer]

    def draws_of(self, answer: Any, place: int) -> np.ndarray:
        return np.array(self.numbers_of(answer[:, place]))

    def length(self, item: Any) -> int:
        return 1

    def unscored(self, item: Any, target: Target | None = None) -> tuple[Enumerated, np.ndarray]:
        labellings = all_labellings(1, self.n_labels)
        rows = [rows_of(plain, labellings, [(0,)], self.inputs(item), self.n_labels) for plain in self.terms]
        return Enumerated(labellings, np.zeros(self.n_labels), self.n_labels, rows), np.zeros(self.n_labels)


class Instances(Drawn):
    """MultiLabelCRF: several labels of an instance, in any graph."""

    def __init__(self, random: np.random.Generator):
        self.classes = [0, 1]
        self.n_names = int(random.integers(2, 6))
        self.items = [np.round(row, 3) for row in random.normal(size=(10, 2))]
        truths = [random.integers(2, size=self.n_names) for _ in self.items]
        self._draw_weights(random)
        partly = random.random() < 0.35
        self._draw_targets(random, truths, partly)
        pairs = [(a, b) for a in range(self.n_names) for b in range(a + 1, self.n_names)]
        chosen = [pair for pair in pairs if random.random() < 0.6]
        graph: Any = ["none", "tree", "full", chosen or "full"][random.integers(4)]
        inference = str(random.choice(["auto", "table", "junction"]))
        estimator = MultiLabelCRF(
            drawn_kernel(random),
            label_graph=graph,
            edges=EdgeCliques(drawn_kernel(random)) if random.random() < 0.3 else None,
            bias_prior_variance=None if random.random() < 0.3 else 10.0,
            inference="auto" if graph in ("none", "tree") else inference,
            decision=str(random.choice(["hamming", "subset", "auto"])),
            partial_labels=PartialLabels() if partly else None,
            **drawn_settings(random) | ({"solver": "lbfgs"} if partly else {}),
        )
        self.note = repr(estimator)
        self._fit(estimator, self.known_of([target.entry for target in self.targets]))
        self.new = [np.round(row, 3) for row in random.normal(size=(16, 2))]

    @property
    def n_labels(self) -> int:
        return 2

    @property
    def decodes(self) -> str:  # type: ignore[override]
        return "viterbi" if self.model.decision == "subset" else "posterior"

    def draws_of(self, answer: Any, place: int) -> np.ndarray:
        return np.asarray(answer)[:, place]

    def share_right(self, found: Sequence[np.ndarray], truths: Sequence[np.ndarray]) -> float:
        return float(np.mean([np.array_equal(*pair) for pair in zip(found, truths, strict=True)]))

    def _hidden(self, random: np.random.Generator, labels: np.ndarray, n_labels: int) -> tuple[list, np.ndarray]:
        return drawn_gaps(random, labels, n_labels)

    def x_of(self, items: Sequence) -> Any:
        return np.vstack(items)

    def y_of(self, labels: Sequence[np.ndarray]) -> Any:
        return np.array(labels)

    def known_of(self, entries: Sequence[Sequence]) -> Any:
        table = np.array([[np.nan if entry is None else float(entry) for entry in own] for own in entries])
        return table if np.isnan(table).any() else table.astype(int)

    def numbers_of(self, answer: Any) -> list[np.ndarray]:
        return [np.asarray(own, dtype=int) for own in answer]

    def length(self, item: Any) -> int:
        return self.n_names

    def unscored(self, item: Any, target: Target | None = None) -> tuple[Enumerated, np.ndarray]:
        labellings = all_labellings(self.n_names, 2)
        pairs, rows = self.fitted.field_.spec.pairs, []
        for term, plain in zip(self.fitted.field_.terms, self.terms, strict=True):
            members = [(term.clique.label,)] if term.group is None else [tuple(pairs[term.group])]
            rows.append(rows_of(plain, labellings, members, self.inputs(item), 2))
        return Enumerated(labellings, np.zeros(len(labellings)), 2, rows), np.zeros(len(labellings))
