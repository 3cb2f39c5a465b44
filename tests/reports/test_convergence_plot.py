"""The plot of a fit is drawn from its history, whatever the history looks like."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields import ChainCRF
from kernelfields.reports.convergence import convergence_plot
from kernelfields.reports.picture import standalone
from kernelfields.solvers.loop import Iteration, Solution

SVG = "{http://www.w3.org/2000/svg}"
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")


def solution_of(values, bounds):
    history = [
        Iteration(i, i + 0.5, 0.1 * i, value, bound, 1.0, 1.0)
        for i, (value, bound) in enumerate(zip(values, bounds, strict=True))
    ]
    last = history[-1]
    return Solution(
        np.zeros(1), "newton", last.value, last.lower_bound, 1.0, last.iteration, last.passes, 0.1, "gap", history
    )


def shapes(svg, tag, role):
    root = ElementTree.fromstring(svg)
    return [each for each in root.iter(SVG + tag) if role in (each.get("class") or "").split()]


def points(svg, role, tag="polyline"):
    """The points of the one line with a role; the legend's strokes are of another tag."""
    (line,) = shapes(svg, tag, role)
    return [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]


def assert_finite(svg):
    root = ElementTree.fromstring(svg)
    for each in root.iter():
        for name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height", "points"):
            text = each.get(name, "")
            assert "nan" not in text
            assert "inf" not in text
            assert all(abs(float(number)) <= 10_000 for number in NUMBER.findall(text))


def test_value_lies_above_the_bound_and_both_meet():
    svg = convergence_plot(solution_of([900.0, 400.0, 301.0, 300.1], [-5000.0, 200.0, 299.0, 300.0]), tol=1e-3)
    assert_finite(svg)
    values, bounds = points(svg, "kf-value"), points(svg, "kf-bound")
    assert len(values) == len(bounds) == 4
    for (x, y), (x_bound, y_bound) in zip(values, bounds, strict=True):
        assert x == x_bound
        assert y <= y_bound
    assert values[-1][1] == pytest.approx(bounds[-1][1], abs=0.2)
    assert [x for x, _ in values] == sorted(x for x, _ in values)
    assert len(points(svg, "kf-band", "polygon")) == 8
    gaps = points(svg, "kf-gap")
    assert [y for _, y in gaps] == sorted(y for _, y in gaps)
    for text in ("value", "lower bound", "relative gap", "passes over the data", "tol = 0.001"):
        assert text in svg


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([5.0], [-math.inf]),
        ([5.0], [5.0]),
        ([5.0], [-1e300]),
        ([5.0, 4.0, 3.0], [-math.inf, -math.inf, 2.9]),
        ([5.0, 4.0, 3.0], [3.0, 3.0, 3.0]),
        ([5.0, 3.0], [-10.0, -2.0]),
        ([0.0, 0.0], [0.0, 0.0]),
        ([1e9, 1e-9], [-1e12, 1e-10]),
        ([1.0, 1.0], [0.0, 1e-278]),
        ([3.0, 3.0 - 1e-15], [3.0, 3.0]),
        (np.geomspace(1e6, 1e3, 300), np.linspace(-1e8, 999.0, 300)),
    ],
)
def test_degenerate_histories_are_drawn(values, bounds):
    for tol in (None, 1e-3):
        assert_finite(convergence_plot(solution_of(values, bounds), tol))


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(1e-9, 1e15), st.floats(-1e300, 1e15)), min_size=1, max_size=8))
def test_any_history_is_drawn(pairs):
    values, bounds = zip(*pairs, strict=True)
    assert_finite(convergence_plot(solution_of(values, [min(pair) for pair in zip(values, bounds, strict=True)])))


def test_bounds_that_are_not_known_yet_are_not_drawn():
    svg = convergence_plot(solution_of([5.0, 4.0, 3.0], [-math.inf, 1.0, 2.9]))
    assert len(points(svg, "kf-bound")) == 2
    assert len(points(svg, "kf-gap")) == 2
    assert len(points(svg, "kf-value")) == 3


def test_a_fitted_field_has_a_plot_of_its_own_history():
    random = np.random.default_rng(0)
    X = [random.normal(size=(5, 3)) for _ in range(8)]
    y = [(x[:, 0] > 0).astype(int) for x in X]
    solution = ChainCRF("linear", n_jobs=1).fit(X, y).solution_
    svg = convergence_plot(solution, 1e-3)
    assert len(points(svg, "kf-value")) == len(solution.history)
    assert solution.solver in svg


def test_a_history_without_values_is_refused():
    with pytest.raises(ValueError, match="no history with a finite value"):
        convergence_plot(solution_of([math.nan], [-math.inf]))


def test_a_standalone_picture_brings_its_colours():
    svg = standalone(convergence_plot(solution_of([5.0, 3.0], [1.0, 2.9])))
    root = ElementTree.fromstring(svg)
    assert root.tag == SVG + "svg"
    assert "prefers-color-scheme: dark" in root.find(SVG + "style").text
