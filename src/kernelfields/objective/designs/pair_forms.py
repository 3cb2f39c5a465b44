"""Chosen pairs of features and labellings, and their tables: each name loads its module when it is used."""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
