"""Scores of labels equal scikit-learn's on the concatenated sequences."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, make_scorer, precision_recall_fscore_support
from sklearn.model_selection import GridSearchCV

from kernelfields import ChainCRF
from kernelfields.evaluation import entity_f1_score, evaluate, label_f1_score, sequence_accuracy, token_accuracy

PAIRS = st.lists(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abce")), min_size=1, max_size=5),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(PAIRS)
def test_scores_are_those_of_scikit_learn(pairs):
    y_true, y_pred = ([[pair[side] for pair in sequence] for sequence in pairs] for side in (0, 1))
    flat_true, flat_pred = list(chain(*y_true)), list(chain(*y_pred))
    found = evaluate(y_true, y_pred, n_resamples=0)
    labels = sorted({*flat_true, *flat_pred})
    assert list(found.per_label) == labels
    table = precision_recall_fscore_support(flat_true, flat_pred, labels=labels, zero_division=0)
    for row, scores in zip(np.transpose(table), found.per_label.values(), strict=True):
        values = [scores.precision.value, scores.recall.value, scores.f1.value, scores.support]
        np.testing.assert_allclose(values, row, rtol=1e-14)
    for average, scores in found.averages.items():
        expected = precision_recall_fscore_support(flat_true, flat_pred, average=average, zero_division=0)[:3]
        values = [scores.precision.value, scores.recall.value, scores.f1.value]
        np.testing.assert_allclose(values, expected, rtol=1e-13)
        assert label_f1_score(y_true, y_pred, average=average) == scores.f1.value
    assert found.accuracy.value == accuracy_score(flat_true, flat_pred) == token_accuracy(y_true, y_pred)
    exact = np.mean([a == b for a, b in zip(y_true, y_pred, strict=True)])
    assert found.sequence_accuracy.value == pytest.approx(exact, abs=1e-15)
    assert sequence_accuracy(y_true, y_pred) == pytest.approx(exact, abs=1e-15)


def test_averages_over_some_labels():
    y_true, y_pred = [["O", "B", "I"], ["O", "O"]], [["O", "B", "B"], ["I", "O"]]
    flat_true, flat_pred = list(chain(*y_true)), list(chain(*y_pred))
    for average in ("micro", "macro", "weighted"):
        expected = f1_score(flat_true, flat_pred, labels=["B", "I"], average=average)
        assert label_f1_score(y_true, y_pred, labels=["B", "I"], average=average) == pytest.approx(expected)
        found = evaluate(y_true, y_pred, labels=np.array(["B", "I", "absent"]), n_resamples=0)
        assert found.averages[average].f1.value == pytest.approx(expected)
        assert found.averages[average].support == 2
        assert list(found.per_label) == ["B", "I", "O"]


def test_labels_to_average_over_are_a_list():
    with pytest.raises(TypeError, match="labels must be a list of the labels to average over, got 'O'"):
        evaluate([["O"]], [["O"]], labels="O")


def test_label_that_only_one_side_knows_is_an_error_not_an_exception():
    found = evaluate([["a", "new"]], [["a", "never"]], n_resamples=10)
    assert found.accuracy.value == 0.5
    assert found.per_label["new"].recall.value == 0.0
    assert (found.per_label["new"].support, found.per_label["new"].predicted) == (1, 0)
    assert (found.per_label["never"].support, found.per_label["never"].predicted) == (0, 1)


@pytest.mark.parametrize("metric", [token_accuracy, sequence_accuracy, label_f1_score, entity_f1_score])
def test_metrics_serve_as_scorers(metric):
    random = np.random.default_rng(0)
    y = [np.array(["O", "B", "I", "O"])[: random.integers(2, 5)] for _ in range(12)]
    X = [
        np.array([[len(label), ord(label)] for label in labels]) + random.normal(size=(len(labels), 2)) for labels in y
    ]
    search = GridSearchCV(
        ChainCRF("linear"), {"prior_variance": [0.1, 1.0]}, scoring=make_scorer(metric), cv=2, error_score="raise"
    ).fit(X, y)
    assert search.best_score_ == pytest.approx(
        np.mean([search.cv_results_[f"split{fold}_test_score"][search.best_index_] for fold in (0, 1)])
    )
    assert search.score(X, y) == metric(y, search.predict(X))
