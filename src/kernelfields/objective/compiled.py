"""Compiled loops of the objective, loaded when the first of them is called."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
