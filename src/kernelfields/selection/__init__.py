"""Choice of kernel, rank and prior variance by cross-validation, for every estimator of labels."""

from kernelfields.selection.chain_crf_cv import ChainCRFCV
from kernelfields.selection.graph_crf_cv import GraphCRFCV
from kernelfields.selection.kernel_classifier_cv import KernelClassifierCV
from kernelfields.selection.multilabel_crf_cv import MultiLabelCRFCV
from kernelfields.selection.results import SearchTable

__all__ = ["ChainCRFCV", "GraphCRFCV", "KernelClassifierCV", "MultiLabelCRFCV", "SearchTable"]
