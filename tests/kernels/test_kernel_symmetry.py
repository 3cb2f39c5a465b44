"""The check that a kernel is one, on a sample of rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from kernelfields.kernels import (
    RBF,
    CallableKernel,
    Kernel,
    Laplacian,
    Linear,
    Precomputed,
    check_positive_semidefinite,
)

X = np.random.default_rng(0).standard_normal((300, 3))


@pytest.mark.parametrize("kernel", [Linear(), RBF(), Laplacian() + 1, RBF(1e-8)])
@pytest.mark.parametrize("rows", [X, X.astype(np.float32), sparse.csr_array(X), X[:1], X[:0], 0 * X[:5]])
def test_kernels_pass(kernel, rows):
    check_positive_semidefinite(kernel, rows, random_state=0)


def test_negative_eigenvalues_are_shown():
    tanh = CallableKernel(lambda A, B: np.tanh(A @ B.T - 1), name="tanh")
    with pytest.raises(ValueError, match=r"CallableKernel.* on 200 rows the Gram matrix has the\s+eigenvalue -"):
        check_positive_semidefinite(tanh, X, random_state=0)
    indefinite = Precomputed([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match=r"eigenvalue -1 \(largest absolute one 1\)\. Use another kernel"):
        check_positive_semidefinite(indefinite, np.array([[0], [1]]), random_state=0)


class Skew(Kernel):
    def _block(self, X, Z):
        return np.triu(np.ones((X.shape[0], X.shape[0])))


def test_asymmetric_and_infinite_values_are_shown():
    with pytest.raises(ValueError, match=r"Gram matrix of Skew\(\) is not symmetric"):
        check_positive_semidefinite(Skew(), X, random_state=0)
    with pytest.raises(ValueError, match=r"has the value inf at \(0, 0\)"):
        check_positive_semidefinite(Linear(), np.array([[np.inf]]), random_state=0)


def test_the_sample_follows_the_random_state():
    seen = []

    def record(A, B):
        seen.append(A[:, 0].copy())
        return A @ B.T

    for state in (0, 0, 1):
        check_positive_semidefinite(CallableKernel(record), X, random_state=state)
    assert len(seen[0]) == 200
    assert np.array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[0], seen[2])
