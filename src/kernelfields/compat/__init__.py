"""Classes with the names, parameters and answers of other packages, computed by the fields of this package.

``CRF`` stands in for ``sklearn_crfsuite.CRF``, ``estimator``, ``metrics``, ``scorers`` and ``utils`` for the modules of
these names there, and ``pycrfsuite`` for the module of python-crfsuite.
"""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
