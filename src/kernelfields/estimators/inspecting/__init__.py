"""Inspection of fitted fields: weights, explanations, summaries, pictures of sequences and graphs.

What a structure adds to it is loaded on first use.
"""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
