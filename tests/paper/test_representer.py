"""Section 4: the posterior (eq. 13-15) and the expansion of its minimiser (eq. 16)."""

import numpy as np
from small_fields import KERNEL, as_lists, small_field, tied_field

from kernelfields import ChainCRF, EdgeCliques, NodeCliques
from kernelfields.data import Chains
from tests.samples import potentials_of, random_chains

VARIANCE, EDGE_VARIANCE = 1.4, 0.6


def fitted(chains):
    crf = ChainCRF(
        KERNEL,
        basis="all",
        prior_variance=VARIANCE,
        edges=EdgeCliques(prior_variance=EDGE_VARIANCE),
        solver="newton",
        tol=1e-14,
        dtype="float64",
        n_jobs=1,
    )
    return crf.fit(*as_lists(chains))


def test_equation_13_log_likelihood_is_score_minus_log_partition():
    """l = sum_i <Phi(x^i, y^i), theta> - g(theta; x^i), here at the estimate of a fitted model."""
    chains = random_chains()
    crf = fitted(chains)
    field = small_field(
        [
            NodeCliques(KERNEL, basis="all", prior_variance=VARIANCE),
            EdgeCliques(prior_variance=EDGE_VARIANCE),
        ],
        chains,
    )
    theta = np.concatenate([each.coefficients.ravel() for each in crf.field_.terms])
    each = field.observed @ theta - field.log_partition(theta)
    X, y = as_lists(chains)
    np.testing.assert_allclose(crf.log_likelihood(X, y, per_item=True), each, rtol=1e-11)
    np.testing.assert_allclose(crf.log_likelihood(X, y), each.sum(), rtol=1e-11)
    # eq. 15: the value that is minimised is the prior term minus the log-likelihood
    np.testing.assert_allclose(crf.solution_.value, field.value(theta), rtol=1e-12)


def test_equation_15_is_minimised():
    """No direction lowers the negative log-posterior of a fitted model."""
    field = small_field([NodeCliques(KERNEL, basis="all"), EdgeCliques()])
    theta = field.minimiser()
    np.testing.assert_allclose(field.gradient(theta), 0.0, atol=1e-12)
    for seed in range(5):
        assert field.value(theta + 0.01 * field.random_theta(seed)) > field.value(theta)


def test_equation_16_minimiser_expands_over_all_labellings():
    """theta = sum_i sum_y alpha_y^i Phi(x^i, y) with alpha = s (1[y = y^i] - p(y | x^i)): signed, summing to 0."""
    chains = random_chains()
    field = tied_field(chains, 3, VARIANCE, VARIANCE)
    theta = field.minimiser()
    expansion = np.zeros(field.size)
    for i, probabilities in enumerate(field.probabilities(theta)):
        labels = chains.labels[chains.offsets[i] : chains.offsets[i + 1]]
        alpha = VARIANCE * (np.all(field.labellings(i) == labels, axis=1) - probabilities)
        np.testing.assert_allclose(alpha.sum(), 0.0, atol=1e-13)
        assert (alpha > 0).sum() == 1
        expansion += alpha @ field.statistics[i]
    np.testing.assert_allclose(theta, expansion, atol=1e-11)


def test_equation_16_by_cliques_predicts_new_inputs():
    """f(x, y) = sum_t alpha_ty k(x_t, x) with alpha_ty = s (1[y = y_t] - m_t(y)), on inputs not seen before."""
    chains = random_chains((4, 3, 5, 1))
    crf = fitted(chains)
    X, _ = as_lists(chains)
    alpha = VARIANCE * (np.eye(3)[chains.labels] - np.vstack(crf.predict_marginals(X)))
    np.testing.assert_allclose(alpha.sum(axis=1), 0.0, atol=1e-13)

    new = np.random.default_rng(9).normal(size=(6, 2))
    node, edge = potentials_of(crf, Chains(new, np.array([0, 4, 6])))
    np.testing.assert_allclose(node, KERNEL(new, chains.inputs) @ alpha, atol=1e-8)

    _, pairs = crf.predict_marginals(X, cliques="edge")
    counts = np.zeros((3, 3))
    for labels in chains.split(chains.labels):
        np.add.at(counts, (labels[:-1], labels[1:]), 1.0)
    expected = sum(each.sum(axis=0) for each in pairs)
    np.testing.assert_allclose(edge[0], EDGE_VARIANCE * (counts - expected), atol=1e-8)
    np.testing.assert_allclose(edge[0], crf.transitions_, rtol=0, atol=0)


def test_equation_16_pivots_carry_the_expansion():
    """The dual coefficients of the pivots, R^-T V, are the alpha of the training inputs they are."""
    chains = random_chains((4, 3, 5, 1))
    crf = fitted(chains)
    subspace = crf.basis_["node"]
    X, _ = as_lists(chains)
    alpha = VARIANCE * (np.eye(3)[chains.labels] - np.vstack(crf.predict_marginals(X)))
    assert sorted(subspace.indices) == list(range(chains.n_positions))
    np.testing.assert_allclose(subspace.dual_coefficients(crf.coef_["node"]), alpha[subspace.indices], atol=1e-6)
