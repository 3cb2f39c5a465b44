"""Products over pairs of features and labellings against dense matrices with zeros where there is no pair."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.data import Chains
from kernelfields.numerics import Workers
from kernelfields.objective.designs.supports import PairLayout, PairScorer, PairTable, Support
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
    squares = table.square_entries().transposed_product(rows, workers)
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


def test_the_sum_does_not_depend_on_which_thread_was_first():
    rng = np.random.default_rng(1)
    features, support, _ = random_table(rng, n_rows=300)
    table, rows = PairTable(features, support), rng.normal(size=(300, 9))
    first = table.transposed_product(rows, Workers(2, least_work=1))
    for _ in range(5):
        np.testing.assert_array_equal(table.transposed_product(rows, Workers(2, least_work=1)), first)


def test_a_scorer_scores_rows_it_has_not_seen():
    rng = np.random.default_rng(2)
    _features, support, _mask = random_table(rng)
    coefficients = rng.normal(size=(support.size, 1))
    scorer = PairScorer(PairLayout(support), coefficients)
    other, _, _ = random_table(rng, n_rows=7)
    expected = other.toarray() @ support.matrix(coefficients).toarray()
    np.testing.assert_allclose(scorer.scores(other, Workers(1)), expected, rtol=1e-12, atol=1e-13)


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
        *(each.term.pairs.matrix(part).toarray() for each, part in zip(seen, coefficients[:2], strict=False)),
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
