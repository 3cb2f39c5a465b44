"""From raw sequences to numbers: neighbours, feature dicts, features of text, embeddings, tables, transformers.

Names load on first use: the reader of served models needs the rules of feature names, and NumPy alone.
"""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
