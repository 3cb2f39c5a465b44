"""Estimators that are made of a field, drawn: annotators, tables, classes of sequences, clusters, CRFsuite's face."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields import AnnotatedCRF, FrameCRF, PartialLabels, SequenceClassifier
from kernelfields.compat import CRF
from tests.campaigns.fields.chains import Chain, chain_rows
from tests.campaigns.fields.drawn import NAMES, Drawn, Redraw, Target, drawn_gaps, drawn_kernel, drawn_settings, named
from tests.campaigns.fields.terms import Enumerated
from tests.oracles.labellings import all_labellings


class Annotated(Chain):
    """AnnotatedCRF on chains: what annotators said, in the place of labels."""

    lacks = ("solution", "prepared")

    @property
    def fitted(self) -> Any:
        return self.model.estimator_

    def _draw_way(self, random: np.random.Generator) -> str:
        return "annotated"

    def _draw_engine(self, random: np.random.Generator, settings: dict, way: str) -> Any:
        return "threads"

    def _draw_targets(self, random: np.random.Generator, truths: Sequence[np.ndarray], partly: bool) -> None:
        self.said: list[list[np.ndarray]] = [self.draw_said(random, labels) for labels in truths]
        everything = {int(label) for own in self.said for said in own for label in said if label >= 0}
        silent = any((np.array(own) < 0).all() for own in self.said)
        if len(everything) < self.n_labels or silent:
            raise Redraw
        self.targets = []
        for own in self.said:
            sets = [{int(label) for label in column if label >= 0} for column in np.transpose(own)]
            logs = np.array(
                [[0.0 if not said or y in said else -np.inf for y in range(self.n_labels)] for said in sets]
            )
            self.targets.append(Target([said or None for said in sets], logs))
        if all(len(said or ()) == 1 for target in self.targets for said in target.entry):
            self.targets[0].logs[0] = 0.0

    def draw_said(self, random: np.random.Generator, labels: np.ndarray) -> list[np.ndarray]:
        """Return what each of two annotators said of labels, -1 for nothing."""
        said = []
        for errors in (0.2, 0.4):
            wrong = random.random(len(labels)) < errors
            own = np.where(wrong, random.integers(self.n_labels, size=len(labels)), labels)
            said.append(np.where(random.random(len(labels)) < 0.2, -1, own))
        return said

    def written(self, said: Sequence[Sequence[np.ndarray]]) -> dict:
        """Return what annotators said in the form of a fit."""
        return {
            name: [[None if y < 0 else self.classes[y] for y in own[number].tolist()] for own in said]
            for number, name in enumerate(("anna", "ben"))
        }

    def _fit_drawn(self, random: np.random.Generator, estimator: Any, way: str) -> None:
        estimator.partial_labels = PartialLabels(classes=self.classes)
        model = AnnotatedCRF(estimator, max_steps=int(random.choice([1, 5])), cv=2)
        self.note = repr(model)
        self._fit(model, self.written(self.said))
        for target, said in zip(self.targets, self.said, strict=True):
            target.logs = self.messages(said)
        if self.rule == "dictionary":
            # Labels to learn a dictionary from are presumed from what was said; entries are known, seen or not.
            words = {*self.entries, *(word for item in self.items for word in self.words(item))}
            places = {word: self.fitted.allowed_.labels_of(word).tolist() for word in words}
            unknown = self.fitted.allowed_.unknown.tolist()
            self._dictionary = lambda: (places, unknown)  # type: ignore[method-assign]

    def messages(self, said: Sequence[np.ndarray]) -> np.ndarray:
        """Return the log-weights of labels by what annotators said of one item, (T, L)."""
        total = np.zeros((len(said[0]), self.n_labels))
        for own, matrix in zip(said, self.model.confusions_.values(), strict=True):
            for place, label in enumerate(own):
                if label >= 0:
                    total[place] += np.log(matrix[:, label])
        return total


class Frames(Chain):
    """FrameCRF: the field of a table with a row for each position."""

    lacks = ("prepared",)

    @property
    def fitted(self) -> Any:
        return self.model.estimator_

    def _draw_way(self, random: np.random.Generator) -> str:
        return str(random.choice(["full", "partial"]))

    def _draw_item(self, random: np.random.Generator, length: int, words: int = 4) -> Any:
        self.form = "array"
        return super()._draw_item(random, length, words)

    def _hidden(self, random: np.random.Generator, labels: np.ndarray, n_labels: int) -> tuple[list, np.ndarray]:
        return drawn_gaps(random, labels, n_labels)

    def frame(self, items: Sequence, entries: Sequence[Sequence] | None = None) -> Any:
        """Return items as a data frame, with a column of labels if entries are given by number."""
        import pandas

        table = pandas.DataFrame(np.vstack(items), columns=[f"c{number}" for number in range(items[0].shape[1])])
        table["sequence"] = np.repeat(np.arange(len(items)), [len(item) for item in items])
        if entries is not None:
            labels = [named(entry, self.classes) for own in entries for entry in own]
            table["label"] = pandas.Series(labels, dtype=object)
        return table

    def _fit_drawn(self, random: np.random.Generator, estimator: Any, way: str) -> None:
        table = self.frame(self.items, [target.entry for target in self.targets])
        model = FrameCRF(estimator)
        self.note = repr(model)
        settings = {} if self.weights is None else {"sample_weight": self.weights}
        self.model = model.fit(table, **settings)


class Sequences(Drawn):
    """SequenceClassifier: classes of whole sequences, by hidden states."""

    lacks = ("prepared",)

    def __init__(self, random: np.random.Generator):
        names = NAMES[random.integers(len(NAMES))]
        n_classes = int(random.choice([2, 3]))
        self.n_states = int(random.choice([1, 2]))
        self.longest = 4 if n_classes * self.n_states < 5 else 3
        self.names = names[:n_classes]
        self.items = [self._draw_item(random) for _ in range(8)]
        self.own = np.concatenate([np.arange(n_classes), random.integers(n_classes, size=8 - n_classes)])
        self.classes = list(range(n_classes * self.n_states))
        self._draw_weights(random)
        self.targets = []
        for item, number in zip(self.items, self.own, strict=True):
            states = np.array(self.classes) // self.n_states == number
            self.targets.append(Target(None, np.tile(np.where(states, 0.0, -np.inf), (len(item), 1))))
        estimator = SequenceClassifier(
            drawn_kernel(random),
            n_states=self.n_states,
            window=[1, 3, (1, 0)][random.integers(3)],
            **{name: value for name, value in drawn_settings(random).items() if name != "solver"},
        )
        self.note = repr(estimator)
        self._fit(estimator, [self.names[number] for number in self.own])
        self.new = [self._draw_item(random) for _ in range(20)]

    def _draw_item(self, random: np.random.Generator) -> np.ndarray:
        return np.round(random.normal(size=(int(random.integers(1, self.longest + 1)), 2)), 3)

    @property
    def fitted(self) -> Any:
        return self.model.estimator_

    def unscored(self, item: Any, target: Target | None = None) -> tuple[Enumerated, np.ndarray]:
        labellings = all_labellings(len(item), self.n_labels)
        whole = Enumerated(
            labellings, np.zeros(len(labellings)), self.n_labels, chain_rows(self, self.inputs(item), labellings)
        )
        classes = whole.labellings // self.n_states
        return whole, np.where((classes == classes[:, :1]).all(axis=1), 0.0, -np.inf)


class Compat(Drawn):
    """compat.CRF: the face of sklearn-crfsuite, whose weights have names."""

    def __init__(self, random: np.random.Generator):
        self.classes = [["a", "b", "c"], ["B-X", "I-X", "O"]][random.integers(2)]
        self.items = [self._draw_item(random) for _ in range(6)]
        labels = [[self.classes[number] for number in random.integers(3, size=len(item))] for item in self.items]
        if len({label for own in labels for label in own}) < 3:
            raise Redraw
        settings = {"c1": float(random.choice([0.0, 0.1])), "c2": float(random.choice([0.1, 1.0]))}
        estimator = CRF(max_iterations=int(random.choice([1, 20])), **settings)
        self.note = repr(estimator)
        self.model = estimator.fit(self.items, labels)
        self.new = [self._draw_item(random, words=4) for _ in range(20)]

    def _draw_item(self, random: np.random.Generator, words: int = 3) -> list[dict]:
        return [
            {
                "w": f"word{random.integers(words)}",
                "size": float(np.round(random.normal(), 2)),
                "up": bool(random.integers(2)),
            }
            for _ in range(int(random.integers(1, 6)))
        ]

    @property
    def terms(self) -> list:
        return []

    def enumerated(self, item: Any, target: Target | None = None) -> Enumerated:
        states, steps = self.model.state_features_, self.model.transition_features_
        labellings = all_labellings(len(item), 3)
        node, edge = np.zeros((len(item), 3)), np.zeros((3, 3))
        for number, label in enumerate(self.classes):
            edge[number] = [steps.get((label, other), 0.0) for other in self.classes]
            for place, features in enumerate(item):
                named_values = {f"w:{features['w']}": 1.0, "size": features["size"], "up": float(features["up"])}
                weights = [states.get((name, label), 0.0) * value for name, value in named_values.items()]
                node[place, number] = sum(weights)
        scores = node[np.arange(len(item)), labellings].sum(axis=1)
        for place in range(1, len(item)):
            scores = scores + edge[labellings[:, place - 1], labellings[:, place]]
        return Enumerated(labellings, scores, 3)
