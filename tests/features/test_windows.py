from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields import ChainCRF
from kernelfields.data import NodeCliques
from kernelfields.features import check_window, window_view


def window_by_loop(inputs, offsets, before, after):
    rows = []
    for first, last in pairwise(offsets):
        for t in range(first, last):
            parts = [
                inputs[s] if first <= s < last else np.zeros(inputs.shape[1]) for s in range(t - before, t + after + 1)
            ]
            rows.append(np.concatenate(parts))
    return np.array(rows)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    st.integers(1, 3),
    st.integers(0, 7),
    st.integers(0, 7),
    st.integers(0, 2**31),
)
def test_dense_and_sparse_agree_with_the_definition(lengths, width, before, after, seed):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(offsets[-1], width)) * (rng.random((offsets[-1], width)) < 0.5)
    expected = window_by_loop(inputs, offsets, before, after)
    np.testing.assert_array_equal(window_view(inputs, offsets, (before, after)), expected)
    sparse = window_view(sp.csr_array(inputs), offsets, (before, after))
    np.testing.assert_array_equal(sparse.toarray(), expected)
    assert sparse.has_canonical_format
    assert sparse.nnz == np.count_nonzero(expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csr_matrix])
def test_kind_and_dtype_stay(dtype, make):
    inputs = make(np.eye(4, dtype=dtype))
    joined = window_view(inputs, np.array([0, 2, 4]), 3)
    assert type(joined) is type(inputs)
    assert joined.dtype == dtype
    assert joined.shape == (4, 12)


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (4, r"odd positive.*got 4; for 4 positions use \(2, 1\)"),
        (0, "got 0$"),
        (-3, "got -3"),
        (True, "got True"),
        (3.0, "got 3.0"),
        ("3", "got '3'"),
        ((1, -1), "not negative"),
        ((1, 2, 3), "pair"),
        ((1, 0.5), "pair"),
        (None, "got None"),
    ],
)
def test_bad_windows(window, words):
    with pytest.raises(ValueError, match=words):
        check_window(window)


def test_only_clique_sets_may_leave_the_window_open():
    X, y = [np.eye(2)], [["a", "b"]]
    with pytest.raises(ValueError, match=r"window must be .* got None"):
        ChainCRF("linear", window=None).fit(X, y)
    assert NodeCliques("linear").neighbours == NodeCliques("linear", window=1).neighbours == (0, 0)
