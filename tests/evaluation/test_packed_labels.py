"""Lists of labels become codes, and what cannot be compared is refused with its place."""

import numpy as np
import pytest

from kernelfields.evaluation import token_accuracy
from kernelfields.evaluation.packed_labels import pack_labels


@pytest.mark.parametrize(
    ("y_true", "y_pred"),
    [
        ([["b", "a"], ["c"]], [("b", "b"), np.array(["c"])]),
        ([[1, 0], [2]], [np.array([1, 1]), np.array([2], dtype=object)]),
        ([[1, 0], [2]], [[1.0, 1.0], [np.float32(2)]]),
        ([[True, False], [True]], [np.array([True, True]), [np.bool_(True)]]),
        ([[np.str_("b"), "a"], ["c"]], [["b", "b"], np.array(["c"], dtype=object)]),
    ],
)
def test_forms_of_labels(y_true, y_pred):
    assert token_accuracy(y_true, y_pred) == pytest.approx(2 / 3)


def test_codes_stand_for_the_sorted_labels_of_all_lists():
    packed = pack_labels(y_true=[["b", "a"], ["c"]], y_pred=[["d", "a"], ["a"]])
    assert packed.labels == ["a", "b", "c", "d"]
    assert {name: codes.tolist() for name, codes in packed.codes.items()} == {
        "y_true": [1, 0, 2],
        "y_pred": [3, 0, 0],
    }
    assert packed.offsets.tolist() == [0, 2, 3]
    assert packed.sequence.tolist() == [0, 0, 1]


def test_a_square_array_is_a_list_of_rows():
    assert token_accuracy(np.array([[0, 1], [1, 1]]), np.array([[0, 1], [1, 0]])) == 0.75


@pytest.mark.parametrize(
    ("y_true", "y_pred", "error", "words"),
    [
        ([["a"], ["b"]], [["a"]], ValueError, "y_true has 2 sequences but y_pred has 1"),
        ([["a"], ["b", "a"]], [["a"], ["b"]], ValueError, "sequence 1 has 2 labels in y_true but 1 in y_pred"),
        ([], [], ValueError, "y_true is empty"),
        ([["a"], []], [["a"], []], ValueError, "sequence 1 of y_true is empty"),
        ("ab", "ab", TypeError, "y_true must be a list with one list of labels per sequence, got str"),
        (None, [["a"]], TypeError, "y_true must be a list .* got NoneType"),
        ([["a"]], np.array("a"), TypeError, "y_pred must be a list"),
        (["a", "b"], ["a", "b"], ValueError, r"sequence 0 of y_true is 'a' \(str\): .* write \[y_true\]"),
        ([1, 0], [1, 0], ValueError, r"sequence 0 of y_true is 1 \(int\)"),
        ([{"a"}], [{"a"}], ValueError, r"\(set\)"),
        ([np.eye(2)], [[0, 1]], ValueError, r"sequence 0 of y_true has shape \(2, 2\)"),
        ([["a", None]], [["a", "b"]], ValueError, "sequence 0, position 1 of y_true is None: labels have to be"),
        ([["a"], [["b"]]], [["a"], ["b"]], ValueError, r"sequence 1, position 0 of y_true is \['b'\]"),
        ([[0, 1]], [[0, np.nan]], ValueError, "sequence 0, position 1 of y_pred is nan"),
        (
            [[0, 1]],
            [[0, 0.5]],
            ValueError,
            "position 1 of y_pred is 0.5: labels have to be strings, whole numbers",
        ),
        ([["a", 1]], [["a", "b"]], ValueError, "position 1 of y_true is 1: labels have to be strings like"),
        ([["1", "2"]], [[1, 2]], ValueError, "y_true holds strings and y_pred holds numbers, so no label could"),
    ],
)
def test_what_cannot_be_compared(y_true, y_pred, error, words):
    with pytest.raises(error, match=words):
        token_accuracy(y_true, y_pred)
