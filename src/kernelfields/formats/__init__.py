"""Files: models as data, sequences with their labels, templates of features.

Names load on first use: the reader of served models needs the text of model files, and NumPy alone.
"""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
