"""Features in a file or recomputed are those in memory, and leave nothing behind."""

import os
import pickle
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from kernelfields.basis import Gradient, RandomCholesky
from kernelfields.basis.panel import PanelCholesky
from kernelfields.data.readers import ChainReader
from kernelfields.kernels import RBF, Polynomial
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs import files, tiles
from kernelfields.objective.designs.files import StoredFactor
from kernelfields.objective.designs.tables import DenseTable, RecomputedTable, SparseTable, TiledTable, table_of
from kernelfields.objective.posterior import LogPosterior
from tests.samples import chain_datafit, design_of

N_ROWS, RANK = 700, 90


#: Columns in many tiles.
FeatureFile, RecomputedColumns = (
    partial(kind, tile_bytes=4 * RANK * 100) for kind in (files.FeatureFile, tiles.RecomputedColumns)
)


def inputs(dtype=np.float64):
    return np.random.default_rng(0).normal(size=(N_ROWS, 5)).astype(dtype)


def grown(columns=None, dtype=np.float64, kernel=None, rank=RANK):
    panel = PanelCholesky(kernel or RBF(0.3), inputs(dtype), rank, dtype, columns)
    RandomCholesky(block_size=16).select(panel, np.random.default_rng(1))
    return panel


#: Products of BLAS may round a row differently where fewer rows are multiplied at once.
LAST_BITS = 64 * np.finfo(np.float32).eps


@pytest.mark.parametrize("stored_factor", [False, True])
def test_a_panel_in_a_file_is_that_in_memory_to_its_last_bits(stored_factor):
    memory = grown(dtype=np.float32)
    file = grown(FeatureFile(N_ROWS, RANK, np.float32, stored_factor=stored_factor), np.float32)
    assert len(file.features.tiles) > 5
    np.testing.assert_array_equal(file.pivots, memory.pivots)
    np.testing.assert_allclose(np.asarray(file.features), memory.features, rtol=0, atol=LAST_BITS)
    np.testing.assert_allclose(file.residual, memory.residual, rtol=0, atol=LAST_BITS)
    np.testing.assert_array_equal(np.asarray(file.subspace().factor), memory.subspace().factor)


@pytest.mark.parametrize("kernel", [RBF(0.3), Polynomial(3, gamma=0.2)])
@pytest.mark.parametrize("columns", [FeatureFile, RecomputedColumns])
def test_float64_panels_away_from_memory_agree_with_one_in_memory(columns, kernel):
    memory = grown(kernel=kernel)
    away = grown(columns(N_ROWS, RANK, np.float64), kernel=kernel)
    scale = np.sqrt(memory.diagonal.max())
    np.testing.assert_array_equal(away.pivots, memory.pivots)
    np.testing.assert_allclose(np.asarray(away.features), memory.features, atol=1e-9 * scale)
    np.testing.assert_allclose(away.residual, memory.residual, atol=1e-10 * scale**2)
    np.testing.assert_allclose(away.features.squared_norms(), (memory.features**2).sum(1), rtol=1e-10)
    np.testing.assert_allclose(np.asarray(away.subspace().factor), memory.subspace().factor, atol=1e-9 * scale)


def test_a_stored_factor_is_that_of_the_subspace_and_solves_the_same_systems():
    memory = grown(dtype=np.float32).subspace()
    stored = grown(FeatureFile(N_ROWS, RANK, np.float32, stored_factor=True), np.float32).subspace()
    assert isinstance(stored.factor, StoredFactor)
    assert stored.rank == RANK
    coefficients = np.random.default_rng(2).normal(size=(RANK, 3))
    few = inputs(np.float32)[::50]
    np.testing.assert_array_equal(stored.apply(few, coefficients), memory.apply(few, coefficients))
    np.testing.assert_array_equal(stored.features(few), memory.features(few))


@pytest.mark.parametrize("columns", [FeatureFile, RecomputedColumns])
def test_some_rows_are_rows_of_the_whole(columns):
    features = grown(columns(N_ROWS, RANK, np.float32), np.float32).features
    whole = np.asarray(features)
    assert len(features) == N_ROWS
    assert features.size == whole.size
    for rows in ([3, 650, 3], slice(90, 310, 7), np.arange(N_ROWS) % 97 == 0, slice(0, 0)):
        np.testing.assert_allclose(features[rows], whole[rows], atol=2e-6)
    np.testing.assert_allclose(features[-1], whole[-1], atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(
    ("columns", "dtype", "tolerance"),
    [
        (FeatureFile, np.float64, 1e-12),
        (FeatureFile, np.float32, 1e-5),
        (RecomputedColumns, np.float64, 1e-10),
        (RecomputedColumns, np.float32, 1e-4),
    ],
)
def test_products_are_those_of_the_matrix(columns, dtype, tolerance, n_threads):
    features = grown(dtype=np.float64).features
    table = table_of(grown(columns(N_ROWS, RANK, dtype), dtype).features)
    random, workers = np.random.default_rng(3), Workers(n_threads, least_work=1)
    coefficients, rows = random.normal(size=(RANK, 4)), random.normal(size=(N_ROWS, 4))
    product, pulled = table.product(coefficients, workers), table.transposed_product(rows, workers)
    assert product.dtype == pulled.dtype == np.float64
    assert table.shape == features.shape
    assert table.stored_values == features.size
    np.testing.assert_allclose(product, features @ coefficients, atol=tolerance)
    np.testing.assert_allclose(pulled, features.T @ rows, atol=10 * tolerance)
    assert table.mean_square() == pytest.approx(float((features**2).sum()) / RANK, rel=1e-3)
    # Sums are taken in the order of the tiles, whichever thread is first.
    np.testing.assert_array_equal(table.transposed_product(rows, workers), pulled)


def test_every_kind_of_features_has_its_table():
    import scipy.sparse

    dense = table_of(np.ones((3, 2)))
    assert isinstance(dense, DenseTable)
    assert table_of(dense) is dense
    assert isinstance(table_of(scipy.sparse.csr_array(np.ones((3, 2)))), SparseTable)
    assert type(table_of(grown(FeatureFile(N_ROWS, RANK, np.float64)).features)) is TiledTable
    assert isinstance(table_of(grown(RecomputedColumns(N_ROWS, RANK, np.float64)).features), RecomputedTable)


def test_a_basis_that_looks_at_the_gradient_grows_in_a_file_as_in_memory():
    residuals = np.random.default_rng(4).normal(size=(N_ROWS, 3))
    panels = []
    for columns in (None, FeatureFile(N_ROWS, RANK, np.float64), RecomputedColumns(N_ROWS, RANK, np.float64)):
        panel = PanelCholesky(RBF(0.3), inputs(), RANK, np.float64, columns)
        basis, random = Gradient(initial=30), np.random.default_rng(5)
        basis.select(panel, random)
        assert basis.grow(panel, residuals, random) > 10
        panels.append(panel)
    np.testing.assert_array_equal(panels[1].pivots, panels[0].pivots)
    np.testing.assert_array_equal(panels[2].pivots, panels[0].pivots)
    np.testing.assert_allclose(np.asarray(panels[1].features), panels[0].features, atol=1e-10)


def test_the_file_has_no_name_and_its_room_is_taken_at_once(tmp_path):
    columns = FeatureFile(N_ROWS, RANK, np.float32, tmp_path, stored_factor=True)
    panel = grown(columns, np.float32)
    assert os.listdir(tmp_path) == []
    assert os.fstat(columns._file.descriptor).st_size == 4 * N_ROWS * RANK
    assert np.isfinite(np.asarray(panel.features)).all()


@pytest.mark.parametrize("n_threads", [1, 3])
def test_threads_read_into_buffers_of_their_own_that_are_used_again(n_threads):
    columns = FeatureFile(N_ROWS, RANK, np.float32, n_threads=n_threads)
    table = table_of(grown(columns, np.float32).features)
    # The panel has grown with threads of its own, as many as the columns were told.
    assert len(columns._buffers) <= n_threads
    for _ in range(5):
        table.product(np.ones((RANK, 2)), Workers(n_threads, least_work=1))
    assert 1 <= len(columns._buffers) <= n_threads


def test_a_file_that_was_cut_short_is_an_error():
    columns = FeatureFile(N_ROWS, RANK, np.float32)
    features = grown(columns, np.float32).features
    os.ftruncate(columns._file.descriptor, 1000)
    with pytest.raises(OSError, match="cut short"):
        np.asarray(features)


def test_a_disk_that_is_full_is_an_error_before_the_work(tmp_path):
    with pytest.raises(OSError, match=r"no room for .* GiB of features in"):
        FeatureFile(2**40, 2**20, np.float32, tmp_path)
    assert os.listdir(tmp_path) == []


def test_features_in_a_file_do_not_travel():
    features = grown(FeatureFile(N_ROWS, RANK, np.float32), np.float32).features
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(features)


def test_a_panel_that_ends_early_has_the_features_it_has():
    few = np.repeat(inputs()[:20], 10, axis=0)
    panel = PanelCholesky(RBF(0.3), few, 60, np.float32, FeatureFile(200, 60, np.float32, stored_factor=True))
    RandomCholesky().select(panel, np.random.default_rng(0))
    assert panel.rank == 20
    features = np.asarray(panel.features)
    assert features.shape == (200, 20)
    np.testing.assert_allclose(features @ features.T, RBF(0.3)(few, few), atol=1e-5)
    np.testing.assert_allclose(np.asarray(panel.subspace().factor), features[panel.pivots], atol=1e-6)


@pytest.mark.parametrize("columns", [FeatureFile, RecomputedColumns])
def test_a_posterior_has_the_same_value_and_gradient_wherever_its_features_are(columns):
    random = np.random.default_rng(6)
    offsets = np.arange(0, N_ROWS + 1, 7)
    X = [inputs()[a:b] for a, b in pairwise(offsets)]
    chains, _ = ChainReader().learn(X, np.split(random.integers(0, 3, N_ROWS), offsets[1:-1]))
    points = []
    for place in (None, columns(N_ROWS, RANK, np.float64)):
        common = {"positions": None, "n_labels": 3, "prior_variance": 2.0}
        node = design_of("node", table_of(grown(place).features), labels_per_clique=1, **common)
        edge = design_of("edge", None, labels_per_clique=2, **common)
        posterior = LogPosterior(chain_datafit(chains, [node, edge], 3))
        points.append(posterior.at(np.random.default_rng(7).normal(size=posterior.size)))
    assert points[1].value == pytest.approx(points[0].value, rel=1e-11)
    np.testing.assert_allclose(points[1].gradient, points[0].gradient, atol=1e-9)
