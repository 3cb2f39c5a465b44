"""Conditional random fields in reproducing kernel Hilbert spaces.

    from kernelfields import ChainCRF

The names below load on first use, so that importing the package costs next to nothing.
"""

from kernelfields.numerics.lazy import lazy_names
from kernelfields.numerics.version import VERSION

__version__ = VERSION
__getattr__, __dir__, __all__ = lazy_names(__name__)
