"""Invariants of the incomplete Cholesky factor, whichever way its pivots were chosen."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.basis import AllPoints, Gradient, GreedyCholesky, PanelCholesky, RandomCholesky, Uniform
from kernelfields.basis.selection import resolve_basis
from kernelfields.kernels import RBF, Kernel, Laplacian, Linear, Polynomial, Precomputed
from kernelfields.numerics import Workers

STRATEGIES = [
    AllPoints(),
    GreedyCholesky(),
    RandomCholesky(block_size=1),
    RandomCholesky(block_size=7),
    RandomCholesky(),
    Uniform(),
    Gradient(initial=100),
]


def selected(basis, kernel, inputs, rank, dtype=np.float64, seed=0):
    panel = PanelCholesky(kernel, inputs, basis.capacity(rank, inputs.shape[0]), dtype)
    basis.select(panel, np.random.default_rng(seed))
    return panel


def check_invariants(panel, atol):
    """Z Z^T = K on the pivots, d = diag(K - Z Z^T) >= 0, R R^T = K_BB, features(training) = Z."""
    gram = np.asarray(panel.kernel(panel.inputs), dtype=np.float64)
    Z = panel.features.astype(np.float64)
    pivots = panel.pivots
    scale = gram.diagonal().max(initial=0.0)
    assert Z.shape == (len(gram), panel.rank)
    assert len(np.unique(pivots)) == panel.rank <= panel.capacity
    np.testing.assert_allclose((Z @ Z.T)[pivots], gram[pivots], rtol=0, atol=atol * scale)
    assert (panel.residual >= 0).all()
    np.testing.assert_allclose(panel.residual, np.diag(gram - Z @ Z.T), rtol=0, atol=atol * scale)
    assert not panel.residual[pivots].any()

    subspace = panel.subspace()
    factor = subspace.factor
    np.testing.assert_array_equal(factor, np.tril(factor))
    assert (np.diag(factor) > 0).all()
    np.testing.assert_allclose(factor @ factor.T, gram[np.ix_(pivots, pivots)], rtol=0, atol=atol * scale)
    np.testing.assert_array_equal(subspace.indices, pivots)
    assert subspace.rank == panel.rank
    # Solving with R amplifies rounding by at most one over its smallest singular value.
    amplified = atol * scale / min(1.0, np.linalg.svd(factor, compute_uv=False).min(initial=1.0))
    np.testing.assert_allclose(subspace.features(panel.inputs), Z, rtol=0, atol=amplified)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-13), (np.float32, 1e-5)])
@pytest.mark.parametrize("basis", STRATEGIES, ids=repr)
def test_invariants(basis, dtype, atol, sparse):
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(90, 4)) * (rng.random((90, 4)) < 0.6)
    panel = selected(basis, RBF(gamma=0.7), sp.csr_array(inputs) if sparse else inputs, 25, dtype)
    check_invariants(panel, atol)
    assert panel.features.dtype == dtype
    distinct = len(np.unique(inputs, axis=0))
    if isinstance(basis, AllPoints):
        assert panel.rank <= distinct
        np.testing.assert_allclose(panel.residual, 0, atol=1e-5 if dtype == np.float32 else 1e-11)
    else:
        assert panel.rank == 25


@pytest.mark.parametrize("sparse", [False, True])
def test_the_subspace_scores_new_inputs(sparse):
    rng = np.random.default_rng(2)
    inputs, new = rng.normal(size=(60, 3)), rng.normal(size=(40, 3))
    panel = selected(GreedyCholesky(), RBF(gamma=0.5), inputs, 20)
    subspace = panel.subspace()
    K_new = panel.kernel(new, inputs[panel.pivots])
    given = sp.csr_array(new) if sparse else new
    features = subspace.features(given)
    np.testing.assert_allclose(features @ subspace.factor.T, K_new, atol=1e-13)
    assert subspace.features(given, np.float32).dtype == np.float32
    V = rng.normal(size=(20, 3))
    np.testing.assert_allclose(subspace.apply(given, V), features @ V, atol=1e-10)
    # ||f||^2 is that of v, and alpha^T K_BB alpha for the dual coefficients.
    alpha = subspace.dual_coefficients(V)
    K_BB = panel.kernel(inputs[panel.pivots])
    np.testing.assert_allclose(np.einsum("iq,ij,jq->q", alpha, K_BB, alpha), (V**2).sum(axis=0), rtol=1e-10)


@pytest.mark.parametrize("basis", STRATEGIES, ids=repr)
def test_duplicates_and_low_rank_end_with_fewer_columns(basis):
    rng = np.random.default_rng(3)
    few = rng.normal(size=(6, 2))
    panel = selected(basis, RBF(gamma=1.0), few[rng.integers(6, size=50)], 40)
    assert panel.rank == 6
    assert panel.is_exhausted
    check_invariants(panel, 1e-13)
    panel = selected(basis, Linear(), rng.normal(size=(50, 3)), 40)
    assert panel.rank == 3
    check_invariants(panel, 1e-13)
    np.testing.assert_allclose(panel.features @ panel.features.T, panel.kernel(panel.inputs), atol=1e-12)


@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-12), (np.float32, 1e-5)])
@pytest.mark.parametrize("basis", STRATEGIES, ids=repr)
def test_nearly_singular_grams(basis, dtype, atol):
    inputs = np.random.default_rng(4).normal(size=(80, 2))
    panel = selected(basis, RBF(gamma=1e-4), inputs, 60, dtype)
    assert panel.rank < 25
    assert panel.is_exhausted
    check_invariants(panel, atol)


@pytest.mark.parametrize("basis", STRATEGIES, ids=repr)
def test_inputs_of_zero_norm_are_never_pivots(basis):
    inputs = np.random.default_rng(5).normal(size=(30, 10))
    inputs[::3] = 0.0
    panel = selected(basis, Linear(), inputs, 30)
    assert panel.rank == 10
    assert np.all(panel.pivots % 3 != 0)
    check_invariants(panel, 1e-13)


@pytest.mark.parametrize("basis", STRATEGIES, ids=repr)
def test_a_kernel_that_is_zero_has_no_pivots(basis):
    inputs = np.arange(4.0)[:, None]
    panel = selected(basis, Precomputed(np.zeros((4, 4))), inputs, 3)
    assert panel.rank == 0
    assert panel.relative_residual == 0.0
    assert panel.subspace().features(inputs).shape == (4, 0)
    np.testing.assert_array_equal(panel.subspace().apply(inputs, np.zeros((0, 2))), np.zeros((4, 2)))


@pytest.mark.parametrize("basis", STRATEGIES, ids=repr)
def test_fewer_inputs_than_rank_and_a_single_one(basis):
    inputs = np.random.default_rng(6).normal(size=(9, 3))
    panel = selected(basis, RBF(gamma=1.0), inputs, 1000)
    assert panel.rank == panel.capacity == 9
    check_invariants(panel, 1e-13)
    panel = selected(basis, RBF(gamma=1.0), inputs[:1], 1000)
    np.testing.assert_array_equal(panel.features, [[1.0]])


@pytest.mark.parametrize("gamma", [0.3, 0.05])
@pytest.mark.parametrize("basis", [AllPoints(), Uniform(), RandomCholesky()], ids=repr)
def test_pivots_that_come_in_any_order_do_not_cost_accuracy(basis, gamma):
    # Eigenvalues of these smooth kernels fall below rounding within the first panel of candidates.
    inputs = np.random.default_rng(11).normal(size=(600, 2))
    panel = selected(basis, RBF(gamma=gamma), inputs, None)
    assert panel.is_exhausted
    assert 40 < panel.rank < 250
    check_invariants(panel, 10 * panel.floor.max())
    assert 10 * panel.floor.max() <= 1e-10


@pytest.mark.parametrize("basis", [GreedyCholesky, RandomCholesky, Uniform])
def test_tol_stops_at_a_relative_residual_trace(basis):
    inputs = np.random.default_rng(8).normal(size=(200, 2))
    kernel = RBF(gamma=0.3)
    panel = selected(basis(tol=0.05), kernel, inputs, None)
    check_invariants(panel, 1e-13)
    trace = np.trace(kernel(inputs))
    np.testing.assert_allclose(panel.relative_residual, (trace - np.sum(panel.features**2)) / trace, rtol=0, atol=1e-13)
    assert panel.relative_residual <= 0.05
    assert panel.rank < 200
    if basis is GreedyCholesky:
        shorter = selected(basis(panel.rank - 1), kernel, inputs, None)
        assert shorter.relative_residual > 0.05, "one pivot fewer is not enough"


@pytest.mark.parametrize("tol", [-0.1, 1.0, np.nan])
def test_a_tol_outside_the_unit_interval_is_refused(tol):
    with pytest.raises(ValueError, match=r"tol of GreedyCholesky must be in \[0, 1\)"):
        selected(GreedyCholesky(tol=tol), Linear(), np.ones((2, 1)), 1)


@pytest.mark.parametrize("rank", [0, -3, 2.5, True, "10"])
def test_a_rank_that_is_no_whole_number_is_refused(rank):
    with pytest.raises(ValueError, match=f"rank must be a whole number of at least 1 .* got {rank!r}"):
        Uniform(rank).capacity(None, 100)
    with pytest.raises(ValueError, match="rank must be a whole number"):
        RandomCholesky().capacity(rank, 100)


def test_whose_rank_counts():
    assert Uniform(5).capacity(7, 100) == 5
    assert Uniform().capacity(np.int64(7), 100) == 7
    assert Uniform().capacity(None, 100) == Uniform(1000).capacity(7, 100) == 100
    assert AllPoints(5).capacity(7, 100) == 100


@pytest.mark.parametrize("basis", STRATEGIES, ids=repr)
def test_a_matrix_that_is_no_kernel_is_refused(basis):
    rng = np.random.default_rng(9)
    matrix = rng.uniform(-1, 1, size=(30, 30))
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 1.0)
    with pytest.raises(ValueError, match="is not positive semi-definite on the training inputs"):
        selected(basis, Precomputed(matrix), np.arange(30.0)[:, None], 20)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_a_variance_that_is_negative_or_not_finite_is_refused(bad):
    class Broken(Kernel):
        def _diagonal(self, X):
            return np.where(np.arange(len(X)) == 2, bad, 1.0)

    with pytest.raises(ValueError, match=rf"Broken\(\) is not positive .* is {bad} for training input 2"):
        PanelCholesky(Broken(), np.ones((4, 1)), 2)


def test_kernel_values_that_overflow_are_refused():
    class Overflowing(Polynomial):
        def _block(self, X, Z):
            return np.where(X[:, 0] == 3.0, np.inf, 1.0)[:, None] * np.ones(len(X if Z is None else Z))

        def _diagonal(self, X):
            return np.ones(len(X))

    panel = PanelCholesky(Overflowing(), np.arange(5.0)[:, None], 2)
    with pytest.raises(ValueError, match="returned values that are not finite"):
        panel.extend(np.array([0]))


def test_names_resolve_to_strategies():
    names = {"greedy-cholesky": GreedyCholesky, "random-cholesky": RandomCholesky, "uniform": Uniform}
    for name, kind in {**names, "all": AllPoints, "gradient": Gradient}.items():
        assert type(resolve_basis(name)) is kind
    basis = Uniform(3)
    assert resolve_basis(basis) is basis
    with pytest.raises(ValueError, match=r"basis must be a Basis or one of \['all', .* got 'random'"):
        resolve_basis("random")


@pytest.mark.parametrize("kernel", [RBF(0.5), Laplacian(0.5)])
def test_threads_change_no_digit(kernel):
    inputs = np.random.default_rng(0).normal(size=(30_000, 3))
    panels = [PanelCholesky(kernel, inputs, 40, np.float32, workers=Workers(n)) for n in (1, 3)]
    for panel in panels:
        panel.extend(np.arange(40))
    np.testing.assert_array_equal(panels[0].features, panels[1].features)
    np.testing.assert_array_equal(panels[0].residual, panels[1].residual)
