"""Peaks between the nodes of a quadrature: their mass, and the error of densities that have some."""

import numpy as np
import pytest
from scipy.special import logsumexp

from kernelfields import ExponentialFamilyDensity
from kernelfields.families.box import Box, GaussianMeasure, UniformMeasure
from kernelfields.families.quadrature import Quadrature, bound_unseen_mass
from kernelfields.kernels import RBF, Laplacian, Matern


def normal_peak(centre, width, mass):
    """log(1 + mass N(x; centre, width^2 I))."""

    def log_function(X):
        squares, scales = np.square((X - centre) / width).sum(axis=1), np.sqrt(2 * np.pi) * width * np.ones(X.shape[1])
        return np.logaddexp(0.0, np.log(mass) - 0.5 * squares - np.log(scales).sum())

    return log_function


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("mass", [0.5, 1e30])
def test_the_mass_of_a_narrow_peak_is_known_within_a_factor_of_a_few(dimension, mass):
    measure = UniformMeasure(Box(np.full(dimension, -3.0), np.full(dimension, 5.0)))
    centre = np.full((1, dimension), 1.5)
    log_function = normal_peak(centre[0], 8 * 1e-3, mass * 8.0**dimension)  # the mean over the box is 1 + mass
    found = bound_unseen_mass(log_function, measure, measure.box.to_unit(centre), np.array([0.1]), 0.0)
    assert 0 < found - np.log(mass) < np.log(4) * dimension


@pytest.mark.parametrize(("width", "seen"), [(0.01, False), (0.3, True)])
def test_peaks_as_wide_as_the_gaps_are_seen(width, seen):
    measure = UniformMeasure(Box(np.zeros(2), np.ones(2)))
    log_function = normal_peak(np.array([0.5, 0.5]), width, 3.0)
    assert (bound_unseen_mass(log_function, measure, np.array([[0.5, 0.5]]), np.array([0.1]), 0.0) == -np.inf) == seen


def test_a_ridge_is_as_narrow_as_its_narrow_side_and_a_face_is_an_end():
    measure = UniformMeasure(Box(np.zeros(2), np.ones(2)))
    ridge, gaps = normal_peak(0.0, np.array([1e-3, 1e3]), 1.0), np.array([0.1])
    assert bound_unseen_mass(lambda X: ridge(X) + 8, measure, np.array([[0.0, 0.5]]), gaps, 8.0) > -5
    # Pivots below the mean, or outside of the box, are on no peak.
    assert bound_unseen_mass(ridge, measure, np.array([[0.5, 0.5], [-1e-3, 0.5]]), np.full(2, 0.1), 0.0) == -np.inf


def test_gaps_are_those_between_nodes():
    """In the middle for Gauss-Legendre; for Sobol in the mean, closer where the base measure is dense."""
    box = Box(np.array([-4.0]), np.array([4.0]))
    uniform, normal = UniformMeasure(box), GaussianMeasure(box, np.zeros(1), np.ones(1))
    gauss, sobol, middle = Quadrature("gauss-legendre", 40), Quadrature("sobol", 64), np.zeros((1, 1))
    nodes = np.sort(box.to_unit(gauss.rule(uniform).nodes)[:, 0])
    np.testing.assert_allclose(gauss.estimate_gaps(uniform, middle), np.diff(nodes).max(), rtol=0.02)
    assert sobol.estimate_gaps(uniform, middle) == pytest.approx(1 / (8 * 64))
    near = np.abs(box.to_unit(sobol.rule(normal).nodes) - 0.5) < 0.02
    np.testing.assert_allclose(sobol.estimate_gaps(normal, middle), 0.04 / near.sum(), rtol=0.1)


def sample(dimension=1):
    return 0.2 + 0.6 * np.random.default_rng(0).beta(2, 3, size=(15, dimension))


def log_total(density, places):
    """The logarithm of the integral of a density by its mean over a product of axes of places."""
    grid = np.stack(np.meshgrid(*[places] * len(density.box_), indexing="ij"), axis=-1).reshape(-1, len(density.box_))
    return logsumexp(density.score_samples(grid)) - np.log(len(grid))


@pytest.mark.parametrize("quadrature", ["gauss-legendre", "sobol"])
@pytest.mark.parametrize("kernel", [RBF(0.5 / 0.002**2), Matern(1.5, 0.002), Laplacian(500.0)], ids=repr)
def test_errors_of_densities_count_peaks_between_nodes(kernel, quadrature):
    """A length scale of 1/500 and 8 nodes: all rules agree, on an integral that is wrong by many nats."""
    density = ExponentialFamilyDensity(
        kernel, prior_variance=100.0, n_nodes=8, rank=20, box=[[0, 1]], quadrature=quadrature, random_state=0
    )
    with pytest.warns(UserWarning, match="the log partition may be wrong by"):
        density.fit(sample())
    error = abs(log_total(density, (np.arange(100_000) + 0.5) / 100_000))
    assert 1.0 < error < density.log_partition_error_


def test_enough_nodes_leave_no_peaks_between_them():
    """In two dimensions, too; and where nodes may be added, they are."""
    places = (np.arange(100) + 0.5) / 100
    for dimension, kernel in ((1, Matern(2.5, 0.02)), (2, RBF(20.0))):
        density = ExponentialFamilyDensity(kernel, prior_variance=10.0, rank=20, box=[[0, 1]] * dimension)
        density.fit(sample(dimension))
        assert density.log_partition_error_ <= 1e-3
        assert density._error_of_peaks(density.quadrature_) == 0.0
        assert abs(log_total(density, places)) < 2e-3


def test_files_that_know_nothing_of_peaks_are_read_with_them(tmp_path):
    density = ExponentialFamilyDensity(Matern(1.5, 0.002), prior_variance=100.0, n_nodes=8, rank=20, box=[[0, 1]])
    with pytest.warns(UserWarning, match="the log partition may be wrong by"):
        density.fit(sample())
    honest, density.log_partition_error_ = density.log_partition_error_, 200.0
    density.save(tmp_path / "model")
    assert ExponentialFamilyDensity.load(tmp_path / "model").log_partition_error_ == 200.0
    rule = density.quadrature_.rule(density._measure)
    density.log_partition_ = rule.log_integral(density._scores(rule.nodes))[0]
    density.log_partition_error_ = 1e-4
    density.save(tmp_path / "model")
    assert ExponentialFamilyDensity.load(tmp_path / "model").log_partition_error_ == pytest.approx(honest, rel=0.5)
