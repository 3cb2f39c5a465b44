"""Estimators: parameters, validation and assembly in the scikit-learn manner."""

from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.estimators.checkpoints import Checkpoint
from kernelfields.estimators.density import ExponentialFamilyDensity
from kernelfields.estimators.evidence_settings import EvidenceSearch
from kernelfields.estimators.graph_crf import GraphCRF
from kernelfields.estimators.kernel_classifier import KernelClassifier
from kernelfields.estimators.multilabel_crf import MultiLabelCRF

__all__ = [
    "ChainCRF",
    "Checkpoint",
    "EvidenceSearch",
    "ExponentialFamilyDensity",
    "GraphCRF",
    "KernelClassifier",
    "MultiLabelCRF",
]
