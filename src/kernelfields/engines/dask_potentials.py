"""Potentials, gradients in them and evaluations that live in shards; what the client holds are recipes.

Potentials are linear in the coefficients, so those of a direction or of a step along it are known by their
coefficients, and a shard on a new worker computes them by a product. As long as a shard has the parts at hand it
adds them up instead. Nothing is computed before a number is asked for, and then as much as possible in one round
trip: a step of a line search asks for finiteness, value and slope at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.engines.dask_group import Recipe, ShardGroup
from kernelfields.engines.dask_shards import Entry, Shard
from kernelfields.engines.likelihood import Evaluation
from kernelfields.engines.potentials import Potentials
from kernelfields.engines.threads import ThreadsEngine

#: Coefficients of some sets by number; those of the others are zero.
Parts = Mapping[int, np.ndarray]


class RemotePotentials:
    """Potentials of known coefficients, in all shards of a group; ``engine`` is the recipe of their sums."""

    def __init__(self, group: ShardGroup, engine: Recipe, parts: Parts, recipe: Recipe | None = None):
        self.group = group
        self.engine = engine
        self.parts = parts
        self.recipe = recipe or group.recipe(product_potentials, engine, parts)
        self._direction: RemotePotentials | None = None
        self._found: RemoteEvaluation | None = None
        self._largest: float | None = None

    def evaluated(self) -> RemoteEvaluation:
        """Return value and gradient here: one round trip, which brings the slope in the direction moved along."""
        found = self._look()
        # Kept by whoever asked: potentials outlive the beliefs, which solvers release early.
        self._found = self._direction = None
        return found

    def _look(self) -> RemoteEvaluation:
        if self._found is None:
            evaluation = self.group.recipe(evaluate, self.engine, self.recipe)
            residual = RemoteGradient(self.group, self.group.recipe(residual_of, evaluation))
            direction = None if self._direction is None else self._direction.recipe
            answers = self.group.ask(assess, evaluation, direction)
            if direction is not None:
                residual.slopes[direction.key] = float(sum(slope for _, slope in answers))
            self._found = RemoteEvaluation(float(sum(value for value, _ in answers)), residual, evaluation)
        return self._found

    @property
    def finite(self) -> bool:
        """Whether no entry is infinite or NaN, nor so large that their sum is."""
        return bool(np.isfinite(self._look().value))

    @property
    def largest(self) -> float:
        """The largest absolute entry."""
        if self._largest is None:
            self._largest = max(self.group.ask(largest_of, self.recipe))
        return self._largest

    def moved(self, step: float, direction: RemotePotentials) -> RemotePotentials:
        """Return self + step * direction; no work until a number is asked for."""
        moved = self._combined(1.0, step, direction, at_once=False)
        moved._direction = direction
        return moved

    def add(self, step: float, direction: RemotePotentials) -> None:
        """Add step * direction."""
        self._become(self._combined(1.0, step, direction, at_once=True))

    def scale(self, factor: float) -> None:
        """Multiply by a number."""
        self._become(self._combined(factor, 0.0, self, at_once=True))

    def dot(self, other: RemotePotentials) -> float:
        """Return the inner product."""
        return sum(self.group.ask(product_of, self.recipe, other.recipe))

    def _combined(self, own: float, step: float, other: RemotePotentials, *, at_once: bool) -> RemotePotentials:
        parts = _combined_parts(own, self.parts, step, other.parts)
        recipe = self.group.recipe(
            combined_potentials,
            self.engine,
            parts,
            own,
            Entry(self.recipe.key, needed=False),
            step,
            Entry(other.recipe.key, needed=False),
            at_once=at_once,
        )
        return RemotePotentials(self.group, self.engine, parts, recipe)

    def _become(self, other: RemotePotentials) -> None:
        self.parts, self.recipe = other.parts, other.recipe
        self._direction = self._found = self._largest = None


class RemoteGradient:
    """A gradient in potentials, in all shards of a group; ``slopes`` are inner products known already, by key."""

    def __init__(self, group: ShardGroup, recipe: Recipe):
        self.group = group
        self.recipe = recipe
        self.slopes: dict[int, float] = {}

    def dot(self, direction: RemotePotentials) -> float:
        """Return the inner product with a direction."""
        known = self.slopes.get(direction.recipe.key)
        return sum(self.group.ask(product_of, self.recipe, direction.recipe)) if known is None else known


@dataclass
class RemoteEvaluation:
    """Value and gradient at some potentials; the beliefs behind them stay in the shards under ``recipe``."""

    value: float
    residual: RemoteGradient
    recipe: Recipe


def _combined_parts(own: float, mine: Parts, step: float, theirs: Parts) -> dict[int, np.ndarray]:
    combined = {index: own * part for index, part in mine.items()}
    if step != 0.0:
        for index, part in theirs.items():
            combined[index] = combined[index] + step * part if index in combined else step * part
    return combined


# What follows runs on the workers.


def product_potentials(shard: Shard, engine: ThreadsEngine, parts: Parts) -> Potentials:
    """Return the potentials of coefficients, by a product with the features."""
    coefficients: list[Any] = [
        each.compress(parts[index]) if index in parts else None for index, each in enumerate(engine.sets)
    ]
    return engine.potentials(coefficients, only=sorted(parts))


def combined_potentials(
    shard: Shard,
    engine: ThreadsEngine,
    parts: Parts,
    own: float,
    mine: Potentials | None,
    step: float,
    theirs: Potentials | None,
) -> Potentials:
    """Return own * mine + step * theirs, or the potentials of their coefficients where one is not at hand."""
    if mine is None or theirs is None:
        return product_potentials(shard, engine, parts)
    if own == 1.0:
        return mine.moved(step, theirs)
    scaled = Potentials(*(own * each for each in mine.arrays))
    if step != 0.0:
        scaled.add(step, theirs)
    return scaled


def evaluate(shard: Shard, engine: ThreadsEngine, potentials: Potentials) -> Evaluation | None:
    """Return value, residual and beliefs; None where potentials are not finite."""
    return engine.evaluate(potentials) if potentials.finite else None


def assess(shard: Shard, evaluation: Evaluation | None, direction: Potentials | None) -> tuple[float, float]:
    """Return the value and the slope in a direction; infinite where potentials are not finite."""
    if evaluation is None:
        return np.inf, np.inf
    return evaluation.value, 0.0 if direction is None else evaluation.residual.dot(direction)


def residual_of(shard: Shard, evaluation: Evaluation) -> Potentials:
    """Return the gradient in the potentials."""
    return evaluation.residual


def hessian_response(
    shard: Shard, engine: ThreadsEngine, evaluation: Evaluation, direction: Potentials
) -> Potentials:
    """Return the Hessian in the potentials times a direction."""
    return engine.hessian_response(evaluation, direction)


def product_of(shard: Shard, left: Potentials, right: Potentials) -> float:
    """Return an inner product."""
    return left.dot(right)


def largest_of(shard: Shard, potentials: Potentials) -> float:
    """Return the largest absolute entry."""
    return potentials.largest
