"""The ``kernelfields`` command: train, predict, evaluate, inspect, certify, convert, reproduce."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
