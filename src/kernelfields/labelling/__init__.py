"""Suspicious labels, items to label next, the agreement of annotators."""

from kernelfields.labelling.agreement import agreement
from kernelfields.labelling.label_errors import find_label_errors
from kernelfields.labelling.ranking import rank_for_labelling

__all__ = ["agreement", "find_label_errors", "rank_for_labelling"]
