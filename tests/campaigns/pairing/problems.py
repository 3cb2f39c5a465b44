"""Data of a drawn plan: batches of items with labels, in the form that the estimator takes.

An item of sequences is a table (T, 3): the number of a word, and two numbers that lie around the centre of the label.
Graphs are (nodes, edges) of such tables, single inputs and instances are rows. Labels are numbers, 0 is the newcomer:
only batches that are asked to have it do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF, RingCRF, SegmentCRF
from tests.campaigns.fields.drawn import Redraw, named
from tests.campaigns.pairing.features import NAMES, Plan

ESTIMATORS = {
    "chain": ChainCRF,
    "ring": RingCRF,
    "segments": SegmentCRF,
    "graph": GraphCRF,
    "single": KernelClassifier,
    "multi": MultiLabelCRF,
}
LONGEST = 4
_MOST_ATTEMPTS = 100
_CENTRES = np.array([[0.0, 1.5], [1.2, 0.0], [-1.2, -0.5], [0.0, -1.4]])
#: Labels of each word where a dictionary is learnt; word 0 takes the newcomer.
_LISTS = ([0, 1, 2], [1], [2, 3], [1, 3])
N_NAMES = 3


@dataclass(frozen=True)
class Batch:
    """Items with their labels, by number, what is told of these, and weights."""

    items: list
    labels: list[np.ndarray]
    told: list[list] | None = None
    weights: np.ndarray | None = None

    def part(self, places: Sequence[int]) -> Batch:
        """Return some of the items, in an order."""
        return Batch(
            [self.items[i] for i in places],
            [self.labels[i] for i in places],
            None if self.told is None else [self.told[i] for i in places],
            None if self.weights is None else self.weights[list(places)],
        )

    def logs(self, n_labels: int) -> list[np.ndarray]:
        """Return log-weights (T, L) of what is told of the labels."""
        tables = []
        for number, own in enumerate(self.labels):
            table = np.where(own[:, None] == np.arange(n_labels), 0.0, -np.inf)
            for place, entry in enumerate([] if self.told is None else self.told[number]):
                if entry is None:
                    table[place] = 0.0
                elif isinstance(entry, set):
                    table[place, sorted(entry)] = 0.0
            tables.append(table)
        return tables


def _is_one(entry: Any) -> bool:
    """Whether an entry is one label."""
    return entry is not None and not isinstance(entry, set)


class Problem:
    """A plan with its data: a first batch, a second, one that brings the newcomer, held-out items, and new ones."""

    def __init__(self, plan: Plan, random: np.random.Generator):
        self.plan, self.names = plan, NAMES[plan.names]
        # Columns of other sizes are what scaling is for.
        self.sizes = np.array([1.0, 40.0]) if plan.settings["scale"] and random.random() < 0.7 else np.ones(2)
        multi = plan.kind == "multi"
        named_three = any(3 in pair for pair in plan.steps) or plan.names == "entities"
        three = named_three or random.random() < 0.6
        self.labels = [0, 1] if multi else [1, 2, 3] if three else [1, 2]
        self.first = self._batch(random, 10, every=True)
        self.second = self._batch(random, 7, every=True)
        more = self.labels if multi else [0, *self.labels]
        self.third = self._batch(random, 6, labels=more, every=True)
        self.held = self._batch(random, 14)
        self.new = [self._item(random, None)[0] for _ in range(4)]

    # ---- drawing

    def _batch(self, random: np.random.Generator, count: int, labels: Sequence[int] = (), every: bool = False) -> Batch:
        labels = list(labels) or self.labels
        for _ in range(_MOST_ATTEMPTS):
            drawn = [self._item(random, labels) for _ in range(count)]
            items, truths = [item for item, _ in drawn], [own for _, own in drawn]
            if not every or {int(label) for own in truths for label in own} == set(labels):
                break
        else:
            raise Redraw
        told, weights = None, None
        if self.plan.partial:
            told = [[self._told(random, int(label), labels) for label in own] for own in truths]
            told[0] = truths[0].tolist()
        if self.plan.weighted:
            weights = random.choice([0.0, 0.5, 1.0, 2.0], size=count, p=[0.2, 0.2, 0.4, 0.2])
        # Every label is told of an item that counts: of labels that are in sets alone, or in items of weight 0, a fit
        # may or may not know.
        counted = np.ones(count) if weights is None else weights
        listed = [own.tolist() for own in truths] if told is None else told
        seen = {
            label for own, weight in zip(listed, counted, strict=True) for label in own if weight and _is_one(label)
        }
        if every and seen != set(labels):
            weights = None if weights is None else np.maximum(weights, 0.5)
            told = None if told is None else [own.tolist() for own in truths]
        return Batch(items, truths, told, weights)

    def _told(self, random: np.random.Generator, label: int, labels: Sequence[int]) -> Any:
        way = random.random()
        if way < 0.2:
            return None
        if way < 0.35 and self.plan.kind != "multi":
            return {label, int(random.choice(labels))}
        return label

    def _item(self, random: np.random.Generator, labels: Sequence[int] | None) -> tuple[Any, np.ndarray]:
        kind, labels = self.plan.kind, self.labels if labels is None else labels
        if kind == "multi":
            row = np.round(random.normal(size=2), 3) * self.sizes
            return row, (random.normal(size=N_NAMES) + row[0] / self.sizes[0] > 0).astype(int)
        length = 1 if kind == "single" else int(random.integers(1, LONGEST + 1))
        for _ in range(_MOST_ATTEMPTS):
            words = random.integers(4, size=length)
            if self.plan.listed:
                allowed = [[label for label in _LISTS[word] if label in labels] or [None] for word in words]
                drawn = [random.choice(own) for own in allowed]
                if None in drawn:
                    continue
                own = np.array(drawn, dtype=int)
            else:
                own = random.choice(labels, size=length)
                for place in range(1, length):
                    own[place] = own[place - 1] if random.random() < 0.4 else own[place]
            tree = [[int(random.integers(node)), node] for node in range(1, length)]
            if self._obeys(own, tree):
                break
        else:
            raise Redraw
        numbers = np.round(_CENTRES[own] + random.normal(scale=0.9, size=(length, 2)), 3) * self.sizes
        if kind == "single":
            return numbers[0], own
        table = np.column_stack([words.astype(float), numbers])
        return ((table, np.array(tree, dtype=np.int64).reshape(-1, 2)) if kind == "graph" else table), own

    def _obeys(self, labels: np.ndarray, tree: list) -> bool:
        plan = self.plan
        steps = list(pairwise(labels.tolist()))
        if plan.kind == "ring" and len(labels) > 1:
            steps.append((int(labels[-1]), int(labels[0])))
        if plan.kind == "graph":
            steps = [(int(labels[a]), int(labels[b])) for a, b in tree]
        runs = np.diff([0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)])
        if plan.kind == "segments" and runs.max() > plan.settings["max_duration"]:
            return False
        if plan.kind == "segments" and runs.min() < (plan.settings.get("min_duration") or 1):
            return False
        return not (set(steps) & plan.steps) and int(labels[0]) not in plan.starts

    # ---- forms

    def X(self, items: Sequence[Any]) -> Any:
        """Return items as the estimator takes them."""
        if self.plan.kind in ("single", "multi"):
            return np.vstack(items) if len(items) else np.zeros((0, 2))
        return [self.in_form(item) for item in items]

    def in_form(self, item: Any) -> Any:
        """Return one sequence or graph as the estimator takes it."""
        form = self.plan.form
        if self.plan.kind == "graph":
            return item
        if form == "csr":
            return scipy.sparse.csr_array(item)
        if form == "numbers":
            return [{"f0": float(row[1]), "f1": float(row[2])} for row in item]
        if form == "dicts":
            return [{"w": f"word{int(row[0])}", "f0": float(row[1]), "f1": float(row[2])} for row in item]
        return pd.DataFrame(item, columns=["w", "f0", "f1"]) if form == "frames" else item

    def y(self, labels: Sequence[Any]) -> Any:
        """Return labels, or what is told of them, by name."""
        if self.plan.kind == "multi":
            table = np.array([[np.nan if entry is None else float(entry) for entry in own] for own in labels])
            return table if np.isnan(table).any() else table.astype(int)
        written = [[named(entry, self.names) for entry in np.asarray(own, dtype=object).tolist()] for own in labels]
        return [own[0] for own in written] if self.plan.kind == "single" else written

    def given(self, batch: Batch) -> Any:
        """Return what a fit is told of the labels of a batch."""
        return self.y(batch.labels if batch.told is None else batch.told)

    # ---- fits

    def estimator(self, **more: Any) -> Any:
        """Return the estimator of the plan, not fitted."""
        return ESTIMATORS[self.plan.kind](**{**self.plan.parameters(self.names), **more})

    def fit(self, estimator: Any, batch: Batch) -> Any:
        """Fit an estimator to a batch."""
        return estimator.fit(self.X(batch.items), self.given(batch), sample_weight=batch.weights)

    def go_on(self, estimator: Any, batch: Batch) -> Any:
        """Fit one more batch, of which all labels are told."""
        return estimator.partial_fit(self.X(batch.items), self.y(batch.labels), sample_weight=batch.weights)

    def changed(self, plan: Plan, names: list | None = None) -> Problem:
        """Return the same data under another plan, or with other names of labels."""
        other = object.__new__(Problem)
        other.__dict__.update(self.__dict__)
        other.plan, other.names = plan, self.names if names is None else names
        return other

    def all_told(self) -> Problem:
        """Return the problem with all labels told, as batches need them."""
        other = self.changed(self.plan)
        for name in ("first", "second", "third"):
            setattr(other, name, replace(getattr(self, name), told=None))
        return other
