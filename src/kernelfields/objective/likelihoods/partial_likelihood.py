"""The negative log-likelihood of labels that are partly known, or of targets in their place.

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

from functools import singledispatch

import numpy as np

from kernelfields.data.chains import Packed
from kernelfields.data.partial_rows import PartialRows, TargetRows
from kernelfields.inference import families
from kernelfields.inference.family import LabelFamily, Member
from kernelfields.inference.potentials import Potentials
from kernelfields.numerics.threads import Workers
from kernelfields.objective.likelihoods.likelihood import Evaluation, Likelihood, Objective
from kernelfields.objective.likelihoods.targets import weighted_targets


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
        self.known_family = self.family.condition(log_weights)
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
        """Return the distribution, the distribution given the partial labels, and their means.

        They are inferred side by side where each of them would leave all threads but one idle.
        """
        families = self.family, self.known_family
        workers = Workers(1) if self.family.is_single_threaded else self.workers

        def infer(first: int, last: int) -> tuple[Member, Potentials]:
            member = families[first].distribution(potentials, self._item_weights, workers, keep=False)
            return member, member.mean()

        if self.family.is_single_threaded:
            return self.workers.each(infer, [(0, 1), (1, 2)])
        return [infer(0, 1), infer(1, 2)]

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian in the potentials, which may be indefinite, times a direction."""
        assert evaluation.known is not None
        response = evaluation.member.covariance_product(direction)
        response.add(-1.0, evaluation.known.covariance_product(direction))
        return response

    def complete_statistics(self, potentials: Potentials, weights: np.ndarray | None = None) -> Potentials:
        """Return the weighted expectations of statistics given the partial labels, by default with its weights."""
        chosen = self._item_weights if weights is None else self.family.arrangement.place_array(weights)
        return self.known_family.distribution(potentials, chosen, self.workers, keep=False).mean()

    def majorize(self, potentials: Potentials) -> Likelihood:
        """Return the convex likelihood of the labels completed at some potentials."""
        targets = self.complete_statistics(potentials) if self.targets is None else self.targets
        return Likelihood(self.family, targets, self.weights, self.workers)


@singledispatch
def choose_partial(
    given: object, family: LabelFamily, data: Packed, workers: Workers | None
) -> Likelihood | PartialLikelihood:
    """Return the likelihood of labels of data that are not all known."""
    raise TypeError(f"no likelihood of {type(given).__name__}")


@choose_partial.register
def _of_targets(given: TargetRows, family: LabelFamily, data: Packed, workers: Workers | None) -> Likelihood:
    expected = weighted_targets(family, given.targets, data.weights)
    return Likelihood(family, expected, data.weights, workers)


@choose_partial.register
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
