"""A basis that grows: rounds of fitting and of adding pivots alternate (Corollary 10).

    solve   in the present span
    bound   what the rest of the RKHS could still bring; stop when that is below the tolerance
    grow    add the pivots that promise most

Coordinates are nested, so each round starts from the last estimate padded with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernelfields.basis.selection import resolve_basis
from kernelfields.engines.engine import Sample
from kernelfields.models.assessment import rkhs_bound
from kernelfields.models.placed import FitStep, FittedField, Placed, Solve
from kernelfields.objective.designs.design import Design
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.loop import Iteration, continue_counting, continue_watching, ending_gap, ends

# The RKHS gap is at least the span gap at the last point, which is a few times the gap of the bundle.
_INNER_TOLERANCE = 0.1


class GrowingBasis(FitStep):
    """Repeat a solve with an increasing number of pivots up to a certificate over the whole RKHS."""

    def around(self, solve: Solve) -> Solve:
        """Return the solve repeated in rounds."""

        def in_rounds(placed: Placed) -> FittedField:
            if placed.monitor is not None:
                raise ValueError(
                    "a basis that grows by the gradient cannot be stopped by a development set; leave out one"
                )
            if placed.keep is not None:
                raise ValueError(
                    "a basis that grows by the gradient cannot be taken up again from a checkpoint; leave out one"
                )
            return _solve_in_rounds(solve, placed)

        return in_rounds


def _solve_in_rounds(solve: Solve, placed: Placed) -> FittedField:
    designs, start, options = list(placed.designs), placed.start, placed.options
    history: list[Iteration] = []
    proved = 0.0
    while True:
        before = history[-1] if history else None
        round_options = options.with_tolerance(
            _INNER_TOLERANCE,
            max_iter=options.max_iter - (0 if before is None else before.iteration),
            watch=continue_watching(before, options.watch, proved),
        )
        own = replace(placed, designs=designs, start=start, options=round_options, rounds=0 if before is None else 1)
        fitted = solve(own)
        solution, posterior = fitted.solution, fitted.posterior
        assert posterior is not None
        # The first entry of a later round is the point that the round before ended in.
        new = solution.history if before is None else solution.history[1:]
        history += [continue_counting(before, iteration, proved) for iteration in new]
        # A fit that was stopped returns at once, not after a pass over the kernel matrix.
        if solution.reason in ("interrupted", "callback"):
            break
        try:
            exact = rkhs_bound(posterior, solution, fitted.residual, exact=True)
            # A bound over the whole RKHS holds in every later round; completed labels make another objective of each.
            proved = max(proved, exact.lower_bound) if posterior.convex else exact.lower_bound
            rkhs = replace(exact, lower_bound=proved, completed=not posterior.convex)
            fitted = replace(fitted, rkhs=rkhs)
            if posterior.convex:
                tol = ending_gap(rkhs.value, options.tol, options.enough)
                history[-1] = replace(history[-1], lower_bound=proved, working_gap=None, tol=tol)
            if ends(rkhs, options.tol, options.enough):
                solution = replace(solution, reason="gap")
                break
            if history[-1].iteration >= options.max_iter:
                solution = replace(solution, reason="max_iter")
                break
            grown = _grow(designs, posterior, fitted.residual, placed.sample, options.random)
            if grown is None:
                break
            designs = grown
            rank = sum(design.term.subspace.rank for design in designs if design.panel is not None)
            options.report(f"the basis grows to {rank} functions")
        except KeyboardInterrupt:
            solution = replace(solution, reason="interrupted")
            break
        start = [_padded(old, design) for old, design in zip(fitted.coefficients, designs, strict=True)]
    last = history[-1]
    solution = replace(solution, history=history, iterations=last.iteration, passes=last.passes, seconds=last.seconds)
    return replace(fitted, solution=solution)


def _grow(
    designs: Sequence[Design], posterior: LogPosterior, residual: Any, sample: Sample, random: np.random.Generator
) -> list[Design] | None:
    """Add a round of pivots to each growing term; return None without further pivots."""
    added = 0
    for index, design in enumerate(designs):
        if design.panel is not None:
            basis: Any = resolve_basis(design.term.clique.basis)
            added += basis.grow(design.panel, posterior.datafit.outside_span.residuals(residual, index), random)
    if not added:
        return None
    # All at once, when nothing is left that could be interrupted half-way.
    return [
        design
        if (panel := design.panel) is None
        else replace(sample.design(replace(design.term, subspace=panel.subspace()), panel=panel), panel=panel)
        for design in designs
    ]


def _padded(old: np.ndarray, design: Design) -> np.ndarray:
    missing = design.term.subspace.rank - len(old)
    return np.vstack([old, np.zeros((missing, old.shape[1]))]) if design.panel is not None and missing else old
