"""Inference on arrays of potentials: log partition, marginals, Hessian products, decoding, sampling.

Names load on first use, so that numba loads with the first family that needs it.
"""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
