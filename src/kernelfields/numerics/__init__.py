"""Arithmetic below the mathematics: threads, vectors, triangular systems, Lanczos vectors, checked numbers."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
