"""Cheaper fits, whose ends are starts of others.

many positions          a loose fit to every fourth sequence, or piece of a long one, and its steps
n-grams                 the field without them
approximate inference   each label by itself, which needs no sweeps
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from kernelfields.engines.engine import Sample
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.choice import FitOptions, choose
from kernelfields.solvers.lbfgs import LBFGS
from kernelfields.solvers.loop import Iteration, Solution, continue_counting, continue_watching

# Where there are so many positions for each feature, a fit to a share of the sequences comes first, to a loose
# tolerance: it costs few passes, and its end and its steps save more (benchmarks/fit_speed.py). A fit in the first
# pivots before it or instead of it halves the passes at full rank and saves no time. Letters at rank 2000, in CPU
# seconds: with 512 pivots on the share, then all, 19.0 for 19.5; with all sequences in between 23.7; of a ninth of the
# words 1.6 to 2.4, and 1.7 to 2.1 from zero. Inference costs the same at any rank, and later pivots have to be learnt.
_POSITIONS_PER_FEATURE = 10
_SHARE, _LOOSER = 4, 10.0
# Pieces of longer sequences are sequences of the share: every fourth of a few recordings would be none, or all.
_LONGEST = 4096
# With approximate inference a fit makes about 20 evaluations, with twice the sweeps of the first one.
_EVALUATIONS, _SOON = 40, 5.0


def start_on_share(posterior: LogPosterior, sample: Sample, options: FitOptions) -> Solution | None:
    """Return a start from a fit to every fourth sequence or piece, and its steps; None if that saves little."""
    rank = max(block.shape[0] for block in posterior.blocks)
    if sample.n_positions < _POSITIONS_PER_FEATURE * rank or not posterior.penalty.quadratic:
        return None
    every = slice(None, None, _SHARE)
    designs = posterior.datafit.designs
    share = sample.part(designs, every, _SHARE, longest=_LONGEST) if choose(posterior) == "lbfgs" else None
    if share is None:
        return None
    options.report(f"fitting to every {_SHARE}th sequence, then to all")
    part, rule = LogPosterior(share[0].datafit(share[1])), LBFGS()
    loose = replace(options.with_tolerance(_LOOSER), solver=rule, watch=None)
    found = loose.minimize(part, None)
    del share, part
    return _continue_minimization(
        posterior, found, found.theta, found.passes / _SHARE, replace(options, solver=LBFGS(pairs=rule.step_memory))
    )


def start_without_ngrams(posterior: LogPosterior, sample: Sample, options: FitOptions) -> Solution | None:
    """Return a start from a cheap fit without n-grams; None for fields without n-grams."""
    found = _solve_with_few_labels(
        posterior, sample, 2, options, "fitting the field without its n-grams, then all of it"
    )
    return None if found is None else _continue_minimization(posterior, found, found.theta, found.passes, options)


def start_from_single_labels(
    posterior: LogPosterior, sample: Sample, options: FitOptions
) -> tuple[np.ndarray, FitOptions]:
    """Return a start from a fit of independent labels, or zero without such a fit.

    Options to go on with come with it.
    """
    alone, words = sample.single_labels(), "fitting each label by itself, then all of them together"
    found = None if alone is None else _solve_with_few_labels(posterior, alone, 1, options, words)
    if found is None:
        return np.zeros(posterior.size), options
    if found.reason == "interrupted":
        return found.theta, replace(options, watch=stop_fit)
    _report_duration(posterior, found.theta, options)
    return found.theta, options


def _solve_with_few_labels(
    posterior: LogPosterior, sample: Sample, most_labels: int, options: FitOptions, words: str
) -> Solution | None:
    """Return a loose solution of the terms with few labels per clique, as coefficients of all terms.

    None where these are no terms or all of them; ``words`` tell what is fitted.
    """
    designs = posterior.datafit.designs
    few = [index for index, design in enumerate(designs) if design.labels_per_clique <= most_labels]
    if not 0 < len(few) < len(designs):
        return None
    options.report(words)
    part = LogPosterior(sample.datafit([designs[index] for index in few]))
    found = replace(options.with_tolerance(_LOOSER), watch=None).minimize(part, None)
    theta = np.zeros(posterior.size)
    for index, block in zip(few, part.blocks, strict=True):
        theta[posterior.blocks[index].rows] = found.theta[block.rows]
    return replace(found, theta=theta)


def _report_duration(posterior: LogPosterior, theta: np.ndarray, options: FitOptions) -> None:
    """Report the estimated time of a long fit with approximate inference."""
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


def _continue_minimization(
    posterior: LogPosterior, found: Solution, theta: np.ndarray, passes: float, options: FitOptions
) -> Solution:
    """Minimize from coefficients of a simpler objective, counting its passes."""
    before = replace(found.history[-1], iteration=0, passes=passes)
    watch = stop_fit if found.reason == "interrupted" else continue_watching(before, options.watch)
    solution = replace(options, watch=watch).minimize(posterior, theta)
    history = [continue_counting(before, iteration) for iteration in solution.history]
    return replace(solution, history=history, passes=history[-1].passes, seconds=history[-1].seconds)


def stop_fit(iteration: Iteration) -> bool:
    """End a fit at its start by an interrupt."""
    raise KeyboardInterrupt
