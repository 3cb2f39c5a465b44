"""Choice of kernel, rank and prior variance by cross-validation, for every estimator of labels."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
