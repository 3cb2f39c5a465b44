"""Finite subspaces of the RKHS: which pivots to take, and features of old and new inputs."""

from kernelfields.basis.gradient import Gradient
from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.selection import (
    AllPoints,
    Basis,
    GreedyCholesky,
    RandomCholesky,
    Uniform,
    resolve_basis,
)
from kernelfields.basis.subspace import ConstantSubspace, ExplicitSubspace, PivotSubspace, Subspace
from kernelfields.basis.support import Support, observed_support

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
    "Subspace",
    "Support",
    "Uniform",
    "observed_support",
    "resolve_basis",
]
