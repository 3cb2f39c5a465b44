import json

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.features import FeatureDictEncoder, is_feature_sequences


class Column(list):
    """A column of a data frame, as far as this package can see: it has a dtype and is no list."""

    dtype = np.dtype(object)
    __class__ = object


def names_of(position):
    """The features of a single position, as name -> weight."""
    encoder = FeatureDictEncoder()
    packed, _ = encoder.fit_transform([[position]])
    return dict(zip(encoder.feature_names_, packed.toarray()[0].tolist(), strict=True))


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        ({"word": "cat"}, {"word:cat": 1.0}),
        ({"len": 3, "score": 0.5}, {"len": 3.0, "score": 0.5}),
        ({"upper": True, "title": False}, {"upper": 1.0}),
        ({"x": 0.0, "y": -1.5}, {"y": -1.5}),
        ({"a": {"b": 2.0, "c": "d"}}, {"a:b": 2.0, "a:c:d": 1.0}),
        ({"a": {"b": {"c": True}}}, {"a:b:c": 1.0}),
        ({"f": ["x", "y"]}, {"f:x": 1.0, "f:y": 1.0}),
        ({"f": {"y", "x"}}, {"f:x": 1.0, "f:y": 1.0}),
        ({"f": ["x", "x"]}, {"f:x": 2.0}),
        (["bias", "w=cat"], {"bias": 1.0, "w=cat": 1.0}),
        ({np.str_("w"): np.str_("cat")}, {"w:cat": 1.0}),
        ({"a": np.float32(0.5), "b": np.int64(2), "c": np.bool_(True)}, {"a": 0.5, "b": 2.0, "c": 1.0}),
        ({"": "é:ü"}, {":é:ü": 1.0}),
    ],
)
def test_names_follow_crfsuite(position, expected):
    assert names_of(position) == expected


POSITION = st.dictionaries(
    st.sampled_from("abcd"),
    st.one_of(st.floats(-3, 3), st.booleans(), st.sampled_from(["u", "v"]), st.integers(-2, 2)),
    max_size=4,
)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(POSITION, min_size=1, max_size=4), min_size=1, max_size=4))
def test_rows_hold_the_weights_of_their_position(X):
    def plain(position):
        pairs = ((f"{k}:{v}", 1.0) if isinstance(v, str) else (k, float(v)) for k, v in position.items())
        return {name: weight for name, weight in pairs if weight != 0}

    flat = [plain(position) for sequence in X for position in sequence]
    if not any(flat):
        with pytest.raises(ValueError, match="no features"):
            FeatureDictEncoder().fit(X)
        return
    encoder = FeatureDictEncoder()
    packed, offsets = encoder.fit_transform(X)
    assert packed.has_canonical_format
    np.testing.assert_array_equal(np.diff(offsets), [len(sequence) for sequence in X])
    order = list(dict.fromkeys(name for position in flat for name in position))
    assert encoder.feature_names_ == order
    assert encoder.vocabulary_ == {name: column for column, name in enumerate(order)}
    for row, position in zip(packed.toarray(), flat, strict=True):
        assert {order[column]: row[column] for column in np.flatnonzero(row)} == position
    again, _ = encoder.transform(X)
    np.testing.assert_array_equal(again.toarray(), packed.toarray())


def test_unseen_features_are_ignored():
    encoder = FeatureDictEncoder().fit([[{"w": "a"}, {"w": "b"}]])
    packed, offsets = encoder.transform([[{"w": "zzz", "new": 3.0}], [{"w": "b"}, {}]])
    np.testing.assert_array_equal(packed.toarray(), [[0, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal(offsets, [0, 1, 3])
    assert offsets.dtype == np.int64
    assert encoder.feature_names_ == ["w:a", "w:b"]


def test_spec_survives_json():
    encoder = FeatureDictEncoder().fit([[{"w": "ä"}, ["x", "y"]]])
    again = FeatureDictEncoder.from_spec(json.loads(json.dumps(encoder.spec())))
    assert again.vocabulary_ == encoder.vocabulary_


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
        ([[{"a": b"x"}]], TypeError, "sequence 0, position 0: feature 'a' .*bytes"),
        ([[{"a": 1j}]], TypeError, "complex"),
        ([[{1: "x"}]], TypeError, "sequence 0, position 0: feature name 1 is int"),
        ([[{"a": [1, 2]}]], TypeError, "feature name 1 is int"),
        ([[["a", 3]]], TypeError, "sequence 0, position 0: feature name 3"),
        ([["word"]], TypeError, "sequence 0, position 0 is 'word'"),
        ([[{"a": 1}], []], ValueError, "sequence 1 must be a list with at least one feature dict"),
        ([{"a": 1}], ValueError, "sequence 0 must be a list"),
        ([], ValueError, "at least one sequence"),
        ("text", ValueError, "at least one sequence"),
        ([[{}, []]], ValueError, "no features"),
    ],
)
def test_errors_name_the_place(X, error, words):
    with pytest.raises(error, match=words):
        FeatureDictEncoder().fit(X)


def test_transform_before_fit():
    with pytest.raises(ValueError, match="call fit first"):
        FeatureDictEncoder().transform([[{"a": 1}]])


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        ([[{"a": 1}]], True),
        ([[{}]], True),
        ([], False),
        ([[]], False),
        ([[], [{"a": 1}]], True),
        ([[["w=a"]]], True),
        ([[[], ["w=a"]]], True),
        ([({"a": 1},)], True),
        ([[{"x", "y"}]], True),
        ([[[1.0, 2.0]]], False),
        ([[1.0, 2.0]], False),
        ([["a", "b"]], False),
        ([np.ones((2, 2))], False),
        (np.ones((2, 2, 2)), False),
        ("abc", False),
        (None, False),
        (np.array([{"a": 1}], dtype=object), False),
        (Column([[{"a": 1}]]), True),
        (Column([Column([{"a": 1}])]), True),
        ([scipy.sparse.csr_array(np.eye(2))], False),
    ],
)
def test_feature_sequences_are_recognised(X, expected):
    assert is_feature_sequences(X) is expected
