"""Accuracy against degree, accuracy and gap against rank: marks where the figures are, whiskers where they end."""

import re

import numpy as np
import pytest
from parsed_pages import HOSTILE, shapes, texts, titles

from kernelfields.evaluation.resampling import Estimate
from kernelfields.reports.degrees import degree_plot
from kernelfields.reports.estimates import read_curves, read_figure
from kernelfields.reports.ranks import rank_plot, rank_ticks


def centres(svg):
    return [(float(each.get("cx")), float(each.get("cy"))) for each in shapes(svg, "circle", "kf-mark")]


def whisker_ends(svg):
    """Lower and upper pixel of every whisker."""
    return [
        tuple(map(float, re.fullmatch(r".*M[\d.]+,([\d.]+)V([\d.]+)", each.get("d")).groups()))
        for each in shapes(svg, "path", "kf-whisker")
    ]


def test_heights_are_linear_in_accuracy_and_whiskers_are_the_intervals():
    figures = [Estimate(0.5, 0.4, 0.6), Estimate(0.7, 0.6, 0.8), Estimate(0.9, 0.8, 1.0)]
    svg = degree_plot([1, 2, 3], figures)
    (x1, y1), (x2, y2), (x3, y3) = centres(svg)
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)
    assert y1 > y2 > y3
    assert y1 - y2 == pytest.approx(y2 - y3, abs=0.2)
    unit = (y1 - y2) / 0.2
    for (low, high), y in zip(whisker_ends(svg), (y1, y2, y3), strict=True):
        assert low - y == pytest.approx(0.1 * unit, abs=0.2)
        assert y - high == pytest.approx(0.1 * unit, abs=0.2)
    assert titles(svg)[1] == "degree 2: 0.7 [0.6, 0.8]"


def test_kernels_without_a_degree_stand_alone():
    (line,) = shapes(degree_plot([1, 2, "RBF"], [0.5, 0.6, 0.7]), "polyline", "kf-curve")
    assert len(line.get("points").split()) == 2
    assert not shapes(degree_plot(["RBF", "Matern"], [0.5, 0.6]), "polyline", "kf-curve")


def test_missing_figures_interrupt_the_line():
    svg = degree_plot([1, 2, 3, 4, 5], [0.5, 0.6, None, float("nan"), 0.7])
    assert len(centres(svg)) == 3
    assert [len(each.get("points").split()) for each in shapes(svg, "polyline", "kf-curve")] == [2]


def test_several_curves_are_named_and_differ_in_shape():
    svg = degree_plot([1, 2], {"Afrikaans": [0.5, 0.6], "English": [0.6, 0.7], "French": [0.7, 0.8]})
    assert {"Afrikaans", "English", "French"} <= set(texts(svg))
    assert len(centres(svg)) == 3  # two figures and the legend
    squares, triangles = (shapes(svg, "polygon", f"kf-curve-{number}") for number in (1, 2))
    assert {len(each.get("points").split()) for each in squares} == {4}
    assert {len(each.get("points").split()) for each in triangles} == {3}
    assert "Afrikaans" not in texts(degree_plot([1], {"Afrikaans": [0.5]}))


def test_results_from_a_file_are_read():
    from_file = {"value": 0.5, "low": None, "high": None}
    assert centres(degree_plot([1, 2], [from_file, 0.7])) == centres(degree_plot([1, 2], [0.5, 0.7]))
    assert read_figure({"value": 0.5, "low": 0.25, "high": 1}) == (0.5, 0.25, 1.0)
    assert read_figure(Estimate(0.5, 0.25, 1.0)) == (0.5, 0.25, 1.0)
    assert np.isnan(read_figure(None)).all()


def test_rank_plots_are_sorted_and_gaps_fall_in_decades():
    svg = rank_plot([1000, 10, 100], accuracy=[0.9, 0.7, 0.8], gap=[1e-3, 1e-1, 1e-2])
    marks = centres(svg)
    upper, lower = marks[:3], marks[3:]
    for panel in (upper, lower):
        (x1, y1), (x2, y2), (x3, y3) = panel
        assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)
        assert abs((y2 - y1) - (y3 - y2)) < 0.2
    assert upper[0][1] > upper[2][1]
    assert lower[0][1] < lower[2][1]
    assert [each for each in texts(svg) if each in ("10", "100", "1,000")] == ["10", "100", "1,000"]
    assert "rank 100: 0.01" in titles(svg)


def test_gaps_of_zero_and_below_are_drawn():
    for gap in ([0.0, 0.1], [-1e-18, 1.0], [1e30, 1e-30]):
        assert len(centres(rank_plot([1, 2], [0.5, 0.6], gap))) == 4


def test_ticks_that_would_run_into_each_other_are_left_out():
    assert rank_ticks(np.array([100.0, 101.0, 102.0, 1000.0])) == [100.0, 1000.0]
    assert rank_ticks(np.array([5.0])) == [5.0]
    assert rank_ticks(2.0 ** np.arange(2, 9)) == [4, 8, 16, 32, 64, 128, 256]
    assert len(rank_ticks(np.arange(1.0, 500.0))) <= 12


def test_one_figure_alone_is_drawn():
    assert len(centres(degree_plot([2], [0.5]))) == 1
    assert len(centres(rank_plot([100], [0.5], [0.1]))) == 2


def test_hostile_names_are_escaped():
    for svg in (
        degree_plot(HOSTILE, {name: [0.5] * len(HOSTILE) for name in HOSTILE}),
        rank_plot([1], {name: [0.5] for name in HOSTILE}, [0.1], name=HOSTILE[0]),
    ):
        assert "<script" not in svg
        assert "<img" not in svg
        assert any("<scri" in each for each in titles(svg))


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
    ],
)
def test_what_cannot_be_drawn_is_named(draw, words):
    with pytest.raises(ValueError, match=words):
        draw()


def test_curves_keep_their_names_and_intervals():
    (curve,) = read_curves({"a": [0.5, Estimate(0.6, 0.5, 0.7)]}, 2, "accuracy")
    assert curve.name == "a"
    assert curve.interval(0) is None
    assert curve.interval(1) == (0.5, 0.7)
    assert curve.words(1, ".2f") == "0.60 [0.50, 0.70]"
