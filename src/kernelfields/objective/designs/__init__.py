"""Terms on data: features and their two products, in memory, in files, or recomputed."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
