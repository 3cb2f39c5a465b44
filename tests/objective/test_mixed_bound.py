"""The lower bound where the penalty is not a square: below the minimum, never falling, and tight at the end."""

from functools import cache

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.data import Chains
from kernelfields.numerics import Workers
from kernelfields.objective import LogPosterior
from kernelfields.objective.designs.supports import observed_support
from kernelfields.objective.mixed_bound import MixedBound
from kernelfields.solvers import OrthantLBFGS, minimize
from tests.samples import chain_datafit, design_of

L = 3


def small_posterior(seed=0, variances=(1.0, 1.0), l1=(0.5, 0.5), observed=True, n_sequences=8):
    """Short chains with a node set and transitions, each with its own prior variance and l1."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, size=n_sequences)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = rng.integers(L, size=offsets[-1])
    inputs = np.eye(L)[labels] + 0.8 * rng.normal(size=(offsets[-1], L))
    chains = Chains(sp.csr_array(inputs * (rng.random(inputs.shape) < 0.7)), offsets, labels)
    steps = np.flatnonzero(~chains.is_start)
    pairs = labels[steps - 1] * L + labels[steps]
    supports = (
        observed_support(chains.inputs, labels, L) if observed else None,
        observed_support(None, pairs, L**2) if observed else None,
    )
    designs = [
        design_of(
            name,
            features,
            positions=positions,
            labels_per_clique=k,
            n_labels=L,
            prior_variance=variance,
            support=support,
            l1=weight,
        )
        for name, features, positions, k, variance, support, weight in zip(
            ("node", "edge"), (chains.inputs, None), (None, steps), (1, 2), variances, supports, l1, strict=True
        )
    ]
    return LogPosterior(chain_datafit(chains, designs, L, workers=Workers(1)))


def minimum(posterior):
    """The least value by another road: theta = a - b with a, b >= 0, and SciPy's L-BFGS-B."""
    size = posterior.size

    def value_and_gradient(parts):
        up, down = parts[:size], parts[size:]
        theta = up - down
        point = posterior.make_point(theta)
        value = point.value - posterior.penalty.threshold @ np.abs(theta) + posterior.penalty.threshold @ (up + down)
        return value, np.concatenate(
            [point.gradient + posterior.penalty.threshold, posterior.penalty.threshold - point.gradient]
        )

    found = scipy.optimize.minimize(
        value_and_gradient,
        np.zeros(2 * size),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (2 * size),
        options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30},
    )
    return posterior.make_point(found.x[:size] - found.x[size:])


PROBLEMS = {
    "elastic net": {},
    "elastic net, every pair": {"observed": False},
    "strong l1": {"l1": (3.0, 3.0)},
    "l1 on nodes alone": {"l1": (0.5, 0.0)},
    "lasso": {"variances": (np.inf, np.inf)},
    "lasso of nodes, squares of transitions": {"variances": (np.inf, 0.5), "l1": (0.5, 0.0)},
    "nothing on transitions": {"variances": (1.0, np.inf), "l1": (0.2, 0.0)},
}


def random_walk(posterior, n_points, seed=0):
    """Points all over the place, and from there towards the minimum by plain proximal steps."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(scale=rng.choice([0.1, 1.0, 5.0]), size=posterior.size)
    step = 0.05
    for _ in range(n_points):
        point = posterior.make_point(theta)
        yield point
        moved = theta - step * point.gradient
        theta = np.sign(moved) * np.maximum(np.abs(moved) - step * posterior.penalty.threshold, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("seed", range(3))
def test_below_the_minimum_and_never_falling(problem, seed):
    posterior = small_posterior(seed, **PROBLEMS[problem])
    best = minimum(posterior).value
    bound, values = MixedBound(), [0.0]
    for point in random_walk(posterior, 40, seed):
        values.append(bound.add(point))
        assert bound.value == values[-1]
    assert np.all(np.diff(values) >= 0)
    assert values[-1] <= best * (1 + 1e-10)


@pytest.mark.parametrize("problem", [name for name in PROBLEMS if name != "nothing on transitions"])
def test_near_the_minimum_the_bound_is_near_the_value(problem):
    posterior = small_posterior(1, **PROBLEMS[problem])
    best = minimum(posterior)
    bound = MixedBound()
    bound.add(posterior.make_point(np.zeros(posterior.size)))
    assert bound.add(best) == pytest.approx(best.value, rel=1e-4)
    # It does not matter what came before: without a prior, slopes at the limit must not keep later cuts out.
    later = MixedBound()
    for point in random_walk(posterior, 30):
        later.add(point)
    assert later.add(best) == pytest.approx(best.value, rel=1e-4)


def test_without_any_penalty_on_a_set_zero_is_all_there_is():
    posterior = small_posterior(0, **PROBLEMS["nothing on transitions"])
    bound = MixedBound()
    values = [bound.add(point) for point in random_walk(posterior, 20)]
    assert values == [0.0] * 20


@pytest.mark.parametrize("problem", ["elastic net", "elastic net, every pair", "strong l1"])
def test_the_cut_at_the_mean_of_the_points_is_as_good_as_their_mixture(problem):
    posterior = small_posterior(1, **PROBLEMS[problem])
    bound = MixedBound()
    for point in random_walk(posterior, 60):
        bound.add(point)
    mixture = bound.value
    mean = posterior.make_point(bound.mean)
    assert MixedBound().add(mean) >= mixture - 0.02 * (mean.value - mixture)
    assert mixture <= bound.add(mean) <= minimum(posterior).value


def test_a_bound_of_all_coefficients_is_one_of_some():
    posterior = small_posterior(0, observed=False)
    bound = MixedBound()
    for point in random_walk(posterior, 20):
        bound.add(point)
    kept = np.arange(posterior.size) % 3 > 0
    restricted = bound.restrict(kept)
    assert restricted.value == bound.value
    np.testing.assert_array_equal(restricted.mean, bound.mean[kept])

    def value_and_gradient(parts):
        theta = np.zeros(posterior.size)
        theta[kept] = parts[: kept.sum()] - parts[kept.sum() :]
        point = posterior.make_point(theta)
        l1 = posterior.penalty.threshold[kept]
        value = point.value - posterior.penalty.threshold @ np.abs(theta) + np.tile(l1, 2) @ parts
        return value, np.concatenate([point.gradient[kept] + l1, l1 - point.gradient[kept]])

    begin = np.zeros(2 * kept.sum())
    found = scipy.optimize.minimize(value_and_gradient, begin, jac=True, bounds=[(0, None)] * len(begin))
    assert restricted.value <= found.fun
    whole = posterior.make_point(np.zeros(posterior.size))
    before = bound.value
    bound.add(whole)
    assert restricted.value == before, "each goes on by itself"


@cache
def minimum_of(seed, problem):
    return minimum(small_posterior(seed, **PROBLEMS[problem])).value


@pytest.mark.slow
@given(st.integers(0, 10_000), st.sampled_from(sorted(PROBLEMS)), st.integers(1, 6))
@settings(deadline=None, max_examples=40)
def test_any_points_in_any_order_give_a_true_bound(seed, problem, n_points):
    posterior = small_posterior(seed % 3, **PROBLEMS[problem])
    rng = np.random.default_rng(seed)
    bound = MixedBound()
    for _ in range(n_points):
        theta = rng.normal(size=posterior.size) * rng.choice([0.0, 0.1, 1.0, 10.0])
        theta[rng.random(posterior.size) < 0.3] = 0.0
        bound.add(posterior.make_point(theta))
    assert 0.0 <= bound.value <= minimum_of(seed % 3, problem) * (1 + 1e-10)


@pytest.mark.slow
def test_a_single_cut_is_mixed_with_zero_as_well_as_can_be():
    """One cut (h, d): the bound is max over shares of share h - R*(-share d), here on a fine grid."""
    for problem in ("elastic net", "lasso", "l1 on nodes alone", "lasso of nodes, squares of transitions"):
        posterior = small_posterior(2, **PROBLEMS[problem])
        point = posterior.make_point(np.random.default_rng(0).normal(scale=0.5, size=posterior.size))
        precision, l1 = posterior.prior_precision, posterior.penalty.threshold
        slope = point.gradient - precision * point.theta
        height = point.value - posterior.penalty.value(point.theta) - slope @ point.theta

        def at(share, slope=slope, height=height, precision=precision, l1=l1):
            excess = np.maximum(np.abs(share * slope) - l1, 0.0)
            flat = precision == 0
            if np.any(excess[flat] > 1e-12):
                return -np.inf
            return share * height - np.sum(excess[~flat] ** 2 / (2 * precision[~flat]))

        grid = max(map(at, np.linspace(0.0, 1.0, 20_001)))
        found = MixedBound().add(point)
        assert found >= grid - 1e-9
        assert found == pytest.approx(max(grid, 0.0), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("problem", ["elastic net", "lasso", "l1 on nodes alone"])
def test_the_loop_stops_by_it(problem):
    posterior = small_posterior(3, **PROBLEMS[problem])
    solution = minimize(posterior, OrthantLBFGS(), tol=1e-5, max_iter=2000)
    best = minimum(posterior).value
    assert solution.reason == "gap"
    assert solution.lower_bound <= best * (1 + 1e-10)
    assert best <= solution.value * (1 + 1e-10)
    assert solution.relative_gap <= 1e-5
