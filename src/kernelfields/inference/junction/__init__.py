"""Exact inference on graphs of small treewidth by junction trees."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
