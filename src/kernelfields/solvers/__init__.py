"""Solvers: one loop, one line search, one Solution; five rules for the direction."""

from kernelfields.solvers.choice import SOLVERS, resolve_solver
from kernelfields.solvers.lbfgs import LBFGS, StochasticStart
from kernelfields.solvers.loop import DirectionRule, Iteration, Solution, minimize
from kernelfields.solvers.newton import Newton, NewtonCG
from kernelfields.solvers.orthant import OrthantLBFGS

__all__ = [
    "LBFGS",
    "SOLVERS",
    "DirectionRule",
    "Iteration",
    "Newton",
    "NewtonCG",
    "OrthantLBFGS",
    "Solution",
    "StochasticStart",
    "minimize",
    "resolve_solver",
]
