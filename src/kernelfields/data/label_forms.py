"""Labels that are partly known or in lists, and targets in their place: each name loads its module with the first."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
