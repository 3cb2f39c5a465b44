"""Names of the package that estimators load when they are fitted, asked or stored.

Each name loads its module when it is first used, so that to describe an estimator loads nothing of a fit, and a fit
nothing of answers and files.
"""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
