from kernelfields.solvers import orthant as orthant
from kernelfields.solvers.choice import SOLVERS as SOLVERS, resolve_solver as resolve_solver
from kernelfields.solvers.lbfgs import LBFGS as LBFGS, StochasticStart as StochasticStart
from kernelfields.solvers.loop import (
    DirectionRule as DirectionRule,
    Iteration as Iteration,
    Solution as Solution,
    minimize as minimize,
)
from kernelfields.solvers.newton import Newton as Newton, NewtonCG as NewtonCG
from kernelfields.solvers.orthant import OrthantLBFGS as OrthantLBFGS
