"""Paths of structure searches: figures where they belong on a log axis, what was kept is marked."""

import math

import numpy as np
import pytest
from parsed_pages import HOSTILE, ParsedPage, shapes, texts, titles

from kernelfields.reports.structure import read_structure, structure_plot
from kernelfields.structure.search import StructurePath, StructureStep


def path_of(figures, *, kept=None, scores=None, names=None, left=None):
    """A path whose additions have the given (bound, estimate, gain)."""
    names = names or [f"set {index}" for index in range(len(figures))]
    kept = kept or [True] * len(figures)
    scores = scores or [None] * (len(figures) + 1)
    steps = [StructureStep(None, 100.0, 0.1, score=scores[0])]
    for name, (bound, estimate, gain), is_kept, score in zip(names, figures, kept, scores[1:], strict=True):
        steps.append(StructureStep(name, 90.0, 0.1, bound, estimate, gain, {name: bound}, score, is_kept))
    return StructurePath(steps, left or {}, "no candidate is left")


def heights(svg):
    """Vertical pixels of the marks of bound (discs), estimate (squares) and gain (triangles), legends left out."""
    found = {"bound": [float(each.get("cy")) for each in shapes(svg, "circle", "kf-curve-0")]}
    for name, role in (("estimate", "kf-curve-1"), ("gain", "kf-curve-2")):
        corners = [each.get("points").split() for each in shapes(svg, "polygon", role)]
        found[name] = [float(points[-1].split(",")[1]) for points in corners]
    return {name: values[1:] for name, values in found.items()}


def test_equal_factors_are_equal_distances():
    marks = heights(structure_plot(path_of([(1000.0, 10.0, 1.0), (100.0, 1.0, 0.1), (10.0, 0.1, 0.01)])))
    for values in marks.values():
        assert values[1] - values[0] == pytest.approx(values[2] - values[1], abs=0.2)
        assert values[1] > values[0]
    assert marks["bound"][0] < marks["estimate"][0] < marks["gain"][0]


def test_every_addition_says_its_figures_and_whether_it_was_kept():
    path = path_of([(100.0, 30.0, 20.0), (50.0, 3.0, 2.0)], kept=[True, False], scores=[-50.0, -40.0, -45.0])
    svg = structure_plot(path)
    assert "set 0, kept: bound 100, estimate 30, gain 20" in titles(svg)
    assert "set 1, taken back: bound 50, estimate 3, gain 2; held out -45" in titles(svg)
    assert {"✓ set 0", "set 1", "(start)", "✓ kept; ended: no candidate is left"} <= set(texts(svg))
    assert {"bound", "estimate", "gain", "kept", "taken back", "held-out log-likelihood"} <= set(texts(svg))


def test_the_line_leads_past_what_was_taken_back():
    path = path_of([(9.0, 3.0, 2.0)] * 3, kept=[True, False, True], scores=[-50.0, -40.0, -60.0, -30.0])
    (line,) = shapes(structure_plot(path), "polyline", "kf-curve")
    points = [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]
    assert len(points) == 3
    assert points[0][1] > points[1][1] > points[2][1]
    assert points[2][0] - points[1][0] == pytest.approx(2 * (points[1][0] - points[0][0]), abs=0.3)


def test_without_held_out_data_there_is_one_panel():
    with_scores = structure_plot(path_of([(9.0, 3.0, 2.0)], scores=[-5.0, -4.0]))
    without = structure_plot(path_of([(9.0, 3.0, 2.0)]))
    assert "held-out log-likelihood" not in texts(without)
    assert "(start)" not in texts(without)
    tall, low = (float(shapes(svg, "svg")[0].get("height")) for svg in (with_scores, without))
    assert tall > low


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
    svg = structure_plot(path_of(figures, scores=[-1.0] * (len(figures) + 1)))
    (root,) = shapes(svg, "svg")
    width, height = float(root.get("width")), float(root.get("height"))
    for each in shapes(svg, "circle"):
        assert 0 <= float(each.get("cx")) <= width
        assert 0 <= float(each.get("cy")) <= height
    assert "nan" not in svg.replace("estimate nan", "")
    assert len(heights(svg)["gain"]) == len(figures)


def test_figures_below_the_axis_stand_at_its_foot_and_keep_their_words():
    marks = heights(structure_plot(path_of([(100.0, 10.0, 1.0), (100.0, 10.0, -3.0)])))
    assert marks["gain"][0] == marks["gain"][1]
    assert "set 1, kept: bound 100, estimate 10, gain -3" in titles(
        structure_plot(path_of([(100.0, 10.0, 1.0), (100.0, 10.0, -3.0)]))
    )


def test_a_path_read_from_json_is_the_path():
    path = path_of([(9.0, 3.0, 2.0)], scores=[-5.0, -4.0])
    assert structure_plot(path.to_dict()) == structure_plot(path)
    read = read_structure(path.to_dict())
    assert read.names == ["set 0"]
    np.testing.assert_array_equal(read.scores, [-5.0, -4.0])


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
        structure_plot(path)


def test_names_are_text():
    path = path_of([(9.0, 3.0, 2.0)] * len(HOSTILE), names=HOSTILE, scores=[-1.0] * (len(HOSTILE) + 1))
    page = ParsedPage(f"<body>{structure_plot(path)}{path._repr_html_()}</body>")
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
