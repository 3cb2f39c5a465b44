"""Conditional random fields in reproducing kernel Hilbert spaces.

    from kernelfields import ChainCRF

The names below load on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernelfields.numerics.version import VERSION

__version__ = VERSION

_HOMES = {
    "AnnotatedCRF": "kernelfields.annotators",
    "ChainCRF": "kernelfields.estimators",
    "ChainCRFCV": "kernelfields.selection",
    "ConformalField": "kernelfields.uncertainty",
    "ExponentialFamilyDensity": "kernelfields.estimators",
    "FieldSearchCV": "kernelfields.selection",
    "FrameCRF": "kernelfields.estimators",
    "GraphCRF": "kernelfields.estimators",
    "KernelClassifier": "kernelfields.estimators",
    "MultiLabelCRF": "kernelfields.estimators",
    "evaluate": "kernelfields.evaluation",
    "compare": "kernelfields.evaluation",
    "field_of": "kernelfields.models.wrapped_field",
    "find_label_errors": "kernelfields.labelling",
    "rank_for_labelling": "kernelfields.labelling",
    "load": "kernelfields.files",
    "save": "kernelfields.files",
    "NodeCliques": "kernelfields.data",
    "EdgeCliques": "kernelfields.data",
    "SoftTargets": "kernelfields.data",
    "StartCliques": "kernelfields.data",
    "EndCliques": "kernelfields.data",
    "SkipCliques": "kernelfields.data",
    "LabelNgrams": "kernelfields.data",
    "GraphFactors": "kernelfields.data",
    "Constraints": "kernelfields.data",
    "LabelDictionary": "kernelfields.data",
    "OutOfFold": "kernelfields.features",
    "PartialLabels": "kernelfields.models.partial",
    "RingCRF": "kernelfields.estimators",
    "SegmentCRF": "kernelfields.estimators",
    "SequenceClassifier": "kernelfields.estimators",
    "Sequencewise": "kernelfields.features",
    "TextFeatures": "kernelfields.features",
    "WindowFeatures": "kernelfields.features",
}
__all__ = [
    "AnnotatedCRF",
    "ChainCRF",
    "ChainCRFCV",
    "ConformalField",
    "Constraints",
    "EdgeCliques",
    "EndCliques",
    "ExponentialFamilyDensity",
    "FieldSearchCV",
    "FrameCRF",
    "GraphCRF",
    "GraphFactors",
    "KernelClassifier",
    "LabelDictionary",
    "LabelNgrams",
    "MultiLabelCRF",
    "NodeCliques",
    "OutOfFold",
    "PartialLabels",
    "RingCRF",
    "SegmentCRF",
    "SequenceClassifier",
    "Sequencewise",
    "SkipCliques",
    "SoftTargets",
    "StartCliques",
    "TextFeatures",
    "WindowFeatures",
    "compare",
    "evaluate",
    "field_of",
    "find_label_errors",
    "load",
    "rank_for_labelling",
    "save",
]

if TYPE_CHECKING:
    from kernelfields.annotators.annotated_crf import AnnotatedCRF
    from kernelfields.data.cliques import (
        EdgeCliques,
        EndCliques,
        GraphFactors,
        LabelNgrams,
        NodeCliques,
        SkipCliques,
        StartCliques,
    )
    from kernelfields.data.constraints import Constraints
    from kernelfields.data.label_dictionary import LabelDictionary
    from kernelfields.data.partial_labels import SoftTargets
    from kernelfields.estimators.chain_crf import ChainCRF
    from kernelfields.estimators.density import ExponentialFamilyDensity
    from kernelfields.estimators.frame_crf import FrameCRF
    from kernelfields.estimators.graph_crf import GraphCRF
    from kernelfields.estimators.kernel_classifier import KernelClassifier
    from kernelfields.estimators.multilabel_crf import MultiLabelCRF
    from kernelfields.estimators.ring_crf import RingCRF
    from kernelfields.estimators.segment_crf import SegmentCRF
    from kernelfields.estimators.sequence_classifier import SequenceClassifier
    from kernelfields.evaluation.comparison import compare
    from kernelfields.evaluation.evaluation import evaluate
    from kernelfields.features.out_of_fold import OutOfFold
    from kernelfields.features.sequencewise import Sequencewise
    from kernelfields.features.text import TextFeatures
    from kernelfields.features.window_features import WindowFeatures
    from kernelfields.files import load, save
    from kernelfields.labelling.label_errors import find_label_errors
    from kernelfields.labelling.ranking import rank_for_labelling
    from kernelfields.models.partial import PartialLabels
    from kernelfields.models.wrapped_field import field_of
    from kernelfields.selection.field_search_cv import (
        ChainCRFCV,
        FieldSearchCV,
    )
    from kernelfields.uncertainty.conformal_field import ConformalField


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'kernelfields' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
