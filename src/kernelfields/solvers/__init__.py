"""Solvers: one loop, one line search, one Solution; five rules for the direction."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
