"""Constraints of ChainCRF: their forms, the fit that knows them, and what cannot be met."""

import numpy as np
import pytest

from kernelfields import ChainCRF, Constraints
from tests.samples import labelled_sequences

# B-I-O tags: I may follow B or I only, and may not begin a sequence.
RULES = {"transitions": [("O", "I")], "start": ["I"], "end": ["B"]}


def tagged(n_sequences=12, seed=0):
    X, y = labelled_sequences(n_sequences, longest=6, seed=seed)
    tags = []
    for labels in y:
        named = np.array(["B", "I", "O"])[labels]
        for t, tag in enumerate(named):
            if tag == "I" and (t == 0 or named[t - 1] == "O"):
                named[t] = "B"
        if named[-1] == "B":
            named[-1] = "O"
        tags.append(named)
    return X, tags


X, y = tagged()


def test_the_fit_knows_the_constraints():
    """The likelihood is that of the constrained field: dropping them afterwards would be another model."""
    settings = {"kernel": "linear", "tol": 1e-10, "max_iter": 500}
    constrained = ChainCRF(constraints=RULES, **settings).fit(X, y)
    free = ChainCRF(**settings).fit(X, y)
    assert constrained.solution_.value < free.solution_.value
    assert constrained.certify(X, y).relative_gap < 1e-8


@pytest.mark.parametrize(
    "constraints",
    [
        [("O", "I")],
        {("O", "I")},
        np.array([["O", "I"]]),
        {"transitions": [("O", "I")]},
        Constraints(transitions=[("O", "I")]),
    ],
)
def test_forms_of_the_same_constraints(constraints):
    crf = ChainCRF("linear", constraints=constraints).fit(X, y)
    expected = np.zeros((3, 3))
    expected[2, 1] = -np.inf
    np.testing.assert_array_equal(crf.field_.spec.masks.edge, expected)


def test_labels_forbidden_everywhere():
    only = [np.where(tags == "I", "B", tags) for tags in y]
    only[0][0] = "I"
    with pytest.raises(ValueError, match="sequence 0, position 0: label 'I' is forbidden everywhere"):
        ChainCRF(constraints={"labels": ["I"]}).fit(X, only)


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        ([("B", "I")], "is forbidden after 'B' by the constraints. Correct the label or drop the constraint."),
        ({"start": ["O"]}, "label 'O' is forbidden at the first position"),
        ({"end": ["O"]}, "label 'O' is forbidden at the last position"),
        ([("B", "X")], "unknown label 'X' in 'transitions': known are 'B', 'I', 'O'"),
        ({"start": ["X"]}, "unknown label 'X' in 'start'"),
        ({"begin": ["B"]}, "unknown key 'begin': known are transitions, start, end, labels"),
        ({"start": ["B", "I", "O"]}, "leave no label to start a sequence with"),
        ([("B",)], "pairs"),
    ],
)
def test_constraints_that_cannot_be_met(constraints, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011  the words are compared below, as they are
        ChainCRF(constraints=constraints).fit(X, y)
    assert words in str(error.value)
    if "forbidden" in words:
        assert str(error.value).startswith("sequence ")


def test_certify_refuses_labels_that_break_the_constraints():
    crf = ChainCRF("linear", constraints=RULES).fit(X, y)
    with pytest.raises(ValueError, match="sequence 0, position 0: label 'I' is forbidden at the first"):
        crf.certify(X[:1], [["I"] * len(X[0])])


def test_prediction_names_the_sequence_that_the_constraints_leave_no_labelling():
    inputs, labels = [np.eye(2)] * 6, [["a", "b"]] * 6
    crf = ChainCRF(constraints={"start": ["b"], "end": ["a"]}).fit(inputs, labels)
    assert len(crf.predict(inputs)) == 6
    with pytest.raises(ValueError, match="sequence 5: the constraints leave no labelling of its length, 1"):
        crf.predict([*inputs[:5], np.eye(2)[:1]])
