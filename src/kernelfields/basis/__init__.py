"""Finite subspaces of the RKHS: which pivots to take, and features of old and new inputs."""

from kernelfields.basis.selection import AllPoints, Basis, Gradient, GreedyCholesky, RandomCholesky, Uniform

__all__ = ["AllPoints", "Basis", "Gradient", "GreedyCholesky", "RandomCholesky", "Uniform"]
