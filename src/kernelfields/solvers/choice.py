"""Solvers by name, and the rule behind ``solver="auto"``."""

from __future__ import annotations

import numpy as np

from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.lbfgs import LBFGS, OrthantLBFGS, StochasticStart
from kernelfields.solvers.loop import DirectionRule
from kernelfields.solvers.newton import BlockJacobi, HessianRule, Newton, NewtonCG, SubspaceDescent

SOLVERS: dict[str, type] = {
    "newton": Newton,
    "newton-cg": NewtonCG,
    "block-jacobi": BlockJacobi,
    "subspace": SubspaceDescent,
    "lbfgs": LBFGS,
    "sgd+lbfgs": LBFGS,
}

_MEMORY_AFTER_START = 20
# With l1 the coefficients that are not zero change, and of each pair only their part counts.
_MEMORY_WITH_L1 = 50


def check_solver(solver: object) -> None:
    """Raise if ``solver`` is a name that no solver has; objects are checked where they are used."""
    if isinstance(solver, str) and solver != "auto" and solver not in SOLVERS:
        raise ValueError(f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {solver!r}")


def resolve_solver(
    solver: object, posterior: LogPosterior, tol: float, random: np.random.Generator | None = None
) -> DirectionRule:
    """Return the rule for a name; "auto" chooses by size and tolerance, ``random`` is for those that draw."""
    if isinstance(solver, str) and solver == "auto":
        solver = choose(posterior)
    if posterior.has_l1:
        return _with_l1(solver, tol, random)
    if isinstance(solver, str):
        if solver not in SOLVERS:
            raise ValueError(f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {solver!r}")
        if solver == "sgd+lbfgs":
            # Near the optimum few steps are worth remembering; the start for partly known labels is not as near.
            memory = _MEMORY_AFTER_START if posterior.convex else None
            return LBFGS(memory, StochasticStart(random_state=random))
        solver = SOLVERS[solver]()
    if isinstance(solver, HessianRule) and posterior.approximation is not None:
        raise ValueError(
            f"solver={solver.name!r} needs Hessian products, which are exact or nothing, and inference="
            f"{posterior.approximation!r} is approximate: use solver='lbfgs'"
        )
    if isinstance(solver, HessianRule) and not posterior.convex:
        raise ValueError(
            f"solver={solver.name!r} needs a convex objective, and with labels that are partly known it is not: use "
            "solver='lbfgs'"
        )
    if isinstance(solver, HessianRule) and not posterior.has_squares_only:
        raise ValueError(
            f"solver={solver.name!r} needs a Gaussian prior on every coefficient, and a prior_variance is "
            "infinite: use solver='lbfgs'"
        )
    if isinstance(solver, DirectionRule):
        return solver
    raise ValueError(f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {solver!r}")


def _with_l1(solver: object, tol: float, random: np.random.Generator | None) -> DirectionRule:
    """Return the rule for objectives with l1, or raise where the solver has none."""
    if isinstance(solver, OrthantLBFGS):
        return solver
    if isinstance(solver, LBFGS):
        return OrthantLBFGS(solver.memory, solver.start)
    if solver == "lbfgs":
        return OrthantLBFGS()
    if solver == "sgd+lbfgs":
        return OrthantLBFGS(_MEMORY_WITH_L1, StochasticStart(random_state=random, close=tol))
    raise ValueError(f"with l1 the objective is not smooth, and only solver='lbfgs' minimizes it; got {solver!r}")


def choose(posterior: LogPosterior, *, small: int = 400, many_values: int = 50_000) -> str:
    """Pick a solver; benchmarks/solvers.py of commit 48b1fa7 prints the measurements behind the rules.

    * Without a Gaussian prior in every coordinate, or with l1: L-BFGS, as the Hessian may vanish. The same where
      inference is approximate: there is no Hessian then.
    * Labels that are partly known: L-BFGS, since the Hessian may be indefinite.
    * ``small`` fields: Newton-CG, up to three times faster than L-BFGS, both in hundredths of a second.
    * Raw dense inputs, more of them than positions can tell apart: Newton-CG, since correlated columns take L-BFGS
      past any reasonable ``max_iter`` without a metric.
    * Otherwise L-BFGS: at most half the passes of Newton-CG where features are whitened by a basis or a metric, and
      on sparse features; after a stochastic start where there are ``many_values`` sparse ones, worth finding its
      rate (benchmarks/crfsuite_speed.py).
    """
    smooth = posterior.has_squares_only and posterior.approximation is None and posterior.convex
    if smooth and (posterior.size <= small or posterior.raw):
        return "newton-cg"
    return "sgd+lbfgs" if posterior.sparse_values >= many_values else "lbfgs"
