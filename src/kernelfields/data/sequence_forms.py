"""Sequences in other forms than lists of arrays, and windows of them: each name loads its module on first use."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
