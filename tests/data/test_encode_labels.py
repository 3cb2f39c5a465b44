import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernelfields.data.reading import check_sample_weight, encode_labels

LABELS = st.one_of(
    st.lists(st.lists(st.text("abcßé-", min_size=0, max_size=4), min_size=1, max_size=5), min_size=1, max_size=6),
    st.lists(st.lists(st.integers(-5, 5), min_size=1, max_size=5), min_size=1, max_size=6),
)


@pytest.mark.filterwarnings("ignore:y holds -1 beside:UserWarning")
@settings(max_examples=60, deadline=None)
@given(LABELS)
@example([[0, 1, -1]])
def test_codes_and_classes_rebuild_the_labels(y):
    flat = [label for sequence in y for label in sequence]
    if len(set(flat)) < 2:
        with pytest.raises(ValueError, match="one class only"):
            encode_labels(y)
        return
    for form in (y, [np.array(sequence) for sequence in y]):
        labels, classes = encode_labels(form, lengths=np.array([len(sequence) for sequence in y]))
        assert labels.dtype == np.int64
        assert classes.tolist() == sorted(set(flat))
        assert classes[labels].tolist() == flat
        again, same = encode_labels(form, classes)
        np.testing.assert_array_equal(again, labels)
        np.testing.assert_array_equal(same, classes)


def test_kinds_of_labels():
    for y, expected in [
        ([[True, False], [True]], [False, True]),
        ([[0.0, 2.0], [1.0]], [0.0, 1.0, 2.0]),
        ([np.array(["b", "a"], dtype=object), ("c",)], ["a", "b", "c"]),
        ([[np.str_("b"), "a"]], ["a", "b"]),
        ([range(3)], [0, 1, 2]),
        (np.array([["x", "y"], ["y", "y"]]), ["x", "y"]),
        ([[1, 2], np.array([3], dtype=np.uint8)], [1, 2, 3]),
    ]:
        labels, classes = encode_labels(y)
        assert classes.tolist() == expected
        assert len(labels) == sum(map(len, y))


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([["a", "b"], ["a", 1]], "sequence 1 of y mixes strings .*position 1 is 1"),
        ([["a", "b"], [None, "a"]], "sequence 1 of y mixes .*position 0 is None"),
        ([["a", "b"], [1, 2]], "mix strings and numbers: sequence 0 has strings, sequence 1 has numbers"),
        ([[1, 2], np.array(["a"])], "sequence 0 has numbers, sequence 1 has strings"),
        ([[0.0, 1.0], [1.0, 0.25]], "0.25 at sequence 1, position 1.*regression targets"),
        ([[0.0, np.nan]], "nan at sequence 0, position 1"),
        ([[0.0, np.inf]], "inf at sequence 0, position 1"),
        (["a", "b"], "sequence 0 of y is 'a'"),
        ([0, 1], "sequence 0 of y is 0"),
        ([b"ab"], "sequence 0 of y"),
        ([["a", "b"], []], "sequence 1 of y is empty"),
        ([np.eye(3)], r"shape \(3, 3\).*argmax"),
        ([[["a"], ["b", "c"]]], "sequence 0 of y is not a flat list"),
        ([[None, None]], "NoneType"),
        ([[b"a", b"b"]], "bytes"),
        ([[1j, 2]], "sequence 0 of y"),
        ([[0, 0], [0]], "one class only, 0"),
    ],
)
def test_errors_name_the_sequence(y, words):
    with pytest.raises(ValueError, match=words):
        encode_labels(y)


def test_y_that_is_no_list():
    for y in (None, "abc", {"a": 1}, 3, np.array(3)):
        with pytest.raises(TypeError, match="y must be a list"):
            encode_labels(y)


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="X has 3 sequences but y has 2"):
        encode_labels([["a"], ["b"]], lengths=np.array([1, 1, 1]))
    y = [["a", "b"]] * 17 + [["a"] * 11]
    with pytest.raises(
        ValueError,
        match=r"sequence 17 has 12 rows in X but 11 labels in y\. Each position needs one label; "
        r"None where it is not known\.",
    ):
        encode_labels(y, lengths=np.array([2] * 17 + [12]))


def test_unknown_labels_are_named():
    with pytest.raises(ValueError, match=r"unknown label 'z' at sequence 1, position 2: known are 'a', 'b'$"):
        encode_labels([["a"], ["b", "a", "z"]], classes=np.array(["a", "b"]))
    with pytest.raises(ValueError, match=r"0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 90 more$"):
        encode_labels([[100]], classes=np.arange(100))
    with pytest.raises(ValueError, match="unknown label 'a' at sequence 0"):
        encode_labels([["a"]], classes=[1, 2])


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0, 2.0], r"one number per sequence, 3 here, got shape \(2,\)"),
        (np.ones(40), r"got shape \(40,\). Weights of single positions are not supported"),
        ([[1.0, 1.0], [1.0], [1.0]], "Weights of single positions are not supported"),
        (2.0, r"got shape \(\)"),
        (["a", "b", "c"], "one number per sequence"),
        ([1.0, -1.0, 1.0], r"sample_weight\[1\] is -1.0"),
        ([1.0, 1.0, np.nan], r"sample_weight\[2\] is nan"),
        ([1.0, np.inf, 1.0], r"sample_weight\[1\] is inf"),
        ([0.0, 0.0, 0.0], "zero for every sequence"),
    ],
)
def test_bad_sample_weights(weights, words):
    with pytest.raises(ValueError, match=words):
        check_sample_weight(weights, 3)
