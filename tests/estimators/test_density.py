"""ExponentialFamilyDensity: the estimate, its integral, its moments."""

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats

from kernelfields import ExponentialFamilyDensity
from kernelfields.kernels import RBF, Columns, Laplacian, Linear, Matern


def two_modes(n=200, seed=0):
    random = np.random.default_rng(seed)
    modes = np.where(random.random(n) < 0.5, random.normal(0.3, 0.08, n), random.normal(0.7, 0.1, n))
    return np.clip(modes, 0.01, 0.99)[:, None]


def tilted(n=300, dimension=2, seed=0):
    random = np.random.default_rng(seed)
    return 0.2 + 0.6 * random.beta(2, 3, size=(n, dimension))


UNIT = [[0.0, 1.0]]


def test_the_fit_minimises_the_negative_log_posterior():
    """Against a general optimiser on kernel coefficients of a fine grid, with a rule of its own."""
    X, variance = two_modes(60), 5.0
    kernel = RBF(20.0)
    density = ExponentialFamilyDensity(kernel, prior_variance=variance, box=UNIT).fit(X)
    grid = (np.arange(400) + 0.5)[:, None] / 400
    spread = np.linspace(0, 1, 30)[:, None]
    values, axes = np.linalg.eigh(kernel(spread))
    kept = values > 1e-9
    whiten = axes[:, kept] / np.sqrt(values[kept])
    at_grid, at_sample = kernel(grid, spread) @ whiten, kernel(X, spread) @ whiten

    def objective(v):
        log_integral = np.log(np.mean(np.exp(at_grid @ v)))
        return v @ v / (2 * variance) - (at_sample @ v - log_integral).sum()

    reference = scipy.optimize.minimize(objective, np.zeros(kept.sum()), method="BFGS", options={"gtol": 1e-6})
    logs = at_grid @ reference.x - np.log(np.mean(np.exp(at_grid @ reference.x)))
    np.testing.assert_allclose(density.score_samples(grid), logs, atol=2e-3)
    np.testing.assert_allclose(density.certificate_.value, reference.fun, atol=1e-3)


def test_proposition_1_moments_are_derivatives_of_the_log_partition():
    """Against adaptive quadrature of scipy's and finite differences."""
    density = ExponentialFamilyDensity(RBF(8.0), rank=4, box=UNIT).fit(two_modes())

    def log_partition(v):
        def integrand(x):
            return np.exp(density.basis_.features(np.array([[x]])) @ v)[0]

        return np.log(scipy.integrate.quad(integrand, 0, 1, epsabs=1e-12)[0])

    np.testing.assert_allclose(density.log_partition_, log_partition(density.coef_), atol=1e-10)
    mean, covariance = density.moments()
    step = 1e-3
    for i, unit in enumerate(np.eye(4) * step):
        up, down = log_partition(density.coef_ + unit), log_partition(density.coef_ - unit)
        np.testing.assert_allclose((up - down) / (2 * step), mean[i], atol=1e-6)
        second = (up - 2 * density.log_partition_ + down) / step**2
        np.testing.assert_allclose(second, covariance[i, i], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [RBF(30.0), Matern(1.5, 0.2), Laplacian(4.0), Linear()], ids=repr)
@pytest.mark.parametrize("base_measure", ["uniform", "gaussian"])
def test_densities_integrate_to_one_within_the_stated_error(kernel, base_measure):
    X = 1.0 + 2.0 * two_modes()
    density = ExponentialFamilyDensity(kernel, prior_variance=10.0, base_measure=base_measure, rank=60).fit(X)
    low, high = density.box_[0]
    count = 20_000
    grid = low + (high - low) * (np.arange(count) + 0.5)[:, None] / count
    integral = np.exp(density.score_samples(grid)).mean() * (high - low)
    assert density.log_partition_error_ <= 1e-3
    assert abs(np.log(integral)) <= density.log_partition_error_ + 1e-6


@pytest.mark.parametrize("base_measure", ["uniform", "gaussian"])
@pytest.mark.parametrize("dimension", [4, 5])
def test_beyond_three_dimensions_densities_integrate_to_one_within_the_stated_error(dimension, base_measure):
    density = ExponentialFamilyDensity(
        RBF(1.0), rank=30, base_measure=base_measure, box=[[0, 1]] * dimension, quadrature_tol=0.02, random_state=0
    ).fit(tilted(dimension=dimension))
    assert density.quadrature_.kind == "sobol"
    assert 0 < density.log_partition_error_ <= 0.02
    # Other points, spread evenly over the box whatever the base measure is.
    spread = [scipy.stats.qmc.Sobol(dimension, seed=np.random.default_rng([7, i])).random(2**13) for i in range(8)]
    totals = [np.exp(density.score_samples(points)).mean() for points in spread]
    own_error = np.std(totals, ddof=1) / np.sqrt(8)
    # The stated error is two standard errors, and so estimated; as much again is left to chance.
    assert abs(np.mean(totals) - 1.0) <= 2 * density.log_partition_error_ + 3 * own_error
    assert own_error < 0.02


def test_a_prior_of_no_variance_leaves_the_base_measure():
    X = two_modes()
    grid = np.linspace(0, 1, 50)[:, None]
    small = {"prior_variance": 1e-9, "box": UNIT}
    uniform = ExponentialFamilyDensity(**small).fit(X)
    np.testing.assert_allclose(uniform.score_samples(grid), 0.0, atol=1e-5)
    normal = ExponentialFamilyDensity(base_measure="gaussian", **small).fit(X)
    m, s = X.mean(), X.std()
    expected = scipy.stats.truncnorm(-m / s, (1 - m) / s, m, s).logpdf(grid[:, 0])
    np.testing.assert_allclose(normal.score_samples(grid), expected, atol=1e-5)


def test_units_do_not_matter():
    """The kernel sees the unit box, so shifted and scaled points have the same density but for the Jacobian."""
    X = tilted()
    scales, shifts = np.array([100.0, 1e-3]), np.array([-5.0, 2.0])
    plain = ExponentialFamilyDensity(rank=60, random_state=0).fit(X)
    moved = ExponentialFamilyDensity(rank=60, random_state=0).fit(shifts + scales * X)
    np.testing.assert_allclose(
        moved.score_samples(shifts + scales * X), plain.score_samples(X) - np.log(scales).sum(), atol=1e-4
    )


def test_outside_the_box_the_density_is_zero():
    density = ExponentialFamilyDensity(box=UNIT).fit(two_modes())
    logs = density.score_samples([[0.5], [1.2], [-0.1]])
    assert np.isfinite(logs[0])
    assert np.all(logs[1:] == -np.inf)
    with pytest.warns(UserWarning, match=r"1 of 2 points lie outside the box of the fit.*give a box"):
        assert density.score([[0.5], [1.2]]) == -np.inf


def test_moments_of_points_and_entropy():
    density = ExponentialFamilyDensity(RBF(20.0), prior_variance=10.0, box=UNIT).fit(two_modes(400))
    grid = (np.arange(20_000) + 0.5) / 20_000
    masses = np.exp(density.score_samples(grid[:, None])) / 20_000
    mean = masses @ grid
    np.testing.assert_allclose(density.mean(), [mean], atol=1e-8)
    np.testing.assert_allclose(density.covariance(), [[masses @ (grid - mean) ** 2]], atol=1e-8)
    np.testing.assert_allclose(density.entropy(), -masses @ np.log(masses * 20_000), atol=1e-7)


def test_certificates_bound_what_a_larger_basis_brings():
    """Corollary 10, for the problem on the nodes of one rule."""
    X = two_modes()
    options = {"kernel": RBF(60.0), "prior_variance": 5.0, "box": UNIT, "n_nodes": 64}
    small = ExponentialFamilyDensity(rank=6, **options).fit(X)
    large = ExponentialFamilyDensity(rank=100, **options).fit(X)
    certificate = small.certify(X)
    np.testing.assert_allclose(certificate.value, small.certificate_.value, rtol=1e-8)
    assert certificate.lower_bound <= large.certificate_.value < small.certificate_.value
    assert small.certificate_.gap < 1e-6 < certificate.gap
    assert large.certify(X).gap < 1e-3


def test_the_estimate_comes_close_as_the_sample_grows():
    """Proposition 3 with data: KL to a density with a kink falls."""
    random = np.random.default_rng(0)
    grid = (np.arange(2000) + 0.5) / 2000
    truth = np.exp(-5 * np.abs(grid - 0.4))
    truth /= truth.mean()
    divergences = []
    for n in (50, 500, 5000):
        X = random.choice(grid, size=n, p=truth / truth.sum())[:, None]
        density = ExponentialFamilyDensity(RBF(40.0), prior_variance=10.0, box=UNIT).fit(X)
        divergences.append(np.mean(truth * (np.log(truth) - density.score_samples(grid[:, None]))))
    assert divergences[0] > 3 * divergences[1] > 9 * divergences[2] > 0


def test_theorem_4_and_lemma_5_coordinates_that_share_no_kernel_are_independent_given_the_others():
    """Cliques {0, 1} and {1, 2}: log p has no mixed difference in coordinates 0 and 2; with one kernel it has."""
    random = np.random.default_rng(0)
    middle = random.random(60)
    noise = random.normal(size=(2, 60))
    X = np.clip(np.column_stack([middle + 0.1 * noise[0], middle, middle**2 + 0.1 * noise[1]]), 0, 1)
    settings = {"prior_variance": 1.0, "box": [[0.0, 1.0]] * 3, "rank": 30, "n_nodes": 16}
    graph = ExponentialFamilyDensity(Columns(RBF(3.0), 0, 2) + Columns(RBF(3.0), 1, 3), **settings).fit(X)
    whole = ExponentialFamilyDensity(RBF(3.0), **settings).fit(X)

    def mixed(density, first, second):
        """Return the differences of log p in two coordinates, at corners of random boxes."""
        corners = np.random.default_rng(1).random((20, 2, 2, 3))
        held = 3 - first - second
        corners[..., held] = corners[:, :1, :1, held]
        corners[..., first] = corners[:, :, :1, first]
        corners[..., second] = corners[:, :1, :, second]
        logs = density.score_samples(corners.reshape(-1, 3)).reshape(20, 2, 2)
        return np.abs(logs[:, 0, 0] - logs[:, 0, 1] - logs[:, 1, 0] + logs[:, 1, 1])

    assert mixed(graph, 0, 2).max() < 1e-11
    assert mixed(graph, 0, 1).max() > 0.1
    assert mixed(graph, 1, 2).max() > 0.1
    assert mixed(whole, 0, 2).max() > 0.1
