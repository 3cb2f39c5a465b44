"""Gap curves: decades on both axes, one look per solver, no mark on top of another, nothing drawn outside."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsed_pages import HOSTILE, shapes, texts, titles

from kernelfields.reports.axes import log_axis
from kernelfields.reports.gap_curves import gap_curves, spaced

PASSES = "passes over the data"


def curve(svg, number):
    """The points of a curve, without the sample of it in the legend."""
    lines = list(shapes(svg, "polyline", f"kf-curve-{number}"))
    return [tuple(map(float, pair.split(","))) for pair in lines[-1].get("points").split()]


def test_equal_factors_are_equal_distances_on_both_axes():
    svg = gap_curves({PASSES: {"newton": [(1, 1.0), (10, 1e-2), (100, 1e-4)]}})
    (x1, y1), (x2, y2), (x3, y3) = curve(svg, 0)
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)
    assert y2 - y1 == pytest.approx(y3 - y2, abs=0.2)
    assert x1 < x2
    assert y1 < y2


def test_points_are_sorted_and_say_their_figures():
    svg = gap_curves({PASSES: {"newton": [(100, 1e-4), (1, 1.0)]}})
    assert curve(svg, 0)[0][0] < curve(svg, 0)[1][0]
    assert f"newton, {PASSES} 100: 0.0001" in titles(svg)


def test_a_curve_looks_the_same_in_every_panel_and_in_the_legend():
    pairs = [(1, 1.0), (100, 1e-4)]
    names = ["lbfgs", "newton-cg", "newton", "block-jacobi", "subspace"]
    svg = gap_curves({PASSES: dict.fromkeys(names, pairs), "seconds": {"newton": pairs}})
    assert {*names, PASSES, "seconds"} <= set(texts(svg))
    # In the legend and in both panels; of the others the legend and the first panel.
    assert len(shapes(svg, "polyline", "kf-curve-2")) == 3
    assert len(shapes(svg, "polyline", "kf-curve-1")) == 2
    fifth = [line for line in shapes(svg, "polyline", "kf-curve-0") if line.get("stroke-dasharray")]
    assert len(fifth) == 2


def test_panels_share_the_vertical_axis_and_the_tolerance():
    svg = gap_curves({"a": {"x": [(1, 1e-6)]}, "b": {"x": [(1, 1.0)]}}, tol=1e-3)
    lines = shapes(svg, "line", "kf-tol")
    assert len(lines) == 2
    assert lines[0].get("y1") == lines[1].get("y1")
    assert texts(svg).count("tol = 0.001") == 2
    assert texts(svg).count("10⁻⁶") == 2


def test_marks_of_long_histories_do_not_touch_and_the_ends_are_kept():
    pairs = [(i + 1.0, 0.9**i) for i in range(400)]
    horizontal, vertical = log_axis(1, 400, 0, 800), log_axis(0.9**399, 1, 300, 0)
    kept = spaced(pairs, horizontal, vertical)
    assert kept[0] == pairs[0]
    assert kept[-1] == pairs[-1]
    assert 10 < len(kept) < 100
    assert kept == sorted(set(kept))
    places = [(horizontal.pixel(x), vertical.pixel(y)) for x, y in kept]
    assert min(math.dist(one, other) for one, other in itertools.pairwise(places)) >= 12.0
    assert spaced(pairs[:1], horizontal, vertical) == pairs[:1]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(1e-6, 1e9), st.floats(allow_nan=False)), min_size=1, max_size=8))
def test_any_gaps_are_drawn_inside_the_picture(pairs):
    svg = gap_curves({PASSES: {"newton": pairs}})
    for each in shapes(svg, "circle", "kf-mark"):
        assert 0 < float(each.get("cx")) < 880
        assert 0 < float(each.get("cy")) < 400


def test_unknown_gaps_are_left_out():
    svg = gap_curves({PASSES: {"newton": [(1, 1.0), (2, math.nan), (100, 0.1)]}})
    assert len(curve(svg, 0)) == 2


def test_names_are_escaped():
    svg = gap_curves({name: {name: [(1, 1.0)]} for name in HOSTILE})
    assert "<script" not in svg
    assert "<img" not in svg


@pytest.mark.parametrize(
    ("panels", "words"),
    [
        ({}, "panels is empty"),
        ({"passes": {}}, "panel 'passes' has no curves"),
        ({"passes": {"newton": []}}, "curve 'newton' of panel 'passes' has no gap to draw"),
        ({"passes": {"newton": [(1, math.nan)]}}, "has no gap to draw"),
        ({"passes": {"newton": [(1, 1.0), (0, 1.0)]}}, "a point at 0, and a logarithmic axis"),
        ({"passes": {"newton": [(math.inf, 1.0)]}}, "a point at inf"),
        ({"passes": {"newton": [1.0, 2.0]}}, "must be a list of pairs"),
        ({"passes": {"newton": [("one", 2.0)]}}, "must be a list of pairs"),
    ],
)
def test_what_cannot_be_drawn_is_named(panels, words):
    with pytest.raises(ValueError, match=words):
        gap_curves(panels)
