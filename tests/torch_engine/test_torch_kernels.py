"""Kernels of tensors against the same kernels of arrays, on the processor and on CUDA where there is one."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from kernelfields.kernels import (
    RBF,
    CallableKernel,
    Columns,
    Constant,
    Cosine,
    Forest,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    Polynomial,
    Precomputed,
    Tanimoto,
    arrays,
    check_positive_semidefinite,
)

torch = pytest.importorskip("torch")
tensors = pytest.importorskip("kernelfields.kernels.tensors")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def foreign():
    from sklearn.gaussian_process import kernels

    return CallableKernel(kernels.RationalQuadratic(1.3, 0.7))


ON_DEVICE = [
    Linear(),
    Polynomial(degree=1, gamma=0.3, coef0=0.0),
    Polynomial(degree=3, gamma=0.3, coef0=0.5),
    Polynomial(degree=6, gamma=0.1),
    RBF(gamma=0.2),
    Laplacian(gamma=0.2),
    Matern(nu=0.5, length_scale=2.0),
    Matern(nu=1.5, length_scale=2.0),
    Matern(nu=2.5, length_scale=2.0),
    Matern(nu=math.inf, length_scale=2.0),
    Cosine(),
    Tanimoto(),
    Constant(0.7),
    Linear() + RBF(0.2),
    Linear() * RBF(0.2) + 0.5,
    (Linear() + 1.0) ** 3,
    2.5 * Cosine(),
    Normalized(Polynomial(2, 0.5, 0.0)),
    Columns(RBF(0.3), 1, 4),
    Linear() + Columns(Matern(1.5, 1.0), 2),
]
BY_HOST = [
    foreign(),
    Forest(trees=[[0, 0.5, 1, 2], [-1, 0, 1, 1], [-1, 0, 2, 2], [1, -0.2, 4, 5], [-1, 0, 4, 4], [-1, 0, 5, 5]]),
    CallableKernel(lambda X, Z: np.exp(-np.abs(X[:, :1] - Z[:, 0]))),
    Linear() * CallableKernel(lambda X, Z: 1.0 + X[:, :1] * Z[:, 0]),
]


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    rows = rng.choice([0.0, 0.0, -1.5, 0.5, 2.0], size=(40, 5)) + 0.1 * rng.standard_normal((40, 1))
    rows[4] = rows[2]  # a duplicate
    rows[7] = 0.0
    return rows


@pytest.fixture
def Z(X):
    rows = np.random.default_rng(1).standard_normal((23, 5))
    rows[1] = X[3]
    return rows


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernel", ON_DEVICE + BY_HOST, ids=repr)
def test_tensors_give_the_values_of_arrays(kernel, device, X, Z):
    left, right = (torch.tensor(rows, device=device) for rows in (X, Z))
    for values, expected in [
        (kernel(left, right), kernel(X, Z)),
        (kernel(left), kernel(X)),
        (kernel.diag(left), kernel.diag(X)),
    ]:
        assert isinstance(values, torch.Tensor)
        assert values.device.type == device
        assert values.dtype == torch.float64
        np.testing.assert_allclose(values.cpu().numpy(), expected, rtol=1e-12, atol=1e-14)
    gram = kernel(left)
    assert torch.equal(gram, gram.T)
    np.testing.assert_array_equal(left.cpu().numpy(), X)  # formulas in place leave the inputs alone


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernel", ON_DEVICE + BY_HOST, ids=repr)
def test_float32_only_where_both_sides_are(kernel, device, X, Z):
    wide = torch.tensor(Z.astype(np.float32).astype(float), device=device)
    left, right = torch.tensor(X, dtype=torch.float32, device=device), wide.to(torch.float32)
    exact = kernel(X.astype(np.float32).astype(float), wide.cpu().numpy())
    block = kernel(left, right)
    assert block.dtype == kernel(left).dtype == kernel.diag(left).dtype == torch.float32
    np.testing.assert_allclose(block.cpu().numpy(), exact, rtol=2e-5, atol=2e-6)
    assert kernel(left, wide).dtype == kernel(wide, left).dtype == torch.float64
    np.testing.assert_allclose(kernel(left, wide).cpu().numpy(), exact, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernel", ON_DEVICE, ids=repr)
def test_blocks_of_a_few_rows_change_nothing(kernel, device, X, Z, monkeypatch):
    left, right = (torch.tensor(rows, device=device) for rows in (X, Z))
    whole = [kernel(left, right), kernel(left), kernel.diag(left)]
    monkeypatch.setattr(tensors, "_ENTRIES", {})
    monkeypatch.setattr(tensors, "_DEVICE_ENTRIES", 1)
    assert len(list(tensors.cut_rows(left, 40, 23))) == 3
    for values, expected in zip([kernel(left, right), kernel(left), kernel.diag(left)], whole, strict=True):
        torch.testing.assert_close(values, expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("device", DEVICES)
def test_distances_far_from_the_origin_do_not_cancel(device):
    rng = np.random.default_rng(2)
    near = rng.standard_normal((30, 4))
    far = near + 1e7
    exact = ((far[:, None] - far) ** 2).sum(axis=2)
    distances = arrays.squared_distances(torch.tensor(far, device=device), torch.tensor(far, device=device))
    np.testing.assert_allclose(distances.cpu().numpy(), exact, rtol=1e-12, atol=1e-12)
    assert torch.equal(distances.diagonal().cpu(), torch.zeros(30, dtype=torch.float64))


@pytest.mark.parametrize("device", DEVICES)
def test_a_sparse_tensor_counts_as_its_dense_rows(device, X, Z):
    left = torch.tensor(X, device=device).to_sparse_coo()
    np.testing.assert_allclose(
        RBF(0.3)(left, torch.tensor(Z, device=device)).cpu().numpy(), RBF(0.3)(sparse.csr_array(X), Z), rtol=1e-12
    )


@pytest.mark.parametrize("device", DEVICES)
def test_precomputed_values_reach_the_device(device):
    matrix = np.random.default_rng(3).standard_normal((6, 6))
    matrix = matrix @ matrix.T
    numbers = torch.tensor([[4.0], [0.0], [5.0]], device=device)
    block = Precomputed(matrix)(numbers, numbers[:2])
    assert block.device.type == device
    np.testing.assert_allclose(block.cpu().numpy(), matrix[[4, 0, 5]][:, [4, 0]], rtol=1e-6)


def test_kernels_of_users_run_by_way_of_the_host_unless_they_say_otherwise(X, Z):
    seen = []

    class Cauchy(Kernel):
        def _block(self, X, Z):
            from kernelfields.kernels.arrays import squared_distances

            seen.append(type(X))
            return 1.0 / (1.0 + squared_distances(X, Z))

        def _diagonal(self, X):
            return X[:, 0] * 0 + 1.0

    class FastCauchy(Cauchy):
        takes_tensors = True

    left, right = torch.tensor(X), torch.tensor(Z)
    for kind, received in [(Cauchy, np.ndarray), (FastCauchy, torch.Tensor)]:
        seen.clear()
        block = kind()(left, right)
        assert seen == [received]
        assert isinstance(block, torch.Tensor)
        np.testing.assert_allclose(block.numpy(), kind()(X, Z), rtol=1e-12)
        assert isinstance(kind().diag(left), torch.Tensor)


def test_integers_become_float64_and_feature_maps_stay_on_the_device(X):
    whole = torch.arange(12).reshape(4, 3)
    assert Linear()(whole).dtype == torch.float64
    kernel = 2.0 * Linear() + 3.0
    features = kernel.feature_map(torch.tensor(X))
    assert isinstance(features, torch.Tensor)
    np.testing.assert_allclose(features.numpy(), kernel.feature_map(X), rtol=1e-15)


def test_rules_that_read_the_data_take_tensors(X):
    for kernel in (RBF(), Polynomial(), Matern(), Columns(Laplacian(), 1, 3), Linear() + RBF()):
        assert kernel.resolve(torch.tensor(X)) == kernel.resolve(X)
    check_positive_semidefinite(RBF(), torch.tensor(X))
    with pytest.raises(ValueError, match="not positive semi-definite"):
        check_positive_semidefinite(CallableKernel(lambda X, Z: -(X @ Z.T)), torch.tensor(X))


def test_bad_tensors_are_refused(X, Z):
    with pytest.raises(ValueError, match=r"X is a tensor on cpu but Z is a ndarray.*in one place"):
        RBF(1.0)(torch.tensor(X), Z)
    with pytest.raises(ValueError, match=r"X is a ndarray but Z is a tensor on cpu"):
        RBF(1.0)(X, torch.tensor(Z))
    with pytest.raises(ValueError, match="X is a tensor on cpu but Z is a tensor on meta"):
        RBF(1.0)(torch.tensor(X), torch.tensor(Z).to("meta"))
    with pytest.raises(ValueError, match="X has 5 columns but Z has 3"):
        RBF(1.0)(torch.tensor(X), torch.tensor(Z[:, :3]))
    with pytest.raises(ValueError, match=r"two-dimensional .* got shape \(5,\)"):
        RBF(1.0)(torch.tensor(X[0]))
    with pytest.raises(ValueError, match=r"must hold real numbers, got dtype torch\.complex128"):
        RBF(1.0).diag(torch.tensor(X).to(torch.complex128))
    with pytest.raises(ValueError, match=r"k\(x, x\) = -1 < 0 at row 0"):
        Normalized(CallableKernel(lambda X, Z: -np.ones((len(X), len(Z)))))(torch.tensor(X), torch.tensor(Z))


@pytest.mark.parametrize("before", ["none", "ieee", "tf32"])
def test_settings_of_float32_products_come_back(before):
    matmul = torch.backends.cuda.matmul
    kept = matmul.fp32_precision
    try:
        matmul.fp32_precision = before
        with tensors.float32_products():
            assert matmul.fp32_precision == "ieee"
            assert not matmul.allow_fp16_reduced_precision_reduction
            with tensors.float32_products("tf32"):
                assert matmul.fp32_precision == "tf32"
            assert matmul.fp32_precision == "ieee"
        assert matmul.fp32_precision == before
        with pytest.raises(RuntimeError, match="stop"), tensors.float32_products("tf32"):
            raise RuntimeError("stop")
        assert matmul.fp32_precision == before
        assert matmul.allow_fp16_reduced_precision_reduction
    finally:
        matmul.fp32_precision = kept


def test_kernels_of_arrays_do_not_load_torch():
    code = """
import json, sys
import numpy as np
from kernelfields.kernels import RBF, Polynomial, check_positive_semidefinite
X = np.eye(3)
kernel = (RBF() + Polynomial()).resolve(X)
kernel(X, X), kernel(X), kernel.diag(X), check_positive_semidefinite(kernel, X)
print(json.dumps("torch" in sys.modules))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) is False


@pytest.mark.parametrize("distances", [arrays.squared_distances, arrays.manhattan_distances])
def test_distances_are_where_the_inputs_are(distances):
    """Tensors of the device "meta" have a shape and a place but no values, and meet no tensor from elsewhere."""
    X, Z = (torch.empty((n, 2), dtype=torch.float64, device="meta") for n in (3, 4))
    for block, shape in ((distances(X), (3, 3)), (distances(X, Z), (3, 4))):
        assert block.device == X.device
        assert block.shape == shape
    assert arrays.fill_array(X, (3,), 1.0, torch.float64).device == X.device


def test_operations_of_tensors_replace_those_of_arrays():
    """A function of a name that kernels do not look up would never be called."""
    replaced = {name for name, value in vars(arrays).items() if hasattr(value, "__wrapped__")}
    own = {name for name, value in vars(tensors).items() if getattr(value, "__module__", None) == tensors.__name__}
    helpers = {"float32_products", "to_tensor"}
    assert {name for name in own if not name.startswith("_")} - helpers <= replaced
