"""Approximate inference on graphs with cycles: messages, mean field, Gibbs sampling."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
