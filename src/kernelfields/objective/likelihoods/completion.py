"""Likelihoods of completed labels: completed at some coefficients, by criteria, or by annotators' models.

Where labels are partly known, a likelihood is a difference of convex functions (likelihood.py). With targets in the
place of what is not known it is convex: those expected at some coefficients, which makes a step of EM, or any others.
Rows (N, L) and weights (S,) are those of all data; a process that has a part of them takes its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kernelfields.inference.potentials import Potentials
from kernelfields.objective.datafit import Datafit, describe_likelihood
from kernelfields.objective.likelihoods.expectations import Criteria, ExpectationLikelihood
from kernelfields.objective.likelihoods.fused import FusedPasses, choose_fused_passes
from kernelfields.objective.likelihoods.likelihood import Likelihood, Objective
from kernelfields.objective.likelihoods.partial_likelihood import PartialLikelihood
from kernelfields.objective.posterior import LogPosterior


def freeze_labels(datafit: Datafit, coefficients: Sequence[np.ndarray]) -> Datafit:
    """Return the convex datafit of the labels completed at some coefficients."""
    if datafit.facts.convex:
        return datafit
    return with_completion(datafit, datafit.likelihood.majorize(datafit.potentials(coefficients)))


def with_completion(datafit: Datafit, completed: Objective) -> Datafit:
    """Return the same designs with the likelihood of completed labels, in the passes of a datafit."""
    frozen, passes = datafit.with_likelihood(completed), choose_fused_passes(datafit)
    if isinstance(passes, FusedPasses) and isinstance(completed, Likelihood):
        frozen.fused = passes.with_targets(completed)
    return frozen


def frozen_posterior(posterior: LogPosterior, theta: np.ndarray) -> LogPosterior:
    """Return the convex objective of the labels completed at theta, with the same gradient there."""
    frozen = LogPosterior(freeze_labels(posterior.datafit, posterior.blocks.split(theta)), posterior.penalty)
    frozen.trials = posterior.trials.with_objective(frozen)
    return frozen


class Completion:
    """The labels of a datafit, for completion and for changes from outside."""

    def __init__(self, datafit: Datafit):
        self.datafit = datafit

    @property
    def _likelihood(self) -> PartialLikelihood:
        likelihood = self.datafit.likelihood
        assert isinstance(likelihood, PartialLikelihood), "all labels are known"
        return likelihood

    @cached_property
    def _own(self) -> tuple[slice, slice]:
        """The items and the rows of this process."""
        group, facts = self.datafit.group, describe_likelihood(self.datafit.likelihood)
        n_items, n_positions = zip(*group.gather((facts.n_items, facts.n_positions)), strict=True)
        return group.find_share(n_items), group.find_share(n_positions)

    @property
    def item_weights(self) -> np.ndarray:
        """The weight of every item, (S,)."""
        return self.datafit.group.concatenate(self.datafit.likelihood.weights)

    def with_criteria(self, criteria: Any) -> Datafit:
        """Return the same designs with criteria for data without labels added to the likelihood.

        These are Criteria of all data, or make those of a part of them by ``of(data)``.
        """
        likelihood, group = self.datafit.likelihood, self.datafit.group
        assert isinstance(likelihood, Likelihood | PartialLikelihood), "criteria are added once"
        own = criteria.part(self._own[1]) if isinstance(criteria, Criteria) else criteria.select_part(likelihood.data)
        return self.datafit.with_likelihood(ExpectationLikelihood(likelihood, own, group))

    def set_log_weights(self, log_weights: np.ndarray) -> None:
        """Set other log-weights (N, L) of the labels, which must be partial."""
        # Made of the labels as they were read, before others take their place.
        passes = choose_fused_passes(self.datafit)
        own, likelihood = log_weights[self._own[1]], self.datafit.likelihood
        if isinstance(likelihood, PartialLikelihood):
            likelihood.set_log_weights(own)
        else:
            # All labels are known in this process at first, and not in others.
            known = likelihood.whole or likelihood
            likelihood = PartialLikelihood(known.family, own, known.weights, known.workers)
        self.datafit.likelihood = likelihood
        if isinstance(passes, FusedPasses):
            passes.set_log_weights(own)

    def set_targets(self, targets: Potentials) -> None:
        """Set targets instead of completed labels in frozen objectives, until log-weights are set again."""
        self._likelihood.targets = targets

    def complete_statistics(self, potentials: Potentials, weights: np.ndarray) -> Potentials:
        """Return the expected statistics given the known labels, of items with some weights (S,)."""
        return self._likelihood.complete_statistics(potentials, weights[self._own[0]])

    def fit_targets(self, targets: Potentials, weights: np.ndarray) -> Datafit:
        """Return the convex datafit of targets, of items with some weights (S,)."""
        own, weights = self.datafit.likelihood, weights[self._own[0]]
        return with_completion(self.datafit, Likelihood(own.family, targets, weights, own.workers))

    def label_rows(self, targets: Potentials) -> np.ndarray:
        """Return the statistics of single labels at all positions, (N, L)."""
        return self.datafit.group.concatenate(self.datafit.likelihood.family.arrangement.read_back(targets.node))

    def labels(self, potentials: Potentials) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities of labels given the known labels, (N, L), and the most probable labelling, (N,)."""
        family, workers = self._likelihood.known_family, self._likelihood.workers
        marginals = family.arrangement.read_back(family.distribution(potentials, workers=workers).marginals())
        join = self.datafit.group.concatenate
        return join(marginals), join(family.labellings(potentials, workers).best()[0])
