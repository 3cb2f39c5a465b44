"""Section 2 for finite families: derivatives of g, entropy, divergence, the conjugate, estimates."""

import numpy as np
import pytest
import scipy.optimize

from kernelfields.families import FiniteFamily, NoEstimate
from kernelfields.families.exponential_family import minimise

STATISTICS = np.random.default_rng(0).normal(size=(7, 3))
BASE = np.array([1.0, 0.5, 2.0, 0.0, 1.0, 1.0, 0.25])
THETA, OTHER = np.random.default_rng(1).normal(size=(2, 3))


@pytest.fixture(params=[None, BASE], ids=["counting", "weighted"])
def family(request):
    return FiniteFamily(STATISTICS, request.param)


def numerical_gradient(function, at, step=1e-5):
    return np.array([(function(at + step * e) - function(at - step * e)) / (2 * step) for e in np.eye(len(at))])


def test_probabilities_are_those_of_equation_1(family):
    masses = family.base_measure * np.exp(STATISTICS @ THETA)
    np.testing.assert_allclose(family.log_partition(THETA), np.log(masses.sum()), rtol=1e-14)
    np.testing.assert_allclose(family.probabilities(THETA), masses / masses.sum(), rtol=1e-13)
    possible = masses > 0
    np.testing.assert_allclose(
        family.log_probabilities(THETA)[possible], np.log(masses[possible] / masses.sum()), rtol=1e-12
    )
    assert np.all(family.log_probabilities(THETA)[~possible] == -np.inf)


def test_proposition_1_gradient_is_the_mean_and_hessian_the_covariance(family):
    np.testing.assert_allclose(family.mean(THETA), numerical_gradient(family.log_partition, THETA), atol=1e-9)
    covariance = family.covariance(THETA)
    np.testing.assert_allclose(covariance, numerical_gradient(family.mean, THETA), atol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > 0
    np.testing.assert_allclose(family.covariance_product(THETA, OTHER), covariance @ OTHER, rtol=1e-12)


def test_proposition_1_log_partition_is_convex(family):
    for share in (0.1, 0.5, 0.9):
        chord = share * family.log_partition(THETA) + (1 - share) * family.log_partition(OTHER)
        assert family.log_partition(share * THETA + (1 - share) * OTHER) < chord


def test_entropy_and_divergence_are_sums_over_outcomes(family):
    p, q = family.probabilities(THETA), family.probabilities(OTHER)
    possible = family.base_measure > 0
    p, q, base = p[possible], q[possible], family.base_measure[possible]
    np.testing.assert_allclose(family.entropy(THETA), -p @ np.log(p / base), rtol=1e-12)
    np.testing.assert_allclose(family.divergence(THETA, OTHER), p @ np.log(p / q), rtol=1e-12)
    assert family.divergence(THETA, THETA) == pytest.approx(0, abs=1e-14)


def test_conjugate_is_minus_the_entropy_and_its_gradient_inverts_the_mean_map(family):
    mean = family.mean(THETA)
    np.testing.assert_allclose(family.natural_parameters(mean), THETA, rtol=1e-7)
    np.testing.assert_allclose(family.conjugate(mean), -family.entropy(THETA), rtol=1e-9)
    np.testing.assert_allclose(numerical_gradient(family.conjugate, mean, 1e-4), THETA, atol=1e-5)


def test_fenchel_inequality_is_tight_at_the_mean_only(family):
    mean = family.mean(THETA)
    assert family.log_partition(THETA) + family.conjugate(mean) - THETA @ mean == pytest.approx(0, abs=1e-9)
    slack = family.log_partition(OTHER) + family.conjugate(mean) - OTHER @ mean
    np.testing.assert_allclose(slack, family.divergence(THETA, OTHER), rtol=1e-7)


def test_natural_parameters_maximise_the_entropy():
    """Any other distribution with the same mean has less entropy."""
    family = FiniteFamily(STATISTICS)
    mean = family.mean(THETA)
    best = family.entropy(family.natural_parameters(mean))
    constraints = np.vstack([STATISTICS.T, np.ones(7)])
    directions = np.linalg.svd(constraints)[2][4:]
    for direction in directions:
        moved = family.probabilities(THETA) + 0.01 * direction
        np.testing.assert_allclose(moved @ STATISTICS, mean, atol=1e-12)
        assert -moved @ np.log(moved) < best


def test_redundant_statistics_give_the_parameters_of_least_norm():
    """One-hot statistics: theta is known up to a constant, and the constant is chosen so that it sums to 0."""
    family = FiniteFamily(np.eye(4))
    frequencies = np.array([0.1, 0.2, 0.3, 0.4])
    theta = family.natural_parameters(frequencies)
    np.testing.assert_allclose(theta, np.log(frequencies) - np.log(frequencies).mean(), atol=1e-8)


def test_parameters_of_the_observed_mean_are_the_likeliest(family):
    seen = np.array([0, 1, 1, 2, 4, 4, 4, 5, 6])
    weights = np.linspace(0.5, 1.5, len(seen))

    def loss(theta):
        return -weights @ family.log_probabilities(theta)[seen]

    reference = scipy.optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    mean = weights @ family.statistics[seen] / weights.sum()
    np.testing.assert_allclose(family.natural_parameters(mean), reference.x, atol=1e-5)


def test_an_estimate_with_a_prior_is_the_mode_of_the_posterior(family):
    seen, variance = np.array([0, 0, 0, 1]), 0.7

    def loss(theta):
        return theta @ theta / (2 * variance) - family.log_probabilities(theta)[seen].sum()

    reference = scipy.optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    found = family.estimate(family.statistics[seen].mean(axis=0), precision=1 / (len(seen) * variance))
    np.testing.assert_allclose(found.theta, reference.x, atol=1e-6)


def test_the_gap_of_an_estimate_is_that_of_lemma_9():
    family = FiniteFamily(STATISTICS)
    mean = STATISTICS[:3].mean(axis=0)
    rough = family.estimate(mean, precision=0.1, tol=1e-2)
    fine = family.estimate(mean, precision=0.1, tol=1e-14)
    assert 0 < rough.value - fine.value <= rough.gap <= 1e-2
    assert fine.gap <= 1e-14


def test_tolerance_and_iterations_of_natural_parameters_are_those_of_the_estimate(family):
    mean = family.mean(THETA)
    enough = family.estimate(mean).iterations
    np.testing.assert_array_equal(family.natural_parameters(mean, max_iter=enough), family.natural_parameters(mean))
    with pytest.raises(NoEstimate):
        family.natural_parameters(mean, max_iter=enough - 1)
    with pytest.raises(ValueError, match="tol must be positive, got 0"):
        family.natural_parameters(mean, tol=0.0)


def test_a_step_is_halved_forty_times_at_most(family):
    """Where the log partition is no number but at the start, the search gives up instead of halving for ever."""
    visited = []

    class OnlyHere:
        def __init__(self, theta):
            visited.append(theta)
            self.theta, self._member = theta, family.distribution(theta)
            self.log_partition = self._member.log_partition if len(visited) == 1 else np.nan

        def __getattr__(self, name):
            return getattr(self._member, name)

    with pytest.raises(NoEstimate):
        minimise(OnlyHere, family.mean(THETA), np.zeros(3), 0.0, 1e-12, 200)
    assert len(visited) == 1 + 41


def test_means_on_the_boundary_or_outside_have_no_parameters():
    bernoulli = FiniteFamily([[0.0], [1.0]])
    for mean in (0.0, 1.0, 1.2, -3.0):
        with pytest.raises(NoEstimate, match="boundary"):
            bernoulli.natural_parameters([mean])
    with pytest.raises(NoEstimate, match="outside the plane"):
        FiniteFamily(np.eye(3)).natural_parameters([0.3, 0.3, 0.3])
    np.testing.assert_allclose(bernoulli.natural_parameters([1 - 1e-6]), np.log(1e6 - 1), rtol=1e-6)
    # Near the boundary the gap falls long before the parameters are known: the steps have to vanish, too.
    np.testing.assert_allclose(bernoulli.natural_parameters([1e-9]), -np.log(1e9 - 1), rtol=1e-8)


@pytest.mark.parametrize(
    ("statistics", "base", "message"),
    [
        ([1.0, 2.0], None, "shape"),
        ([[1.0], [np.nan]], None, "outcome 1"),
        ([[1.0], [2.0]], [1.0, -1.0], "outcome 1 has -1"),
        ([[1.0], [2.0]], [0.0, np.inf], "outcome 1 has inf"),
        ([[1.0], [2.0]], [0.0, 0.0], "zero everywhere"),
        ([[1.0], [2.0]], [1.0], "shape"),
    ],
)
def test_families_that_are_none_are_refused(statistics, base, message):
    with pytest.raises(ValueError, match=message):
        FiniteFamily(statistics, base)


def test_wrong_arguments_are_named():
    family = FiniteFamily(STATISTICS, BASE)
    with pytest.raises(ValueError, match=r"theta must have shape \(3,\)"):
        family.log_partition([1.0, 2.0])
    with pytest.raises(ValueError, match="entry 1 is nan"):
        family.mean([1.0, np.nan, 0.0])
