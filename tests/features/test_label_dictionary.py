"""Dictionaries of labels on columns of numbers: one word for one number, however it is written."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields import ChainCRF, LabelDictionary
from kernelfields.serving import load_chain

LABELS = [["a", "b"], ["c", "a"], ["b", "c"]]


def fitted(values, y, dtype=np.float64, sparse=False, **parameters):
    X = [np.array([[value, 1.0] for value in sequence], dtype=dtype) for sequence in values]
    X = [sp.csr_array(x) for x in X] if sparse else X
    rule = LabelDictionary(0, min_count=1, **parameters)
    return ChainCRF("linear", allowed=rule, prior_variance=1.0, scale=False, max_iter=2, tol=10.0).fit(X, y), X


def allowed(crf, value):
    return crf.classes_[crf.allowed_.labels_of(value)].tolist()


@pytest.mark.parametrize("sparse", [False, True])
def test_large_numbers_that_differ_are_different_words(sparse):
    crf, X = fitted([[1234567, 1234568], [1234569, 1234567]], [["a", "b"], ["c", "a"]], sparse=sparse)
    assert [allowed(crf, number) for number in (1234567, 1234568, 1234569)] == [["a"], ["b"], ["c"]]
    assert [labels.tolist() if hasattr(labels, "tolist") else labels for labels in crf.predict(X)] == [
        ["a", "b"],
        ["c", "a"],
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("key", [0.0, 0, -0.0, "0", "0.0", np.float32(0)])
def test_entries_are_found_however_their_number_is_written(key, dtype):
    crf, _ = fitted([[0, 1], [0.1, 0], [1, 0.1]], [["a", "b"], ["c", "a"], ["b", "c"]], dtype, entries={key: ["b"]})
    assert allowed(crf, 0.0) == allowed(crf, "-0") == ["a", "b"]
    assert allowed(crf, 0.1) == ["c"]
    assert allowed(crf, 7) == ["a", "b", "c"]


def test_entries_of_a_column_are_numbers():
    with pytest.raises(ValueError, match="column 0 has entries of numbers, got 'zero'"):
        fitted([[0, 1], [1, 0]], LABELS[:2], entries={"zero": ["a"]})


def test_models_that_are_served_have_the_same_words(tmp_path):
    crf, X = fitted([[1234567, 1234568], [0.1, 1234567]], [["a", "b"], ["c", "a"]])
    crf.save(tmp_path / "model")
    assert [list(labels) for labels in load_chain(tmp_path / "model").predict(X)] == [["a", "b"], ["c", "a"]]
