"""Names of the package that structures load when they read data, make clique sets or read files.

Each name loads its module when it is first used, so that to describe an estimator loads nothing of a fit.
"""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
