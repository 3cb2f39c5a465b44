"""Scorers of labels for scikit-learn's searches, under the names of ``sklearn_crfsuite.scorers``."""

from kernelfields.compat.metrics import flat_accuracy, sequence_accuracy

__all__ = ["flat_accuracy", "sequence_accuracy"]
