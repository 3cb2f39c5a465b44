"""Evaluation of predictions: scores of labels and entities, likelihood, calibration, with intervals."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
