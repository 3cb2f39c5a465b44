"""Fitted fields: terms, their fit, their answers, and model files."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
