"""What X and y may be: tables, feature dicts, graphs, labels; the cliques of labels that meet, and constraints.

Names load on first use: the reader of served models needs the rules of feature names, and NumPy alone.
"""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
