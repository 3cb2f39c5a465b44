"""Estimators: parameters, validation and assembly in the scikit-learn manner."""

from kernelfields.estimators.chain_crf import ChainCRF

__all__ = ["ChainCRF"]
