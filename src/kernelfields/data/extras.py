"""Optional parts of inputs and labels: names, time stamps, scales, dictionaries of labels.

Each name loads its module when data have it.
"""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
