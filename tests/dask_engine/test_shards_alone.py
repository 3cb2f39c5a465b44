"""What one shard computes, without a cluster: its rows of a panel, and sums over its columns."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.basis import PanelCholesky, PivotSubspace
from kernelfields.data import Chains, EdgeCliques, NodeCliques
from kernelfields.engines import SampleSettings, Threads
from kernelfields.inference import FamilySpec
from kernelfields.kernels import RBF, Polynomial
from kernelfields.numerics import Workers
from kernelfields.objective import Term

pytest.importorskip("distributed")
panel_of_shards = pytest.importorskip("kernelfields.engines.dask.shard_panel")
sample_of_shards = pytest.importorskip("kernelfields.engines.dask.sample")
shards = pytest.importorskip("kernelfields.engines.dask.shards")

CUTS = [0, 13, 13, 40]
FORMS = {"dense": np.asarray, "sparse": sp.csr_array}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_of_shards_are_rows_of_one_panel(dtype):
    """Ten inputs of a kernel of rank six: what is left of the others is nothing, and rounding leaves no less."""
    inputs = np.random.default_rng(0).integers(-2, 3, size=(40, 2)).astype(float)
    kernel, chosen = Polynomial(2, gamma=0.7), []
    wide, whole = PanelCholesky(kernel, inputs, 10), PanelCholesky(kernel, inputs, 10, dtype)
    parts = [
        panel_of_shards.ShardPanel(kernel, inputs[a:b], 10, dtype, float(whole.diagonal.max()), a)
        for a, b in pairwise(CUTS)
    ]
    for _ in range(3):
        pivots = np.array([int(np.argmax(whole.residual))])
        pivots = np.append(pivots, np.setdiff1d(np.flatnonzero(whole.residual > 0.1), pivots)[:1])
        local = np.linalg.cholesky(wide.residual_block(pivots))
        features = wide.features[pivots].copy()
        for panel in (wide, whole):
            panel.append(pivots, local)
        for part in parts:
            part.add_pivots(pivots, inputs[pivots], features, local)
        chosen += pivots.tolist()
    for part, (a, b) in zip(parts, pairwise(CUTS), strict=True):
        np.testing.assert_allclose(part.features, whole.features[a:b], atol=1e-5 if dtype == np.float32 else 1e-9)
        np.testing.assert_allclose(part.residual, whole.residual[a:b], atol=1e-4 if dtype == np.float32 else 1e-9)
        assert (part.residual >= 0).all()
        assert -1e-4 < part.lowest <= 0, "how far rounding went below zero"
        np.testing.assert_array_equal(part.pivots, chosen)
        np.testing.assert_array_equal(part.pivot_inputs, inputs[chosen])
        own = [row - a for row in chosen if a <= row < b]
        np.testing.assert_array_equal(part.own(np.array(chosen)), own)
        assert not part.residual[own].any()
        asked = np.arange(b - a)[::5]
        proposed = part.proposed(asked)
        np.testing.assert_array_equal(proposed.rows, asked + a)
        np.testing.assert_array_equal(proposed.residual, part.residual[asked])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("clique", [NodeCliques(), EdgeCliques()], ids=["nodes", "edges"])
def test_weighted_means_and_variances_of_columns_add_up_over_shards(form, clique):
    """A shard of sequences of length one has no edges, and counts for nothing."""
    random = np.random.default_rng(1)
    lengths, weights = [np.array([1, 1]), np.array([3, 5, 1])], random.uniform(0.5, 2.0, size=5)
    inputs = random.normal(size=(11, 3)) * (random.random((11, 3)) < 0.7)
    total, sums, rows, row_weights, shards = 0.0, np.zeros(3), [], [], []
    begin, first = 0, 0
    for part in lengths:
        own = weights[first : first + len(part)]
        offsets = np.concatenate([[0], np.cumsum(part)])
        chains = Chains(inputs[begin : begin + offsets[-1]], offsets, None, own)
        positions = clique.positions(chains)
        seen = chains.inputs if positions is None else chains.inputs[positions]
        each = chains.position_weights if positions is None else chains.position_weights[positions]
        shards.append((SimpleNamespace(data=chains), FORMS[form](seen)))
        weight, columns, low, high = sample_of_shards.column_sums(*shards[-1], clique)
        np.testing.assert_allclose(low, seen.min(axis=0, initial=np.inf))
        np.testing.assert_allclose(high, seen.max(axis=0, initial=-np.inf))
        total, sums = total + weight, sums + columns
        rows.append(seen)
        row_weights.append(each)
        begin, first = begin + offsets[-1], first + len(part)
    rows, row_weights = np.concatenate(rows), np.concatenate(row_weights)
    assert total == pytest.approx(row_weights.sum())
    means = np.average(rows, axis=0, weights=row_weights)
    np.testing.assert_allclose(sums / total, means, rtol=1e-12)
    squares = sum(sample_of_shards.column_squares(*shard, clique, means) for shard in shards)
    np.testing.assert_allclose(squares, row_weights @ np.square(rows - means), rtol=1e-12)


def small_shard():
    random = np.random.default_rng(2)
    features = sp.csr_array(random.normal(size=(9, 4)) * (random.random((9, 4)) < 0.5))
    chains = Chains(features, np.array([0, 1, 5, 9]), np.arange(9) % 3, None)
    return SimpleNamespace(data=chains), features


@pytest.mark.parametrize("clique", [NodeCliques(), EdgeCliques()], ids=["nodes", "edges"])
def test_pairs_of_features_and_labellings_are_counted_by_their_numbers(clique):
    """The pair of feature f and labelling y is number f L^k + y, and weighs the sum of the feature's values there."""
    shard, features = small_shard()
    positions = clique.positions(shard.data)
    rows = features.toarray() if positions is None else features.toarray()[positions]
    labellings, n_outcomes = clique.observed(shard.data, 3)[1], clique.n_configurations(3)
    weights = {}
    for row, labelling in zip(rows, labellings.tolist(), strict=True):
        for f in np.flatnonzero(row).tolist():
            weights[f * n_outcomes + labelling] = weights.get(f * n_outcomes + labelling, 0.0) + row[f]
    n_features, keys, totals = sample_of_shards.observed_pairs(shard, sp.csr_array(rows), clique, 3)
    assert (n_features, keys.tolist()) == (4, sorted(weights))
    np.testing.assert_allclose(totals, [weights[key] for key in sorted(weights)], rtol=1e-12)
    one, keys, totals = sample_of_shards.observed_pairs(shard, None, clique, 3)
    assert (one, keys.tolist()) == (1, sorted(set(labellings.tolist())))
    np.testing.assert_array_equal(totals, [np.count_nonzero(labellings == key) for key in keys])


def test_columns_store_what_they_hold():
    _, features = small_shard()
    sparse, n_rows, counts = sample_of_shards.stored_columns(features)
    assert (sparse, n_rows) == (True, 9)
    np.testing.assert_array_equal(counts, np.count_nonzero(features.toarray(), axis=0))
    dense, n_rows, counts = sample_of_shards.stored_columns(features.toarray())
    assert (dense, n_rows, counts.tolist()) == (False, 9, [9] * 4)


def test_a_shard_that_has_forgotten_something_says_so():
    def forget(request):
        raise shards.Forgotten

    assert shards.answer(SimpleNamespace(answer=lambda request: 2 * request), 21) == (True, 42)
    assert shards.answer(SimpleNamespace(answer=forget), 21) == (False, None)


@pytest.mark.parametrize("clique", [NodeCliques(), EdgeCliques()], ids=["nodes", "edges"])
def test_a_basis_that_is_there_has_the_features_of_the_kernel(clique):
    """Products of features are those of k(x, B) K_BB^-1 k(B, x'), and k(x, x) less their squares is left outside."""
    random, kernel = np.random.default_rng(3), RBF(0.3)
    chains = Chains(random.normal(size=(9, 2)), np.array([0, 1, 5, 9]), np.arange(9) % 3, None)
    pivots = chains.inputs[[1, 4, 8]]
    subspace = PivotSubspace(kernel, pivots, np.linalg.cholesky(kernel(pivots)), np.array([1, 4, 8]))
    inputs = clique.view(chains)
    term = Term(clique, "some", subspace)
    shard = SimpleNamespace(data=chains, workers=Workers(1))
    settings = SampleSettings(np.dtype(np.float64))
    design = sample_of_shards.shard_sample(shard, Threads(), FamilySpec("chain", 3), settings).design(term)
    columns = kernel(inputs, pivots)
    gram = columns @ np.linalg.solve(kernel(pivots), columns.T)
    np.testing.assert_allclose(design.features @ design.features.T, gram, atol=1e-12)
    np.testing.assert_allclose(design.origin.residual_diagonal, 1.0 - np.diag(gram), atol=1e-12)
    np.testing.assert_array_equal(design.positions, clique.positions(chains))
