"""The scores of sklearn_crfsuite.metrics: those of scikit-learn over positions, and a share of sequences."""

import numpy as np
import pytest
from sklearn import metrics as flat

from kernelfields.compat import metrics

TRUE = [["a", "b", "b"], ["c"], ["a", "a"], []]
PREDICTED = [["a", "b", "c"], ["c"], ["b", "a"], []]
T, P = list("abbcaa"), list("abccba")


@pytest.mark.parametrize("form", [list, lambda y: np.array([np.array(each) for each in y] + [0], dtype=object)[:-1]])
def test_flat_scores_are_those_of_all_positions(form):
    true, predicted = form(TRUE), form(PREDICTED)
    assert metrics.flat_accuracy_score(true, predicted) == 4 / 6
    for average in ("macro", "weighted"):
        options = {"average": average, "labels": ["a", "b"]}
        for name in ("f1_score", "precision_score", "recall_score"):
            ours, theirs = getattr(metrics, f"flat_{name}"), getattr(flat, name)
            assert ours(true, predicted, **options) == theirs(T, P, **options)
        assert metrics.flat_fbeta_score(true, predicted, 0.5, **options) == flat.fbeta_score(T, P, beta=0.5, **options)
    ours = metrics.flat_classification_report(true, predicted, labels=["a", "c"], digits=3)
    assert ours == flat.classification_report(T, P, labels=["a", "c"], digits=3)


def test_sequence_accuracy_is_a_share_of_sequences():
    assert metrics.sequence_accuracy_score(TRUE, PREDICTED) == 0.5
    assert metrics.sequence_accuracy_score(TRUE, TRUE) == 1.0
    # Of equal length, so that arrays of them have two dimensions: sklearn-crfsuite says 1.5.
    assert metrics.sequence_accuracy_score([["a", "b"], ["a", "b"]], [["a", "b"], ["a", "c"]]) == 0.5
    assert metrics.sequence_accuracy_score([], []) == metrics.sequence_accuracy_score([], [["a"]]) == 0.0
    # Sequences of different lengths are not equal, which is all that is asked.
    assert metrics.sequence_accuracy_score([["a", "b"]], [["a"]]) == 0.0
    assert metrics.sequence_accuracy_score([["a", "b"], ["c"]], [["a"], ["c"]]) == 0.5
    assert metrics.sequence_accuracy_score([np.array(["a", "b"])], np.array([["a", "b"]])) == 1.0


def test_sequences_that_do_not_match():
    with pytest.raises(ValueError, match="y_true has 2 sequences but y_pred has 1"):
        metrics.flat_f1_score([["a"], ["b"]], [["a"]])
    with pytest.raises(ValueError, match="y_true has 2 sequences but y_pred has 1"):
        metrics.sequence_accuracy_score([["a"], ["b"]], [["a"]])
    with pytest.raises(ValueError, match="sequence 1 has 1 labels in y_true but 2 in y_pred"):
        metrics.flat_accuracy_score([["a"], ["b"], ["a", "a"]], [["a"], ["a", "b"], ["a"]])
