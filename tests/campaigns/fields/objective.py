"""The objective of a drawn fit by enumeration, and the comparison with that of the package."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from kernelfields.estimators.base import prepare_fit
from kernelfields.models.partial import ExpectedShares
from kernelfields.objective import LogPosterior
from kernelfields.objective.fused_trials import prefer_fused_passes
from kernelfields.objective.likelihoods.completion import Completion
from kernelfields.objective.likelihoods.fused import choose_fused_passes
from tests.campaigns.fields.drawn import Drawn, Target
from tests.campaigns.fields.tally import NEAR, Tally
from tests.campaigns.fields.terms import Enumerated, PlainTerm, scored


def objective_terms(drawn: Drawn) -> list[tuple[Enumerated, np.ndarray, float]]:
    """Return the items of the fit, unscored, with their base measures and weights."""
    weights = np.ones(len(drawn.items)) if drawn.weights is None else drawn.weights
    return [
        (*drawn.unscored(item, target), float(weight))
        for item, target, weight in zip(drawn.items, drawn.targets, weights, strict=True)
    ]


def _observed(whole: Enumerated, target: Target, terms: Sequence[PlainTerm], parts: Sequence) -> tuple[float, list]:
    """Return what is subtracted from log Z for one item, and the expected counts of each term behind it."""
    if target.soft is not None:
        counts, value = [], 0.0
        for term, rows, own in zip(terms, whole.rows, parts, strict=True):
            wanted = [
                target.soft[places[0]] if len(places) == 1 else target.pairs[places[1] - 1].ravel()
                for places in rows.members
            ]
            counts.append(np.reshape(wanted, (len(rows.members), term.n_outcomes)))
            value += float((counts[-1] * term.scores(rows.features, own)).sum())
        return value, counts
    told = whole.condition(target.logs)
    if target.cuts is not None:
        chosen = np.array([cuts == target.cuts for cuts in whole.cuts or ()])
        told.scores = np.where(chosen, whole.scores, -np.inf)
    return told.log_partition, [told.expected(number) for number in range(len(terms))]


class Objective:
    """The penalised likelihood of a drawn fit by enumeration: value, gradient and Hessian products."""

    def __init__(self, drawn: Drawn):
        self.drawn, self.terms, self.items = drawn, drawn.terms, objective_terms(drawn)

    def at(self, parts: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """Return value and gradient in the coefficients of each term."""
        drawn, terms = self.drawn, self.terms
        value = sum(term.penalty(own) for term, own in zip(terms, parts, strict=True))
        slopes = [own / term.prior_variance for term, own in zip(terms, parts, strict=True)]
        scored_items = [scored(item, base, terms, parts) for item, base, _ in self.items]
        for whole, target, (_, _, weight) in zip(scored_items, drawn.targets, self.items, strict=True):
            known, counts = _observed(whole, target, terms, parts)
            value += weight * (whole.log_partition - known)
            for number, term in enumerate(terms):
                residual = weight * (whole.expected(number) - counts[number])
                slopes[number] = slopes[number] + term.pulled(whole.rows[number].features, residual)
        if drawn.criterion is not None:
            value += self._criterion(scored_items, slopes)
        return value, slopes

    def _criterion(self, items: Sequence[Enumerated], slopes: list[np.ndarray]) -> float:
        """Add the terms of an expected share; return their value."""
        asked = self.drawn.criterion
        assert asked is not None
        weights = np.array([weight for _, _, weight in self.items])
        total = sum(weight * whole.labellings.shape[1] for weight, whole in zip(weights, items, strict=True))
        counts = [(whole.labellings == asked.label).sum(axis=1) for whole in items]
        mean = sum(w * (i.probabilities @ c) for w, i, c in zip(weights, items, counts, strict=True)) / total
        shares, means = np.array([asked.share, 1 - asked.share]), np.array([mean, 1 - mean])
        value = asked.weight * float(shares @ (np.log(shares) - np.log(means)))
        pull = -asked.weight * shares / means / total
        for weight, whole, own in zip(weights, items, counts, strict=True):
            direction = weight * (pull[0] * own + pull[1] * (whole.labellings.shape[1] - own))
            for number, rows in enumerate(self._responses(whole, direction)):
                slopes[number] = slopes[number] + self.terms[number].pulled(whole.rows[number].features, rows)
        return value

    @staticmethod
    def _responses(whole: Enumerated, direction: np.ndarray) -> list[np.ndarray]:
        """Return the covariances of the counts of each term with a function of labellings (K,)."""
        moves = whole.response(direction)
        return [np.tensordot(moves, rows.counts, axes=1) for rows in whole.rows]

    def product(self, parts: Sequence[np.ndarray], direction: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the Hessian times a direction."""
        terms, found = self.terms, []
        totals = [own / term.prior_variance for term, own in zip(terms, direction, strict=True)]
        for (item, base, weight), target in zip(self.items, self.drawn.targets, strict=True):
            whole = scored(item, base, terms, parts)
            moves = scored(item, np.zeros(len(base)), terms, direction).scores
            responses = [weight * rows for rows in self._responses(whole, moves)]
            if target.soft is None and target.cuts is None:
                known = whole.condition(target.logs)
                for rows, less in zip(responses, self._responses(known, moves), strict=True):
                    rows -= weight * less
            found.append((whole, responses))
        for whole, responses in found:
            for number, rows in enumerate(responses):
                totals[number] = totals[number] + terms[number].pulled(whole.rows[number].features, rows)
        return totals


def posterior_of(drawn: Drawn) -> LogPosterior:
    """Return the objective of the fit as solvers see it, in the terms that were fitted."""
    model, given = drawn.fitted, drawn.given
    scaled = copy.copy(model).set_params(scale=model.scale_)
    training = prepare_fit(scaled, drawn.x_of(drawn.items), given, drawn.weights)
    training.spec = model.field_.spec
    sample = training.place(training.data, [(term.name, term.clique) for term in model.field_.terms])
    datafit = sample.datafit([sample.design(term) for term in model.field_.terms])
    for step in training.run.steps:
        if isinstance(step, ExpectedShares):
            datafit = Completion(datafit).with_criteria(step.criteria)
    return LogPosterior(datafit)


def check_objective(tally: Tally, drawn: Drawn, random: np.random.Generator) -> None:
    """Compare value, gradient and Hessian products of the fit, where it ended and at coefficients that are drawn."""
    model, objective = drawn.fitted, Objective(drawn)
    terms = objective.terms
    parts = [term.coefficients for term in terms]
    value, slopes = objective.at(parts)
    scale = 1.0 + abs(value)
    smooth = not any(term.l1 for term in terms)
    if "solution" not in drawn.lacks:
        tally.near("objective of the fit", model.solution_.value, value, NEAR * scale)
    if smooth and "solution" not in drawn.lacks:
        norm = np.sqrt(sum(float((slope**2).sum()) for slope in slopes))
        tally.near("gradient norm of the fit", model.solution_.gradient_norm, norm, 1e-6 * scale)
        for term, slope in zip(terms, slopes, strict=True):
            expected = 0.5 * term.prior_variance * float((slope**2).sum())
            tally.near("gap of a term", model.solution_.gap_parts[term.name], expected, 1e-6 * scale**2)
    if "prepared" in drawn.lacks:
        return
    with tally.asking("objective"):
        posterior = posterior_of(drawn)
        spread = float(random.choice([0.3, 1.0, 5.0]))
        # Features that no training input has are not fitted: their coefficients are zero.
        parts, direction = (
            posterior.blocks.expand(
                posterior.blocks.compress([size * random.normal(size=term.coefficients.shape) for term in terms])
            )
            for size in (spread, 1.0)
        )
        value, slopes = objective.at(parts)
        scale = spread + abs(value)
        theta = posterior.blocks.compress(parts)
        for fused in (False, True):
            if fused and choose_fused_passes(posterior.datafit) is None:
                continue
            if fused:
                prefer_fused_passes(posterior)
            point = posterior.make_point(theta)
            tally.near("objective", point.value, value, NEAR * scale)
            tally.near("gradient", point.gradient, posterior.blocks.compress(slopes), 10 * NEAR * scale)
        # The oracle itself, along one direction.
        step = 1e-5
        ahead, behind = (
            objective.at([own + sign * step * move for own, move in zip(parts, direction, strict=True)])[0]
            for sign in (1, -1)
        )
        along = sum(float(np.vdot(slope, move)) for slope, move in zip(slopes, direction, strict=True))
        tally.near("gradient by differences", along, (ahead - behind) / (2 * step), 1e-5 * scale)
        if drawn.criterion is None:
            product, _ = posterior.hessian_product(point, posterior.blocks.compress(direction))
            expected = posterior.blocks.compress(objective.product(parts, direction))
            tally.near("Hessian product", product, expected, 100 * NEAR * scale)
