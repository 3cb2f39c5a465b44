"""Objectives with an l1 penalty on many sparse weights: solved in rounds on the few nonzero ones.

    W     pairs of features and labels that may have weights; at first those that the gradient at zero would raise
    fit   min over theta, theta_j = 0 outside W, to a tolerance that is finer in every round
    bound a pass over all pairs at the mean of the round's points (objective/bounds.py)
    add   j outside W with |dC/dtheta_j| > l1: one pass over all pairs, whose cut also bounds the whole objective
    stop  where the gap of the whole objective is below the tolerance

At the optimum a pair outside has |dC/dtheta_j| <= l1, so that nothing is lost: the certificate is that of all pairs.
A bound over W alone ends a round and is no bound of the whole objective. So iterations of a round have the bound of all
pairs that the rounds before have proved, and ``working_gap``, the relative gap over W. The bound over all pairs holds
over W too, and each round begins with it. With thousands of labels and features, passes and vectors over W cost a small
part of those over all pairs.

    Johnson and Guestrin (2015), Blitz: a principled meta-algorithm for scaling sparse optimization.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kernelfields.engines.engine import Sample
from kernelfields.objective.designs.design import Design, LocalDesign
from kernelfields.objective.designs.supports import Support
from kernelfields.objective.likelihoods.likelihood import Likelihood
from kernelfields.objective.mixed_bound import MixedBound
from kernelfields.objective.posterior import LogPosterior, Point
from kernelfields.solvers.choice import FitOptions
from kernelfields.solvers.loop import (
    Iteration,
    Solution,
    continue_counting,
    continue_watching,
    ending_gap,
    ends,
    has_settled,
)

# From so many coefficients on, rounds are worth their bookkeeping.
_MANY = 100_000
# Rounds are solved to so many times the tolerance: the first, each one beside the one before, and the finest. The first
# only finds which weights there are: a finer one is spent on a set that lacks some of them. A fit that starts elsewhere
# than at zero, as from that of another prior variance, has most of them, and begins with the second.
_FIRST, _FINER, _FINEST = 300.0, 0.5, 0.03


def has_working_sets(posterior: LogPosterior) -> bool:
    """Whether an objective has many sparse weights with an l1 penalty."""
    datafit = posterior.datafit
    if posterior.penalty.smooth or not datafit.is_local:
        return False
    if not isinstance(datafit.likelihood, Likelihood):
        return False
    return sum(design.shape[0] * design.shape[1] for design in datafit.designs if _is_sparse(design)) >= _MANY


def _is_sparse(design: Design) -> bool:
    return design.sparse and design.term.pairs.complete and design.term.l1 > 0.0


def minimize_in_working_sets(
    posterior: LogPosterior, sample: Sample, options: FitOptions, start: Sequence[np.ndarray] | None
) -> Solution:
    """Minimize by the solver of the options, in rounds over growing sets of coefficients."""
    begin = time.perf_counter()
    point = posterior.make_point(np.zeros(posterior.size) if start is None else posterior.blocks.compress(start))
    threshold = posterior.penalty.threshold
    kept = point.gradient < -threshold if start is None else (point.theta != 0.0) | (point.steepest != 0.0)
    for block, design in zip(posterior.blocks, posterior.datafit.designs, strict=True):
        kept[block.rows] |= not _is_sparse(design)
    bound, history, factor = MixedBound(), list[Iteration](), _FIRST if start is None else _FINER
    bound.add(point)
    while True:
        before = history[-1] if history else None
        reduced, inner = LogPosterior(sample.datafit(_restrict_designs(posterior, kept))), bound.restrict(kept)
        round_options = options.with_tolerance(
            factor,
            max_iter=options.max_iter - (0 if before is None else before.iteration),
            watch=continue_watching(before, options.watch, bound.value),
        )
        first = None if before is None and start is None else point.theta[kept]
        del point  # vectors over all pairs may be most of the memory of a fit
        found = round_options.minimize(reduced, first, bound=inner)
        del reduced
        history += [continue_counting(before, own, bound.value) for own in found.history[before is not None :]]
        passes = posterior.passes
        assert inner.mean is not None
        try:
            bound.add(posterior.make_point(_expand_coefficients(inner.mean, kept)))
            point = posterior.make_point(_expand_coefficients(found.theta, kept))
        except KeyboardInterrupt:
            # The estimate is there; what is left takes less than a round, so do it all the same.
            found, point = (
                replace(found, reason="interrupted"),
                posterior.make_point(_expand_coefficients(found.theta, kept)),
            )
        history[-1] = last = replace(
            history[-1],
            value=point.value,
            lower_bound=bound.add(point),
            working_gap=None,
            tol=ending_gap(point.value, options.tol, options.enough),
            passes=history[-1].passes + posterior.passes - passes,
            seconds=time.perf_counter() - begin,
        )
        stop_asked = options.watch is not None and bool(options.watch(last))
        wanted = (np.abs(point.gradient) > threshold) & ~kept
        if ends(last, options.tol, options.enough):
            return _make_solution(point, found, history, "gap")
        if before is not None and has_settled(before, last, options.tol, options.enough):
            return _make_solution(point, found, history, "settled")
        if found.reason not in ("gap", "settled") or (factor <= _FINEST and not wanted.any()):
            return _make_solution(point, found, history, "precision" if found.reason == "gap" else found.reason)
        if stop_asked:
            return _make_solution(point, found, history, "callback")
        kept |= wanted
        factor = min(1.0, factor) if found.reason == "settled" else max(_FINER * min(1.0, factor), _FINEST)


def _expand_coefficients(theta: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return all coefficients from the kept coefficients; the others are zero."""
    whole = np.zeros(len(kept))
    whole[kept] = theta
    return whole


def _restrict_designs(posterior: LogPosterior, kept: np.ndarray) -> list[Design]:
    """Return designs restricted to the kept sparse weights."""
    designs: list[Design] = []
    for block, design in zip(posterior.blocks, posterior.datafit.designs, strict=True):
        if _is_sparse(design):
            assert isinstance(design, LocalDesign)
            pairs = kept[block.rows].reshape(block.shape)
            begin = np.concatenate([[0], np.cumsum(pairs.sum(axis=1))]).astype(np.int32)
            support = Support(begin, np.nonzero(pairs)[1].astype(np.int32), block.shape[1])
            term = replace(design.term, pairs=support)
            design = LocalDesign.from_features(term, design.features, design.n_labels, positions=design.positions)
        designs.append(design)
    return designs


def _make_solution(point: Point, found: Solution, history: Sequence[Iteration], reason: str) -> Solution:
    """Return the solution of the whole objective."""
    last = history[-1]
    gap_parts = point.posterior.gap_parts(point)  # first, before there is the steepest direction
    return replace(
        found,
        theta=point.theta,
        value=last.value,
        lower_bound=last.lower_bound,
        gradient_norm=float(np.sqrt(point.steepest @ point.steepest)),
        iterations=last.iteration,
        passes=last.passes,
        seconds=last.seconds,
        reason=reason,
        history=list(history),
        gap_parts=gap_parts,
    )
