"""Transformers of raw sequences: features of text, embeddings, windows, summaries, out-of-fold predictions.

Names are imported on first use, because the reader of served models needs the names of text features with NumPy alone.
"""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
