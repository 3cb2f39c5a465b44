"""Products over pairs of features and labellings against dense matrices with zeros where there is no pair."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.data.chains import Chains
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs.pairs import PairLayout, PairScorer, PairTable, Support
from tests.samples import chain_datafit, design_of


def support_of(mask):
    """The support whose pairs are where the mask (r, L^k) is true."""
    begin = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int32)
    return Support(begin, np.nonzero(mask)[1].astype(np.int32), mask.shape[1])


def random_table(rng, n_rows=40, n_features=30, n_outcomes=9, dtype=np.float64):
    """Sparse features with empty rows and columns, and a support with wide, narrow and absent features."""
    dense = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.2)
    dense[rng.random(n_rows) < 0.1] = 0.0
    share = rng.choice([0.0, 0.1, 0.3, 1.0], size=(n_features, 1))
    mask = rng.random((n_features, n_outcomes)) < share
    return sp.csr_array(dense.astype(dtype)), support_of(mask), mask


def assert_products_are_dense_ones(features, support, mask, workers, rng):
    table = PairTable(features, support)
    dense = features.toarray().astype(np.float64)
    coefficients = rng.normal(size=(support.size, 1))
    weights = support.matrix(coefficients).toarray()
    assert not weights[~mask].any()
    np.testing.assert_allclose(table.product(coefficients, workers), dense @ weights, rtol=1e-12, atol=1e-12)
    rows = rng.normal(size=(features.shape[0], support.n_outcomes))
    gradient = table.transposed_product(rows, workers)
    assert gradient.shape == (support.size, 1)
    np.testing.assert_allclose(gradient[:, 0], (dense.T @ rows)[mask], rtol=1e-12, atol=1e-12)
    squares = table.squared().transposed_product(rows, workers)
    squared = np.square(features.toarray()).astype(np.float64)  # rounded to the precision of the features
    np.testing.assert_allclose(squares[:, 0], (squared.T @ rows)[mask], rtol=1e-12, atol=1e-12)
    # The squares are a table of their own.
    np.testing.assert_array_equal(table.transposed_product(rows, workers), gradient)


@given(
    st.integers(0, 10_000),
    st.integers(1, 30),
    st.integers(1, 12),
    st.sampled_from([1, 2, 3, 9, 25]),
    st.sampled_from([np.float32, np.float64]),
)
@settings(deadline=None)
def test_products_of_random_supports(seed, n_rows, n_features, n_outcomes, dtype):
    rng = np.random.default_rng(seed)
    table = random_table(rng, n_rows, n_features, n_outcomes, dtype)
    assert_products_are_dense_ones(*table, Workers(1), rng)


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_products_on_several_threads(seed, n_jobs):
    rng = np.random.default_rng(seed)
    features, support, mask = random_table(rng, n_rows=200)
    workers = Workers(n_jobs, least_work=1)
    assert (len(workers.weighted_pieces(features.indptr, 9)) > 1) == (n_jobs > 1)
    assert_products_are_dense_ones(features, support, mask, workers, rng)


def test_arrays_per_thread_do_not_outweigh_the_data():
    rng = np.random.default_rng(0)
    features = sp.csr_array(rng.normal(size=(50, 400)) * (rng.random((50, 400)) < 0.01))
    full = PairTable(features, support_of(np.ones((400, 50), dtype=bool)))
    assert len(full.runs(Workers(4, least_work=1))) == 1
    slim = PairTable(features, support_of(np.eye(400, 50, dtype=bool)))
    assert len(slim.runs(Workers(4, least_work=1))) > 1
    for table in (full, slim):
        rows = rng.normal(size=(50, 50))
        gradient = table.transposed_product(rows, Workers(4, least_work=1))
        np.testing.assert_allclose(gradient, table.transposed_product(rows, Workers(1)), rtol=1e-12, atol=1e-14)


def test_the_sum_does_not_depend_on_which_thread_was_first():
    rng = np.random.default_rng(1)
    features, support, _ = random_table(rng, n_rows=300)
    table, rows = PairTable(features, support), rng.normal(size=(300, 9))
    first = table.transposed_product(rows, Workers(2, least_work=1))
    for _ in range(5):
        np.testing.assert_array_equal(table.transposed_product(rows, Workers(2, least_work=1)), first)


def test_features_with_many_pairs_get_a_full_row_and_single_pairs_never_do():
    mask = np.zeros((4, 8), dtype=bool)
    mask[0, 3] = mask[1, :2] = mask[3] = True
    layout = PairLayout(support_of(mask))
    np.testing.assert_array_equal(layout.slots, [-1, 0, -1, 1])
    assert layout.table_shape == (2, 8)
    # With one labelling a pair is a quarter of all of them, but no row.
    assert PairLayout(support_of(np.ones((3, 1), dtype=bool))).table_shape == (0, 1)


def test_a_scorer_scores_rows_it_has_not_seen():
    rng = np.random.default_rng(2)
    _features, support, _mask = random_table(rng)
    coefficients = rng.normal(size=(support.size, 1))
    scorer = PairScorer(PairLayout(support), coefficients)
    other, _, _ = random_table(rng, n_rows=7)
    expected = other.toarray() @ support.matrix(coefficients).toarray()
    np.testing.assert_allclose(scorer.scores(other, Workers(1)), expected, rtol=1e-12, atol=1e-13)


def test_a_table_knows_its_size():
    features, support, _ = random_table(np.random.default_rng(3))
    table = PairTable(features, support)
    assert table.shape == (support.size, 1)
    assert table.stored_values == features.nnz
    np.testing.assert_allclose(table.mean_square(), np.square(features.toarray()).sum(axis=0).mean(), rtol=1e-12)
    nothing = PairTable(features, support_of(np.zeros((30, 9), dtype=bool)))
    np.testing.assert_array_equal(nothing.product(np.empty((0, 1)), Workers(1)), np.zeros((40, 9)))
    assert nothing.transposed_product(np.ones((40, 9)), Workers(1)).shape == (0, 1)


def chains_with_support(seed=0, lengths=(1, 4, 3, 5, 2), n_labels=3, n_features=6):
    """Weighted chains, sparse features, and supports that leave out some pairs of nodes and some steps."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    n_positions = offsets[-1]
    inputs = sp.csr_array(rng.normal(size=(n_positions, n_features)) * (rng.random((n_positions, n_features)) < 0.6))
    weights = rng.uniform(0.5, 2.0, size=len(lengths))
    chains = Chains(inputs, offsets, rng.integers(n_labels, size=n_positions), weights)
    shared = {"n_labels": n_labels, "prior_variance": 1.0}
    masks = rng.random((n_features, n_labels)) < 0.6, rng.random((1, n_labels**2)) < 0.7
    steps = np.flatnonzero(~chains.is_start)
    seen = [
        design_of("node", inputs, positions=None, labels_per_clique=1, support=support_of(masks[0]), **shared),
        design_of("edge", None, positions=steps, labels_per_clique=2, support=support_of(masks[1]), **shared),
        design_of("end", inputs[chains.ends], positions=chains.ends, labels_per_clique=1, **shared),
    ]
    every = [
        design_of("node", inputs, positions=None, labels_per_clique=1, **shared),
        design_of("edge", None, positions=steps, labels_per_clique=2, **shared),
        seen[2],
    ]
    return chains, seen, every, masks


def test_scores_and_gradients_of_clique_sets_are_masked_dense_ones():
    chains, seen, every, masks = chains_with_support()
    rng = np.random.default_rng(1)
    engine, twin = (chain_datafit(chains, designs, 3, workers=Workers(1)) for designs in (seen, every))
    coefficients = [rng.normal(size=each.shape) for each in seen]
    spread = [
        *(each.term.support.matrix(part).toarray() for each, part in zip(seen, coefficients[:2], strict=False)),
        coefficients[2],
    ]
    potentials, expected = engine.potentials(coefficients), twin.potentials(spread)
    np.testing.assert_allclose(potentials.node, expected.node, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(potentials.edge, expected.edge, rtol=1e-12, atol=1e-13)
    residual = engine.evaluate(potentials).residual
    gradients, full = engine.pull_back(residual), twin.pull_back(residual)
    for gradient, dense, mask in zip(gradients, full, masks, strict=False):
        np.testing.assert_allclose(gradient[:, 0], dense[mask], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(gradients[2], full[2], rtol=1e-12)


def test_curvature_of_the_pairs_is_that_part_of_the_full_block():
    chains, seen, every, masks = chains_with_support()
    rng = np.random.default_rng(2)
    engine, twin = (chain_datafit(chains, designs, 3, workers=Workers(1)) for designs in (seen, every))
    evaluation = engine.evaluate(engine.potentials([rng.normal(size=each.shape) for each in seen]))
    for index, mask in enumerate(masks):
        block, full = engine.curvature_block(evaluation, index), twin.curvature_block(evaluation, index)
        kept = np.flatnonzero(mask.ravel())
        np.testing.assert_allclose(block, full[np.ix_(kept, kept)], rtol=1e-11, atol=1e-13)
    # For sets of single weights the diagonal comes cheaper, and is the same.
    for each in (engine, twin):
        diagonal = each.curvature_diagonal(evaluation, 0)
        np.testing.assert_allclose(diagonal.ravel(), np.diag(each.curvature_block(evaluation, 0)), rtol=1e-11)
        assert each.curvature_diagonal(evaluation, 1) is None, "transitions have no sparse features"


def test_without_steps_the_block_is_the_hessian():
    # Chains of length one have no covariances across cliques; derivatives of the gradient by differences.
    chains, seen, _, _ = chains_with_support(lengths=(1,) * 12)
    engine = chain_datafit(chains, seen[:1], 3, workers=Workers(1))
    rng = np.random.default_rng(3)
    theta, step = rng.normal(size=seen[0].shape), 1e-5

    def gradient(theta):
        return engine.pull_back(engine.evaluate(engine.potentials([theta])).residual)[0][:, 0]

    block = engine.curvature_block(engine.evaluate(engine.potentials([theta])), 0)
    for column, unit in enumerate(np.eye(len(theta))):
        numeric = (gradient(theta + step * unit[:, None]) - gradient(theta - step * unit[:, None])) / (2 * step)
        np.testing.assert_allclose(block[:, column], numeric, atol=1e-8)


def test_the_share_of_stored_values():
    features, support, _ = random_table(np.random.default_rng(5))
    shared = {"positions": None, "labels_per_clique": 1, "n_labels": 9, "prior_variance": 1.0}
    sparse = design_of("node", features, support=support, **shared)
    assert sparse.density == pytest.approx(features.nnz / (40 * 30))
    assert design_of("node", features.toarray(), **shared).density == 1.0
    assert design_of("node", None, **shared).density == 1.0
