"""Classes with the names, parameters and answers of other packages, computed by the fields of this package.

``CRF`` stands in for ``sklearn_crfsuite.CRF``, ``metrics`` and ``scorers`` for the modules of these names there.
"""

from kernelfields.compat import metrics
from kernelfields.compat.crf import CRF

scorers = metrics

__all__ = ["CRF", "metrics", "scorers"]
