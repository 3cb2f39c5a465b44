"""Label kernels: A A^T is the centred kernel, columns are orthogonal contrasts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from kernelfields.kernels import CentredDelta, Delta, LabelKernel, LabelMatrix
from kernelfields.kernels.labels import label_kernel_from_spec, resolve_label_kernel


def centring(n_labels):
    return np.eye(n_labels) - 1.0 / n_labels


def random_label_matrix(n_labels, rank, seed):
    root = np.random.default_rng(seed).standard_normal((n_labels, rank))
    return root @ root.T


@settings(max_examples=40, deadline=None)
@given(n_labels=st.integers(1, 9), rank=st.integers(1, 9), seed=st.integers(0, 10**6))
def test_factor_of_a_matrix(n_labels, rank, seed):
    values = random_label_matrix(n_labels, min(rank, n_labels), seed)
    A = LabelMatrix(values).factor(n_labels)
    J = centring(n_labels)
    scale = np.abs(values).max()
    np.testing.assert_allclose(A @ A.T, J @ values @ J, atol=1e-11 * scale)
    np.testing.assert_allclose(A.sum(axis=0), 0.0, atol=1e-6 * scale)
    products = A.T @ A
    np.testing.assert_allclose(products - np.diag(products.diagonal()), 0.0, atol=1e-11 * scale)
    assert A.shape[1] == np.linalg.matrix_rank(J @ values @ J, tol=1e-10 * scale)


def test_rank_is_that_of_the_centred_kernel():
    assert Delta().factor(1).shape == (1, 0), "a single label has nothing to contrast"
    assert LabelMatrix(np.ones((4, 4))).factor(4).shape == (4, 0)
    assert LabelMatrix(np.zeros((3, 3))).factor(3).shape == (3, 0)
    assert LabelMatrix(np.eye(5)).factor(5).shape == (5, 4)
    np.testing.assert_array_equal(LabelMatrix(np.diag([1, 2, 3])).factor(3), LabelMatrix(np.diag([1, 2, 3])).factor(3))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones((2, 3)), r"square array, got shape \(2, 3\)"),
        (np.ones(3), "square array"),
        (np.eye(2), r"there are 3 labels, but values has shape \(2, 2\)"),
        ([[1, 2, 0], [0, 1, 0], [0, 0, 1]], "not symmetric"),
        (np.diag([1.0, 1.0, -1.0]), "positive semi-definite, but -1 is an eigenvalue"),
        (np.diag([1.0, 1.0, np.inf]), "has the value inf"),
        ("abc", "square array of numbers"),
    ],
)
def test_wrong_matrices_are_named(values, message):
    with pytest.raises(ValueError, match=message):
        LabelMatrix(values).factor(3)


@pytest.mark.parametrize("wrong", [0, 2.0, True])
def test_wrong_numbers_of_labels(wrong):
    for kernel in (Delta(), CentredDelta(), LabelMatrix(np.eye(2))):
        with pytest.raises(ValueError, match="n_labels must be a whole number >= 1"):
            kernel.matrix(wrong)


def test_names_and_arrays():
    assert resolve_label_kernel("delta") == Delta()
    assert resolve_label_kernel("centred") == CentredDelta()
    kernel = LabelMatrix(np.eye(2))
    assert resolve_label_kernel(kernel) is kernel
    assert resolve_label_kernel([[1.0, 0.0], [0.0, 1.0]]) == kernel
    with pytest.raises(ValueError, match="unknown label kernel 'identity'; known are 'delta'"):
        resolve_label_kernel("identity")
    with pytest.raises(TypeError, match="a label kernel is 'delta'"):
        resolve_label_kernel(3)


@pytest.mark.parametrize("kernel", [Delta(), CentredDelta(), LabelMatrix(np.diag([1.0, 2.0]))])
def test_round_trip_and_clone(kernel):
    assert label_kernel_from_spec(kernel.spec()) == kernel
    assert clone(kernel) == kernel
    assert hash(clone(kernel)) == hash(kernel)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (None, "a label kernel is described by a mapping with the key 'kind', got None"),
        ({"kind": "eval"}, "unknown kind of label kernel 'eval'; known are delta, centred, matrix"),
        ({"kind": "delta", "values": 1}, r"has the parameters \[\], got \[values\]"),
        ({"kind": "matrix"}, r"has the parameters \[values\], got \[\]"),
        ({"kind": "matrix", "values": [[-1.0]]}, "positive semi-definite"),
    ],
)
def test_wrong_descriptions_are_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        label_kernel_from_spec(spec)


def test_the_base_class_says_what_is_missing():
    with pytest.raises(NotImplementedError, match="LabelKernel must define matrix"):
        LabelKernel().factor(2)
