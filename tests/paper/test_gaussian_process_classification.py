"""Section 4: a Gaussian prior on theta is a Gaussian process on potentials; single nodes are GP classifiers."""

import numpy as np
import pytest
from scipy.special import expit, logit, softmax
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process import kernels as sklearn_kernels
from small_fields import KERNEL, small_field

from kernelfields import ChainCRF, EdgeCliques, KernelClassifier, NodeCliques
from kernelfields.data import Chains
from kernelfields.kernels import RBF
from tests.samples import potentials_of, random_chains

GAMMA = 0.4


def single_nodes(n_positions, n_labels, seed=0):
    """Inputs and labels of separate positions, labels leaning on the inputs."""
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(n_positions, 2))
    labels = np.argmax(2 * inputs @ random.normal(size=(2, n_labels)) + random.normal(size=(n_positions, n_labels)), 1)
    return inputs, labels


def fitted(inputs, labels, variance):
    crf = ChainCRF(
        RBF(GAMMA), basis="all", prior_variance=variance, solver="newton", tol=1e-15, dtype="float64", n_jobs=1
    )
    return crf.fit([row[None] for row in inputs], [[label] for label in labels])


def node_potentials(crf, inputs):
    return potentials_of(crf, Chains(inputs, np.arange(len(inputs) + 1)))[0]


def test_remark_7_prior_covariance_of_potentials():
    """theta ~ N(0, s) makes <Phi(x, y), theta> Gaussian with covariance s k((x, y), (x', y'))."""
    variance = 0.7
    chains = random_chains()
    label_kernel = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 1.5]])
    centring = np.eye(3) - 1 / 3
    node = NodeCliques(KERNEL, basis="all", label_kernel=label_kernel, prior_variance=variance)
    field = small_field([node, EdgeCliques(prior_variance=0.2)], chains)
    posterior = field.posterior
    # Potentials are linear in theta: push a unit vector through for every coordinate.
    maps = [posterior.potentials(unit) for unit in np.eye(posterior.size)]
    nodes = np.array([each.node.ravel() for each in maps]).T
    edges = np.array([each.edge.ravel() for each in maps]).T
    prior = np.diag(1 / field.precision)
    covariance = np.kron(KERNEL(chains.inputs), centring @ label_kernel @ centring)
    np.testing.assert_allclose(nodes @ prior @ nodes.T, variance * covariance, atol=1e-12)
    np.testing.assert_allclose(edges @ prior @ edges.T, 0.2 * np.eye(9), atol=1e-14)
    np.testing.assert_allclose(nodes @ prior @ edges.T, 0.0, atol=1e-14)


def test_remark_7_binary_mode_is_that_of_a_gaussian_process_classifier():
    """Length one, two labels, delta kernel at s = 1/2: the posterior mode of GP classification with kernel k."""
    inputs, labels = single_nodes(30, 2)
    peer = GaussianProcessClassifier(
        sklearn_kernels.RBF(1 / np.sqrt(2 * GAMMA), length_scale_bounds="fixed"),
        optimizer=None,
        max_iter_predict=200,
    ).fit(inputs, labels)
    mode = peer.base_estimator_.pi_
    crf = fitted(inputs, labels, variance=0.5)
    probabilities = np.vstack(crf.predict_marginals([row[None] for row in inputs]))[:, 1]
    np.testing.assert_allclose(probabilities, mode, atol=1e-7)
    potentials = node_potentials(crf, inputs)
    np.testing.assert_allclose(potentials[:, 1] - potentials[:, 0], logit(mode), atol=1e-6)

    new = np.random.default_rng(1).normal(size=(10, 2))
    latent = RBF(GAMMA)(new, inputs) @ (labels - mode)
    potentials = node_potentials(crf, new)
    np.testing.assert_allclose(potentials[:, 1] - potentials[:, 0], latent, atol=1e-6)
    np.testing.assert_array_equal(np.concatenate(crf.predict([row[None] for row in new])), peer.predict(new))


def test_remark_7_is_a_kernel_classifier_without_bias():
    """The recipe of docs/paper.md: s = 1/2 and bias=False. With a bias of its own the prior is another one."""
    inputs, labels = single_nodes(30, 2)
    peer = GaussianProcessClassifier(
        sklearn_kernels.RBF(1 / np.sqrt(2 * GAMMA), length_scale_bounds="fixed"),
        optimizer=None,
        max_iter_predict=200,
    ).fit(inputs, labels)
    options = {"prior_variance": 0.5, "basis": "all", "rank": None, "tol": 1e-13, "max_iter": 1000}
    new = np.random.default_rng(1).normal(size=(10, 2))
    mode = expit(RBF(GAMMA)(new, inputs) @ (labels - peer.base_estimator_.pi_))
    without = KernelClassifier(RBF(GAMMA), bias=False, **options).fit(inputs, labels)
    np.testing.assert_allclose(without.predict_proba(new)[:, 1], mode, atol=1e-6)
    with_it = KernelClassifier(RBF(GAMMA), **options).fit(inputs, labels)
    assert np.abs(with_it.predict_proba(new)[:, 1] - mode).max() > 1e-3


def softmax_mode(gram, labels, n_labels, variance):
    """The mode of a Gaussian process classifier with a softmax likelihood: Newton on the dense problem.

    Minimises sum_y f_y^T K^-1 f_y / (2 s) - log p(labels | f) over f = K a, one column per label.
    """
    n_positions = len(gram)
    targets = np.eye(n_labels)[labels]
    weights = np.zeros((n_positions, n_labels))
    for _ in range(50):
        probabilities = softmax(gram @ weights, axis=1)
        # Stationarity in a: a / s + p - targets = 0; its Jacobian is 1 / s + W (1 (x) K).
        residual = weights / variance + probabilities - targets
        blocks = np.einsum("ta,ab->tab", probabilities, np.eye(n_labels)) - np.einsum(
            "ta,tb->tab", probabilities, probabilities
        )
        jacobian = np.einsum("tab,tu->taub", blocks, gram).reshape(n_positions * n_labels, -1)
        jacobian[np.diag_indices(len(jacobian))] += 1 / variance
        step = np.linalg.solve(jacobian, residual.ravel()).reshape(weights.shape)
        weights -= step
        if np.abs(step).max() < 1e-14:
            return weights
    raise AssertionError("Newton's method for the reference mode did not converge")


@pytest.mark.parametrize("n_labels", [2, 3, 4])
def test_remark_7_softmax_mode_against_a_dense_newton_reference(n_labels):
    """Phi(x, y) = e_y (x) Phi(x) is the multi-class GP of Williams and Barber: same mode, old and new inputs."""
    variance = 1.3
    inputs, labels = single_nodes(24, n_labels, seed=n_labels)
    kernel = RBF(GAMMA)
    weights = softmax_mode(kernel(inputs), labels, n_labels, variance)
    crf = fitted(inputs, labels, variance)
    np.testing.assert_allclose(node_potentials(crf, inputs), kernel(inputs) @ weights, atol=1e-7)
    new = np.random.default_rng(1).normal(size=(10, 2))
    np.testing.assert_allclose(node_potentials(crf, new), kernel(new, inputs) @ weights, atol=1e-7)
    np.testing.assert_allclose(
        np.vstack(crf.predict_marginals([row[None] for row in new])),
        softmax(kernel(new, inputs) @ weights, axis=1),
        atol=1e-7,
    )
    value = np.vdot(weights, kernel(inputs) @ weights) / (2 * variance)
    value -= np.log(softmax(kernel(inputs) @ weights, axis=1)[np.arange(24), labels]).sum()
    np.testing.assert_allclose(crf.solution_.value, value, rtol=1e-12)
    np.testing.assert_array_equal(crf.transitions_, np.zeros((n_labels, n_labels)))
