"""Scorers for scikit-learn's model selection, named as in ``sklearn_crfsuite.scorers``."""

from sklearn.metrics import make_scorer

from kernelfields.compat import metrics

flat_accuracy = make_scorer(metrics.flat_accuracy_score)
sequence_accuracy = make_scorer(metrics.sequence_accuracy_score)
