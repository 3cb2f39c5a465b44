"""The panel on a device against the panel in memory: same pivots, same columns, same subspace."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.basis import (
    AllPoints,
    Gradient,
    GreedyCholesky,
    PanelCholesky,
    PivotSubspace,
    RandomCholesky,
    Uniform,
)
from kernelfields.basis.subspace import Expansion
from kernelfields.kernels import RBF, CallableKernel, Kernel, Linear, Matern, Polynomial, Precomputed

torch = pytest.importorskip("torch")
torch_panel = pytest.importorskip("kernelfields.engines.torch.panel")
torch_rows = pytest.importorskip("kernelfields.engines.torch.rows")
TorchPanel = torch_panel.TorchPanel

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
STRATEGIES = [
    AllPoints(),
    GreedyCholesky(),
    RandomCholesky(block_size=7),
    RandomCholesky(),
    Uniform(),
    Gradient(initial=30),
]
KERNELS = [RBF(gamma=0.7), Polynomial(3, gamma=0.3), Matern(1.5, 1.0) + 0.5]


def inputs_of(kind, n_rows=150, dtype=np.float64):
    rng = np.random.default_rng(1)
    rows = (rng.normal(size=(n_rows, 4)) * (rng.random((n_rows, 4)) < 0.6)).astype(dtype)
    return sp.csr_array(rows) if kind == "sparse" else rows


def grown(panel, basis, seed=0):
    basis.select(panel, np.random.default_rng(seed))
    return panel


def both(basis, kernel, inputs, rank, dtype, device, **options):
    capacity = basis.capacity(rank, inputs.shape[0])
    return (
        grown(PanelCholesky(kernel, inputs, capacity, dtype), basis),
        grown(TorchPanel(kernel, inputs, capacity, dtype, device, **options), basis),
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("basis", STRATEGIES[1:], ids=repr)
def test_float64_columns_have_the_same_pivots_and_values(basis, kernel, kind, device):
    host, panel = both(basis, kernel, inputs_of(kind), 30, np.float64, device)
    scale = host.diagonal.max()
    assert panel.features.device.type == device
    assert panel.features.dtype == torch.float64
    any_order = isinstance(basis, Uniform) and np.ptp(host.diagonal) > 0
    if any_order:
        # Candidates of a panel come furthest above their floor first. The floor is a multiple of k(x, x), so the
        # first panel is one tie that rounding breaks: the same pivots in any order.
        np.testing.assert_array_equal(np.sort(panel.pivots), np.sort(host.pivots))
    else:
        np.testing.assert_array_equal(panel.pivots, host.pivots)
        np.testing.assert_allclose(panel.features.cpu().numpy(), host.features, rtol=0, atol=1e-11 * scale)
    atol = 1e-8 if any_order else 1e-11  # another order amplifies rounding in another way
    np.testing.assert_allclose(panel.residual, host.residual, rtol=0, atol=atol * scale)
    np.testing.assert_allclose(panel.floor, host.floor, rtol=1e-14)
    assert panel.relative_residual == pytest.approx(host.relative_residual, abs=atol)
    assert panel.is_exhausted == host.is_exhausted


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("inputs_dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("basis", [GreedyCholesky(), RandomCholesky(), Uniform()], ids=repr)
def test_float32_columns_are_those_of_their_pivots_to_1e_5(basis, kernel, inputs_dtype, device):
    # Far from each other: of inputs that are nearly in the span of the pivots, rounding decides which are set aside.
    inputs = np.random.default_rng(1).normal(size=(150, 6)).astype(inputs_dtype)
    host, panel = both(basis, kernel, inputs, 25, np.float32, device)
    np.testing.assert_array_equal(np.sort(panel.pivots), np.sort(host.pivots))
    gram = kernel(inputs.astype(np.float64))
    scale = gram.diagonal().max()
    Z = panel.features.cpu().numpy().astype(np.float64)
    assert panel.features.dtype == torch.float32
    np.testing.assert_allclose((Z @ Z.T)[panel.pivots], gram[panel.pivots], rtol=0, atol=1e-5 * scale)
    np.testing.assert_allclose(panel.residual, np.diag(gram - Z @ Z.T), rtol=0, atol=1e-5 * scale)
    np.testing.assert_allclose(panel.residual, host.residual, rtol=0, atol=1e-5 * scale)
    factor = panel.subspace().factor  # in float64, whatever the columns are
    wide = gram[np.ix_(panel.pivots, panel.pivots)]
    np.testing.assert_allclose(factor @ factor.T, wide, rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "sparse", "tensor"])
def test_the_subspace_is_one_of_numpy_arrays(kind, dtype, device):
    given = inputs_of(kind)
    inputs = torch.tensor(given, device=device) if kind == "tensor" else given
    panel = grown(TorchPanel(RBF(0.7), inputs, 20, dtype, None if kind == "tensor" else device), RandomCholesky())
    assert panel.device.type == device
    subspace = panel.subspace()
    assert type(subspace) is PivotSubspace
    assert sp.issparse(subspace.pivots) if kind == "sparse" else isinstance(subspace.pivots, np.ndarray)
    assert subspace.factor.flags.c_contiguous
    np.testing.assert_array_equal(subspace.factor, np.tril(subspace.factor))
    Z = panel.features.cpu().numpy()
    np.testing.assert_allclose(subspace.features(given), Z, rtol=0, atol=1e-4 if dtype == np.float32 else 1e-10)
    np.testing.assert_array_equal(subspace.indices, panel.pivots)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pivots_in_any_order_keep_float32_columns_accurate(dtype, device):
    # Eigenvalues of this smooth kernel fall below rounding within the first panel of candidates.
    inputs = np.random.default_rng(11).normal(size=(600, 2))
    panel = grown(TorchPanel(RBF(gamma=0.3), inputs, 600, dtype, device), AllPoints())
    assert panel.is_exhausted
    Z = panel.features.cpu().numpy().astype(np.float64)
    assert np.abs(RBF(gamma=0.3)(inputs) - Z @ Z.T).max() < (2e-5 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_small_blocks_of_rows_change_nothing(kind, device):
    inputs = inputs_of(kind, 400)
    whole, cut = (
        grown(TorchPanel(RBF(0.7), inputs, 40, np.float64, device, block_bytes=size), RandomCholesky())
        for size in (None, 20_000)
    )
    np.testing.assert_array_equal(whole.pivots, cut.pivots)
    np.testing.assert_allclose(cut.features.cpu().numpy(), whole.features.cpu().numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_of_a_sparse_matrix_are_its_dense_rows(device):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(30, 7)) * (rng.random((30, 7)) < 0.2)
    dense[:3] = dense[28:] = 0.0
    rows = torch_rows.DeviceRows(sp.csr_array(dense), torch.device(device))
    for cut in (slice(0, 30), slice(4, 11), slice(27, 30), slice(3, 3), slice(25, 99), np.array([5, 2, 5])):
        np.testing.assert_array_equal(rows[cut].cpu().numpy(), dense[cut])
    read_only = dense.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(torch_rows.DeviceRows(read_only, torch.device(device))[:].cpu().numpy(), dense)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", [RBF(0.7), CallableKernel(lambda X, Z: (1 + X @ Z.T) ** 2)], ids=repr)
def test_scores_of_candidates_are_those_of_the_other_panel(kernel, dtype, device):
    inputs = np.random.default_rng(5).normal(size=(200, 3))
    host, panel = both(Uniform(), kernel, inputs, 8, dtype, device)
    residuals = np.random.default_rng(6).normal(size=(200, 4))
    pool = panel.candidates[:50]
    expected = host.candidate_scores(pool, residuals)
    for given in (residuals, torch.tensor(residuals, device=device)):
        scores = panel.candidate_scores(pool, given)
        np.testing.assert_allclose(scores, expected, rtol=1e-8 if dtype == np.float64 else 2e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("rank", [0, 15])
def test_new_inputs_are_scored_as_the_subspace_does(rank, kind, device):
    given, new = inputs_of(kind, 80), inputs_of(kind, 300)[100:]
    panel = PanelCholesky(RBF(0.7), given, 15)
    if rank > 0:
        GreedyCholesky().select(panel, np.random.default_rng(0))
    subspace, coefficients = panel.subspace(), np.random.default_rng(1).normal(size=(rank, 3))
    there = torch_rows.DeviceExpansion(Expansion(subspace, coefficients), torch.device(device))
    values = there.scores(new, max_bytes=30_000)
    np.testing.assert_allclose(values, subspace.apply(new, coefficients), rtol=0, atol=1e-10)


class Hungry(Kernel):
    """The cosine of angles, for which the device has room in blocks of at most ``room`` rows."""

    takes_tensors = True

    def __init__(self, room):
        self.room = room

    def _block(self, X, Z):
        if len(X) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.")
        return torch.cos(X[:, :1] - Z[:, 0])

    def _diagonal(self, X):
        return torch.ones(len(X), dtype=X.dtype)


def test_blocks_are_halved_while_memory_runs_out():
    angles = np.linspace(0, 6, 3000)[:, None]
    panel = TorchPanel(Hungry(300), angles, 10, np.float64, "cpu")
    assert panel.extend(np.array([0, 1000])) == 2
    np.testing.assert_allclose(panel.residual, 0, atol=1e-13)
    Z = panel.features.numpy()
    np.testing.assert_allclose(Z @ Z.T, np.cos(angles - angles.T), atol=1e-13)
    assert panel._step == 256  # 3000, 1500, 750, 375: the next panels begin there


def test_when_no_block_is_small_enough_the_rank_is_named():
    panel = TorchPanel(Hungry(200), np.linspace(0, 6, 3000)[:, None], 10, np.float64, "cpu")
    with pytest.raises(MemoryError, match=r"columns of rank 1 of 10, not even for 256 rows .*smaller rank.*1.00"):
        panel.extend(np.array([0]))


def test_columns_that_do_not_fit_are_refused_at_once(monkeypatch):
    def full(*shape, **options):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(torch_panel.torch, "empty", full)
    with pytest.raises(MemoryError, match=r"2,000 inputs at rank 1,000 need 0.0 GiB in float32.*smaller rank"):
        TorchPanel(RBF(1.0), np.ones((2000, 2)), 1000, np.float32, "cpu")


def test_other_errors_of_a_kernel_are_not_taken_for_memory():
    class Broken(Hungry):
        def _block(self, X, Z):
            if len(X) > 1:
                raise RuntimeError("broken")
            return super()._block(X, Z)

    with pytest.raises(RuntimeError, match="broken"):
        TorchPanel(Broken(10), np.zeros((5, 1)), 2, np.float64, "cpu").extend(np.array([0]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("basis", STRATEGIES, ids=repr)
def test_duplicates_low_rank_and_zero_kernels_end_with_fewer_columns(basis, dtype, device):
    rng = np.random.default_rng(3)
    few = rng.normal(size=(6, 2))
    repeated = few[rng.integers(6, size=50)]
    panel = grown(TorchPanel(RBF(1.0), repeated, 40, dtype, device), basis)
    assert panel.rank == 6
    assert panel.is_exhausted
    panel = grown(TorchPanel(Precomputed(np.zeros((4, 4))), np.arange(4.0)[:, None], 3, dtype, device), basis)
    assert panel.rank == 0
    assert panel.subspace().features(np.arange(4.0)[:, None]).shape == (4, 0)
    panel = grown(TorchPanel(Linear(), rng.normal(size=(1, 3)), 3, dtype, device), basis)
    assert panel.rank == panel.capacity == 1


def test_bad_kernels_are_refused_as_in_memory():
    rng = np.random.default_rng(9)
    matrix = rng.uniform(-1, 1, size=(30, 30))
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 1.0)
    numbers = np.arange(30.0)[:, None]
    with pytest.raises(ValueError, match="is not positive semi-definite on the training inputs"):
        grown(TorchPanel(Precomputed(matrix), numbers, 20, np.float64, "cpu"), RandomCholesky())
    negative = CallableKernel(lambda X, Z: np.where(X == Z.T, np.where(X == 2, -1.0, 1.0), 0.0))
    with pytest.raises(ValueError, match=r"k\(x, x\) is -1.0 for training input 2"):
        TorchPanel(negative, numbers, 3, np.float64, "cpu")

    class Overflowing(Hungry):
        def _block(self, X, Z):
            return torch.where(X[:, :1] == 3.0, torch.inf, 1.0) * torch.ones(len(Z), dtype=X.dtype)

    panel = TorchPanel(Overflowing(9), np.arange(5.0)[:, None], 2, np.float64, "cpu")
    with pytest.raises(ValueError, match="returned values that are not finite"):
        panel.extend(np.array([0]))


def test_the_setting_for_tf32_neither_changes_the_columns_nor_is_changed():
    matmul = torch.backends.cuda.matmul
    kept = matmul.fp32_precision
    try:
        matmul.fp32_precision = "tf32"
        inputs = inputs_of("dense", dtype=np.float32)
        host, panel = both(RandomCholesky(), RBF(0.7), inputs, 25, np.float32, DEVICES[-1])
        assert matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = kept
    np.testing.assert_allclose(panel.features.cpu().numpy(), host.features, rtol=0, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("shape", [(1, 1, 1), (300, 7, 40), (1000, 256, 333), (129, 130, 31), (5, 256, 0)])
def test_products_by_matrix_units_are_as_accurate_as_float32(shape):
    from kernelfields.engines.torch.triton_kernels import subtract_product
    from kernelfields.kernels.tensors import float32_products

    rows, columns, depth = shape
    rng = np.random.default_rng(0)
    block, left, right = (
        torch.tensor(rng.normal(size=size), dtype=torch.float32, device="cuda")
        for size in ((rows, columns), (rows, depth + 5), (columns, depth))
    )
    left = left[:, :depth]  # as the columns of a panel stand: rows further apart than they are long
    exact = block.double() - left.double() @ right.double().T
    scale = block.double().abs() + left.double().abs() @ right.double().abs().T
    plain, fast = block.clone(), block.clone()
    with float32_products():
        torch_panel.subtract_plain_product(plain, left, right)
    subtract_product(fast, left, right)
    assert ((plain - exact).abs() / scale).max() < 1e-6
    assert ((fast - exact).abs() / scale).max() < 1e-6
