"""The negative log-likelihood of labelled data as a function of potentials, for every family of labellings.

With weights w_i of the items, u the potentials, g the log partition function and o the weighted statistics of labels:

    value    = sum_i w_i g_i(u) - <o, u>
    residual = w * mean(u) - o                  its gradient in the potentials
    response = w * covariance(u) d              its Hessian times a direction

Labels that are partly known, or have weights q (data/partial_labels.py), condition the family: g(u | q) is the log
partition function of the family whose base measure is multiplied by q, and

    value    = sum_i w_i (g_i(u) - g_i(u | q))
    residual = w * (mean(u) - mean(u | q))

is a difference of convex functions. Frozen at some u', the second one is replaced by its tangent: a likelihood with the
targets w * mean(u' | q) in the place of o. It is convex, lies above the value up to a constant, touches it at u', and
has the same gradient there: minimising it is a step of CCCP, that is EM. Targets that a user gives enter in the same
way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Protocol

import numpy as np

from kernelfields.data.chains import Packed
from kernelfields.data.given_labels import KnownLabels, PartialRows, TargetRows
from kernelfields.data.partial_labels import SoftRows
from kernelfields.inference import families
from kernelfields.inference.choice import FamilySpec, family_of
from kernelfields.inference.family import LabelFamily, Member
from kernelfields.inference.potentials import EDGE, Placed, Potentials
from kernelfields.numerics.memory import available_memory
from kernelfields.numerics.threads import Workers

# Targets whose logarithm of allowed mass is this far from zero have more than rounding of what is forbidden.
_LOST = 1e-6
# Tables of labels that meet, at a point, in a direction and at a trial, their residual, and three of inference.
_TABLE_ARRAYS = 7


@dataclass
class Evaluation:
    """Value and gradient at some potentials, and their distribution.

    Where labels are partly known, ``known`` is the distribution given what is known of them.
    """

    value: float
    residual: Potentials
    member: Member
    known: Member | None = None


class Observations(Protocol):
    """The observed part of a gradient: statistics of labels, or targets."""

    def dot(self, potentials: Potentials) -> float:
        """Return the inner product with potentials."""

    def subtract_from(self, mean: Potentials) -> None:
        """Subtract from expectations in place."""


class Objective:
    """The common part of objectives of labelled data: a family, weights (S,) of its items, and threads."""

    #: Whether the value is convex in the potentials, as it is where labels, or targets for them, are known.
    convex = True

    def __init__(self, family: LabelFamily, weights: np.ndarray, workers: Workers | None = None):
        self.family = family
        self.weights = weights
        self.workers = workers or Workers()
        #: The labelled data, where passes over their features can compute value and gradient together.
        self.data: Packed | None = None
        #: The same objective with all items in it, where those of which nothing is known have been left out.
        self.whole: PartialLikelihood | None = None
        #: What inference reported of its last answer: sentences such as that it did not converge.
        self.warnings: list[str] = []
        # None stands for weights that are all one, the usual case, where no product is needed.
        self._item_weights = family.arrangement.placed_array(None if np.all(weights == 1.0) else weights)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.family.n_labels

    @property
    def approximation(self) -> str | None:
        """Name of the approximation of inference; None if it is exact."""
        return None if self.family.exact else self.family.method

    @property
    def constrained(self) -> bool:
        """Whether some labellings are forbidden."""
        return self.family.base is not None and self.family.base.forbids

    @property
    def value_at_zero(self) -> float:
        """The value at zero potentials, with all allowed labellings equally likely."""
        return float(self.weights @ self.family.log_labellings())

    def clique_marginals(self, evaluation: Evaluation, term: Placed) -> np.ndarray:
        """Return the probabilities of the labellings of a set's cliques, (n, labellings), without known labels."""
        return self.family.arrangement.rows(evaluation.member.marginals(term.group), term)

    def clique_weights(self, term: Placed) -> np.ndarray:
        """Return the weight of every clique of a set, (n,)."""
        return self.family.arrangement.weights(self.weights, term)

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and distribution at the given potentials."""
        raise NotImplementedError

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian in the potentials times a direction."""
        return evaluation.member.covariance_product(direction)

    def frozen(self, potentials: Potentials) -> Objective:
        """Return a convex majorant of this objective that touches it at some potentials, up to a constant."""
        return self

    def _log_partition(self, member: Member) -> float:
        """Return the weighted sum of g."""
        total = member.log_partition
        return total.sum() if self._item_weights is None else total @ self._item_weights

    def _member(self, family: LabelFamily, potentials: Potentials) -> Member:
        return family.at(potentials, self._item_weights, self.workers, keep=False)


class Likelihood(Objective):
    """The likelihood of observed labels or targets, plus a constant."""

    def __init__(
        self,
        family: LabelFamily,
        observed: Observations,
        weights: np.ndarray,
        workers: Workers | None = None,
        constant: float = 0.0,
    ):
        super().__init__(family, weights, workers)
        self.observed = observed
        self._constant = constant

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and distribution at the given potentials."""
        member = self._member(self.family, potentials)
        self.warnings = list(member.warnings)
        value = float(self._log_partition(member) - self.observed.dot(potentials)) + self._constant
        residual = member.mean()
        self.observed.subtract_from(residual)
        return Evaluation(value, residual, member)

    def plus(self, slope: Potentials, constant: float) -> Likelihood:
        """Return the likelihood plus an affine function of the potentials, <slope, u> + constant."""
        observed = _Shifted(self.observed, slope)
        return Likelihood(self.family, observed, self.weights, self.workers, self._constant + constant)


class _Shifted:
    """Observations less a slope, for a likelihood plus an affine function."""

    def __init__(self, observed: Observations, slope: Potentials):
        self._observed, self._slope = observed, slope

    def dot(self, potentials: Potentials) -> float:
        """Return the inner product with potentials."""
        return self._observed.dot(potentials) - self._slope.dot(potentials)

    def subtract_from(self, mean: Potentials) -> None:
        """Subtract from expectations in place."""
        self._observed.subtract_from(mean)
        mean.add(1.0, self._slope)


class PartialLikelihood(Objective):
    """The likelihood of partial labels with log-weights (N, L)."""

    convex = False

    def __init__(
        self, family: LabelFamily, log_weights: np.ndarray, weights: np.ndarray, workers: Workers | None = None
    ):
        super().__init__(family, weights, workers)
        self.set_log_weights(log_weights)

    def set_log_weights(self, log_weights: np.ndarray) -> None:
        """Set other log-weights (N, L) of the labels."""
        self.known_family = self.family.given(log_weights)
        #: Targets in the place of completed labels wherever they are frozen; None for those of the partial labels.
        self.targets: Potentials | None = None

    @property
    def value_at_zero(self) -> float:
        """The value at zero potentials, with all allowed labellings equally likely."""
        return float(self.weights @ (self.family.log_labellings() - self.known_family.log_labellings()))

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and both distributions at the given potentials."""
        (free, residual), (known, completed) = self._both(potentials)
        self.warnings = [*free.warnings, *known.warnings]
        residual.add(-1.0, completed)
        return Evaluation(float(self._log_partition(free) - self._log_partition(known)), residual, free, known)

    def _both(self, potentials: Potentials) -> list[tuple[Member, Potentials]]:
        """Return the distribution and the one given the partial labels, with their means.

        They are inferred side by side where each of them would leave all threads but one idle.
        """
        families = self.family, self.known_family
        workers = Workers(1) if self.family.on_one_thread else self.workers

        def infer(first: int, last: int) -> tuple[Member, Potentials]:
            member = families[first].at(potentials, self._item_weights, workers, keep=False)
            return member, member.mean()

        if self.family.on_one_thread:
            return self.workers.each(infer, [(0, 1), (1, 2)])
        return [infer(0, 1), infer(1, 2)]

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian in the potentials, which may be indefinite, times a direction."""
        assert evaluation.known is not None
        response = evaluation.member.covariance_product(direction)
        response.add(-1.0, evaluation.known.covariance_product(direction))
        return response

    def completed(self, potentials: Potentials, weights: np.ndarray | None = None) -> Potentials:
        """Return the weighted expectations of statistics given the partial labels, by default with its weights."""
        chosen = self._item_weights if weights is None else self.family.arrangement.placed_array(weights)
        return self.known_family.at(potentials, chosen, self.workers, keep=False).mean()

    def frozen(self, potentials: Potentials) -> Likelihood:
        """Return the convex likelihood of the labels completed at some potentials."""
        targets = self.completed(potentials) if self.targets is None else self.targets
        return Likelihood(self.family, targets, self.weights, self.workers)


def labelled_objective(
    family: LabelFamily, data: Packed, workers: Workers | None = None
) -> Likelihood | PartialLikelihood:
    """Return the likelihood of labelled data: of complete labels, partial labels, or targets."""
    if data.labels is None:
        raise ValueError("a likelihood needs labelled data")
    objective = _likelihood(data.given, family, data, workers)
    objective.data = data
    return objective


@singledispatch
def _likelihood(
    given: object, family: LabelFamily, data: Packed, workers: Workers | None
) -> Likelihood | PartialLikelihood:
    """Return the likelihood of the given labels of data."""
    raise TypeError(f"no likelihood of {type(given).__name__}")


@_likelihood.register
def _of_labels(given: KnownLabels, family: LabelFamily, data: Packed, workers: Workers | None) -> Likelihood:
    weights = data.weights
    statistics = family.statistics(data.labelling, None if np.all(weights == 1.0) else weights)
    return Likelihood(family, statistics, weights, workers)


@_likelihood.register
def _of_targets(given: TargetRows, family: LabelFamily, data: Packed, workers: Workers | None) -> Likelihood:
    return Likelihood(family, soft_targets(family, given.targets, data.weights), data.weights, workers)


@_likelihood.register
def _of_partial_labels(
    given: PartialRows, family: LabelFamily, data: Packed, workers: Workers | None
) -> Likelihood | PartialLikelihood:
    weights, known = data.weights, given.certain()
    partial = PartialLikelihood(family, given.weights, weights, workers)
    if len(family.groups) > 1 or family.base is not None or given.informative()[~known].any():
        return partial
    # Where labels meet no others, those that are not known drop out, and the rest is convex.
    single = family if family.single_labels else families.SingleFamily(family.n_positions, family.n_labels)
    rows = weights[family.position_items] * known
    likelihood = Likelihood(single, single.statistics(given.numbers, rows), rows, workers)
    likelihood.whole = partial
    return likelihood


def soft_targets(family: LabelFamily, soft: SoftRows, weights: np.ndarray) -> Potentials:
    """Return weighted targets of the labels of all cliques, summed if potentials are tied.

    Labels that meet farther apart than neighbours are those of the Markov chain that targets of pairs describe, or
    independent: the mean of the member of the family that is this distribution.
    """
    weigh = weights[family.position_items]
    node = soft.node * weigh[:, None]
    if len(family.groups) == 1:
        return family.arrangement.placed(Potentials(node))
    if family.method == "chain":
        edge = soft.pairs(family.offsets) * weigh[:, None, None]
        edge = edge.sum(axis=0, keepdims=True) if family.arrangement.group(EDGE).tied else edge
        return family.arrangement.placed(Potentials(node, {EDGE: edge}))
    repeats = family.base is None or family.base.step_penalties is None
    if family.method == "segments" and (repeats or soft.edge is not None):
        raise ValueError(
            "SoftTargets are for labels of positions, and do not describe where segments are cut: use repeats=False, "
            "so that a segment ends where its label does, and leave out pairs"
        )
    potentials, logs = family.zeros(), soft.logs
    if soft.edge is not None:
        before, after = family.clique_members(EDGE).T
        if not np.array_equal(after - before, np.ones(len(after))):
            raise ValueError("pairs of SoftTargets do not describe how a ring closes: leave them out")
        logs = np.where(np.isin(np.arange(len(logs)), after)[:, None], 0.0, logs)
        pairs, single = soft.edge[after], soft.node[before][:, :, None]
        shares = np.divide(pairs, single, out=np.ones_like(pairs), where=single > 0)
        with np.errstate(divide="ignore"):
            potentials.tables[EDGE] = np.log(shares)
    member = family.given(logs).at(potentials, family.arrangement.placed_array(weights))
    if (lost := np.flatnonzero(np.abs(family.arrangement.read_back(member.log_partition)) > _LOST)).size:
        raise ValueError(f"sequence or graph {lost[0]}: targets give mass to labellings that are forbidden")
    mean = member.mean()
    if soft.edge is not None and family.arrangement.group(EDGE).tied:
        mean.tables[EDGE] = mean.tables[EDGE].sum(axis=0, keepdims=True)
    return mean


def likelihood_of(
    data: Packed,
    placed: Sequence[Placed],
    spec: FamilySpec,
    workers: Workers | None = None,
    planned: LabelFamily | None = None,
) -> Likelihood | PartialLikelihood:
    """Return the likelihood of labelled data for some clique sets; see ``family_of`` for ``planned``.

    MemoryError where potentials do not fit.
    """
    family = family_of(data, placed, spec, planned=planned)
    check_tables_fit(family)
    return labelled_objective(family, data, workers)


def check_tables_fit(family: LabelFamily) -> None:
    """Raise MemoryError before a fit if a table of scores for every clique cannot fit in memory."""
    groups = [group for group in family.groups if len(group.row) > 1 and not group.tied]
    needed, available = _TABLE_ARRAYS * 8 * sum(group.n_rows * group.size for group in groups), available_memory()
    if available is not None and needed > available:
        raise MemoryError(
            "labels that meet and depend on the inputs need a table for every clique, of neighbours (L, L) scores at "
            f"every position: {needed / 2**30:,.1f} GiB for {sum(group.n_rows for group in groups):,} cliques and "
            f"{family.n_labels:,} labels, but {available / 2**30:,.1f} GiB are free. Leave out the edge kernel, or use "
            "fewer sequences or edges."
        )
