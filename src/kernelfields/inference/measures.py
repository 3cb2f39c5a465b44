"""Base measures, loaded where some labellings are forbidden or have weights."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
