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
from kernelfields.objective.datafit import Datafit, facts_of
from kernelfields.objective.likelihoods.expectations import Criteria, ExpectationLikelihood
from kernelfields.objective.likelihoods.fused import FusedPasses, fused_passes_of
from kernelfields.objective.likelihoods.likelihood import Likelihood, Objective, PartialLikelihood
from kernelfields.objective.posterior import LogPosterior


def frozen_at(datafit: Datafit, coefficients: Sequence[np.ndarray]) -> Datafit:
    """Return the convex datafit of the labels completed at some coefficients."""
    if datafit.facts.convex:
        return datafit
    return completed_by(datafit, datafit.likelihood.frozen(datafit.potentials(coefficients)))


def completed_by(datafit: Datafit, completed: Objective) -> Datafit:
    """Return the same designs with the likelihood of completed labels, in passes like those of a datafit."""
    frozen, passes = datafit.with_likelihood(completed), fused_passes_of(datafit)
    if isinstance(passes, FusedPasses) and isinstance(completed, Likelihood):
        frozen.fused = passes.frozen(completed)
    return frozen


def frozen_posterior(posterior: LogPosterior, theta: np.ndarray) -> LogPosterior:
    """Return the convex objective of the labels completed at theta, with the same gradient there."""
    frozen = LogPosterior(frozen_at(posterior.datafit, posterior.blocks.split(theta)), posterior.penalty)
    frozen.trials = posterior.trials.on(frozen)
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
        group, facts = self.datafit.group, facts_of(self.datafit.likelihood)
        n_items, n_positions = zip(*group.gathered((facts.n_items, facts.n_positions)), strict=True)
        return group.find_share(n_items), group.find_share(n_positions)

    @property
    def item_weights(self) -> np.ndarray:
        """The weight of every item, (S,)."""
        return self.datafit.group.joined(self.datafit.likelihood.weights)

    def with_criteria(self, criteria: Any) -> Datafit:
        """Return the same designs with criteria for data without labels added to the likelihood.

        These are Criteria of all data, or make those of a part of them by ``of(data)``.
        """
        likelihood, group = self.datafit.likelihood, self.datafit.group
        assert isinstance(likelihood, Likelihood | PartialLikelihood), "criteria are added once"
        own = criteria.part(self._own[1]) if isinstance(criteria, Criteria) else criteria.of(likelihood.data)
        return self.datafit.with_likelihood(ExpectationLikelihood(likelihood, own, group))

    def set_log_weights(self, log_weights: np.ndarray) -> None:
        """Set other log-weights (N, L) of the labels, which must be partial."""
        # Made of the labels as they were read, before others take their place.
        passes = fused_passes_of(self.datafit)
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

    def completed(self, potentials: Potentials, weights: np.ndarray) -> Potentials:
        """Return the expected statistics given the known labels, of items with some weights (S,)."""
        return self._likelihood.completed(potentials, weights[self._own[0]])

    def fitted_to(self, targets: Potentials, weights: np.ndarray) -> Datafit:
        """Return the convex datafit of targets, of items with some weights (S,)."""
        own, weights = self.datafit.likelihood, weights[self._own[0]]
        return completed_by(self.datafit, Likelihood(own.family, targets, weights, own.workers))

    def label_rows(self, targets: Potentials) -> np.ndarray:
        """Return the statistics of single labels at all positions, (N, L)."""
        return self.datafit.group.joined(self.datafit.likelihood.family.arrangement.read_back(targets.node))

    def labels(self, potentials: Potentials) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities of labels given the known ones, (N, L), and the most probable labelling, (N,)."""
        family, workers = self._likelihood.known_family, self._likelihood.workers
        marginals = family.arrangement.read_back(family.at(potentials, workers=workers).marginals())
        join = self.datafit.group.joined
        return join(marginals), join(family.labellings(potentials, workers).best()[0])
