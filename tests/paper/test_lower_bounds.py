"""Section 4: lower bounds on the minimum (Lemma 9), their duality, and the bundle of several points."""

import numpy as np
import pytest
from small_fields import KERNEL, small_field

from kernelfields import EdgeCliques, NodeCliques
from kernelfields.families import FiniteFamily
from kernelfields.objective import LowerBound
from kernelfields.objective.bounds import maximise_on_simplex
from kernelfields.objective.penalty import term_gap
from kernelfields.solvers import LBFGS, minimize
from tests.samples import random_chains


@pytest.fixture(scope="module")
def field():
    return small_field(
        [NodeCliques(KERNEL, basis="all", prior_variance=2.0), EdgeCliques(prior_variance=0.4)],
        random_chains((3, 4, 2, 1)),
    )


@pytest.fixture(scope="module")
def minimum(field):
    return field.value(field.minimiser())


def single_point_bound(field, theta):
    point = field.posterior.make_point(theta)
    return point.value - sum(field.posterior.gap_parts(point).values())


def test_lemma_9_holds_for_subgradients_of_a_maximum():
    """Eq. 17 for C(theta) = max_k (a_k theta + b_k), which has kinks: value less ``term_gap`` is below the minimum.

    The minimum is found on a fine grid. Where C is one line, the bound is its minimum exactly (eq. 18).
    """
    random = np.random.default_rng(0)
    slopes, intercepts, precision = random.normal(size=5), random.normal(size=5), 0.7
    grid = np.linspace(-10, 10, 20_001)
    term = small_field([NodeCliques(KERNEL, prior_variance=1 / precision), EdgeCliques()]).designs[0].term

    def minimum_of(chosen):
        return ((slopes[chosen] * grid[:, None] + intercepts[chosen]).max(axis=1) + 0.5 * precision * grid**2).min()

    for theta in np.linspace(-3, 3, 25):
        active = np.argmax(slopes * theta + intercepts)
        value = slopes[active] * theta + intercepts[active] + 0.5 * precision * theta**2
        bound = value - term_gap(term, np.array([theta]), slopes[[active]])
        assert bound <= minimum_of(slice(None))
        assert bound == pytest.approx(minimum_of([active]), abs=1e-6)


@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0, 5.0])
def test_lemma_9_bounds_the_minimum_of_the_posterior(field, minimum, scale):
    """min P >= P(theta) - sum_c (s_c / 2) ||grad_c||^2 at every theta."""
    for seed in range(5):
        assert single_point_bound(field, field.random_theta(seed, scale)) <= minimum


def test_lemma_9_is_tight_at_the_minimiser(field, minimum):
    """At the minimiser the gradient and with it the gap vanish."""
    np.testing.assert_allclose(single_point_bound(field, field.minimiser()), minimum, rtol=1e-13)


def test_lemma_9_certifies_the_estimates_of_families():
    """g(theta) - <theta, m> + precision ||theta||^2 / 2 is within ||gradient||^2 / (2 precision) of its minimum."""
    random, precision = np.random.default_rng(0), 0.3
    family = FiniteFamily(random.normal(size=(30, 4)), random.uniform(0.1, 1.0, 30))
    mean = family.statistics[3] * 0.8
    minimum = family.estimate(mean, precision=precision, tol=1e-13).value
    for tol in (10.0, 1.0, 0.1):
        found = family.estimate(mean, precision=precision, tol=tol)
        gradient = family.mean(found.theta) - mean + precision * found.theta
        assert found.gap == pytest.approx(gradient @ gradient / (2 * precision), rel=1e-9)
        assert found.value - found.gap <= minimum <= found.value
    assert found.gap > 1e-6, "the last one was not the minimum itself"


@pytest.mark.parametrize("scale", [0.0, 0.3, 2.0])
def test_lemma_9_is_the_fenchel_duality_gap(field, scale):
    """P(theta) - D(p_theta) = sum_c (s_c / 2) ||grad_c||^2 for the dual

    D(p) = sum_i H(p_i) - sum_c (s_c / 2) ||sum_i Phi_c(x^i, y^i) - E_{p_i} Phi_c(x^i, y)||^2,

    so the bound of Lemma 9 is the value of the dual at the labellings' distribution under theta.
    """
    theta = field.random_theta(3, scale)
    probabilities = field.probabilities(theta)
    entropy = -sum(p @ np.log(p) for p in probabilities)
    expected = np.array([p @ phi for p, phi in zip(probabilities, field.statistics, strict=True)])
    difference = (field.observed - expected).sum(axis=0)
    dual = entropy - 0.5 * difference @ (difference / field.precision)
    np.testing.assert_allclose(single_point_bound(field, theta), dual, rtol=1e-11)


def test_the_bundle_is_below_the_dual_of_a_mixture_which_is_below_the_primal(field, minimum):
    """Weak duality, D(p) <= min P for any p_i: those of several points, mixed, are a dual point of the bundle.

    Entropy is concave, so the bound that LowerBound gives for two cuts is at most the best D of their mixtures.
    """
    for seed in range(6):
        side = field.random_theta(seed, 0.3)
        points = [field.minimiser() + side, field.minimiser() - side]
        bundle, found = LowerBound(), -np.inf
        for theta in points:
            bundle.add(field.posterior.make_point(theta))
        one, other = (field.probabilities(theta) for theta in points)
        for share in np.linspace(0, 1, 201):
            mixed = [share * p + (1 - share) * q for p, q in zip(one, other, strict=True)]
            entropy = -sum(p @ np.log(p) for p in mixed)
            expected = np.array([p @ phi for p, phi in zip(mixed, field.statistics, strict=True)])
            difference = (field.observed - expected).sum(axis=0)
            found = max(found, entropy - 0.5 * difference @ (difference / field.precision))
        assert bundle.value <= found + 1e-3 <= minimum + 1e-3
        assert bundle.value >= max(single_point_bound(field, theta) for theta in points) - 1e-12
        assert bundle.value > max(single_point_bound(field, theta) for theta in points) + 1e-3


@pytest.mark.parametrize("size", [1, 3, 10])
def test_bundle_lies_between_the_best_single_bound_and_the_minimum(field, minimum, size):
    """Cuts of Lemma 9 at several points together bound the minimum at least as well as the best of them."""
    bundle = LowerBound(size)
    best, previous = -np.inf, -np.inf
    for seed in range(12):
        theta = field.minimiser() + field.random_theta(seed, 0.4)
        value = bundle.add(field.posterior.make_point(theta))
        best = max(best, single_point_bound(field, theta))
        assert best <= value + 1e-13 * minimum, "but for rounding"
        assert value <= minimum
        assert value >= previous
        previous = value


def test_bundle_cancels_gradients_that_oscillate(field, minimum):
    """At theta* + d and theta* - d, with H the likelihood's Hessian and d small, to second order

    min P - bound = d H d / 2 + ||S^(1/2) H d||^2 / 2   for either point alone,
                    d H d / 2                           for both together: their slopes cancel.
    """
    minimiser, direction = field.minimiser(), field.random_theta(1, 1e-3)
    sides = [minimiser + direction, minimiser - direction]
    bundle = LowerBound()
    for theta in sides:
        bundle.add(field.posterior.make_point(theta))
    precision = field.precision
    change = field.hessian(minimiser) @ direction - precision * direction
    shared, cancelled = 0.5 * direction @ change, 0.5 * change @ (change / precision)
    for theta in sides:
        np.testing.assert_allclose(minimum - single_point_bound(field, theta), shared + cancelled, rtol=1e-2)
    np.testing.assert_allclose(minimum - bundle.value, shared, rtol=1e-2)


def test_bounds_reported_during_an_optimisation_are_true(field, minimum):
    """Lower bound <= minimum <= value at every iteration of a solver, up to rounding, and the gap closes."""
    iterations = []
    solution = minimize(field.posterior, LBFGS(), tol=1e-6, watch=iterations.append)
    rounding = 1e-13 * minimum
    assert all(each.lower_bound <= minimum + rounding for each in iterations)
    assert all(each.value >= minimum - rounding for each in iterations)
    assert solution.value - solution.lower_bound <= 1e-6 * solution.value
    assert solution.lower_bound >= single_point_bound(field, solution.theta) - rounding


def test_simplex_problem_against_its_optimality_conditions():
    """Maximise l . a - l G l / 2 on the simplex: the slope is largest, and equal, where weight is placed."""
    random = np.random.default_rng(0)
    factor = random.normal(size=(6, 4))
    linear, gram = random.normal(size=6), factor @ factor.T
    weights, value = maximise_on_simplex(linear, gram)
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)
    assert weights.min() >= 0
    slope = linear - gram @ weights
    used = weights > 0
    np.testing.assert_allclose(slope[used], slope.max(), atol=1e-8)
    np.testing.assert_allclose(value, linear @ weights - 0.5 * weights @ gram @ weights, rtol=1e-12)
    for other in random.dirichlet(np.ones(6), size=200):
        assert linear @ other - 0.5 * other @ gram @ other <= value + 1e-9
