"""Choice of kernel, rank and prior variance by cross-validation over training sequences."""

from kernelfields.selection.chain_crf_cv import ChainCRFCV
from kernelfields.selection.results import SearchTable

__all__ = ["ChainCRFCV", "SearchTable"]
