"""Chains with factors of label n-grams: automata, their compiled passes, beliefs and answers."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
