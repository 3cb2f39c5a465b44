"""Choice of kernel, rank and prior variance by cross-validation, for every estimator of labels."""

from kernelfields.selection.field_search_cv import (
    ChainCRFCV,
    FieldSearchCV,
    GraphCRFCV,
    KernelClassifierCV,
    MultiLabelCRFCV,
    SegmentCRFCV,
)
from kernelfields.selection.results import SearchTable

__all__ = [
    "ChainCRFCV",
    "FieldSearchCV",
    "GraphCRFCV",
    "KernelClassifierCV",
    "MultiLabelCRFCV",
    "SearchTable",
    "SegmentCRFCV",
]
