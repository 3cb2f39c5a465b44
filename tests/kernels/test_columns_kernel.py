"""Columns: a kernel on some of the columns."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.kernels import RBF, Columns, Linear

RANDOM = np.random.default_rng(0)
X, Z = RANDOM.normal(size=(7, 6)), RANDOM.normal(size=(4, 6))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("begin", "end"), [(0, 3), (2, None), (5, 6)])
def test_values_are_those_of_the_inner_kernel(kind, begin, end):
    kernel, seen = Columns(RBF(0.7), begin, end), slice(begin, end)
    np.testing.assert_allclose(kernel(kind(X), kind(Z)), RBF(0.7)(X[:, seen], Z[:, seen]), rtol=1e-13)
    np.testing.assert_allclose(kernel(kind(X)), RBF(0.7)(X[:, seen]), rtol=1e-13)
    np.testing.assert_allclose(kernel.diag(kind(X)), np.ones(7))


def test_rules_follow_the_columns_seen():
    stretched = X.copy()
    stretched[:, 3:] *= 100.0
    resolved = Columns(RBF("scale"), 0, 3).resolve(stretched)
    assert resolved.kernel.gamma == pytest.approx(RBF("scale").resolve(X[:, :3]).gamma)


def test_features_are_those_of_the_part():
    assert Columns(Linear(), 1, 4).has_feature_map
    np.testing.assert_array_equal(Columns(Linear(), 1, 4).feature_map(X), X[:, 1:4])
    assert not Columns(RBF(), 1, 4).has_feature_map
    assert Columns(RBF(), 1, 4).feature_map(X) is None


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (Columns(RBF(0.5), -1), "begin must be a whole number"),
        (Columns(RBF(0.5), 0, 2.5), "end must be a whole number"),
        (Columns(RBF(0.5), 3, 3), "end must be above begin"),
    ],
)
def test_columns_that_cannot_be(kernel, words):
    with pytest.raises(ValueError, match=words):
        kernel.resolve(X)


def test_columns_that_are_not_there():
    with pytest.raises(ValueError, match="the inputs have 6 columns"):
        Columns(RBF(0.5), 0, 9)(X, Z)
    with pytest.raises(TypeError, match="must be a Kernel"):
        Columns("rbf").resolve(X)
