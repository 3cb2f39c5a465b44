"""Estimators: parameters, validation and assembly in the scikit-learn manner."""

from kernelfields.estimators.chain_crf import ChainCRF, RingCRF
from kernelfields.estimators.density import ExponentialFamilyDensity
from kernelfields.estimators.field_clustering import FieldClustering
from kernelfields.estimators.frame_crf import FrameCRF
from kernelfields.estimators.graph_crf import GraphCRF
from kernelfields.estimators.kernel_classifier import KernelClassifier
from kernelfields.estimators.multilabel_crf import MultiLabelCRF
from kernelfields.estimators.pruning import PrunedBy
from kernelfields.estimators.segment_crf import SegmentCRF
from kernelfields.estimators.sequence_classifier import SequenceClassifier
from kernelfields.models.callbacks import Checkpoint, EarlyStopping
from kernelfields.posterior.evidence.settings import EvidenceSearch

__all__ = [
    "ChainCRF",
    "Checkpoint",
    "EarlyStopping",
    "EvidenceSearch",
    "ExponentialFamilyDensity",
    "FieldClustering",
    "FrameCRF",
    "GraphCRF",
    "KernelClassifier",
    "MultiLabelCRF",
    "PrunedBy",
    "RingCRF",
    "SegmentCRF",
    "SequenceClassifier",
]
