"""The law of the labels under a plan: from inputs as they were passed, fitted coefficients and declared rules.

Each law is a field of tests/campaigns/fields, given a fitted model and the batches that it has learnt from in the place
of what that module draws; so the questions of fields/answers.py are asked of it. Nothing of the model but the arrays
of its terms, ``classes_`` and ``scale_`` (where that is left to the data) is believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kernelfields.inputs import WindowStatistics
from tests.campaigns.fields.chains import Chain
from tests.campaigns.fields.columns import scale_of, with_statistics
from tests.campaigns.fields.drawn import Drawn
from tests.campaigns.fields.structures import Graph, Instances, Segments, Single
from tests.campaigns.pairing.counting import Unlawful
from tests.campaigns.pairing.problems import N_NAMES, Batch, Problem


class Learnt:
    """What a model has learnt from: a problem, the batch of its fit, and further ones."""

    def __init__(self, problem: Problem, model: Any, batches: Sequence[Batch]):
        self.problem, self.model, self.batches = problem, model, list(batches)
        self.plan = problem.plan
        #: The batch that columns are brought to one scale by.
        self.scaled = self.batches[0]
        numbers = sorted({int(label) for batch in self.batches for own in batch.labels for label in own})
        #: Labels that batches have had, sorted.
        self.classes = [problem.names[number] for number in numbers]
        self.places = {number: place for place, number in enumerate(numbers)}

    def x_of(self, items: Sequence[Any]) -> Any:
        """Return items as they are passed."""
        return self.problem.X(items)

    @property
    def decodes(self) -> str:
        """What ``predict`` means without being told."""
        settings, kind = self.plan.settings, self.plan.kind
        if kind == "multi":
            return "viterbi" if settings.get("decision") == "subset" else "posterior"
        chosen = settings.get("decode", "auto")
        if chosen != "auto":
            return "unsettled" if chosen == "f1" else chosen
        if kind in ("segments", "single") or (kind != "graph" and (self.plan.steps or self.plan.starts)):
            return "viterbi"
        return "unsettled" if self.plan.names == "entities" else "posterior"

    def columns(self, item: Any) -> np.ndarray:
        """Return the columns of an item that are read."""
        if not isinstance(item, tuple):
            form, model = self.plan.form, self.model
            table = np.asarray(item, dtype=float)
            if form == "numbers":
                return table[:, 1:]
            if form == "dicts":
                names = model.feature_names_in_.tolist()
                columns = {"f0": table[:, 1], "f1": table[:, 2]}
                columns |= {f"w:word{word}": (table[:, 0] == word).astype(float) for word in range(4)}
                return np.column_stack([columns[name] for name in names])
            return np.atleast_2d(table)
        nodes, edges = item
        if self.plan.settings.get("neighbours") is not True:
            return nodes
        meets = np.zeros((len(nodes), len(nodes)))
        for a, b in edges:
            meets[a, b] = meets[b, a] = 1.0
        degrees = meets.sum(axis=1, keepdims=True)
        means = np.where(degrees > 0, meets @ nodes / np.maximum(degrees, 1.0), nodes)
        return np.hstack([nodes, means, np.log1p(degrees)])

    @cached_property
    def _centred(self) -> tuple[np.ndarray, np.ndarray]:
        """What ``features=`` takes off and divides by."""
        rows = np.vstack([self.columns(item) for item in self.scaled.items])
        deviation = rows.std(axis=0)
        centre = np.zeros(rows.shape[1]) if self.plan.form == "csr" else rows.mean(axis=0)
        return centre, np.where(deviation > 0, deviation, 1.0)

    def joined(self, item: Any) -> np.ndarray:
        columns = self.columns(item)
        if self.plan.transformed:
            centre, spread = self._centred
            columns = (columns - centre) / spread
        return with_statistics(columns) if self.plan.around == "statistics" else columns

    @cached_property
    def _scale(self) -> tuple[np.ndarray, np.ndarray]:
        first, plan = self.scaled, self.plan
        rows = [self.joined(item) for item in first.items]
        width = rows[0].shape[1]
        left = plan.settings["scale"] == "auto" or plan.form in ("csr", "dicts", "numbers")
        scaled = self.model.scale_ if left else plan.settings["scale"]
        if not scaled:
            return np.zeros(width), np.ones(width)
        weights = np.ones(len(rows)) if first.weights is None else first.weights
        centre, spread = scale_of(np.vstack(rows), np.repeat(weights, [len(own) for own in rows]))
        if plan.form == "dicts":
            categories = [n for n, name in enumerate(self.model.feature_names_in_.tolist()) if name.startswith("w:")]
            centre[categories], spread[categories] = 0.0, 1.0
        return centre, spread

    def inputs(self, item: Any) -> np.ndarray:
        """Return the columns (T, d) that the cliques of an item see."""
        if self.plan.around == "auto" and self.model._reader.steps.has_step(WindowStatistics):
            raise Unlawful("statistics were chosen")
        centre, spread = self._scale
        return (self.joined(item) - centre) / spread

    @cached_property
    def masks(self) -> dict[str, set]:
        """Numbers of forbidden pairs and first labels, among the classes of the model."""
        places = self.places
        edge = {(places[a], places[b]) for a, b in self.plan.steps if a in places and b in places}
        return {
            "edge": edge,
            "start": {places[a] for a in self.plan.starts if a in places},
            "end": set(),
            "label": set(),
        }

    @cached_property
    def words(self) -> dict[int, set[int]]:
        """Labels that each word of the first batch was told with, in any batch, by items of some weight."""
        lists: dict[int, set[int]] = {}
        columns = sorted(self.places)
        for number, batch in enumerate(self.batches):
            weights = np.ones(len(batch.items)) if batch.weights is None else batch.weights
            told = zip(batch.items, batch.logs(len(self.problem.names)), weights, strict=True)
            for item, logs in ((item, logs) for item, logs, weight in told if weight):
                for word, row in zip(item[:, 0].astype(int).tolist(), logs, strict=True):
                    if word not in lists and number:
                        continue
                    own = lists.setdefault(word, set())
                    # To be told all labels there are is to be told none.
                    if (row[columns] != 0).any():
                        own |= {self.places[label] for label in np.flatnonzero(row > -np.inf).tolist()}
        return {word: own for word, own in lists.items() if own}

    def lists_of(self, item: np.ndarray) -> list[list[int]]:
        """Return the labels that are allowed at each position."""
        every = list(range(len(self.places)))
        if not self.plan.listed:
            return [every] * len(item)
        return [sorted(self.words.get(word, every)) for word in item[:, 0].astype(int).tolist()]


class ChainLaw(Learnt, Chain):
    """Of chains and rings."""

    extra = criterion = None

    def __init__(self, problem: Problem, model: Any, batches: Sequence[Batch]):
        Learnt.__init__(self, problem, model, batches)
        self.ring, self.rule, self.form, self.items, self.targets = problem.plan.kind == "ring", None, "array", [], []


class SegmentLaw(Learnt, Segments):
    """Of segments."""

    def __init__(self, problem: Problem, model: Any, batches: Sequence[Batch]):
        Learnt.__init__(self, problem, model, batches)
        self.longest, self.repeats = problem.plan.settings["max_duration"], bool(problem.plan.settings.get("repeats"))
        self.least = [problem.plan.settings.get("min_duration") or 1] * len(model.classes_)


class GraphLaw(Learnt, Graph):
    """Of graphs without types or edge features."""

    typed = featured = triples = node_types = False

    def __init__(self, problem: Problem, model: Any, batches: Sequence[Batch]):
        Learnt.__init__(self, problem, model, batches)
        self.forbidden = self.masks["edge"]


class SingleLaw(Learnt, Single):
    """Of single inputs."""


class InstanceLaw(Learnt, Instances):
    """Of several labels of an instance."""

    n_names = N_NAMES


_LAWS: dict[str, Any] = {
    "chain": ChainLaw,
    "ring": ChainLaw,
    "segments": SegmentLaw,
    "graph": GraphLaw,
    "single": SingleLaw,
    "multi": InstanceLaw,
}


def law_of(problem: Problem, model: Any, batches: Sequence[Batch]) -> Drawn:
    """Return the law of the answers of a model that has learnt from batches."""
    return _LAWS[problem.plan.kind](problem, model, batches)
