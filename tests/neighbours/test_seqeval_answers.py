"""What ``predict`` returns is what seqeval, sklearn-crfsuite's metrics and json take."""

import json

import numpy as np
import pytest
from sklearn.model_selection import KFold, cross_val_predict

from kernelfields import ChainCRF, ChainCRFCV
from kernelfields.compat import CRF, metrics
from kernelfields.evaluation import entity_f1_score
from tests.compat.tagged_sentences import tagged_data

X, y = tagged_data(20)
X_TEST, Y_TEST = tagged_data(8, seed=1)


@pytest.fixture(scope="module")
def crf():
    return ChainCRF("linear", prior_variance=10.0).fit(X, y)


@pytest.mark.parametrize("decode", ["viterbi", "posterior"])
def test_labels_are_lists_of_strings(crf, decode):
    predicted = crf.predict(X_TEST, decode=decode)
    # seqeval compares types: a list of exactly lists.
    assert set(map(type, predicted)) == {list}
    assert {type(label) for labels in predicted for label in labels} == {str}
    assert json.loads(json.dumps(predicted)) == predicted
    assert metrics.flat_accuracy_score(Y_TEST, predicted) > 0.8


def test_numbers_are_arrays():
    inputs = [np.eye(2)[[0, 1, 1]], np.eye(2)[[1]]]
    for labels in ([[0, 1, 1], [1]], [[False, True, True], [True]]):
        predicted = ChainCRF("linear").fit(inputs, labels).predict(inputs)
        assert all(isinstance(each, np.ndarray) for each in predicted)
        assert [each.tolist() for each in predicted] == labels


def test_labels_of_folds_are_lists_as_well(crf):
    for sequences, labels in ((X, y), ([x[:2] for x in X], [each[:2] for each in y])):
        predicted = cross_val_predict(crf, sequences, labels, cv=KFold(3))
        assert set(map(type, predicted)) == {list}
        assert [len(each) for each in predicted] == [len(each) for each in labels]


def test_seqeval_takes_them(crf):
    seqeval = pytest.importorskip("seqeval.metrics")
    scheme = pytest.importorskip("seqeval.scheme")
    search = ChainCRFCV(ChainCRF("linear"), prior_variances=[1.0, 10.0], cv=2, random_state=0).fit(X, y)
    for model in (crf, search, CRF().fit(X, y)):
        predicted = model.predict(X_TEST)
        f1 = seqeval.f1_score(Y_TEST, predicted)
        assert f1 == pytest.approx(entity_f1_score(Y_TEST, predicted))
        assert seqeval.f1_score(Y_TEST, predicted, mode="strict", scheme=scheme.IOB2) > 0.5
        assert "weighted avg" in seqeval.classification_report(Y_TEST, predicted)
        assert seqeval.accuracy_score(Y_TEST, predicted) == pytest.approx(model.score(X_TEST, Y_TEST))
