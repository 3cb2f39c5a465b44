"""Families that plain chains do without: each loads when data or clique sets need it."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
