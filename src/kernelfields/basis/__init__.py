"""Finite subspaces of the RKHS: choice of pivots, and features of old and new inputs."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, registering=())
