"""Section 6: centring the statistics over labels changes nothing (Lemma 13), for any finite label set."""

import numpy as np
import pytest
from scipy.special import expit
from small_fields import KERNEL, as_lists, tied_field

from kernelfields import ChainCRF, EdgeCliques, NodeCliques
from kernelfields.data import Chains
from kernelfields.kernels import CentredDelta, Delta, LabelMatrix
from tests.samples import potentials_of, random_chains

VARIANCE = 1.2
LABEL_MATRIX = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 1.5]])
SIGNS = np.array([[-1.0], [1.0]])  # y in {-1, +1}


def centred(matrix):
    centring = np.eye(len(matrix)) - 1.0 / len(matrix)
    return centring @ matrix @ centring


def map_of(chains, n_labels, variance, label_factor=None):
    """Value, node marginals and node potentials at the MAP with label kernel A A^T."""
    field = tied_field(chains, n_labels, variance, VARIANCE, label_factor=label_factor)
    theta = field.minimiser()
    point = field.posterior.make_point(theta)
    return point.value, point.evaluation.member.marginals(), point.potentials.node


def fitted(chains, **options):
    cliques = [NodeCliques(KERNEL, basis="all", **options), EdgeCliques(prior_variance=VARIANCE)]
    return ChainCRF(cliques=cliques, solver="newton", tol=1e-14, dtype="float64", n_jobs=1).fit(*as_lists(chains))


def marginals_of(crf, chains):
    return np.vstack(crf.predict_marginals(chains.split(chains.inputs)))


def test_lemma_13_centred_statistics_have_the_same_conditional_probabilities():
    """Phi(x, y) - mean_y' Phi(x, y') leaves p(y | x; theta) unchanged at every theta, not only at the MAP."""
    chains = random_chains()
    plain = tied_field(chains, 3, label_factor=np.linalg.cholesky(LABEL_MATRIX))
    factor = np.linalg.cholesky(LABEL_MATRIX)
    shifted = tied_field(chains, 3, label_factor=factor - factor.mean(axis=0))
    theta = plain.random_theta()
    for one, other in zip(plain.probabilities(theta), shifted.probabilities(theta), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_allclose(
        plain.posterior.make_point(theta).evaluation.member.marginals(),
        shifted.posterior.make_point(theta).evaluation.member.marginals(),
        rtol=1e-12,
    )


@pytest.mark.parametrize("n_labels", [2, 3, 4])
def test_factors_of_the_label_kernels(n_labels):
    """delta and centred delta are worked with as the contrasts A, A A^T = 1 - 1/L, A^T A = 1, L - 1 columns."""
    for kernel in (Delta(), CentredDelta()):
        factor = kernel.factor(n_labels)
        np.testing.assert_allclose(factor @ factor.T, centred(np.eye(n_labels)), atol=1e-14)
        np.testing.assert_allclose(factor.T @ factor, np.eye(n_labels - 1), atol=1e-14)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_lemma_13_delta_and_centred_delta_have_the_same_map(n_labels):
    """Uncentred delta, the contrasts, and the estimator's "delta" and "centred" agree at the optimum."""
    chains = random_chains(n_labels=n_labels)
    value, marginals, potentials = map_of(chains, n_labels, VARIANCE)
    contrast_value, contrast_marginals, _ = map_of(chains, n_labels, VARIANCE, Delta().factor(n_labels))
    np.testing.assert_allclose(contrast_value, value, rtol=1e-12)
    np.testing.assert_allclose(contrast_marginals, marginals, atol=1e-11)
    np.testing.assert_allclose(potentials.sum(axis=1), 0.0, atol=1e-11)
    for label_kernel in ("delta", "centred", np.eye(n_labels), centred(np.eye(n_labels))):
        crf = fitted(chains, prior_variance=VARIANCE, label_kernel=label_kernel)
        np.testing.assert_allclose(crf.solution_.value, value, rtol=1e-11)
        np.testing.assert_allclose(marginals_of(crf, chains), marginals, atol=1e-8)


def test_coefficients_of_the_delta_kernel_sum_to_zero_over_labels():
    """At the optimum, without being asked to, so the contrasts remove one dimension exactly."""
    chains = random_chains()
    field = tied_field(chains, 3, VARIANCE)
    node, _ = field.posterior.blocks.split(field.minimiser())
    np.testing.assert_allclose(node.sum(axis=1), 0.0, atol=1e-12)
    assert np.abs(node).max() > 0.1


def test_lemma_13_a_general_label_kernel_and_its_centred_version_have_the_same_map():
    """k_y and J k_y J give the same marginals, worked out uncentred and by the estimator."""
    chains = random_chains()
    value, marginals, _ = map_of(chains, 3, VARIANCE, np.linalg.cholesky(LABEL_MATRIX))
    factor = LabelMatrix(LABEL_MATRIX).factor(3)
    np.testing.assert_allclose(factor @ factor.T, centred(LABEL_MATRIX), atol=1e-13)
    centred_value, centred_marginals, _ = map_of(chains, 3, VARIANCE, factor)
    np.testing.assert_allclose(centred_value, value, rtol=1e-12)
    np.testing.assert_allclose(centred_marginals, marginals, atol=1e-11)
    for label_kernel in (LABEL_MATRIX, centred(LABEL_MATRIX)):
        crf = fitted(chains, prior_variance=VARIANCE, label_kernel=label_kernel)
        np.testing.assert_allclose(crf.solution_.value, value, rtol=1e-11)
        np.testing.assert_allclose(marginals_of(crf, chains), marginals, atol=1e-8)


def test_the_papers_binary_kernel_is_delta_at_twice_the_variance():
    """For two labels centred delta is y y' / 2: delta at s is the paper's y y' k at s / 2."""
    np.testing.assert_allclose(SIGNS @ SIGNS.T / 2, centred(np.eye(2)), atol=1e-15)
    chains = random_chains(n_labels=2)
    value, marginals, _ = map_of(chains, 2, VARIANCE)
    paper_value, paper_marginals, _ = map_of(chains, 2, VARIANCE / 2, SIGNS)
    np.testing.assert_allclose(paper_value, value, rtol=1e-12)
    np.testing.assert_allclose(paper_marginals, marginals, atol=1e-11)
    crf = fitted(chains, prior_variance=VARIANCE / 2, label_kernel=SIGNS @ SIGNS.T)
    np.testing.assert_allclose(crf.solution_.value, value, rtol=1e-11)
    np.testing.assert_allclose(marginals_of(crf, chains), marginals, atol=1e-8)


def test_the_papers_binary_kernel_gives_sigmoid_of_twice_f():
    """With Phi(x, y) = y Phi(x) the potential is y f(x), so p(y = 1 | x) = sigmoid(2 f(x)) on a single node."""
    chains = random_chains((1,) * 8, n_labels=2)
    crf = fitted(chains, prior_variance=VARIANCE, label_kernel=SIGNS @ SIGNS.T)
    new = np.random.default_rng(5).normal(size=(6, 2))
    single = Chains(new, np.arange(7))
    node, _ = potentials_of(crf, single)
    f = node[:, 1]
    np.testing.assert_allclose(node[:, 0], -f, atol=1e-14)
    np.testing.assert_allclose(marginals_of(crf, single)[:, 1], expit(2 * f), rtol=1e-12)
    # f is the expansion over y_t k(x_t, .) with the weights s (y_t - E[y_t])
    signs = 2.0 * chains.labels - 1
    expected = marginals_of(crf, chains) @ np.array([-1.0, 1.0])
    np.testing.assert_allclose(f, VARIANCE * KERNEL(new, chains.inputs) @ (signs - expected), atol=1e-8)
