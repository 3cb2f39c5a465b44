"""Solvers by name, and the rule behind ``solver="auto"``."""

from __future__ import annotations

from typing import Any

from kernelfields.posterior.log_posterior import LogPosterior
from kernelfields.solvers.dense import BlockJacobi, Newton
from kernelfields.solvers.lbfgs import LBFGS
from kernelfields.solvers.loop import DirectionRule
from kernelfields.solvers.newton_cg import NewtonCG
from kernelfields.solvers.subspace import SubspaceDescent

SOLVERS: dict[str, type] = {
    "newton": Newton,
    "newton-cg": NewtonCG,
    "block-jacobi": BlockJacobi,
    "subspace": SubspaceDescent,
    "lbfgs": LBFGS,
}


SMALL = 400


def resolve_solver(solver: Any, posterior: LogPosterior, tol: float) -> DirectionRule:
    """Return the rule for a name; "auto" chooses by size and tolerance."""
    if solver == "auto":
        solver = choose(posterior, tol)
    if isinstance(solver, str):
        if solver not in SOLVERS:
            raise ValueError(f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {solver!r}")
        return SOLVERS[solver]()
    if all(hasattr(solver, name) for name in ("name", "prepare", "direction", "learn")):
        return solver
    raise ValueError(f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {solver!r}")


def choose(posterior: LogPosterior, tol: float) -> str:
    """Pick a solver; benchmarks/solvers.py prints the measurements behind the rules.

    * A few hundred coefficients at most: Newton-CG, up to three times faster than L-BFGS, both in hundredths of a
      second.
    * Raw dense inputs: Newton-CG, which needs a tenth of the iterations in about the same time; correlated
      columns take L-BFGS past any reasonable ``max_iter``.
    * Otherwise L-BFGS: at most half the passes of Newton-CG in whitened coordinates and on sparse features.
    """
    if posterior.size <= SMALL or posterior.raw:
        return "newton-cg"
    return "lbfgs"
