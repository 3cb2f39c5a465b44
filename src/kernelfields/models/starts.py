"""Where a solver begins, if that is left open: at the end of a cheaper fit.

many positions          a loose fit to every fourth sequence, and its steps
n-grams                 the field without them
approximate inference   each label by itself, which needs no sweeps
many sparse weights     rounds over those that are not zero, where the penalty leaves few (models/working_set.py)
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from kernelfields import models
from kernelfields.engines.engine import Sample
from kernelfields.models.placed import Placed
from kernelfields.numerics.threads import blas_threads
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.choice import FitOptions, choose
from kernelfields.solvers.lbfgs import LBFGS
from kernelfields.solvers.loop import Iteration, Solution, counted_on, watched_on

# Where there are so many positions, and so many for each feature, a fit to a share of the sequences comes first, to a
# loose tolerance: it costs few passes, and its end and its steps save more (benchmarks/fit_speed.py).
_LEAST_POSITIONS, _POSITIONS_PER_FEATURE = 10_000, 10
_SHARE, _LOOSER = 4, 10.0
# With approximate inference a fit makes about 20 evaluations, with twice the sweeps of the first one.
_EVALUATIONS, _SOON = 40, 5.0


def minimize_from_best_start(placed: Placed) -> Solution:
    """Return where the solver ends, from a start of its own unless one is given or every point is watched."""
    posterior, sample, options = placed.posterior, placed.sample, placed.options
    if not posterior.penalty.smooth and models.working_set.has_working_sets(posterior):
        # Passes over all pairs have no product that is worth threads of BLAS, which wait busily for each other.
        with blas_threads(1):
            return models.working_set.minimize_in_working_sets(posterior, sample, options, placed.start)
    if placed.start is not None:
        return options.minimize(posterior, posterior.blocks.compressed(placed.start))
    start = _STARTS.get(options.solver) if isinstance(options.solver, str) else None
    return (start or _from_zero)(posterior, sample, options)


def _from_zero(posterior: LogPosterior, sample: Sample, options: FitOptions) -> Solution:
    return options.minimize(posterior, None)


def _usual_start(posterior: LogPosterior, sample: Sample, options: FitOptions) -> Solution:
    """Return the solution from single labels where inference is approximate, or from a smaller field or a share."""
    if posterior.approximation is not None:
        theta, options = _start_from_single_labels(posterior, sample, options)
        return options.minimize(posterior, theta)
    found = None
    if posterior.convex:
        if posterior.datafit.likelihood.family.method == "n-grams":
            found = _start_without_ngrams(posterior, sample, options)
        if found is None and sample.n_positions >= _LEAST_POSITIONS:
            found = _start_on_share(posterior, sample, options)
    return _from_zero(posterior, sample, options) if found is None else found


#: The starts of solvers by name; others begin at zero.
_STARTS = {"auto": _usual_start}


def _start_on_share(posterior: LogPosterior, sample: Sample, options: FitOptions) -> Solution | None:
    """Return a solution from the one on every fourth sequence, and the steps there; None where that saves little."""
    rank = max(block.shape[0] for block in posterior.blocks)
    if sample.n_positions < _POSITIONS_PER_FEATURE * rank or not posterior.penalty.quadratic:
        return None
    every = slice(None, None, _SHARE)
    share = sample.part(posterior.datafit.designs, every, _SHARE) if choose(posterior) == "lbfgs" else None
    if share is None:
        return None
    options.report(f"fitting to every {_SHARE}th sequence, then to all")
    part, rule = LogPosterior(share[0].datafit(share[1])), LBFGS()
    loose = replace(options.tightened(_LOOSER), solver=rule, watch=None)
    found = loose.minimize(part, None)
    del share, part
    return _minimize_from(
        posterior, found, found.theta, found.passes / _SHARE, replace(options, solver=LBFGS(pairs=rule.learnt))
    )


def _start_without_ngrams(posterior: LogPosterior, sample: Sample, options: FitOptions) -> Solution | None:
    """Return a solution from that of the field without its n-grams, whose passes are cheap; None where it has none."""
    found = _solved_with_few_labels(
        posterior, sample, 2, options, "fitting the field without its n-grams, then all of it"
    )
    return None if found is None else _minimize_from(posterior, found, found.theta, found.passes, options)


def _start_from_single_labels(
    posterior: LogPosterior, sample: Sample, options: FitOptions
) -> tuple[np.ndarray, FitOptions]:
    """Return the solution of the field in which labels meet no others, which needs no sweeps; zero if there is none.

    Options to go on with come with it.
    """
    alone, words = sample.single_labels(), "fitting each label by itself, then all of them together"
    found = None if alone is None else _solved_with_few_labels(posterior, alone, 1, options, words)
    if found is None:
        return np.zeros(posterior.size), options
    if found.reason == "interrupted":
        return found.theta, replace(options, watch=end_at_once)
    _report_duration(posterior, found.theta, options)
    return found.theta, options


def _solved_with_few_labels(
    posterior: LogPosterior, sample: Sample, most_labels: int, options: FitOptions, words: str
) -> Solution | None:
    """Return a loose solution of the terms whose cliques have so many labels at most, in all coefficients.

    None where these are no terms or all of them; ``words`` tell what is fitted.
    """
    designs = posterior.datafit.designs
    few = [index for index, design in enumerate(designs) if design.labels_per_clique <= most_labels]
    if not 0 < len(few) < len(designs):
        return None
    options.report(words)
    part = LogPosterior(sample.datafit([designs[index] for index in few]))
    found = replace(options.tightened(_LOOSER), watch=None).minimize(part, None)
    theta = np.zeros(posterior.size)
    for index, block in zip(few, part.blocks, strict=True):
        theta[posterior.blocks[index].rows] = found.theta[block.rows]
    return replace(found, theta=theta)


def _report_duration(posterior: LogPosterior, theta: np.ndarray, options: FitOptions) -> None:
    """Say how long a fit with approximate inference takes, about; nothing where that is soon."""
    if options.announce is None:
        return
    begin = time.perf_counter()
    posterior.trial(theta)
    seconds = _EVALUATIONS * (time.perf_counter() - begin)
    if seconds >= _SOON:
        options.report(
            f"inference of all labels takes {seconds / _EVALUATIONS:.1f} s at first, the fit about {seconds:.0f} s "
            f"({_EVALUATIONS} times that); the best estimate so far is kept if it is interrupted"
        )


def _minimize_from(
    posterior: LogPosterior, found: Solution, theta: np.ndarray, passes: float, options: FitOptions
) -> Solution:
    """Go on from coefficients that a simpler objective has led to, at the price of so many passes."""
    before = replace(found.history[-1], iteration=0, passes=passes)
    watch = end_at_once if found.reason == "interrupted" else watched_on(before, options.watch)
    solution = replace(options, watch=watch).minimize(posterior, theta)
    history = [counted_on(before, iteration) for iteration in solution.history]
    return replace(solution, history=history, passes=history[-1].passes, seconds=history[-1].seconds)


def end_at_once(iteration: Iteration) -> bool:
    """End a fit where it begins, as Ctrl-C would."""
    raise KeyboardInterrupt
