"""Estimators: parameters, validation and assembly in the scikit-learn manner.

Names load on first use. Classes that model files name are registered by the modules listed at the end.
"""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
    from kernelfields.estimators.chain_crf import ChainCRF
    from kernelfields.estimators.density import ExponentialFamilyDensity
    from kernelfields.estimators.frame_crf import FrameCRF
    from kernelfields.estimators.graph_crf import GraphCRF
    from kernelfields.estimators.kernel_classifier import KernelClassifier
    from kernelfields.estimators.multilabel_crf import MultiLabelCRF
    from kernelfields.estimators.ring_crf import RingCRF
    from kernelfields.estimators.segment_crf import SegmentCRF
    from kernelfields.estimators.sequence_classifier import SequenceClassifier
    from kernelfields.models.callbacks import Checkpoint
    from kernelfields.models.expectations import LabelShares
    from kernelfields.models.structure import StructureSearch
    from kernelfields.posterior.evidence.settings import EvidenceSearch

__all__ = [
    "ChainCRF",
    "Checkpoint",
    "EvidenceSearch",
    "ExponentialFamilyDensity",
    "FrameCRF",
    "GraphCRF",
    "KernelClassifier",
    "LabelShares",
    "MultiLabelCRF",
    "RingCRF",
    "SegmentCRF",
    "SequenceClassifier",
    "StructureSearch",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "chain_crf": ["ChainCRF"],
        "density": ["ExponentialFamilyDensity"],
        "frame_crf": ["FrameCRF"],
        "graph_crf": ["GraphCRF"],
        "kernel_classifier": ["KernelClassifier"],
        "multilabel_crf": ["MultiLabelCRF"],
        "ring_crf": ["RingCRF"],
        "segment_crf": ["SegmentCRF"],
        "sequence_classifier": ["SequenceClassifier"],
        "kernelfields.models.callbacks": ["Checkpoint"],
        "kernelfields.models.expectations": ["LabelShares"],
        "kernelfields.models.structure": ["StructureSearch"],
        "kernelfields.posterior.evidence.settings": ["EvidenceSearch"],
        "kernelfields.engines.dask.engine": [],
        "kernelfields.engines.torch.engine": [],
        "kernelfields.models.partial": [],
    },
    registers=True,
)
