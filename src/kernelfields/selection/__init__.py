"""Choice of kernel, rank, prior variance and structure of estimators, evaluated on held-out data."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
