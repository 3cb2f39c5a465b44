"""The Laplace approximation against dense references: log determinants, covariances, probes, refusals."""

import numpy as np
import pytest
from small_laplace_fields import chain_posterior, derivative, mode, single_likelihood, single_posterior

from kernelfields.objective import Datafit, LogPosterior
from kernelfields.objective.curvature import likelihood_hessian
from kernelfields.posterior.laplace import laplace as laplace_module
from kernelfields.posterior.laplace.laplace import Laplace, find_mode
from tests.samples import design_of


def dense_hessian(posterior, theta, step=1e-5):
    """The Hessian of the objective by central differences of its gradient."""
    columns = [
        derivative(lambda at: posterior.make_point(at).gradient, theta, unit, step) for unit in np.eye(len(theta))
    ]
    return np.array(columns)


@pytest.mark.parametrize("build", [chain_posterior, single_posterior])
def test_the_hessian_is_that_of_finite_differences(build):
    posterior = build()
    theta = np.random.default_rng(1).normal(size=posterior.size)
    expected = dense_hessian(posterior, theta) - np.diag(posterior.prior_precision)
    np.testing.assert_allclose(likelihood_hessian(posterior.make_point(theta)), expected, atol=1e-7)


@pytest.mark.parametrize("build", [chain_posterior, single_posterior])
def test_the_evidence_is_the_gaussian_integral_at_the_mode(build):
    posterior = build()
    point = mode(posterior)
    hessian = dense_hessian(posterior, point.theta)
    # log of the prior's constant times the integral of exp(-P) under the quadratic at the mode.
    prior = 0.5 * np.log(posterior.prior_precision / (2 * np.pi)).sum()
    integral = 0.5 * posterior.size * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(hessian)[1]
    found = Laplace(point, method="exact")
    assert found.evidence.value == pytest.approx(-point.value + prior + integral, abs=1e-6)
    assert found.evidence.standard_error == 0.0
    covariance = np.linalg.inv(hessian)
    np.testing.assert_allclose(found.root.T @ found.root, covariance, atol=1e-7)
    vectors = np.random.default_rng(0).normal(size=(3, posterior.size))
    np.testing.assert_allclose(found.covariance_products(vectors), vectors @ covariance, atol=1e-7)
    roots, signs = found.signed_roots(np.random.default_rng(0))
    np.testing.assert_allclose((roots.T * signs) @ roots, covariance, atol=1e-7)


def test_the_evidence_of_a_gaussian_likelihood_would_be_exact_and_that_of_one_weight_is_close():
    """One label pair, one input: the integral over the log-odds by quadrature, against its approximation."""
    features = design_of(
        "node",
        np.ones((6, 1)),
        positions=None,
        labels_per_clique=1,
        n_labels=2,
        prior_variance=0.5,
        label_factor=np.array([[-1.0], [1.0]]) / np.sqrt(2.0),
    )
    labels = np.array([0, 1, 1, 1, 0, 1])
    posterior = LogPosterior(Datafit(single_likelihood(labels, 2, np.ones(6)), [features]))
    grid = np.linspace(-8, 8, 20001)
    odds = np.sqrt(2.0) * grid
    logs = -4 * np.logaddexp(0, -odds) - 2 * np.logaddexp(0, odds) - grid**2 - 0.5 * np.log(np.pi)
    exact = np.log(np.trapezoid(np.exp(logs), grid))
    assert Laplace(mode(posterior)).evidence.value == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("build", [chain_posterior, single_posterior])
def test_lanczos_with_all_steps_agrees_with_the_dense_factor(build):
    posterior = build()
    point = mode(posterior)
    exact = Laplace(point, method="exact")
    probed = Laplace(point, method="lanczos", steps=posterior.size, probes=40)
    assert probed.method == "lanczos"
    assert probed.evidence.value == pytest.approx(exact.evidence.value, abs=4 * probed.evidence.standard_error)
    assert 0 < probed.evidence.standard_error < 1.0
    vectors = np.random.default_rng(0).normal(size=(2, posterior.size))
    np.testing.assert_allclose(probed.covariance_products(vectors), exact.covariance_products(vectors), atol=1e-8)
    # Roots by probes are right in expectation: traces with them are near those of the covariance.
    roots, signs = probed.signed_roots(np.random.default_rng(0))
    covariance = exact.root.T @ exact.root
    for block in posterior.blocks:
        trace = float(signs @ np.square(roots[:, block.rows]).sum(axis=1))
        assert trace == pytest.approx(np.trace(covariance[block.rows, block.rows]), rel=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "lanczos"])
def test_samples_have_the_covariance_of_the_gaussian(method):
    posterior = single_posterior()
    point = mode(posterior)
    covariance = np.linalg.inv(dense_hessian(posterior, point.theta))
    drawn = Laplace(point, method=method).sample(1500, np.random.default_rng(0))
    # Standard errors of means and covariances of 1500 draws.
    scale = np.sqrt(np.diag(covariance))
    assert np.abs((drawn.mean(axis=0) - point.theta) / scale).max() < 4.5 / np.sqrt(1500)
    errors = (np.cov(drawn.T) - covariance) / np.outer(scale, scale)
    assert np.abs(errors).max() < 5 * np.sqrt(2 / 1500)


def test_the_rise_of_draws_is_one_near_a_gaussian_and_large_where_the_posterior_falls_off_faster():
    rises = []
    for variance in (0.01, 200.0):
        posterior = chain_posterior(variance=variance)
        found = Laplace(mode(posterior), method="exact")
        draws = found.sample(20, np.random.default_rng(0))
        expected = sum(posterior.make_point(theta).value - found.point.value for theta in draws) / sum(
            0.5 * np.square(np.linalg.solve(found.root.T, theta - found.mode)).sum() for theta in draws
        )
        rises.append(found.relative_rise(draws))
        assert rises[-1] == pytest.approx(expected, rel=1e-8)
    assert rises[0] == pytest.approx(1.0, abs=0.05)
    assert rises[1] > 1.1


def test_small_fields_are_exact_and_large_ones_probed():
    point = mode(single_posterior())
    assert Laplace(point).method == "exact"
    assert Laplace(point, exact_size=3).method == "lanczos"
    assert Laplace(point, exact_size=point.posterior.size).method == "exact"
    assert Laplace(point, exact_size=point.posterior.size - 1).method == "lanczos"


def test_what_cannot_be_is_refused():
    point = mode(single_posterior())
    with pytest.raises(ValueError, match="method must be 'auto', 'exact' or 'lanczos', got 'dense'"):
        Laplace(point, method="dense")
    with pytest.raises(ValueError, match="a root of the covariance needs method='exact'"):
        _ = Laplace(point, method="lanczos").root
    posterior = single_posterior(variance=np.inf)
    with pytest.raises(ValueError, match="needs a Gaussian prior on every coefficient"):
        Laplace(posterior.make_point(np.zeros(posterior.size)))


@pytest.mark.parametrize("variance", [1e15, 1e17, 1e22])
def test_priors_that_rounding_loses_have_no_exact_determinant(variance):
    """The likelihood of a chain does not change where all labels of a feature gain the same: the prior alone does."""
    point = mode(chain_posterior(variance=variance))
    with pytest.raises(np.linalg.LinAlgError, match=r"prior variances are so large .* use smaller ones, or method="):
        Laplace(point, method="exact")
    assert np.isfinite(Laplace(point, method="lanczos").evidence.value)


def test_weak_priors_that_doubles_still_hold_are_exact():
    """Ten times the variance costs log(10) / 2 for each of the four directions that the likelihood sees."""
    values = [Laplace(mode(chain_posterior(variance=each)), method="exact").evidence.value for each in (1e12, 1e13)]
    assert values[0] - values[1] == pytest.approx(4 * np.log(10.0) / 2, abs=0.1)


def test_a_hessian_that_is_not_finite_is_refused(monkeypatch):
    point = mode(single_posterior())
    monkeypatch.setattr(laplace_module, "likelihood_hessian", lambda point: np.full((8, 8), np.nan))
    with pytest.raises(np.linalg.LinAlgError, match="the Hessian is not finite"):
        Laplace(point, method="exact")


def test_the_mode_is_found_without_a_factor_as_well():
    """From a curvature that has none: the prior alone guides the steps, and the mode is the same."""
    posterior = chain_posterior()
    found = find_mode(posterior, None, "exact", curvature=-np.eye(posterior.size) * 1e9)
    np.testing.assert_allclose(found.theta, mode(posterior).theta, atol=1e-9)
