"""CRF in the module that ``sklearn_crfsuite.estimator`` is."""

from kernelfields.compat.crf import CRF

__all__ = ["CRF"]
