"""Pictures of experiments: marks where the figures are, whiskers where they end, gaps in decades."""

import itertools
import math
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.pictures import (
    curves_plot,
    degree_plot,
    gap_curves,
    named_plot,
    rank_plot,
    rank_ticks,
    read_curves,
    sizes_plot,
    spaced,
)
from kernelfields.evaluation import Estimate
from kernelfields.reports.tables import read_estimate

HOSTILE = ["<script>alert(1)</script>", "$\\frac{$", "_a\nb"]
PASSES = "passes over the data"


def marks(panel):
    """The points of each curve's marks."""
    return [container.lines[0].get_xydata() for container in panel.containers]


def lines(panel):
    """The points of the lines between marks, NaN where they are interrupted."""
    return [line.get_xydata() for line in panel.lines if line.get_linestyle() != "None" and len(line.get_xdata())]


def titles(picture):
    tree = ElementTree.fromstring(picture.markup())
    return [each.text for each in tree.iter("{http://www.w3.org/2000/svg}title")][1:]


def test_figures_and_intervals_are_where_they_belong():
    figures = [Estimate(0.5, 0.4, 0.6), Estimate(0.7, 0.6, 0.8), Estimate(0.9, 0.8, 1.0)]
    picture = degree_plot([1, 2, 3], figures)
    (panel,) = picture.axes
    np.testing.assert_allclose(marks(panel)[0], [(0, 0.5), (1, 0.7), (2, 0.9)])
    segments = panel.containers[0].lines[2][0].get_segments()
    np.testing.assert_allclose([each[:, 1] for each in segments], [(0.4, 0.6), (0.6, 0.8), (0.8, 1.0)])
    assert [each.get_text() for each in panel.get_xticklabels()] == ["1", "2", "3"]
    assert titles(picture)[1] == "degree 2: 0.7 [0.6, 0.8]"


def test_kernels_without_a_degree_stand_alone():
    (line,) = lines(degree_plot([1, 2, "RBF"], [0.5, 0.6, 0.7]).axes[0])
    assert line.tolist() == [[0, 0.5], [1, 0.6]]
    assert lines(degree_plot(["RBF", "Matern"], [0.5, 0.6]).axes[0]) == []
    assert lines(named_plot(["one", "two"], {"a": [1, 2], "b": [2, 3]}, "error").axes[0]) == []


def test_missing_figures_interrupt_the_line():
    (panel,) = degree_plot([1, 2, 3, 4, 5], [0.5, 0.6, None, float("nan"), 0.7]).axes
    assert marks(panel)[0].tolist() == [[0, 0.5], [1, 0.6], [4, 0.7]]
    assert np.isnan(lines(panel)[0][2:4, 1]).all()


def test_several_curves_are_named_and_stand_beside_each_other():
    curves = {"Afrikaans": [0.5, 0.6], "English": [0.6, 0.7], "French": [0.7, 0.8]}
    (panel,) = degree_plot([1, 2], curves).axes
    assert [each.get_text() for each in panel.get_legend().get_texts()] == list(curves)
    places = [points[0, 0] for points in marks(panel)]
    assert places[0] < places[1] == 0 < places[2]
    assert len({container.lines[0].get_marker() for container in panel.containers}) == 3
    assert degree_plot([1], {"Afrikaans": [0.5]}).axes[0].get_legend() is None


def test_results_from_a_file_are_read():
    assert read_estimate({"value": 0.5, "low": 0.25, "high": 1}) == Estimate(0.5, 0.25, 1.0)
    assert read_estimate(Estimate(0.5, 0.25, 1.0)) == Estimate(0.5, 0.25, 1.0)
    assert np.isnan(read_estimate(None).value)
    assert read_estimate(None).low is read_estimate(None).high is None
    assert f"{read_estimate({'value': 0.5, 'low': None, 'high': None}):.2f}" == "0.50"
    assert f"{read_estimate({'value': 0.5, 'low': None, 'high': None}, resampled=True):.2f}" == "0.50 [–]"
    (curve,) = read_curves({"a": [0.5, Estimate(0.6, 0.5, 0.7)]}, 2, "accuracy")
    assert (curve.name, curve.words(0), curve.words(1)) == ("a", "0.5", "0.6 [0.5, 0.7]")


def test_ranks_are_sorted_on_logarithmic_axes():
    picture = rank_plot([1000, 10, 100], accuracy=[0.9, 0.7, 0.8], gap=[1e-3, 1e-1, 0.0])
    upper, lower = picture.axes
    assert marks(upper)[0].tolist() == [[10, 0.7], [100, 0.8], [1000, 0.9]]
    assert marks(lower)[0].tolist() == [[10, 1e-1], [100, 1e-16], [1000, 1e-3]]
    assert (lower.get_xscale(), lower.get_yscale(), upper.get_yscale()) == ("log", "log", "linear")
    assert [each.get_text() for each in lower.get_xticklabels()] == ["10", "100", "1,000"]
    assert "rank 10: 0.1" in titles(picture)


def test_gaps_of_zero_and_below_are_drawn():
    for gap in ([0.0, 0.1], [-1e-18, 1.0], [1e30, 1e-30]):
        lower = rank_plot([1, 2], [0.5, 0.6], gap).axes[1]
        low, high = lower.get_ylim()
        assert ((marks(lower)[0][:, 1] > low) & (marks(lower)[0][:, 1] < high)).all()


def test_ticks_that_would_run_into_each_other_are_left_out():
    assert rank_ticks(np.array([100.0, 101.0, 102.0, 1000.0])) == [100.0, 1000.0]
    assert rank_ticks(np.array([5.0])) == [5.0]
    assert rank_ticks(2.0 ** np.arange(2, 9)) == [4, 8, 16, 32, 64, 128, 256]
    assert len(rank_ticks(np.arange(1.0, 500.0))) <= 12


def test_sizes_and_densities_are_the_data():
    (panel,) = sizes_plot([100, 1000], {"kink": [0.1, 0.01], "normal": [0.02, 0.004]}).axes
    assert marks(panel)[0].tolist() == [[100, 0.1], [1000, 0.01]]
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
    histogram = {"edges": [0.0, 0.5, 1.0], "heights": [0.4, 1.6]}
    (panel,) = curves_plot([0.0, 1.0], {"truth": [1.0, 1.0], "fit": [0.5, 1.5]}, "wines", histogram).axes
    assert [line.get_ydata().tolist() for line in panel.lines] == [[1.0, 1.0], [0.5, 1.5]]
    assert [(bar.get_height(), bar.get_width()) for bar in panel.patches] == [(0.4, 0.5), (1.6, 0.5)]


def test_gaps_are_sorted_and_say_their_figures():
    picture = gap_curves({PASSES: {"newton": [(100, 1e-4), (1, 1.0)]}})
    (line,) = picture.axes[0].lines
    assert line.get_xydata().tolist() == [[1, 1.0], [100, 1e-4]]
    assert f"newton, {PASSES} 100: 0.0001" in titles(picture)


def test_a_curve_looks_the_same_in_every_chart_and_in_the_legend():
    pairs = [(1, 1.0), (100, 1e-4)]
    names = ["lbfgs", "newton-cg", "newton", "block-jacobi", "subspace"]
    picture = gap_curves({PASSES: dict.fromkeys(names, pairs), "seconds": {"newton": pairs}}, tol=1e-3)
    first, second = picture.axes
    assert [panel.get_xlabel() for panel in picture.axes] == [PASSES, "seconds"]
    assert first.get_ylim() == second.get_ylim()
    (legend,) = picture.figure.legends
    assert [each.get_text() for each in legend.get_texts()] == names
    curves = {tuple(line.get_xdata()): line for line in second.lines}
    newton, same = first.lines[3], curves[1, 100]  # the first line is that of the tolerance
    for part in ("color", "marker", "linestyle"):
        assert getattr(newton, f"get_{part}")() == getattr(same, f"get_{part}")()
    assert first.lines[5].get_linestyle() != first.lines[1].get_linestyle()
    for panel in picture.axes:
        assert set(panel.lines[0].get_ydata()) == {1e-3}
        assert [each.get_text() for each in panel.texts] == ["tol = 0.001"]


def test_marks_of_long_histories_do_not_touch_and_the_ends_are_kept():
    points = np.column_stack([np.linspace(0, 1, 400), np.linspace(0, 1, 400) ** 2])
    kept = spaced(points, 0.03)
    assert (kept[0], kept[-1]) == (0, 399)
    assert 10 < len(kept) < 100
    assert min(math.dist(points[one], points[other]) for one, other in itertools.pairwise(kept)) >= 0.03
    assert spaced(points[:1]) == [0]
    picture = gap_curves({PASSES: {"newton": [(i + 1.0, 0.9**i) for i in range(400)]}})
    assert 5 < len(titles(picture)) < 100


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.floats(1e-6, 1e9), st.floats(allow_nan=False)), min_size=1, max_size=8))
def test_any_gaps_are_drawn_inside_the_picture(pairs):
    picture = gap_curves({PASSES: {"newton": pairs}})
    low, high = picture.axes[0].get_ylim()
    gaps = picture.axes[0].lines[0].get_ydata()
    assert ((gaps > low) & (gaps < high)).all()
    picture.markup()


def test_unknown_gaps_are_left_out():
    picture = gap_curves({PASSES: {"newton": [(1, 1.0), (2, math.nan), (100, 0.1)]}})
    assert picture.axes[0].lines[0].get_xdata().tolist() == [1, 100]


def test_names_are_text():
    curves = {name: [0.5] * len(HOSTILE) for name in HOSTILE}
    for picture in (
        degree_plot(HOSTILE, curves),
        rank_plot([1, 2, 3], curves, [0.1] * 3, name=HOSTILE[1]),
        gap_curves({name: {name: [(1, 1.0)]} for name in HOSTILE}, name=HOSTILE[1]),
    ):
        assert "<script" not in picture.markup()


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: degree_plot([], []), "degrees is empty"),
        (lambda: degree_plot([1, 2], [0.5]), "accuracy has 1 figures, but there are 2 places"),
        (lambda: degree_plot([1], {"a": [0.5, 0.6]}), "accuracy 'a' has 2 figures"),
        (lambda: degree_plot([1], {}), "accuracy is empty"),
        (lambda: degree_plot([1], 0.5), "must be a list of 1 figures"),
        (lambda: degree_plot([1, 2], [0.5, "high"]), "entry 1 of accuracy is 'high'"),
        (lambda: degree_plot([1], [{"low": 0.1}]), "has no 'value'"),
        (lambda: degree_plot([1], [None]), "no finite figure"),
        (lambda: rank_plot([0, 1], [1, 1], [1, 1]), "ranks must be a list of positive numbers"),
        (lambda: rank_plot(["many"], [1], [1]), "ranks must be a list of numbers"),
        (lambda: rank_plot([1, 2], [1, 1], [1]), "gap has 1 figures"),
        (lambda: gap_curves({}), "panels is empty"),
        (lambda: gap_curves({"passes": {}}), "panel 'passes' has no curves"),
        (lambda: gap_curves({"passes": {"newton": []}}), "curve 'newton' of panel 'passes' has no gap to draw"),
        (lambda: gap_curves({"passes": {"newton": [(1, math.nan)]}}), "has no gap to draw"),
        (lambda: gap_curves({"passes": {"newton": [(0, 1.0)]}}), "a point at 0, and a logarithmic axis"),
        (lambda: gap_curves({"passes": {"newton": [(math.inf, 1.0)]}}), "a point at inf"),
        (lambda: gap_curves({"passes": {"newton": [1.0, 2.0]}}), "must be a list of pairs"),
        (lambda: gap_curves({"passes": {"newton": [("one", 2.0)]}}), "must be a list of pairs"),
    ],
)
def test_what_cannot_be_drawn_is_named(draw, words):
    with pytest.raises(ValueError, match=words):
        draw()
