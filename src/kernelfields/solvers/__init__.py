"""Solvers: one loop, one line search, one Solution; five rules for the direction."""

from kernelfields.solvers.choice import SOLVERS, resolve_solver
from kernelfields.solvers.loop import DirectionRule, Iteration, Solution, minimize

__all__ = ["SOLVERS", "DirectionRule", "Iteration", "Solution", "minimize", "resolve_solver"]
