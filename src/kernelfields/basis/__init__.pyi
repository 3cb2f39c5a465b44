from kernelfields.basis.gradient import Gradient as Gradient
from kernelfields.basis.panel import PanelCholesky as PanelCholesky
from kernelfields.basis.pivot_rules import AllPoints as AllPoints, GreedyCholesky as GreedyCholesky, Uniform as Uniform
from kernelfields.basis.selection import Basis as Basis, RandomCholesky as RandomCholesky
from kernelfields.basis.subspace import (
    ConstantSubspace as ConstantSubspace,
    ExplicitSubspace as ExplicitSubspace,
    PivotSubspace as PivotSubspace,
)
