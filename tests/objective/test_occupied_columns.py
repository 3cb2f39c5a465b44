"""Sparse features that no training input has cost nothing and change nothing."""

import numpy as np
import pytest
import scipy.sparse

from kernelfields import ChainCRF
from tests.samples import design_of


def sparse_chains(seed, n_unused):
    random = np.random.default_rng(seed)
    y = [random.integers(3, size=8) for _ in range(20)]
    X = [np.eye(3)[labels] + (random.random((8, 3)) < 0.3) for labels in y]
    padding = np.zeros((8, n_unused))
    return [scipy.sparse.csr_array(np.hstack([x[:, :2], padding, x[:, 2:]])) for x in X], y


def test_unused_columns_leave_the_fit_as_it_is():
    plain, y = sparse_chains(0, 0)
    padded, _ = sparse_chains(0, 50)
    narrow = ChainCRF("linear", tol=1e-8).fit(plain, y)
    wide = ChainCRF("linear", tol=1e-8).fit(padded, y)
    assert wide.solution_.value == pytest.approx(narrow.solution_.value, rel=1e-12)
    assert wide.coef_["node"].shape == (53, 3)
    assert not np.any(wide.coef_["node"][2:52])
    np.testing.assert_allclose(wide.coef_["node"][[0, 1, 52]], narrow.coef_["node"], atol=1e-9)


def test_warm_start_takes_up_features_that_were_unused_before():
    padded, y = sparse_chains(0, 2)
    moved = [scipy.sparse.csr_array(x.toarray()[:, [3, 1, 2, 0, 4]]) for x in padded]
    model = ChainCRF("linear", tol=1e-8, warm_start=True).fit(padded, y).fit(moved, y)
    fresh = ChainCRF("linear", tol=1e-8).fit(moved, y)
    assert model.solution_.value == pytest.approx(fresh.solution_.value, rel=1e-7)
    np.testing.assert_allclose(model.coef_["node"], fresh.coef_["node"], atol=1e-4)


def test_compress_and_expand_are_inverse_on_occupied_rows():
    features = scipy.sparse.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]]))
    each = design_of("node", features, positions=None, labels_per_clique=1, n_labels=2, prior_variance=1.0)
    coefficients = np.arange(4.0).reshape(2, 2)
    assert each.shape == (2, 2)
    full = each.expand(coefficients)
    np.testing.assert_array_equal(full, [[0.0, 1.0], [0.0, 0.0], [2.0, 3.0]])
    np.testing.assert_array_equal(each.compress(full), coefficients)
    np.testing.assert_allclose(each.scores(coefficients), features @ full)
