import pickle
from collections import OrderedDict
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.features import FeatureDictEncoder, is_feature_sequences


class Tag(str):
    """Text that does not print as its letters."""

    def __str__(self):
        return f"Tag({self!r})"

    __format__ = None


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
        ({"a": b"x", b"b": "y"}, {"a:x": 1.0, "b:y": 1.0}),
        ({"a": Decimal("0.5"), "b": Fraction(1, 4), "c": np.array(2.0)}, {"a": 0.5, "b": 0.25, "c": 2.0}),
        (MappingProxyType({"a": 2.0, "b": ("x", "y")}), {"a": 2.0, "b:x": 1.0, "b:y": 1.0}),
        (OrderedDict(a="x"), {"a:x": 1.0}),
        ({"b": 1, "a": 1}.keys(), {"b": 1.0, "a": 1.0}),
        (np.array(["u", "v"]), {"u": 1.0, "v": 1.0}),
        (["name:1.0", "x:2.5", "a\\:b"], {"name:1.0": 1.0, "x:2.5": 1.0, "a\\:b": 1.0}),
        ({"x:2.5": 3.0, "\\": "\\:2"}, {"x:2.5": 3.0, "\\:\\:2": 1.0}),
        ({Tag("a"): Tag("noun")}, {"a:noun": 1.0}),
        ([Tag("noun"), "end\0", "end"], {"noun": 1.0, "end\0": 1.0, "end": 1.0}),
        (["\ud800"], {"\ud800": 1.0}),
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


def test_a_spec_with_equal_or_odd_names_is_refused():
    with pytest.raises(ValueError, match="1 feature names are there twice"):
        FeatureDictEncoder.from_spec(["a", "b", "a"])
    with pytest.raises(TypeError, match="str"):
        FeatureDictEncoder.from_spec(["a", 3])


def test_a_pickled_encoder_knows_its_columns():
    encoder = FeatureDictEncoder(min_freq=2).fit([[["a", "b"], ["b", "c"], ["c"]]])
    assert encoder.vocabulary_ == {"b": 0, "c": 1}
    again = pickle.loads(pickle.dumps(encoder))
    assert again.vocabulary_ == encoder.vocabulary_
    assert again.min_freq == 2
    np.testing.assert_array_equal(again.transform([[["c", "a"]]])[0].toarray(), [[0, 1]])


MIXED = [
    [["w=a", "bias"], ["w=b", "bias", "bias"], []],
    [{"w": "a", "n": 0.5, "no": False}, {"w": "b", "n": 0.0, "no": True}, {}],
    [{"w": {"in": "a"}, "n": 2}, ("w=c", "bias"), {"w=a", "bias"}],
    [{"n": np.float32(0.25), "w": np.str_("a")}, OrderedDict(bias=1, w="z")],
]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_the_size_of_chunks_does_not_matter(size):
    expected, offsets = FeatureDictEncoder().fit_transform(MIXED)
    encoder = FeatureDictEncoder(at_once=size)
    for packed, at in (encoder.fit_transform(MIXED), encoder.transform(MIXED), encoder.transform(iter(MIXED))):
        np.testing.assert_array_equal(packed.toarray(), expected.toarray())
        np.testing.assert_array_equal(at, offsets)
        assert packed.has_canonical_format
        assert packed.data.dtype == np.float64
    columns = ["w=a", "bias", "w=b", "w:a", "n", "w:b", "no", "w:in:a", "w=c", "w:z"]
    assert encoder.feature_names_ == columns
    np.testing.assert_array_equal(expected.toarray()[[0, 1, 3, 5]], [
        [1, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 2, 1, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 0.5, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ])  # fmt: skip


def test_sequences_may_come_from_an_iterator():
    X = [[["a", "b"]], [["b"], ["c"]]]
    packed, offsets = FeatureDictEncoder().fit_transform(sequence for sequence in X)
    np.testing.assert_array_equal(packed.toarray(), [[1, 1, 0], [0, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(offsets, [0, 1, 3])


RARE = [[["a", "b", "a"], ["c", "b"]], [{"d": "x", "a": 0.0}, {"d": "x", "b": -1.0, "e": 0.5}]]


@pytest.mark.parametrize(
    ("min_freq", "expected"),
    [
        (0, ["a", "b", "c", "d:x", "e"]),
        (1, ["a", "b", "c", "d:x", "e"]),
        (1.5, ["b", "d:x"]),
        (2, ["b", "d:x"]),
        (3, ["b"]),
    ],
)
def test_min_freq_counts_the_positions_with_a_feature(min_freq, expected):
    full, _ = FeatureDictEncoder().fit_transform(RARE)
    names = FeatureDictEncoder().fit(RARE).feature_names_
    encoder = FeatureDictEncoder(min_freq=min_freq)
    packed, offsets = encoder.fit_transform(RARE)
    assert encoder.feature_names_ == expected
    np.testing.assert_array_equal(packed.toarray(), full.toarray()[:, [names.index(name) for name in expected]])
    np.testing.assert_array_equal(offsets, [0, 2, 4])
    assert packed.has_canonical_format
    np.testing.assert_array_equal(encoder.transform(RARE)[0].toarray(), packed.toarray())


def test_min_freq_that_leaves_nothing():
    with pytest.raises(ValueError, match="no feature occurs in min_freq=4 positions"):
        FeatureDictEncoder(min_freq=4).fit(RARE)


@pytest.mark.parametrize("min_freq", [-1, float("nan"), float("inf"), "2", None, True])
def test_a_bad_min_freq_is_refused(min_freq):
    with pytest.raises(ValueError, match="min_freq must be a number of positions"):
        FeatureDictEncoder(min_freq=min_freq)


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
        ([np.array([["a", "b"]])], False),
        ([[np.array(["a", "b"])]], True),
        ([np.array(["a", "b"])], False),
        ([[b"ab"]], False),
        ([[[b"ab"]]], True),
    ],
)
def test_feature_sequences_are_recognised(X, expected):
    assert is_feature_sequences(X) is expected
