"""Sums over sequences that are spread over the workers of a Dask cluster.

    value, gradient, Hessian product, curvature = sum over shards of what ThreadsEngine answers there

Every shard has a :class:`~kernelfields.engines.threads.ThreadsEngine` of its own; this object has the same methods
and adds up. Coefficients travel to the shards and gradients come back, (r, q) for each clique set and shard;
arrays with a row for each position stay in the shards. A step of L-BFGS takes three round trips: the reach of a
direction, value and slope at a step, the gradient there; a Hessian product takes one. ``passes`` counts as on
threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelfields.basis import Support
from kernelfields.engines.dask_group import Recipe, ShardGroup
from kernelfields.engines.dask_potentials import (
    RemoteEvaluation,
    RemoteGradient,
    RemotePotentials,
    hessian_response,
)
from kernelfields.engines.dask_shards import Shard
from kernelfields.engines.engine import Engine
from kernelfields.engines.likelihood import Evaluation
from kernelfields.engines.potentials import Potentials
from kernelfields.engines.step_pairs import StepPairs
from kernelfields.engines.threads import ThreadsEngine


class Dask(Engine):
    """The workers of a Dask cluster; ``client`` is a ``distributed.Client``, None for the present one."""

    name = "dask"

    def __init__(self, client: Any = None):
        self.client = client

    def check(self) -> None:
        """Raise unless there is a cluster with workers that have this version of the package."""
        from kernelfields.engines.dask_cluster import connected_client

        connected_client(self.client)


@dataclass
class RemoteSet:
    """One clique set whose features are in shards: what the client knows of it.

    ``recipe`` gives each shard its ``CliqueFeatures``. ``shape`` is that of the coefficients, of occupied
    columns only where ``occupied`` names them among ``n_columns``; the other fields are as there.
    """

    name: str
    recipe: Recipe
    shape: tuple[int, int]
    prior_variance: float
    dtype: np.dtype
    stored_values: int
    l1: float = 0.0
    labels_per_clique: int = 1
    label_factor: np.ndarray | None = None
    support: Support | None = None
    whitened: bool = True
    dense_inputs: bool = False
    density: float = 1.0
    sparse: bool = False
    #: What stands behind features that pivots span: their subspace.
    origin: Any = None
    occupied: np.ndarray | None = None
    n_columns: int = 0

    def compress(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the rows of full coefficients that belong to occupied columns."""
        return coefficients if self.occupied is None else coefficients[self.occupied]

    def expand(self, coefficients: np.ndarray) -> np.ndarray:
        """Return full coefficients, zero where no training input has the feature."""
        if self.occupied is None:
            return coefficients
        full = np.zeros((self.n_columns, coefficients.shape[1]))
        full[self.occupied] = coefficients
        return full


class DaskEngine:
    """The clique sets of a training sample in shards, and everything a posterior asks of them.

    ``engine`` is the recipe of the shards' own engines, over the same sets in the same order.
    """

    #: There are no passes that keep nothing per position.
    fused = None
    approximation: str | None = None
    #: Steps that limited-memory BFGS remembers: as many as on threads, for the same iterates.
    usual_pairs = ThreadsEngine.usual_pairs

    def __init__(self, group: ShardGroup, engine: Recipe, sets: Sequence[RemoteSet]):
        self.group = group
        self.sets = list(sets)
        self.passes = 0.0
        self.value_at_zero = float(sum(group.ask(value_at_zero, engine)))
        self._engine = engine
        self._stored_values = max(1, sum(each.stored_values for each in self.sets))

    def potentials(
        self, coefficients: Sequence[np.ndarray], only: Sequence[int] | None = None
    ) -> RemotePotentials:
        """Return the potentials of the given coefficients; ``only`` names the sets that are not zero."""
        chosen = range(len(self.sets)) if only is None else only
        self._count(chosen)
        # Copies: nothing is sent before a number is asked for, and solvers change their vectors in place.
        parts = {index: np.array(coefficients[index], dtype=np.float64) for index in chosen}
        return RemotePotentials(self.group, self._engine, parts)

    def evaluate(self, potentials: RemotePotentials) -> RemoteEvaluation:
        """Return value and residual at the given potentials; no pass over features."""
        return potentials.evaluated()

    def hessian_response(self, evaluation: RemoteEvaluation, direction: RemotePotentials) -> RemoteGradient:
        """Return the Hessian of the likelihood in the potentials times a direction."""
        return RemoteGradient(
            self.group, self.group.recipe(hessian_response, self._engine, evaluation.recipe, direction.recipe)
        )

    def pull_back(self, residual: RemoteGradient, only: Sequence[int] | None = None) -> list[np.ndarray]:
        """Turn a gradient in potentials into one in the coefficients of each set (of those in ``only``)."""
        chosen = list(range(len(self.sets)) if only is None else only)
        self._count(chosen)
        answers = self.group.ask(pull_back, self._engine, residual.recipe, chosen)
        return [np.sum(parts, axis=0) for parts in zip(*answers, strict=True)]

    def start_curvature(self, index: int) -> float:
        """Return about how curved the likelihood is in one coordinate of a set, before any label is known."""
        squares, weights, counts = np.sum(self.group.ask(start_curvature, self._engine, index), axis=0)
        rows = self.sets[index].shape[0] if self.sets[index].support is None else 1
        return float(squares / rows * weights / counts) if counts else 0.0

    def curvature_diagonal(self, evaluation: RemoteEvaluation, index: int) -> np.ndarray | None:
        """Return sum_t z_tf^2 p (1 - p) for every coefficient of a set of sparse weights; None for other sets."""
        each = self.sets[index]
        if each.labels_per_clique != 1 or not each.sparse:
            return None
        self._count([index])
        return np.sum(self.group.ask(curvature_diagonal, self._engine, evaluation.recipe, index), axis=0)

    def curvature_block(self, evaluation: RemoteEvaluation, index: int) -> np.ndarray:
        """Return eq. 30 without the prior: within-clique covariances of one set, (r q, r q)."""
        return np.sum(self.group.ask(curvature_block, self._engine, evaluation.recipe, index), axis=0)

    def outside_bound(self, residual: RemoteGradient, index: int) -> float:
        """Return a bound on the squared norm of a set's gradient outside the span of its pivots."""
        if self.sets[index].origin is None:
            return 0.0
        return float(sum(self.group.ask(outside_norm, self._engine, residual.recipe, index))) ** 2

    def outside_gradient(self, residual: RemoteGradient, index: int) -> float:
        """Refuse: kernel values between all pairs of inputs would have to cross the shards."""
        if self.sets[index].origin is None:
            return 0.0
        raise ValueError(
            "exact certificates over the RKHS need kernel values between all inputs, which engine='dask' does not "
            "bring together: use the free bound, or engine='threads'"
        )

    def feature_rounding(self, residual: RemoteGradient, index: int, coefficients: np.ndarray) -> float:
        """Return about how the value would change if a set's features were not rounded."""
        each = self.sets[index]
        if each.origin is None or each.dtype == np.float64:
            return 0.0
        # The factor behind the dual coefficients is the client's: it need not travel.
        dual = each.origin.dual_coefficients(coefficients)
        arguments = (self._engine, residual.recipe, index, coefficients, dual)
        return float(sum(self.group.ask(feature_rounding, *arguments)))

    def stochastic_descent(self) -> None:
        """Return None: there is no stochastic start on a cluster."""

    def step_pairs(self, limit: int, metric: np.ndarray, dtype: np.dtype) -> StepPairs:
        """Return room for the steps that limited-memory BFGS remembers; they are vectors of the client."""
        return StepPairs(limit, metric, dtype)

    def _count(self, chosen: Sequence[int]) -> None:
        self.passes += 0.5 * sum(self.sets[index].stored_values for index in chosen) / self._stored_values


# What follows runs on the workers.


def value_at_zero(shard: Shard, engine: ThreadsEngine) -> float:
    """Return the value where all potentials are zero."""
    return engine.value_at_zero


def pull_back(shard: Shard, engine: ThreadsEngine, residual: Potentials, only: Sequence[int]) -> list[np.ndarray]:
    """Return the gradient in the coefficients of some sets, over the columns that the client knows."""
    parts = engine.pull_back(residual, only)
    return [engine.sets[index].expand(part) for index, part in zip(only, parts, strict=True)]


def start_curvature(shard: Shard, engine: ThreadsEngine, index: int) -> tuple[float, float, int]:
    """Return the sum over coordinates of the curvature at the start, the weight of the cliques, their number."""
    each = engine.sets[index]
    weights = engine.likelihood.clique_weights(each)
    rows = each.shape[0] if each.support is None else 1
    return each.start_curvature(len(weights)) * rows, float(weights.sum()), len(weights)


def curvature_diagonal(shard: Shard, engine: ThreadsEngine, evaluation: Evaluation, index: int) -> np.ndarray:
    """Return the diagonal of the curvature of a set, over the columns that the client knows."""
    diagonal = engine.curvature_diagonal(evaluation, index)
    assert diagonal is not None
    return engine.sets[index].expand(diagonal)


def curvature_block(shard: Shard, engine: ThreadsEngine, evaluation: Evaluation, index: int) -> np.ndarray:
    """Return the curvature of a set, over the columns that the client knows."""
    each = engine.sets[index]
    block = engine.curvature_block(evaluation, index)
    rows, outputs = each.shape
    seen = np.flatnonzero(each.expand(np.ones((rows, 1)))[:, 0])
    n_rows = len(each.expand(np.zeros((rows, 1))))
    if n_rows == rows:
        return block
    places = (seen[:, None] * outputs + np.arange(outputs)).ravel()
    full = np.zeros((n_rows * outputs, n_rows * outputs))
    full[np.ix_(places, places)] = block
    return full


def outside_norm(shard: Shard, engine: ThreadsEngine, residual: Potentials, index: int) -> float:
    """Return the bound on the norm of the gradient outside the span, not squared: norms add up."""
    return float(np.sqrt(engine.outside_bound(residual, index)))


@dataclass
class PivotKernels:
    """Kernel functions at the pivots (r, d), and their weights ``dual`` (r, q): what shards know of a span."""

    kernel: Any
    pivots: Any
    dual: np.ndarray | None = None

    def dual_coefficients(self, coefficients: np.ndarray) -> np.ndarray | None:
        """Return the weights that the client sent along with ``coefficients``: it has the factor behind them."""
        return self.dual


def feature_rounding(
    shard: Shard,
    engine: ThreadsEngine,
    residual: Potentials,
    index: int,
    coefficients: np.ndarray,
    dual: np.ndarray,
) -> float:
    """Return about how the value would change if the features were not rounded."""
    each = engine.sets[index]
    assert each.origin is not None
    span: Any = each.origin.subspace
    origin = replace(each.origin, subspace=replace(span, dual=dual))
    return origin.rounding(each.features, coefficients, engine.label_residuals(residual, index))
