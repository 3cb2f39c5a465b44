import numpy as np
import pytest
import scipy.sparse

from kernelfields.data.dicts import FeatureDictEncoder


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (
            [[{"a": 1}], [{"a": 1}, {"b": float("nan")}]],
            ValueError,
            "sequence 1, position 1: feature 'b' is nan",
        ),
        ([[{"a": {"b": float("inf")}}]], ValueError, "sequence 0, position 0: feature 'a:b' is inf"),
        ([[{"a": 1}, {"a": None}]], TypeError, r"sequence 0, position 1: feature 'a' is None \(NoneType\)"),
        ([[{"a": b"\xff"}]], ValueError, "sequence 0, position 0: .*not UTF-8"),
        ([[{"a": bytearray(b"1")}]], TypeError, "sequence 0, position 0: feature 'a' .*bytearray"),
        ([[{"a": 10**400}]], ValueError, "sequence 0, position 0: feature 'a' is 1000.*too large"),
        ([[{"a": np.ones(1)}]], TypeError, "feature 'a' is array"),
        ([[{"a": np.complex128(1)}]], TypeError, "feature 'a' .*complex128"),
        ([[{"a": {"b": None}}]], TypeError, "feature 'a:b' is None"),
        ([[{"a": {"b": [["c"]]}}]], TypeError, r"feature name \['c'\] is list"),
        ([[{"a": 1j}]], TypeError, "complex"),
        ([[{1: "x"}]], TypeError, "sequence 0, position 0: feature name 1 is int"),
        ([[{"a": [1, 2]}]], TypeError, "feature name 1 is int"),
        ([[["a", 3]]], TypeError, "sequence 0, position 0: feature name 3"),
        ([["word"]], TypeError, r"sequence 0, position 0: .*got 'word' \(str\).*TextFeatures"),
        ([[["a"], "word"]], TypeError, r"sequence 0, position 1: .*TextFeatures"),
        ([[["a"]], [["a"], 3.0]], TypeError, "sequence 1, position 1: .*got 3.0 .*one array of shape"),
        ([[["a"]], [["a"], None]], TypeError, r"sequence 1, position 1: .*got None \(NoneType\)"),
        ([[[1.0, 2.0], [3.0, 4.0]]], TypeError, "sequence 0, position 0: feature name 1.0 .*one array of shape"),
        ([[["a"], ["b"], [1.0, 2.0]]], TypeError, "sequence 0, position 2: feature name 1.0"),
        ([[["a", ["b"]]]], TypeError, "feature name .* is list"),
        ([[["a", None]]], TypeError, "feature name None is NoneType"),
        ([[np.ones(3)]], TypeError, "sequence 0, position 0: .*one array of shape"),
        ([[["a"]], np.ones((2, 3))], ValueError, r"sequence 1 must be a list.*ndarray of shape \(2, 3\)"),
        (
            [[["a"]], scipy.sparse.csr_array(np.eye(2))],
            ValueError,
            r"sequence 1 must.*csr_array of shape \(2, 2\)",
        ),
        ([scipy.sparse.csr_matrix(np.eye(2))], ValueError, "sequence 0 must be a list.*csr_matrix"),
        (np.ones((2, 3, 4)), ValueError, r"X must be a list.*ndarray of shape \(2, 3, 4\)"),
        (scipy.sparse.csr_array(np.eye(2)), ValueError, "X must be a list.*csr_array"),
        (["text"], ValueError, "sequence 0 must be a list.*'text'"),
        (None, ValueError, "X must be a list.*None"),
        (iter([]), ValueError, "at least one sequence"),
        ([[{"a": 1}], []], ValueError, "sequence 1 is empty: remove empty sequences from X and y"),
        ([{"a": 1}], ValueError, "sequence 0 must be a list"),
        ([], ValueError, "at least one sequence"),
        ("text", ValueError, "at least one sequence"),
        ([[{}, []]], ValueError, "no features"),
    ],
)
def test_errors_name_the_place(X, error, words):
    with pytest.raises(error, match=words):
        FeatureDictEncoder().fit(X)


@pytest.mark.parametrize("position", [{"new": float("nan")}, {"new": None}, ["new", 3], [1.0, 2.0], "word", 1.0])
def test_errors_when_transforming_too(position):
    """Unseen features are ignored, bad ones are not."""
    encoder = FeatureDictEncoder().fit([[["a"], {"b": 2.0}]])
    with pytest.raises((TypeError, ValueError), match="sequence 1, position 2: "):
        encoder.transform([[["a"]], [["a"], {"b": 1.0}, position]])


def test_the_place_is_right_behind_many_positions():
    words = [[[f"w{t}", "bias"] for t in range(700)] for _ in range(5)]
    dicts_of_words = [[{"w": f"w{t}", "n": 1.0} for t in range(700)] for _ in range(5)]
    for X, bad in ((words, ["a", 1]), (dicts_of_words, {"w": "a", "n": float("nan")})):
        X[3][456] = bad
        with pytest.raises((TypeError, ValueError), match=r"^sequence 3, position 456: "):
            FeatureDictEncoder().fit(X)


def test_a_failed_fit_leaves_the_encoder_as_it_was():
    encoder = FeatureDictEncoder().fit([[["a"]]])
    with pytest.raises(TypeError, match="position 1"):
        encoder.fit([[["b"], 3]])
    assert encoder.vocabulary_ == {"a": 0}
