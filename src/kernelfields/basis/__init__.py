"""Finite subspaces of the RKHS: choice of pivots, and features of old and new inputs."""

from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.selection import AllPoints, Basis, Gradient, GreedyCholesky, RandomCholesky, Uniform
from kernelfields.basis.subspace import ConstantSubspace, ExplicitSubspace, PivotSubspace

__all__ = [
    "AllPoints",
    "Basis",
    "ConstantSubspace",
    "ExplicitSubspace",
    "Gradient",
    "GreedyCholesky",
    "PanelCholesky",
    "PivotSubspace",
    "RandomCholesky",
    "Uniform",
]
