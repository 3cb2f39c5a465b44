"""Sections 2 and 3: the log-partition function generates moments; Markov chains are Gibbs distributions."""

import numpy as np
import pytest
from small_fields import KERNEL, derivative_along, small_field

from kernelfields import ChainCRF, EdgeCliques, ExponentialFamilyDensity, NodeCliques
from kernelfields.families import FiniteFamily
from kernelfields.kernels import RBF
from tests.arrays import infer_chains
from tests.oracles.labellings import all_labellings
from tests.samples import random_chains

LENGTH, N_LABELS = 4, 3
OFFSETS = np.array([0, LENGTH])


def indicators():
    """Sufficient statistics of a chain: which labels it holds, how often it takes each step."""
    labellings = all_labellings(LENGTH, N_LABELS)
    nodes = np.eye(N_LABELS)[labellings].reshape(len(labellings), -1)
    steps = np.eye(N_LABELS**2)[labellings[:, :-1] * N_LABELS + labellings[:, 1:]].sum(axis=1)
    return np.hstack([nodes, steps])


def as_potentials(natural):
    node, edge = np.split(natural, [LENGTH * N_LABELS])
    return node.reshape(LENGTH, N_LABELS), edge.reshape(1, N_LABELS, N_LABELS)


def as_vector(node, edge):
    return np.concatenate([node.ravel(), edge.ravel()])


def log_partition(natural):
    return infer_chains(*as_potentials(natural), OFFSETS).log_partition[0]


def test_equations_1_and_2_normalise_a_density_with_base_measure():
    """p(z) = p0(z) exp(<Phi(z), theta> - g(theta)), g the logarithm of the sum of p0 exp <Phi, theta>; p0 is seen."""
    random = np.random.default_rng(0)
    statistics = indicators()
    theta, base = random.normal(size=statistics.shape[1]), random.uniform(0.1, 3.0, len(statistics))
    base[::7] = 0.0
    masses = base * np.exp(statistics @ theta)
    family = FiniteFamily(statistics, base)
    np.testing.assert_allclose(family.log_partition(theta), np.log(masses.sum()), rtol=1e-13)
    np.testing.assert_allclose(family.probabilities(theta), masses / masses.sum(), rtol=1e-11)
    np.testing.assert_allclose(np.exp(family.log_probabilities(theta)), masses / masses.sum(), rtol=1e-11)
    np.testing.assert_allclose(family.mean(theta), masses @ statistics / masses.sum(), rtol=1e-11)
    without = FiniteFamily(statistics)
    assert without.log_partition(theta) == pytest.approx(np.log(np.exp(statistics @ theta).sum()), rel=1e-13)
    np.testing.assert_allclose(without.log_partition(theta), log_partition(theta), rtol=1e-12)


@pytest.mark.parametrize("measure", ["uniform", "gaussian"])
def test_equations_1_and_2_hold_for_densities_on_an_interval(measure):
    """exp(f - g) p0 integrates to one on a fine grid, and log p - log p0 is f up to the constant g."""
    sample = np.random.default_rng(1).normal(size=(60, 1))
    density = ExponentialFamilyDensity(RBF(2.0), base_measure=measure, random_state=0).fit(sample)
    (low, high), n = density.box_[0], 20_000
    grid = (low + (high - low) * (np.arange(n) + 0.5) / n)[:, None]
    logs = density.score_samples(grid)
    assert np.exp(logs).mean() * (high - low) == pytest.approx(1.0, abs=1e-4)
    centre, spread = sample.mean(), sample.std()
    base = {"uniform": np.zeros(n), "gaussian": -0.5 * ((grid[:, 0] - centre) / spread) ** 2}[measure]
    # What is left beside p0 is f(x) = sum_j alpha_j k(x_j, x), up to g: eq. 7 at the pivots, on the unit interval.
    alpha = density.basis_.dual_coefficients(density.coef_)
    left = (RBF(2.0)((grid[::200] - low) / (high - low), density.basis_.pivots) @ alpha).ravel()
    rest = (logs - base)[::200] - left
    np.testing.assert_allclose(rest, rest[0], atol=1e-6)
    assert np.ptp(left) > 0.01


def test_proposition_1_derivatives_are_mean_and_variance():
    """dg = E[Phi], d2g = Var[Phi], and g is convex."""
    random = np.random.default_rng(1)
    statistics = indicators()
    size = statistics.shape[1]
    theta = random.normal(size=size)
    probabilities = np.exp(statistics @ theta - log_partition(theta))
    mean = probabilities @ statistics
    variance = ((statistics - mean).T * probabilities) @ (statistics - mean)

    family, direction = FiniteFamily(statistics), random.normal(size=size)
    np.testing.assert_allclose(family.mean(theta), mean, rtol=1e-12)
    np.testing.assert_allclose(family.covariance(theta), variance, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(
        family.covariance_product(theta, direction), variance @ direction, rtol=1e-10, atol=1e-12
    )

    beliefs = infer_chains(*as_potentials(theta), OFFSETS)
    np.testing.assert_allclose(as_vector(*beliefs.gradient()), mean, rtol=1e-12, atol=1e-14)
    hessian = np.array([as_vector(*beliefs.hessian_product(*as_potentials(unit))) for unit in np.eye(size)])
    np.testing.assert_allclose(hessian, variance, rtol=1e-12, atol=1e-14)
    assert np.linalg.eigvalsh(hessian).min() > -1e-14

    np.testing.assert_allclose(derivative_along(log_partition, theta, direction), mean @ direction, rtol=1e-9)

    def slope(at):
        return as_vector(*infer_chains(*as_potentials(at), OFFSETS).gradient())

    np.testing.assert_allclose(derivative_along(slope, theta, direction), variance @ direction, atol=1e-9)


def test_proposition_2_conditional_derivatives_are_conditional_moments():
    """dg(theta; x) = E[Phi(x, y) | x], d2g(theta; x) = Var[Phi(x, y) | x], summed here over sequences."""
    field = small_field([NodeCliques(KERNEL, basis="all"), EdgeCliques()])
    posterior, theta = field.posterior, field.random_theta()
    beliefs = posterior.make_point(theta).evaluation.member
    np.testing.assert_allclose(beliefs.log_partition, field.log_partition(theta), rtol=1e-13)

    mean = posterior.blocks.flatten(posterior.datafit.pull_back(beliefs.mean()))
    np.testing.assert_allclose(mean, field.mean(theta).sum(axis=0), rtol=1e-11, atol=1e-13)

    variance = field.covariance(theta).sum(axis=0)
    for seed in range(3):
        direction = field.random_theta(seed)
        response = beliefs.covariance_product(posterior.potentials(direction))
        product = posterior.blocks.flatten(posterior.datafit.pull_back(response))
        np.testing.assert_allclose(product, variance @ direction, rtol=1e-11, atol=1e-13)


def test_proposition_2_conditional_log_partition_is_convex():
    """g lies below its chords and above its tangents."""
    field = small_field([NodeCliques(KERNEL, basis="all"), EdgeCliques()])
    one, other = field.random_theta(1), field.random_theta(2)
    for share in (0.1, 0.5, 0.8):
        chord = share * field.log_partition(one) + (1 - share) * field.log_partition(other)
        inside = field.posterior.make_point(share * one + (1 - share) * other).evaluation.member.log_partition
        assert np.all(inside < chord)
    tangent = field.log_partition(one) + field.mean(one) @ (other - one)
    assert np.all(field.posterior.make_point(other).evaluation.member.log_partition > tangent)


def test_theorem_4_gibbs_chain_is_markov():
    """A fitted chain has potentials on nodes and edges only: y_1 and y_3 are independent given y_2, not otherwise."""
    chains = random_chains((3, 4, 3, 5))
    X, y = chains.split(chains.inputs), chains.split(chains.labels)
    crf = ChainCRF(KERNEL, basis="all", edges=EdgeCliques(prior_variance=5.0), n_jobs=1).fit(X, y)
    new = np.random.default_rng(2).normal(size=(3, 2))

    def first(middle, last):
        """p(y_1) given what is known of the other two."""
        return crf.predict_marginals([new], known=[[None, middle, last]])[0][0]

    for middle in range(N_LABELS):
        given = np.array([first(middle, last) for last in (None, *range(N_LABELS))])
        np.testing.assert_allclose(given, np.repeat(given[:1], len(given), axis=0), rtol=1e-10)
    without = np.array([first(None, last) for last in range(N_LABELS)])
    assert np.ptp(without, axis=0).max() > 1e-3


def test_theorem_4_positive_markov_chain_is_gibbs():
    """A Markov chain with positive transition probabilities has node and edge potentials: their logarithms."""
    random = np.random.default_rng(3)
    first = random.dirichlet(np.ones(N_LABELS))
    transition = random.dirichlet(np.ones(N_LABELS), size=(LENGTH, N_LABELS))
    node = np.zeros((LENGTH, N_LABELS))
    node[0] = np.log(first)
    beliefs = infer_chains(node, np.log(transition), OFFSETS)
    np.testing.assert_allclose(beliefs.log_partition, 0.0, atol=1e-13)
    marginal = first
    for t in range(LENGTH):
        marginal = marginal if t == 0 else marginal @ transition[t]
        np.testing.assert_allclose(beliefs.node_marginals[t], marginal, rtol=1e-12)
