import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields import ChainCRF
from kernelfields.data import Chains
from kernelfields.data.reading import pack_inputs


class Table:
    """Quacks like a data frame: no list, but an array on request."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=8),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_stacking_and_splitting_are_inverse(lengths, width, sparse, seed):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, width)) * (rng.random((length, width)) < 0.6) for length in lengths]
    inputs, offsets = pack_inputs([sp.csr_array(x) for x in X] if sparse else X)
    assert offsets.dtype == np.int64
    np.testing.assert_array_equal(np.diff(offsets), lengths)
    assert sp.issparse(inputs) == sparse
    for part, x in zip(Chains(inputs, offsets).split(inputs), X, strict=True):
        np.testing.assert_array_equal(part.toarray() if sparse else part, x)


def test_result_never_shares_memory_with_the_input():
    x = np.ones((2, 2))
    inputs, _ = pack_inputs([x])
    assert not np.shares_memory(inputs, x)


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (["f4", "f4"], "f4"),
        (["f4", "f8"], "f8"),
        (["f2", "f4"], "f4"),
        (["f2", "f2"], "f4"),
        (["i8", "i4"], "f8"),
        (["?", "?"], "f8"),
        (["u1", "f4"], "f8"),
        (["O", "f4"], "f8"),
        ([">f4", "f4"], "f8"),
    ],
)
def test_float32_stays_only_when_none_is_wider(dtypes, expected):
    inputs, _ = pack_inputs([np.ones((2, 3), dtype=dtype) for dtype in dtypes])
    assert inputs.dtype == np.dtype(expected)
    np.testing.assert_array_equal(inputs, 1)


def test_lists_tables_and_object_arrays_are_read():
    x = [[1, 2], [3, 4], [5, 6]]
    box = np.empty(2, dtype=object)
    box[:] = [np.array(x), np.array(x)]
    for X in ([x, x], (x, x), [Table(x), np.array(x)], box, [np.array(x, dtype=object), x]):
        inputs, offsets = pack_inputs(X)
        np.testing.assert_array_equal(inputs, x + x)
        np.testing.assert_array_equal(offsets, [0, 3, 6])


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_matrix, sp.coo_array, sp.lil_array])
def test_every_sparse_layout_is_read(make):
    x = np.array([[0.0, 2.0], [3.0, 0.0]])
    inputs, _ = pack_inputs([make(x), make(x)])
    assert inputs.format == "csr"
    assert inputs.has_canonical_format
    np.testing.assert_array_equal(inputs.toarray(), np.vstack([x, x]))


def test_spare_room_and_duplicates_in_a_csr():
    spare = sp.csr_array((np.array([1.0, 2.0, 99.0]), np.array([1, 1, 0]), np.array([0, 2, 2])), shape=(2, 3))
    inputs, _ = pack_inputs([spare, spare])
    np.testing.assert_array_equal(inputs.toarray(), [[0, 3, 0], [0, 0, 0], [0, 3, 0], [0, 0, 0]])
    assert inputs.nnz == 2
    assert spare.data[0] == 1.0


GOOD = np.ones((2, 3))


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (GOOD, ValueError, r"wrap it: \[X\]"),
        (sp.csr_array(GOOD), ValueError, r"wrap it: \[X\]"),
        (np.tri(3)[:, ::-1, None][:, ::-1], ValueError, r"looks padded: sequence 0 ends in 2 rows of zeros.*list\(X\)"),
        (np.full((2, 3, 1), np.nan), ValueError, "looks padded: sequence 0 ends in 3 rows of NaN.*lengths"),
        (np.ones((1, 2, 3, 4)), TypeError, "list of sequences"),
        ("words", TypeError, "got str"),
        (None, TypeError, "got NoneType"),
        ({"a": GOOD}, TypeError, "got dict"),
        ((x for x in [GOOD]), TypeError, "got generator"),
        ([], ValueError, "at least one sequence"),
        ([GOOD, np.ones((0, 3))], ValueError, "sequence 1 has no rows.*remove"),
        ([GOOD, np.ones(3)], ValueError, r"sequence 1 has shape \(3,\).*reshape\(-1, 1\)"),
        ([[1.0, 2.0]], ValueError, r"sequence 0 has shape \(2,\)"),
        ([1.0, 2.0], ValueError, r"sequence 0 has shape \(\)"),
        ([GOOD, GOOD, np.ones((2, 4))], ValueError, "sequence 2 has 4 features but sequence 0 has 3"),
        ([GOOD, [[1, 2, 3], [4]]], ValueError, "sequence 1 .*different lengths"),
        ([GOOD, [["a", "b", "c"]]], ValueError, "sequence 1 holds .*numbers are needed.*feature dicts"),
        ([GOOD, [[1, None, 3]]], ValueError, r"sequence 1 holds None \(NoneType\)"),
        ([GOOD, [{"word": "x"}]], ValueError, "sequence 1 .*feature dicts"),
        ([GOOD, [[1, "b", 3]]], ValueError, "sequence 1 .*numbers are needed"),
        ([GOOD, GOOD.astype("M8[s]")], ValueError, "sequence 1 .*datetime64"),
        ([GOOD, sp.csr_array(GOOD)], ValueError, "sequence 1 is sparse but sequence 0 is dense"),
        ([sp.csr_array(GOOD), GOOD], ValueError, "sequence 1 is dense but sequence 0 is sparse"),
        ([np.ones((2, 0))], ValueError, "no features"),
        ([GOOD, GOOD + 1j], ValueError, "Complex data not supported: sequence 1"),
        (
            [GOOD, np.array([[1j, 2, 3]], dtype=object)],
            ValueError,
            r"1j \(complex\) where numbers are needed",
        ),
        ([np.ma.masked_array(GOOD, GOOD > 0)], ValueError, "sequence 0 is a masked array"),
    ],
)
def test_errors_say_where_and_what_to_do(X, error, words):
    with pytest.raises(error, match=words):
        pack_inputs(X)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("sparse", [False, True])
def test_values_that_are_not_finite_are_located(value, sparse):
    X = [np.ones((3, 4), dtype=np.float32) for _ in range(20)]
    X[17][2, 1] = value
    packed = [sp.csr_array(x) for x in X] if sparse else X
    with pytest.raises(ValueError, match=f"sequence 17 holds {value} in row 2, column 1"):
        pack_inputs(packed)
    inputs, _ = pack_inputs(packed, finite=False)
    dense = inputs.toarray() if sparse else inputs
    np.testing.assert_array_equal(dense, np.vstack(X))


def test_huge_finite_values_pass_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inputs, _ = pack_inputs([np.full((3, 2), 1e308)])
    assert np.all(inputs == 1e308)


@pytest.fixture
def large_from_the_first_byte(monkeypatch):
    monkeypatch.setattr("kernelfields.data.reading._LARGE", 0)


def test_large_sequences_that_lie_one_behind_the_other_are_not_copied(large_from_the_first_byte):
    whole = np.arange(36.0).reshape(12, 3)
    inputs, offsets = pack_inputs(np.split(whole, [2, 7, 11])[1:])
    assert np.shares_memory(inputs, whole)
    assert not inputs.flags.writeable
    np.testing.assert_array_equal(inputs, whole[2:])
    np.testing.assert_array_equal(offsets, [0, 5, 9, 10])


@pytest.mark.parametrize(
    "parts",
    [
        lambda whole: [whole[4:], whole[:4]],
        lambda whole: [whole[:4], whole[5:]],
        lambda whole: [whole[:8], whole[4:]],
        lambda whole: [whole[:4, :2], whole[4:, :2]],
        lambda whole: [whole[:4], whole[4:].copy()],
        lambda whole: [whole[:4].astype(np.float32), whole[4:].astype(np.float32)],
        lambda whole: list(np.asfortranarray(whole).reshape(3, 4, 3, order="F")),
        lambda whole: [whole[::2][:3], whole[::2][3:]],
    ],
)
def test_large_sequences_that_lie_otherwise_are(large_from_the_first_byte, parts):
    given = parts(np.arange(36.0).reshape(12, 3))
    inputs, _ = pack_inputs(given)
    assert not np.shares_memory(inputs, given[0])
    np.testing.assert_array_equal(inputs, np.concatenate(given))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_nothing_writes_to_inputs_that_are_not_copied(large_from_the_first_byte, kernel):
    random = np.random.default_rng(0)
    whole = random.normal(size=(60, 3))
    X, y = np.split(whole, 12), np.split((whole[:, 0] > 0).astype(int), 12)
    before = whole.copy()
    crf = ChainCRF(kernel, rank=10, random_state=0).fit(X, y)
    assert crf.score(X, y) > 0.8
    np.testing.assert_array_equal(whole, before)
