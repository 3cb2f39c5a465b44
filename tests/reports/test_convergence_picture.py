"""The picture of a fit is drawn from its history, whatever the history looks like."""

import io
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsed_pages import solution_of

from kernelfields.reports import plot_convergence

VALUES, BOUNDS = [900.0, 400.0, 301.0, 300.1], [-math.inf, 200.0, 299.0, 300.0]


def test_value_bound_and_the_band_between_are_the_history():
    upper, lower = plot_convergence(solution_of(VALUES, BOUNDS, tol=1e-3)).axes
    bound, value = upper.lines
    np.testing.assert_array_equal(value.get_ydata(), VALUES)
    np.testing.assert_array_equal(value.get_xdata(), [0.5, 1.5, 2.5, 3.5])
    np.testing.assert_array_equal(bound.get_xydata(), [(1.5, 200.0), (2.5, 299.0), (3.5, 300.0)])
    (band,) = upper.collections
    corners = set(map(tuple, band.get_paths()[0].vertices))
    assert {(1.5, 200.0), (1.5, 400.0), (3.5, 300.0), (3.5, 300.1)} <= corners
    assert upper.get_yscale() == lower.get_yscale() == "log"
    assert [each.get_text() for each in upper.get_legend().get_texts()] == [
        "value",
        "lower bound",
        "the minimum is here",
    ]


def test_the_lower_panel_shows_the_gap_and_the_tolerance():
    solution = solution_of(VALUES, BOUNDS, tol=1e-3)
    lower = plot_convergence(solution).axes[1]
    gaps, tol = lower.lines
    np.testing.assert_allclose(gaps.get_ydata(), [each.relative_gap for each in solution.history[1:]])
    np.testing.assert_array_equal(gaps.get_xdata(), [1.5, 2.5, 3.5])
    assert set(tol.get_ydata()) == {1e-3}
    assert [each.get_text() for each in lower.texts] == ["tol = 0.001"]
    assert len(plot_convergence(solution_of(VALUES, BOUNDS)).axes[1].lines) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([5.0], [-math.inf]),
        ([5.0], [5.0]),
        ([5.0], [-1e300]),
        ([5.0, 4.0, 3.0], [-math.inf, -math.inf, 2.9]),
        ([5.0, 4.0, 3.0], [3.0, 3.0, 3.0]),
        ([5.0, 3.0], [-1e300, -2.0]),
        ([5.0, 4.0], [-1e300, 3.9]),
        ([0.0, 0.0], [0.0, 0.0]),
        ([1e9, 1e-9], [-1e12, 1e-10]),
        ([1.0, 1.0], [0.0, 1e-278]),
        ([3.0, 3.0 - 1e-15], [3.0, 3.0]),
        (np.geomspace(1e6, 1e3, 300), np.linspace(-1e8, 999.0, 300)),
    ],
)
def test_degenerate_histories_are_drawn(values, bounds):
    for tol in (None, 1e-3):
        picture = plot_convergence(solution_of(values, bounds, tol=tol))
        assert "nan" not in picture.markup()
        low, high = picture.axes[0].get_ylim()
        assert np.isfinite([low, high]).all()
        assert low <= min(values)
        assert high >= max(values)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(st.floats(1e-9, 1e15), st.floats(-1e300, 1e15)), min_size=1, max_size=8))
def test_any_history_is_drawn(pairs):
    values, bounds = zip(*pairs, strict=True)
    solution = solution_of(values, [min(pair) for pair in zip(values, bounds, strict=True)])
    plot_convergence(solution).savefig(io.BytesIO(), format="png", dpi=20)


def test_the_band_reaches_the_floor_of_the_panel_however_low_the_bound():
    upper = plot_convergence(solution_of([5.0, 4.0, 3.0], [-1e300, -1e20, -2.0])).axes[0]
    corners = upper.collections[0].get_paths()[0].vertices
    assert np.isfinite(corners).all()
    assert corners[:, 1].min() < upper.get_ylim()[0]
    assert corners[:, 1].min() > -1e6  # matplotlib would lose a band that ends at -1e300


def test_a_history_without_values_is_refused():
    with pytest.raises(ValueError, match="no history with a finite value"):
        plot_convergence(solution_of([math.nan], [-math.inf]))
