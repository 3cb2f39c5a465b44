"""Products with feature tables on a device against NumPy in float64, for the features as they are stored."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.numerics import Workers
from kernelfields.objective.designs.tables import DenseTable, SparseTable

torch = pytest.importorskip("torch")
torch_tables = pytest.importorskip("kernelfields.engines.torch.tables")
TorchTable, TorchSparseTable = torch_tables.TorchTable, torch_tables.TorchSparseTable

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
# (storage, matrix units): the units' arithmetic is also followed on the processor, where float32 stands for it.
WAYS = [("float64", False), ("float32", False), ("float32", True), ("half", False), ("half", True)]
# Error of a product over the sum of magnitudes of its terms: rounding of sums in float64 and in float32.
# Operands of 11 bits would be wrong by 2e-4.
TOLERANCE = {"float64": 1e-14, "float32": 2e-6, "half": 2e-6}


def feature_matrix(n_rows=700, rank=45, dtype=np.float64):
    """Columns of sizes from 1 to 1e-6, as those of late pivots are, and of values over many magnitudes."""
    rng = np.random.default_rng(0)
    sizes = np.geomspace(1.0, 1e-6, rank)
    return (rng.normal(size=(n_rows, rank)) * rng.random((n_rows, rank)) ** 8 * sizes).astype(dtype)


def thin(n_rows, n_columns=5, seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, n_columns)) * np.geomspace(1e4, 1e-9, n_columns)


def stored(table, features):
    """What the table holds, read off its products with unit vectors."""
    return table.product(np.eye(features.shape[1])).cpu().numpy()


def check_products(table, features, tolerance):
    coefficients, rows = thin(features.shape[1]), thin(features.shape[0], seed=2)
    scores = table.product(coefficients)
    assert isinstance(scores, torch.Tensor)
    assert scores.dtype == torch.float64
    assert scores.device.type == table.device.type
    error = np.abs(scores.cpu().numpy() - features @ coefficients)
    assert np.all(error <= tolerance * (np.abs(features) @ np.abs(coefficients)))
    pulled = table.transposed_product(torch.tensor(rows, device=table.device))
    assert isinstance(pulled, np.ndarray)
    assert pulled.dtype == np.float64
    assert np.all(np.abs(pulled - features.T @ rows) <= tolerance * (np.abs(features).T @ np.abs(rows)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("storage", "units"), WAYS)
def test_products_are_those_of_the_stored_features(storage, units, device):
    given = feature_matrix()
    table = TorchTable(given, storage, device, matrix_units=units)
    assert table.shape == given.shape
    assert table.stored_values == given.size
    assert table.dtype == (np.float64 if storage == "float64" else np.float32)
    held = stored(table, given)
    digits = {"float64": 0.0, "float32": 2.0**-11 if units else 2.0**-24, "half": 2.0**-11}[storage]
    # Beyond digits there is the range: columns are scaled, so that float16 loses only 2^-39 of their largest.
    lost = {"float64": 0.0, "float32": 1e-38, "half": 2.0**-39 * np.abs(given).max(axis=0)}[storage]
    assert np.all(np.abs(held - given) <= 1.001 * digits * np.abs(given) + lost)
    check_products(table, held, TOLERANCE[storage])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("storage", "units"), WAYS)
def test_sums_over_many_rows_are_added_in_float64(storage, units, device):
    given = feature_matrix(1000, 19)
    whole = TorchTable(given, storage, device, matrix_units=units, summed_rows=64)
    held = stored(whole, given)
    check_products(whole, held, TOLERANCE[storage])
    in_blocks = TorchTable(given, storage, device, matrix_units=units, summed_rows=64, block_rows=200)
    check_products(in_blocks, held, TOLERANCE[storage])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("storage", "units"), WAYS)
def test_squares(storage, units, device):
    given = feature_matrix()
    table = TorchTable(given, storage, device, matrix_units=units)
    held = stored(table, given)
    assert table.mean_square() == pytest.approx(np.square(held).sum() / given.shape[1], rel=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("storage", "units"), WAYS)
def test_a_view_of_wider_columns_is_taken_as_it_is(storage, units, dtype, device):
    wide = torch.tensor(feature_matrix(300, 50, dtype), device=device)
    before = wide.clone()
    table = TorchTable(wide[:, :45], storage, matrix_units=units)
    assert table.device.type == device
    copied = TorchTable(before[:, :45].contiguous(), storage, matrix_units=units)
    np.testing.assert_array_equal(stored(table, wide[:, :45]), stored(copied, wide[:, :45]))
    assert torch.equal(wide, before)
    check_products(table, stored(table, wide[:, :45]), TOLERANCE[storage])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("storage", "units"), WAYS)
def test_weighted_gram_matrices(storage, units, device):
    given = feature_matrix(300, 21)
    table = TorchTable(given, storage, device, matrix_units=units)
    weights = np.random.default_rng(5).normal(size=300)
    gram = table.weighted_gram(torch.tensor(weights, device=device))
    held = stored(table, given)
    error = np.abs(gram - held.T @ (weights[:, None] * held))
    assert np.all(error <= TOLERANCE[storage] * (np.abs(held).T @ (np.abs(weights)[:, None] * np.abs(held))))


@pytest.mark.parametrize("device", DEVICES)
def test_without_rounding_nothing_is_copied(device):
    columns = torch.tensor(feature_matrix(300, 50, np.float32), device=device)
    shared = TorchTable(columns, "float32", matrix_units=False)
    columns.zero_()
    assert not shared.product(np.ones((50, 1))).any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("storage", "units"), WAYS)
def test_zeros_and_single_rows_and_columns(storage, units, device):
    for features in (np.zeros((4, 3)), np.ones((1, 1)), np.array([[0.0, 2.0], [0.0, -3.0]])):
        table = TorchTable(features, storage, device, matrix_units=units)
        check_products(table, features, TOLERANCE[storage])
        zero = table.product(np.zeros((features.shape[1], 2)))
        assert not zero.any()
        assert not table.transposed_product(torch.zeros((features.shape[0], 2), device=device)).any()
    extremes = TorchTable(np.array([[1e-30], [3e-31]]), storage, device, matrix_units=units)
    np.testing.assert_allclose(extremes.product(np.array([[1e-3]])).cpu(), [[1e-33], [3e-34]], rtol=1e-3)


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("storage", ["float64", "float32", "half"])
def test_values_that_are_not_finite_are_seen_in_the_products(storage, units):
    table = TorchTable(feature_matrix(20, 4), storage, "cpu", matrix_units=units)
    for bad in (np.nan, np.inf):
        assert not torch.isfinite(table.product(np.full((4, 1), bad))).any()
        assert not np.isfinite(table.transposed_product(torch.full((20, 1), bad, dtype=torch.float64))).any()


def test_the_tables_of_the_threads_engine_agree():
    features = feature_matrix()
    coefficients, rows, workers = thin(45), thin(700, seed=2), Workers(1)
    table, twin = TorchTable(features, "float64", "cpu"), DenseTable(features)
    np.testing.assert_allclose(table.product(coefficients, workers), twin.product(coefficients, workers), atol=1e-10)
    np.testing.assert_allclose(
        table.transposed_product(torch.tensor(rows), workers), twin.transposed_product(rows, workers), atol=1e-10
    )
    assert table.mean_square() == pytest.approx(twin.mean_square(), rel=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_tables(dtype, index, device):
    dense = feature_matrix(60, 25) * (np.random.default_rng(3).random((60, 25)) < 0.2)
    dense[:, 7] = 0.0
    features = sp.csr_array(dense.astype(dtype))
    features = sp.csr_array((features.data, features.indices.astype(index), features.indptr.astype(index)), (60, 25))
    table, twin, workers = TorchSparseTable(features, device), SparseTable(features), Workers(1)
    assert (table.shape, table.stored_values, table.dtype) == (twin.shape, twin.stored_values, np.float64)
    exact = features.toarray().astype(np.float64)
    check_products(table, exact, 1e-14)
    check_products(table.square_entries(), exact**2, 1e-14)
    check_products(table, exact, 1e-14)
    assert table.mean_square() == pytest.approx(twin.mean_square(), rel=1e-6 if dtype == np.float32 else 1e-12)
    coefficients = thin(25)
    np.testing.assert_allclose(table.product(coefficients, workers).cpu(), twin.product(coefficients, workers))


def test_rounding_to_tf32_is_to_the_nearest_and_even():
    one = np.float32(1.0)
    step = np.float32(2.0**-10)
    cases = [
        (one, one),
        (one + step / 2, one),  # a tie goes to the even neighbour below
        (one + step * 3 / 2, one + 2 * step),  # and here above
        (one + np.float32(0.51) * step, one + step),
        (-(one + np.float32(0.51) * step), -(one + step)),
        (np.float32(0.0), np.float32(0.0)),
        (np.float32(2.0) - np.float32(2.0**-23), np.float32(2.0)),
        (np.float32(np.inf), np.float32(np.inf)),
    ]
    given, expected = (torch.tensor(np.array(column)) for column in zip(*cases, strict=True))
    assert torch.equal(torch_tables.round_to_tf32(given), expected)
    assert torch.isnan(torch_tables.round_to_tf32(torch.tensor([torch.nan]))).all()


@pytest.mark.parametrize("operand", [torch_tables.SplitTF32(), torch_tables.SplitHalf()])
def test_the_parts_of_an_operand_add_up_to_22_bits_of_it(operand):
    X = torch.tensor(thin(400, 3) * np.geomspace(1.0, 1e-4, 400)[:, None])
    scale = operand.scale(X)
    parts = operand.parts(X, scale)
    assert parts.shape == (400, 8)
    assert not parts[:, 6:].any()
    back = operand.combine(parts.to(torch.float32), 3, scale)
    allowed = 2.0**-22 * X.abs() + 2.0**-48 * X.abs().amax(dim=0)
    assert (torch.abs(back - X) <= allowed).all()
    if isinstance(operand, torch_tables.SplitHalf):
        assert parts.dtype == torch.float16
    else:
        assert torch.equal(parts, torch_tables.round_to_tf32(parts))


def test_wrong_storages_and_full_devices_are_named(monkeypatch):
    with pytest.raises(ValueError, match="storage must be one of float64, float32, half, got 'int8'"):
        TorchTable(np.ones((2, 2)), "int8", "cpu")

    def full(*shape, **options):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(torch_tables.torch, "empty", full)
    with pytest.raises(MemoryError, match=r"2,000 positions at rank 500 need 0.0 GiB as half on cpu.*smaller rank"):
        TorchTable(np.ones((2000, 500)), "half", "cpu")


@pytest.mark.parametrize("device", DEVICES)
def test_rows_and_columns_at_the_end_may_be_empty(device):
    features = np.zeros((6, 5))
    features[:4, :3] = np.random.default_rng(0).normal(size=(4, 3))
    table = TorchSparseTable(sp.csr_array(features), device)
    assert table.shape == (6, 5)
    check_products(table, features, 1e-14)
