"""Estimators: parameters, validation and assembly in the scikit-learn manner."""

from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.estimators.checkpoints import Checkpoint
from kernelfields.estimators.graph_crf import GraphCRF

__all__ = ["ChainCRF", "Checkpoint", "GraphCRF"]
