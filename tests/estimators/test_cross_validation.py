"""scikit-learn's cross-validation of fields whose sequences and graphs differ in length, and in labels."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, cross_val_score

from kernelfields import ChainCRF, GraphCRF
from tests.samples import as_words, labelled_sequences

X, y = labelled_sequences()
WORDS = as_words(y)
GRAPHS = [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in X]
ESTIMATORS = {
    "chains": (ChainCRF("linear"), X),
    "graphs": (GraphCRF("linear"), GRAPHS),
}


@pytest.mark.parametrize(("estimator", "inputs"), ESTIMATORS.values(), ids=ESTIMATORS)
def test_labels_that_were_not_there_to_be_learnt_are_errors(estimator, inputs):
    rare = [*WORDS[:-1], np.array(["zebra", *WORDS[-1][1:]])]
    scores = cross_val_score(estimator, inputs, rare, cv=KFold(5), error_score="raise")
    assert np.isfinite(scores).all()
    # The last fold never saw a zebra.
    last = estimator.fit(inputs[:-2], rare[:-2])
    predicted = np.concatenate(last.predict(inputs[-2:]))
    assert scores[-1] == np.mean(predicted == np.concatenate(rare[-2:])) < 1
    weights = [1.0, 3.0]
    shares = np.repeat(weights, [len(each) for each in rare[-2:]])
    expected = np.average(predicted == np.concatenate(rare[-2:]), weights=shares)
    assert last.score(inputs[-2:], rare[-2:], sample_weight=weights) == pytest.approx(expected)
    with pytest.raises(ValueError, match="unknown label 'zebra'"):
        last.log_likelihood(inputs[-2:], rare[-2:])


def test_numbers_below_between_and_above_the_classes_are_errors():
    crf = ChainCRF("linear").fit(X, [2 * each for each in y])
    for stranger in (-1, 1, 3, 9):
        assert crf.score(X[:1], [np.full(len(X[0]), stranger)]) == 0
