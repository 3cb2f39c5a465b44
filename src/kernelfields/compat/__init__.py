"""Faces of other packages: their names, parameters and answers, with the fields of this one behind them.

``CRF`` stands in for ``sklearn_crfsuite.CRF``, ``metrics`` and ``scorers`` for the modules of these names there.
"""

from kernelfields.compat import metrics
from kernelfields.compat.crf import CRF

scorers = metrics

__all__ = ["CRF", "metrics", "scorers"]
