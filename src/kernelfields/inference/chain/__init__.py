"""Exact inference on chains with factors of neighbouring labels."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
