"""What sklearn-crfsuite gets wrong, or would ignore, is refused with words that help."""

import numpy as np
import pytest
import scipy.sparse
from tagged_sentences import tagged_data

from kernelfields.compat import CRF

X, y = tagged_data(8)
LABELS = [["a", "b"], ["b", "a"]]
ARRAYS = "ChainCRF('linear')"


def replaced(items, index, item):
    return [*items[:index], item, *items[index + 1 :]]


def assert_says(error, words):
    for word in words:
        assert word in str(error.value), str(error.value)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (np.zeros((2, 2, 3)), ["X must be a list of sequences of feature dicts", "shape (2, 2, 3)", ARRAYS]),
        (np.zeros((2, 3)), ["shape (2, 3)", ARRAYS]),
        ([np.zeros((2, 3))] * 2, ["sequence 0 is a ndarray of shape (2, 3)", ARRAYS]),
        ([scipy.sparse.csr_array(np.eye(2))] * 2, ["sequence 0 is a csr_array of shape (2, 2)", ARRAYS]),
        ([[scipy.sparse.csr_array(np.eye(1, 3))] * 2] * 2, ["position 0 of sequence 0", "csr_array", ARRAYS]),
        (scipy.sparse.csr_array(np.eye(2)), ["csr_array of shape (2, 2)", ARRAYS]),
        ([[[0.5, 1.5], [2.5, 3.5]]] * 2, ["position 0 of sequence 0 is [0.5, 1.5] (list)", ARRAYS]),
        ([[0.5, 1.5]] * 2, ["position 0 of sequence 0 is 0.5 (float)", ARRAYS]),
        ([[[1.0, 2.0], [3.0]], [[1.0]]], ["position 0 of sequence 0 is [1.0, 2.0]"]),
        ([["the", "cat"]] * 2, ["position 0 of sequence 0 is 'the' (str)"]),
        (["the", "cat"], ["sequence 0 is 'the' (str)"]),
        ([{"a": 1.0}, {"b": 1.0}], ["sequence 0 is {'a': 1.0} (dict)"]),
        ({"a": 1.0}, ["X must be a list", "(dict)"]),
        ("text", ["X must be a list", "'text' (str)"]),
        (3, ["X must be a list", "3 (int)"]),
        ([[{"a": 1.0}, {"b": None}]] * 2, ["sequence 0, position 1: feature 'b' is None"]),
        ([[{"a": 1.0}, 2.0], [{"a": 1.0}, {}]], ["sequence 0, position 1", "2.0 (float)"]),
        ([[{"a": 1.0}, {3: 1.0}]] * 2, ["sequence 0, position 1: feature name 3 is int"]),
    ],
)
def test_inputs_of_another_kind(inputs, words):
    with pytest.raises(TypeError) as error:
        CRF().fit(inputs, LABELS)
    assert_says(error, words)
    fitted = CRF(max_iterations=1).fit(X, y)
    with pytest.raises(TypeError) as error:
        fitted.predict(inputs)
    assert_says(error, words)


@pytest.mark.parametrize(
    ("inputs", "labels", "words"),
    [
        ([[{"a": 1.0}, {"b": np.nan}]] * 2, LABELS, ["sequence 0, position 1: feature 'b' is nan", "finite"]),
        ([[{"a": 1.0}, {"b": -np.inf}]] * 2, LABELS, ["feature 'b' is -inf"]),
        (X, y[:-1], ["X has 8 sequences but y has 7"]),
        (X, replaced(y, 3, y[3][:-1]), ["sequence 3 has", "each position needs one label"]),
        (replaced(X, 3, []), y, ["sequence 3 has 0 positions in X but"]),
        (X, replaced(y, 3, replaced(y[3], 1, 7)), ["sequence 3 of y mixes strings", "position 1 is 7"]),
        (X, replaced(y, 3, [1] * len(y[3])), ["labels mix strings and numbers", "sequence 3 has numbers"]),
        (X, replaced(y, 3, replaced(y[3], 1, set())), ["the set of allowed labels at sequence 3, position 1 is empty"]),
        (X, replaced(y, 3, replaced(y[3], 1, ["O"])), ["sequence 3 of y", "['O']"]),
        (X, [[0.5] * len(labels) for labels in y], ["label 0.5 at sequence 0, position 0"]),
        (X, [[None] * len(labels) for labels in y], ["no position of y is labelled"]),
        (X, ["O" * len(labels) for labels in y], ["sequence 0 of y is 'OOO", "a list of labels"]),
        (X, [0] * len(X), ["sequence 0 of y is 0 (int)"]),
        (X, [np.eye(len(labels)) for labels in y], ["sequence 0 of y is a ndarray of shape"]),
        ([], [], ["X holds no position"]),
        ([[], []], [[], []], ["X holds no position"]),
        ([[[], []]], [["a", "b"]], ["X holds no features"]),
        ([[{}, {}]], [["a", "b"]], ["X holds no features"]),
    ],
)
def test_data_that_cannot_be_fitted(inputs, labels, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011  the words are compared below
        CRF().fit(inputs, labels)
    assert_says(error, words)


def test_holdout_data_need_labels():
    for arguments in ({"X_dev": X}, {"y_dev": y}):
        with pytest.raises(ValueError, match="pass both X_dev and y_dev, or none of them"):
            CRF().fit(X, y, **arguments)
    with pytest.raises(ValueError, match="X_dev has 1 sequences but y_dev has"):
        CRF().fit(X, y, X[:1], y)


def test_labels_that_are_no_lists():
    for labels in (None, 3, "text", {"a": 1}):
        with pytest.raises(TypeError, match="y must be a list with one list of labels per sequence"):
            CRF().fit(X, labels)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"algorithm": "ap"}, ["algorithm='ap'", "Use algorithm='lbfgs'"]),
        ({"algorithm": "pa"}, ["algorithm='pa'"]),
        ({"algorithm": "AROW"}, ["algorithm='AROW'"]),
        ({"linesearch": "Backtracking"}, ["linesearch='Backtracking' has no counterpart", "Leave it out"]),
        ({"max_linesearch": 20}, ["max_linesearch=20"]),
        ({"calibration_eta": 0.1}, ["calibration_eta=0.1", "learning rate"]),
        ({"calibration_rate": 2.0}, ["calibration_rate=2.0"]),
        ({"calibration_samples": 1000}, ["calibration_samples"]),
        ({"calibration_candidates": 10}, ["calibration_candidates"]),
        ({"calibration_max_trials": 20}, ["calibration_max_trials"]),
        ({"pa_type": 1}, ["pa_type=1", "passive-aggressive"]),
        ({"c": 1.0}, ["c=1.0", "c1 and c2"]),
        ({"error_sensitive": False}, ["error_sensitive=False"]),
        ({"averaging": True}, ["averaging=True"]),
        ({"variance": 1.0}, ["variance=1.0", "AROW"]),
        ({"gamma": 1.0}, ["gamma=1.0"]),
        ({"trainer_cls": object}, ["trainer_cls", "verbose=True"]),
    ],
)
def test_what_has_no_counterpart(parameters, words):
    with pytest.raises(NotImplementedError) as error:
        CRF(**parameters).fit(X, y)
    assert_says(error, words)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"algorithm": "newton"}, ["algorithm must be 'lbfgs' or 'l2sgd', got 'newton'"]),
        ({"algorithm": 3}, ["algorithm must be", "3"]),
        ({"algorithm": "l2sgd", "c1": 0.1}, ["c1=0.1 is no parameter of algorithm='l2sgd'", "'lbfgs'"]),
        ({"algorithm": "l2sgd", "num_memories": 3}, ["num_memories=3 is no parameter"]),
        ({"c1": -0.1}, ["c1 must be a finite number that is not negative", "-0.1"]),
        ({"c2": np.nan}, ["c2 must be a finite number", "nan"]),
        ({"c2": "1"}, ["c2 must be a finite number", "'1'"]),
        ({"c2": True}, ["c2 must be a finite number", "True"]),
        ({"min_freq": -1}, ["min_freq"]),
        ({"epsilon": -1e-5}, ["epsilon"]),
        ({"delta": np.inf}, ["delta"]),
        ({"max_iterations": -1}, ["max_iterations must be a whole number of at least 0", "-1"]),
        ({"max_iterations": 10.5}, ["max_iterations", "10.5"]),
        ({"num_memories": 0}, ["num_memories must be a whole number of at least 1"]),
        ({"period": 1.5}, ["period"]),
        ({"all_possible_states": 2}, ["all_possible_states must be True, False or None", "2"]),
        ({"all_possible_transitions": "yes"}, ["all_possible_transitions", "'yes'"]),
        ({"n_jobs": 0}, ["n_jobs"]),
        ({"random_state": "seed"}, ["random_state"]),
    ],
)
def test_parameters_that_cannot_be_used(parameters, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011  the words are compared below
        CRF(**parameters).fit(X, y)
    assert_says(error, words)
