"""Labels of several annotators: confusion matrices and a field, fitted together."""

from kernelfields.annotators.annotated_crf import AnnotatedCRF
from kernelfields.annotators.reliability import AnnotatorReliability, AnnotatorTable

__all__ = ["AnnotatedCRF", "AnnotatorReliability", "AnnotatorTable"]
