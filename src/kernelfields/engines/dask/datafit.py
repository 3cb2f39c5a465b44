"""The likelihood of data in shards: sums over the results of Datafit on the workers of a Dask cluster.

    value, gradient, Hessian product, curvature = sum over shards

Every shard has a :class:`~kernelfields.objective.datafit.Datafit` of its own; :class:`DaskDatafit` has the same
methods and adds up. Coefficients travel to the shards and gradients come back, (r, q) for each term and shard;
arrays with a row for each position stay in the shards, and what the client holds of them are recipes. Potentials are
linear in the coefficients, so those of a direction or of a step along it follow from their coefficients, and a shard
on a new worker computes them by a product. As long as a shard has the parts at hand it adds them up instead.

Nothing is computed before a number is needed, and then as much as possible in one round trip. A step of L-BFGS
takes three: the reach of a direction, value and slope at a step, the gradient there; a Hessian product takes one.
``passes`` counts as on threads.
"""

# Potentials, gradients and evaluations are of a kind of their own, which no other datafit gets to see.
# mypy: disable-error-code="override"

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from kernelfields.engines.dask.shards import SHARD, Each, Entry, Recipe, ShardGroup
from kernelfields.inference.family import Potentials
from kernelfields.kernels.arrays import on_host
from kernelfields.objective.coordinates import stride_of, worth_a_gram_matrix
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import Design, has_dense_features
from kernelfields.objective.likelihoods.expectations import Criteria, Expectation, ExpectationLikelihood
from kernelfields.objective.likelihoods.likelihood import Evaluation, Likelihood, PartialLikelihood

#: Coefficients of some terms by number; those of the others are zero.
Parts = Mapping[int, np.ndarray]


class RemotePotentials:
    """Potentials of known coefficients, in all shards of a group; ``datafit`` is the recipe of their sums."""

    def __init__(
        self, group: ShardGroup, datafit: Recipe, parts: Parts, recipe: Recipe | None = None, expects: bool = False
    ):
        self.group = group
        self.datafit = datafit
        #: Whether shares of labels are expected, which are known when all shards have added up theirs.
        self.expects = expects
        self.parts = parts
        self.recipe = recipe or group.recipe(product_potentials, datafit, parts)
        self._direction: RemotePotentials | None = None
        self._found: RemoteEvaluation | None = None
        self._largest: float | None = None

    def evaluated(self) -> RemoteEvaluation:
        """Return value and gradient here: one round trip, which brings the slope in the direction moved along."""
        found = self._evaluation()
        # Kept by the caller: potentials outlive the distributions, which solvers release early.
        self._found = self._direction = None
        return found

    def _evaluation(self) -> RemoteEvaluation:
        if self._found is None:
            evaluation = self.group.recipe(evaluate, self.datafit, self.recipe)
            if self.expects:
                masses = self.group.total(masses_of, self.datafit, evaluation)
                evaluation = self.group.recipe(with_terms, self.datafit, self.recipe, evaluation, masses)
            residual = RemoteGradient(self.group, self.group.recipe(attrgetter("residual"), evaluation))
            direction = None if self._direction is None else self._direction.recipe
            answers = self.group.ask(assess, evaluation, direction)
            if direction is not None:
                residual.slopes[direction.key] = float(sum(slope for _, slope in answers))
            self._found = RemoteEvaluation(float(sum(value for value, _ in answers)), residual, evaluation)
        return self._found

    @property
    def finite(self) -> bool:
        """Whether no entry is infinite or NaN, nor so large that their sum is."""
        return bool(np.isfinite(self._evaluation().value))

    @property
    def largest(self) -> float:
        """The largest absolute entry."""
        if self._largest is None:
            self._largest = max(self.group.ask(attrgetter("largest"), self.recipe))
        return self._largest

    def moved(self, step: float, direction: RemotePotentials) -> RemotePotentials:
        """Return self + step * direction; no work until a number is needed."""
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
        return sum(self.group.ask(called, "dot", self.recipe, other.recipe))

    def _combined(self, own: float, step: float, other: RemotePotentials, *, at_once: bool) -> RemotePotentials:
        parts = _combined_parts(own, self.parts, step, other.parts)
        recipe = self.group.recipe(
            combined_potentials,
            self.datafit,
            parts,
            own,
            Entry(self.recipe.key, needed=False),
            step,
            Entry(other.recipe.key, needed=False),
            at_once=at_once,
        )
        return RemotePotentials(self.group, self.datafit, parts, recipe, self.expects)

    def _become(self, other: RemotePotentials) -> None:
        self.parts, self.recipe = other.parts, other.recipe
        self._direction = self._found = self._largest = None


class RemoteTargets:
    """Expected statistics, or sums of them, in all shards of a group."""

    def __init__(self, group: ShardGroup, recipe: Recipe):
        self.group = group
        self.recipe = recipe

    @property
    def node(self) -> np.ndarray:
        """Those of single labels, (N, L), brought to the client."""
        return np.concatenate(self.group.ask(node_of, self.recipe))

    def moved(self, step: float, other: RemoteTargets) -> RemoteTargets:
        """Return self + step * other."""
        return RemoteTargets(self.group, self.group.recipe(called, "moved", self.recipe, step, other.recipe))

    def add(self, step: float, other: RemoteTargets) -> None:
        """Add step * other."""
        self.recipe = self.moved(step, other).recipe


class RemoteGradient:
    """A gradient in potentials, in all shards of a group; ``slopes`` are inner products known already, by key."""

    def __init__(self, group: ShardGroup, recipe: Recipe):
        self.group = group
        self.recipe = recipe
        self.slopes: dict[int, float] = {}

    def dot(self, direction: RemotePotentials) -> float:
        """Return the inner product with a direction."""
        known = self.slopes.get(direction.recipe.key)
        return sum(self.group.ask(called, "dot", self.recipe, direction.recipe)) if known is None else known


@dataclass
class RemoteEvaluation:
    """Value and gradient at some potentials; the distributions behind them stay in the shards under ``recipe``."""

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


def called(method: str, own: Any, *arguments: object) -> Any:
    """Return what a method of an entry returns, whichever the place where its arrays are."""
    return getattr(own, method)(*arguments)


def product_potentials(datafit: Datafit, parts: Parts) -> Potentials:
    """Return the potentials of coefficients, by a product with the features."""
    return datafit.potentials(parts, only=sorted(parts))


def combined_potentials(
    datafit: Datafit,
    parts: Parts,
    own: float,
    mine: Potentials | None,
    step: float,
    theirs: Potentials | None,
) -> Potentials:
    """Return own * mine + step * theirs, or the potentials of their coefficients where one is not at hand."""
    if mine is None or theirs is None:
        return product_potentials(datafit, parts)
    if own == 1.0:
        return mine.moved(step, theirs)
    scaled = mine.of(own * array for array in mine.arrays)
    if step != 0.0:
        scaled.add(step, theirs)
    return scaled


def evaluate(datafit: Datafit, potentials: Potentials) -> Evaluation | None:
    """Return value, residual and distribution, of labels alone; None where potentials are not finite."""
    own = datafit.likelihood.labels if isinstance(datafit.likelihood, ExpectationLikelihood) else datafit
    return own.evaluate(potentials) if potentials.finite else None


def masses_of(datafit: Datafit, labels: Evaluation | None) -> list[np.ndarray]:
    """Return what the labels of this shard add to the shares that are expected."""
    assert isinstance(datafit.likelihood, ExpectationLikelihood), "shares are expected"
    return datafit.likelihood.masses(labels)


def with_terms(
    datafit: Datafit, potentials: Potentials, labels: Evaluation | None, masses: list[np.ndarray]
) -> Evaluation | None:
    """Return the evaluation with what is asked beside labels, given the shares of all shards."""
    assert isinstance(datafit.likelihood, ExpectationLikelihood), "shares are expected"
    return None if labels is None else datafit.likelihood.with_terms(potentials, labels, masses)


def with_criteria(datafit: Datafit, criteria: Criteria) -> Datafit:
    """Return the likelihood of this shard with its part of what is asked beside labels."""
    labels = datafit.likelihood
    assert isinstance(labels, Likelihood | PartialLikelihood), "criteria are added once"
    return datafit.with_likelihood(ExpectationLikelihood(labels, criteria, is_part=True))


def without_rows(criteria: Criteria) -> list[Expectation]:
    """Return the expectations of a shard without the positions that count."""
    return [replace(each, rows=None) for each in criteria.expectations]


def frozen_at(datafit: Datafit, potentials: Potentials, masses: list[np.ndarray]) -> Datafit:
    """Return the convex likelihood of labels as they are completed at some potentials, and of tangents there."""
    assert isinstance(datafit.likelihood, ExpectationLikelihood), "shares are expected"
    return datafit.completed_by(datafit.likelihood.frozen(potentials, masses))


def assess(evaluation: Evaluation | None, direction: Potentials | None) -> tuple[float, float]:
    """Return the value and the slope in a direction; infinite where potentials are not finite."""
    if evaluation is None:
        return np.inf, np.inf
    return evaluation.value, 0.0 if direction is None else evaluation.residual.dot(direction)


@dataclass(eq=False)
class RemoteDesign(Design):
    """A term on data in shards; ``recipe`` gives each shard its own design.

    Designs that share their features in the shards have the same ``table``.
    """

    recipe: Recipe = field(kw_only=True)
    table: object = field(default_factory=object, kw_only=True)


class RemoteFamily(NamedTuple):
    """What is known of the family of labellings of a shard, or of all of them."""

    n_labels: int
    n_items: int
    n_positions: int
    method: str
    exact: bool
    bound: str | None
    description: str
    #: Whole Hessians at once, for labels that meet no others, are computed where the features are.
    single_labels: bool = False


class RemoteLikelihood(NamedTuple):
    """What is known of the likelihood of a shard, or of all of them."""

    family: RemoteFamily
    value_at_zero: float
    convex: bool
    approximation: str | None

    @classmethod
    def joined(cls, parts: Sequence[RemoteLikelihood]) -> RemoteLikelihood:
        """Return what is known of all shards; how labels are inferred is that of the first, or the approximate one."""
        first = next((part for part in parts if part.approximation is not None), parts[0])
        sizes = {name: sum(getattr(part.family, name) for part in parts) for name in ("n_items", "n_positions")}
        value, convex = sum(part.value_at_zero for part in parts), all(part.convex for part in parts)
        return cls(first.family._replace(**sizes), value, convex, first.approximation)


class DaskDatafit(Datafit):
    """The designs of a sample in shards; ``datafit`` is the recipe of the shards' own datafits, in the same order."""

    designs: list[RemoteDesign]  # type: ignore[assignment]
    #: There are no passes that keep nothing per position.
    fused = None

    def __init__(self, group: ShardGroup, datafit: Recipe, designs: Sequence[RemoteDesign]):
        parts = group.ask(known_of, datafit)
        super().__init__(RemoteLikelihood.joined(parts), designs)  # type: ignore[arg-type]
        self.group, self._datafit, self._given = group, datafit, datafit
        self._expects = False
        self._ends = np.cumsum([(part.family.n_items, part.family.n_positions) for part in parts], axis=0)[:-1].T

    def frozen(self, coefficients: Sequence[np.ndarray]) -> DaskDatafit:
        """Return the convex likelihood of the labels as they are completed at some coefficients."""
        parts = [np.array(part, dtype=np.float64) for part in coefficients]
        recipe = self.group.recipe(called, "frozen", self._datafit, parts)
        if self._expects:
            at, masses = self._expected(self.potentials(parts))
            recipe = self.group.recipe(frozen_at, self._datafit, at, masses)
        frozen = DaskDatafit(self.group, recipe, self.designs)
        frozen.passes = self.passes
        return frozen

    def with_criteria(self, criteria: Any) -> DaskDatafit:
        """Return the same designs with what is asked of data without labels added to their likelihood.

        These are Criteria of all data, cut here, or make those of each shard by ``of(data)``.
        """
        own: Each | Recipe
        if isinstance(criteria, Criteria):
            own = Each(criteria.cut(self._ends[1]))
        else:
            own = self.group.recipe(called, "of", criteria, self.group.recipe(attrgetter("data"), SHARD))
            criteria = Criteria(expectations=self.group.ask(without_rows, own)[0])
        recipe = self.group.recipe(with_criteria, self._datafit, own)
        whole = DaskDatafit(self.group, recipe, self.designs)
        whole._expects = True
        start = whole.potentials([np.zeros(design.shape) for design in self.designs])
        criteria.check_possible(whole._expected(start)[1])
        likelihood: Any = whole.likelihood
        whole.likelihood, whole.passes = likelihood._replace(value_at_zero=whole.evaluate(start).value), self.passes
        return whole

    def _expected(self, potentials: RemotePotentials) -> tuple[Recipe, list[np.ndarray]]:
        """Return the recipe of potentials, and the sums over all shards of the shares that are expected there."""
        labels = self.group.recipe(evaluate, self._datafit, potentials.recipe)
        return potentials.recipe, self.group.total(masses_of, self._datafit, labels)

    def set_log_weights(self, log_weights: np.ndarray) -> None:
        """Put other log-weights (N, L) in the place of what is known of labels."""
        rows = Each(np.split(log_weights, self._ends[1]))
        self._datafit = self.group.recipe(with_log_weights, self._given, rows)
        self.likelihood = RemoteLikelihood.joined(self.group.ask(known_of, self._datafit))  # type: ignore[assignment]

    def set_targets(self, targets: RemoteTargets) -> None:
        """Put targets in the place of completed labels wherever these are frozen."""
        self._datafit = self.group.recipe(with_targets, self._datafit, targets.recipe)

    def completed(self, potentials: RemotePotentials, weights: np.ndarray | None = None) -> RemoteTargets:
        """Return the expected statistics given what is known, of items with some weights (S,), their own for None."""
        own = None if weights is None else Each(np.split(weights, self._ends[0]))
        return RemoteTargets(self.group, self.group.recipe(called, "completed", self._datafit, potentials.recipe, own))

    def completed_labels(self, potentials: RemotePotentials) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities of labels given what is known, (N, L), and the most probable labelling, (N,)."""
        marginals, best = zip(
            *self.group.ask(called, "completed_labels", self._datafit, potentials.recipe), strict=True
        )
        return np.concatenate(marginals), np.concatenate(best)

    def fitted_to(self, targets: RemoteTargets, weights: np.ndarray) -> DaskDatafit:
        """Return the convex likelihood of targets, of items with some weights (S,)."""
        own = Each(np.split(weights, self._ends[0]))
        fitted = DaskDatafit(
            self.group, self.group.recipe(called, "fitted_to", self._datafit, targets.recipe, own), self.designs
        )
        fitted.passes = self.passes
        return fitted

    @property
    def item_weights(self) -> np.ndarray:
        """The weight of every item, (S,)."""
        return np.concatenate(self.group.ask(attrgetter("item_weights"), self._datafit))

    def potentials(self, coefficients: Sequence[np.ndarray], only: Sequence[int] | None = None) -> RemotePotentials:
        """Return the potentials of the given coefficients; ``only`` names the sets that are not zero."""
        chosen = range(len(self.designs)) if only is None else only
        self._count(chosen)
        # Copies: nothing is sent before a number is needed, and solvers change their vectors in place.
        parts = {index: np.array(coefficients[index], dtype=np.float64) for index in chosen}
        return RemotePotentials(self.group, self._datafit, parts, expects=self._expects)

    def evaluate(self, potentials: RemotePotentials) -> RemoteEvaluation:
        """Return value and residual at the given potentials; no pass over features."""
        return potentials.evaluated()

    def hessian_response(self, evaluation: RemoteEvaluation, direction: RemotePotentials) -> RemoteGradient:
        """Return the Hessian of the likelihood in the potentials times a direction."""
        arguments = self._datafit, evaluation.recipe, direction.recipe
        return RemoteGradient(self.group, self.group.recipe(called, "hessian_response", *arguments))

    def pull_back(self, residual: RemoteGradient, only: Sequence[int] | None = None) -> list[np.ndarray]:
        """Turn a gradient in potentials into one in the coefficients of each set (of those in ``only``)."""
        chosen = list(range(len(self.designs)) if only is None else only)
        self._count(chosen)
        return self.group.total(called, "pull_back", self._datafit, residual.recipe, chosen)

    def start_curvature(self, index: int) -> float:
        """Return about how curved the likelihood is in one coordinate of a set, before any label is known."""
        curvature, weight, count = np.sum(self.group.ask(start_curvature, self._datafit, index), axis=0)
        return float(curvature * weight / count) if count else 0.0

    def curvature_diagonal(self, evaluation: RemoteEvaluation, index: int) -> np.ndarray | None:
        """Return sum_t z_tf^2 p (1 - p) for every coefficient of a set of sparse weights; None for other sets."""
        design = self.designs[index]
        if design.labels_per_clique != 1 or not design.sparse:
            return None
        self._count([index])
        return self.group.total(called, "curvature_diagonal", self._datafit, evaluation.recipe, index)

    def curvature_block(self, evaluation: RemoteEvaluation, index: int) -> np.ndarray:
        """Return eq. 30 without the prior: within-clique covariances of one set, (r q, r q)."""
        return self.group.total(called, "curvature_block", self._datafit, evaluation.recipe, index)

    def label_residuals(self, residual: RemoteGradient, index: int) -> np.ndarray:
        """Refuse: residuals have a row for each position, and those stay in the shards."""
        raise ValueError("residuals of single positions stay with the workers of engine='dask': use engine='threads'")

    def outside_bound(self, residual: RemoteGradient, index: int) -> float:
        """Return a bound on the squared norm of a set's gradient outside the span of its pivots."""
        if not self.designs[index].term.has_pivots:
            return 0.0
        bounds = self.group.ask(called, "outside_bound", self._datafit, residual.recipe, index)
        return float(np.sqrt(bounds).sum()) ** 2

    def outside_gradient(self, residual: RemoteGradient, index: int) -> float:
        """Refuse: kernel values between all pairs of inputs would have to cross the shards."""
        if not self.designs[index].term.has_pivots:
            return 0.0
        raise ValueError(
            "exact certificates over the RKHS need kernel values between all inputs, which engine='dask' does not "
            "bring together: use the free bound, or engine='threads'"
        )

    def largest_left_outside(self, index: int) -> float:
        """Return the largest k(x, x) - ||z(x)||^2 of a term over the data; zero where no pivots span it."""
        return max(self.group.ask(called, "largest_left_outside", self._datafit, index))

    def feature_rounding(self, residual: RemoteGradient, index: int, coefficients: np.ndarray) -> float:
        """Return about how the value would change if a set's features were not rounded."""
        design = self.designs[index]
        if not design.term.has_pivots or design.dtype == np.float64:
            return 0.0
        # The factor behind the dual coefficients is the client's: it need not travel.
        dual = design.term.span.dual_coefficients(coefficients)
        arguments = (self._datafit, residual.recipe, index, coefficients, dual)
        return float(sum(self.group.ask(called, "feature_rounding", *arguments)))

    def dual_ascent(self) -> None:
        """Return None: there is no stochastic start on a cluster."""

    def feature_curvature(self, index: int) -> float:
        """Return the scale of a term's Gram matrix in the metric of its coefficients; zero if it is not worth one."""
        design = self.designs[index]
        if not has_dense_features(design):
            return 0.0
        count, weight = np.sum(self.group.ask(weights_of, self._datafit, index), axis=0)
        if not count or not worth_a_gram_matrix(count, *design.shape):
            return 0.0
        return float(weight / count) * design.label_share / design.n_configurations

    def feature_gram(self, index: int) -> np.ndarray:
        """Return the lower half of about Z^T Z of a term with dense features, (r, r)."""
        design = self.designs[index]
        stride = stride_of(design.stored_values // max(1, design.rank), design.rank)
        return self.group.total(called, "feature_gram", self._datafit, index, stride)

    @property
    def warnings(self) -> list[str]:
        """What approximate inference reported of its last answer in some shard."""
        if self.likelihood.approximation is None:
            return []
        reported = self.group.ask(attrgetter("likelihood.warnings"), self._datafit)
        return list(dict.fromkeys(chain.from_iterable(reported)))

    def _count(self, chosen: Sequence[int]) -> None:
        self.passes += 0.5 * sum(self.designs[index].stored_values for index in chosen) / self._stored_values


# What follows runs on the workers.


def known_of(datafit: Datafit) -> RemoteLikelihood:
    """Return what the client has to know of the likelihood of a shard."""
    likelihood, family = datafit.likelihood, datafit.family
    # Labels that meet no others are items of their own where some are not known.
    items = family if likelihood.whole is None else likelihood.whole.family
    sizes = family.n_labels, items.n_items, family.n_positions
    own = RemoteFamily(*sizes, family.method, family.exact, family.bound, family.description)
    return RemoteLikelihood(own, float(likelihood.value_at_zero), likelihood.convex, likelihood.approximation)


def with_log_weights(datafit: Datafit, log_weights: np.ndarray) -> Datafit:
    """Return the likelihood of what is known of labels, by log-weights (n, L); all may be known in this shard."""
    own = datafit.likelihood if datafit.likelihood.whole is None else datafit.likelihood.whole
    other = datafit.with_likelihood(PartialLikelihood(own.family, log_weights, own.weights, own.workers))
    # Passes that keep nothing per position would be those of the data.
    other.fused = None
    return other


def with_targets(datafit: Datafit, targets: Potentials) -> Datafit:
    """Return the same likelihood with targets in the place of completed labels."""
    likelihood = copy.copy(datafit.partial_likelihood)
    likelihood.targets = targets
    other = datafit.with_likelihood(likelihood)
    other.fused = None
    return other


def node_of(targets: Potentials) -> np.ndarray:
    """Return the statistics of single labels, (n, L)."""
    return on_host(targets.node)


def weights_of(datafit: Datafit, index: int) -> tuple[int, float]:
    """Return how many cliques a set has, and the sum of their weights."""
    weights = datafit.likelihood.clique_weights(datafit.designs[index])
    return len(weights), float(weights.sum())


def start_curvature(datafit: Datafit, index: int) -> tuple[float, float, int]:
    """Return the curvature of a set at the start, all cliques of weight one, the sum of their weights, their number."""
    count, weight = weights_of(datafit, index)
    return datafit.start_curvature(index) * count / max(weight, 1e-300), weight, count
