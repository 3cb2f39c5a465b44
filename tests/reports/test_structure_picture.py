"""Paths of structure searches: figures where they belong on a log axis, what was kept is marked."""

import math

import numpy as np
import pytest
from matplotlib.figure import Figure
from parsed_pages import HOSTILE, ParsedPage, texts, titles

from kernelfields.reports import plot_structure
from kernelfields.structure import StructurePath, StructureStep


def path_of(figures, *, kept=None, scores=None, names=None, left=None):
    """A path whose additions have the given (bound, estimate, gain)."""
    names = names or [f"set {index}" for index in range(len(figures))]
    kept = kept or [True] * len(figures)
    scores = scores or [None] * (len(figures) + 1)
    steps = [StructureStep(None, 100.0, 0.1, score=scores[0])]
    for name, (bound, estimate, gain), is_kept, score in zip(names, figures, kept, scores[1:], strict=True):
        steps.append(StructureStep(name, 90.0, 0.1, bound, estimate, gain, {name: bound}, score, is_kept))
    return StructurePath(steps, left or {}, "no candidate is left")


BOTH = path_of([(100.0, 30.0, 20.0), (50.0, 3.0, -2.0)], kept=[True, False], scores=[-50.0, -40.0, -45.0])


def test_bound_estimate_and_gain_are_the_steps():
    upper, _ = plot_structure(BOTH).axes
    bound, estimate, gain = (line.get_ydata() for line in upper.lines)
    np.testing.assert_array_equal(bound, [100.0, 50.0])
    np.testing.assert_array_equal(estimate, [30.0, 3.0])
    np.testing.assert_array_equal(gain, [20.0, 3.0])  # what is not positive stands at the foot
    assert upper.get_yscale() == "log"
    assert [each.get_text() for each in upper.get_legend().get_texts()] == ["bound", "estimate", "gain"]


def test_the_line_leads_past_what_was_taken_back():
    path = path_of([(9.0, 3.0, 2.0)] * 3, kept=[True, False, True], scores=[-50.0, -40.0, -60.0, -30.0])
    line, back = plot_structure(path).axes[1].lines
    np.testing.assert_array_equal(line.get_xydata(), [(0, -50), (1, -40), (3, -30)])
    np.testing.assert_array_equal(back.get_xydata(), [(2, -60)])
    assert (line.get_linestyle(), back.get_linestyle()) == ("-", "None")


def test_every_addition_says_its_figures_and_whether_it_was_kept():
    svg = plot_structure(BOTH).markup()
    assert "set 0, kept: bound 100, estimate 30, gain 20" in titles(svg)
    assert "set 1, taken back: bound 50, estimate 3, gain -2; held out -45" in titles(svg)
    assert {"✓ set 0", "set 1", "(start)", "✓ kept; ended: no candidate is left"} <= set(texts(svg))
    assert {"kept", "taken back", "held-out log-likelihood", "improvement, nats"} <= set(texts(svg))


def test_without_held_out_data_there_is_one_panel():
    without = plot_structure(path_of([(9.0, 3.0, 2.0)]))
    assert len(without.axes) == 1
    assert [each.get_text() for each in without.axes[0].get_xticklabels()] == ["✓ set 0"]


@pytest.mark.parametrize(
    "figures",
    [
        [(0.0, 0.0, 0.0)],
        [(math.inf, 5.0, 1.0), (math.inf, math.nan, -1.0)],
        [(1e9, 1e-30, -1e-3), (1e8, 1.0, 0.0)],
        [(5.0, 5.0, 5.0)],
        [(3.0, 2.0, 1.0)] * 40,
    ],
    ids=["zero", "infinite", "far apart", "equal", "many"],
)
def test_degenerate_figures_stay_in_the_picture(figures):
    picture = plot_structure(path_of(figures, scores=[-1.0] * (len(figures) + 1)))
    low, high = picture.axes[0].get_ylim()
    for line in picture.axes[0].lines:
        assert ((line.get_ydata() > low) & (line.get_ydata() < high)).all()
    assert "nan" not in picture.markup().replace("estimate nan", "")


def test_scores_that_are_not_finite_are_left_out():
    path = path_of([(9.0, 3.0, 2.0)] * 2, scores=[-5.0, -math.inf, -4.0])
    line, _ = plot_structure(path).axes[1].lines
    np.testing.assert_array_equal(line.get_xydata(), [(0, -5), (2, -4)])


def test_a_path_read_from_json_is_the_path():
    assert plot_structure(BOTH.to_dict()).markup() == plot_structure(BOTH).markup()


def test_axes_that_are_given_are_used():
    axes = Figure().subplots(2)
    assert plot_structure(BOTH, axes).axes == tuple(axes)
    with pytest.raises(ValueError, match="ax must hold 2 Axes"):
        plot_structure(BOTH, axes[:1])
    alone = Figure().subplots()
    assert plot_structure(path_of([(9.0, 3.0, 2.0)]), alone).axes == (alone,)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (path_of([]), "nothing was added.*because no candidate is left"),
        ({"reason": "x"}, "the path has no 'steps'"),
        ({"steps": [], "reason": "x"}, "steps must be a list"),
        ({"steps": [{"score": None}, {"added": "a", "score": None}], "reason": "x"}, "no 'kept'"),
        (3, "expected a StructurePath or its dict, got int"),
    ],
)
def test_what_is_no_path_is_refused(path, words):
    with pytest.raises(ValueError, match=words):
        plot_structure(path)


def test_names_are_text():
    path = path_of([(9.0, 3.0, 2.0)] * len(HOSTILE), names=HOSTILE, scores=[-1.0] * (len(HOSTILE) + 1))
    page = ParsedPage(f"<body>{plot_structure(path).markup()}{path._repr_html_()}</body>")
    page.assert_harmless()
    assert "img" not in {tag for tag, _ in page.tags}


def test_a_notebook_shows_the_steps_as_a_table():
    path = path_of(
        [(100.0, 30.0, 20.0), (50.0, 3.0, 2.0)],
        kept=[True, False],
        scores=[-50.0, -40.0, -45.0],
        left={"other": 7.0},
    )
    page = ParsedPage(path._repr_html_())
    assert [tag for tag, _ in page.tags].count("tr") == 4
    assert "✓ set 0 100 30 20 90 -40 set 1 50 3 2 90 -45" in page.text
    assert "ended: no candidate is left; ✓ kept; the best candidate left is other" in page.text
    assert "held out" not in ParsedPage(path_of([(9.0, 3.0, 2.0)])._repr_html_()).text


def test_a_terminal_shows_the_same_steps():
    header, start, first, second, ending = str(BOTH).splitlines()
    assert header.split() == ["added", "bound", "estimate", "gain", "objective", "held", "out"]
    assert start.split() == ["(start)", "100", "-50"]
    assert first.split() == ["✓", "set", "0", "100", "30", "20", "90", "-40"]
    assert second.startswith("  set 1")
    assert len({len(line) for line in (header, start, first, second)}) == 1
    assert ending == "ended: no candidate is left; ✓ kept"
