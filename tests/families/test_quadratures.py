"""Rules over a box: what they integrate exactly, the rules that judge them, and the sizes they begin and end with."""

import numpy as np
import pytest
import scipy.stats

from kernelfields.families import quadrature
from kernelfields.families.box import Box, GaussianMeasure, UniformMeasure
from kernelfields.families.quadrature import Quadrature, Rule, estimate_log_integral, initial_quadrature

BOX = Box(np.array([-1.0, 2.0]), np.array([3.0, 2.5]))


@pytest.mark.parametrize("size", [1, 2, 5, 300])
def test_gauss_legendre_integrates_polynomials_of_degree_two_n_minus_one(size):
    """Under the uniform density on [-1, 3] x [2, 2.5], whose moments are those of its sides."""
    rule = Quadrature("gauss-legendre", size).rule(UniformMeasure(Box(BOX.low[:1], BOX.high[:1])))
    degrees = np.arange(min(2 * size, 12))
    found = np.exp(rule.log_masses) @ rule.nodes**degrees
    np.testing.assert_allclose(
        found, (3.0 ** (degrees + 1) - (-1.0) ** (degrees + 1)) / (4 * (degrees + 1)), rtol=1e-11
    )


@pytest.mark.parametrize(("kind", "size", "accuracy"), [("gauss-legendre", 12, 1e-12), ("sobol", 1024, 2e-3)])
def test_the_mass_of_a_function_is_its_integral_over_the_box(kind, size, accuracy):
    integral = (np.exp(3) - np.exp(-1)) * (np.exp(-4) - np.exp(-5)) / 2
    rule = Quadrature(kind, size).rule(UniformMeasure(BOX))
    found = rule.log_integral(rule.nodes @ [1.0, -2.0] + BOX.log_volume)[0]
    assert found == pytest.approx(np.log(integral), abs=accuracy)
    assert len(rule.nodes) == Quadrature(kind, size).n_nodes(2)


def test_replicates_tell_the_standard_error():
    """The relative standard error of a mean of four independent parts."""
    masses = np.array([1.0, 2.0, 4.0, 5.0, 3.0, 3.0, 2.0, 2.0])
    total, error = Rule(np.zeros((8, 1)), np.log(masses), 4).log_integral(np.zeros(8))
    parts = masses.reshape(4, 2).sum(axis=1)
    assert total == pytest.approx(np.log(22))
    assert error == pytest.approx(parts.std(ddof=1) / np.sqrt(4) / parts.mean())


def test_rules_are_judged_by_finer_ones():
    """Two for Gauss-Legendre, of which neither contains the rule; for Sobol one of other points."""
    gauss = Quadrature("gauss-legendre", 30)
    assert [each.size for each in gauss.references()] == [41, 60]
    assert gauss.reference() == gauss.references()[-1]
    for seed in (0, 3):
        (other,) = Quadrature("sobol", 64, seed).references()
        other.check(2)
        assert (other.kind, other.size) == ("sobol", 128)
        mine, theirs = (each.rule(UniformMeasure(BOX)).nodes for each in (Quadrature("sobol", 64, seed), other))
        assert not (mine[:, None] == theirs).all(axis=2).any()


def test_the_error_is_the_largest_difference_from_the_finest_rule():
    measure, gauss = UniformMeasure(BOX), Quadrature("gauss-legendre", 8)
    values = []
    for each in (gauss, *gauss.references()):
        rule = each.rule(measure)
        values.append(rule.log_integral(-30 * np.abs(rule.nodes[:, 0]))[0])
    value, error = estimate_log_integral(gauss, measure, lambda X: -30 * np.abs(X[:, 0]), values[0])
    assert value == values[-1]
    assert error == pytest.approx(max(abs(values[0] - values[2]), abs(values[1] - values[2])))


@pytest.mark.parametrize(("dimension", "first", "last"), [(1, 64, 2048), (2, 32, 128), (3, 16, 32), (4, 512, 4096)])
def test_sizes_double_from_the_first_to_the_last(dimension, first, last):
    rule = initial_quadrature("auto", None, dimension, 0)
    assert rule.kind == ("sobol" if dimension > 3 else "gauss-legendre")
    sizes = [rule.size]
    while (finer := rule.finer(dimension)) is not None:
        rule = finer
        sizes.append(rule.size)
    assert sizes == [first * 2**k for k in range(len(sizes))]
    assert sizes[-1] == last


@pytest.mark.parametrize("rule", [("simpson", 8, 0), ("sobol", 0, 0), ("sobol", 48, 0), ("sobol", 64, -1)])
def test_what_is_no_rule_is_refused(rule):
    with pytest.raises(ValueError, match=r"is none|power of two"):
        Quadrature(*rule).check(2)


def test_points_on_the_faces_of_the_cube_are_moved_inside(monkeypatch):
    """A normal distribution on the whole line has no point for the probabilities 0 and 1."""
    line = Box(np.array([-np.inf]), np.array([np.inf]))
    measure = GaussianMeasure(line, np.zeros(1), np.ones(1))
    faces = np.array([[0.0], [0.5], [1.0]])
    monkeypatch.setattr(quadrature, "sobol_points", lambda dimension, size, seed: faces)
    nodes = Quadrature("sobol", 4).rule(measure).nodes[:3]
    furthest = scipy.stats.norm.isf(2.0**-40)
    np.testing.assert_allclose(nodes, [[-furthest], [0.0], [furthest]], rtol=1e-6, atol=1e-12)
