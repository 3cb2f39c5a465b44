"""Transition maps: colour by sign, strength by size, forbidden steps crossed out, many labels still readable."""

import re

import numpy as np
import pytest
from parsed_pages import HOSTILE, SVG, shapes, texts, titles

from kernelfields.reports.heat_map import heat_map
from kernelfields.reports.transitions import score_text, strongest_labels, transition_plot

SCORES = np.array([[2.0, -1.0, 0.0], [np.nan, 0.5, -np.inf], [-4.0, 1.0, 3.0]])


def rects(svg):
    """(role, strength, title) of every cell, row by row."""
    return [
        (each.get("class"), float(each.get("fill-opacity")), each.find(SVG + "title").text)
        for each in shapes(svg, "rect")
    ]


def test_signs_have_their_colour_and_sizes_their_strength():
    cells = rects(transition_plot(SCORES, ["a", "b", "c"]))
    assert cells[0] == ("kf-cell", 0.5, "from a to a: +2")
    assert cells[1] == ("kf-below", 0.25, "from a to b: -1")
    assert cells[2] == ("kf-cell", 0.0, "from a to c: +0")
    assert cells[3] == ("kf-cell", 0.0, "from b to a: no weight")
    assert cells[5] == ("kf-cell", 0.0, "from b to c: forbidden")
    assert cells[6] == ("kf-below", 1.0, "from c to a: -4")


def test_numbers_crosses_and_dots_are_written():
    written = texts(transition_plot(SCORES, ["a", "b", "c"], np.diag([False, True, False])))
    assert [each for each in written if each in ("×", ".")] == [".", "×", "×"]
    assert "+0.50" not in written  # b to b is forbidden
    assert {"+2.00", "-1.00", "-4.00", "+1.00", "+3.00", "from", "to"} <= set(written)
    assert "+0.00" not in written


def test_many_labels_leave_numbers_to_hovering():
    scores = np.random.default_rng(0).normal(size=(45, 45))
    svg = transition_plot(scores, [f"TAG{index}" for index in range(45)])
    assert len(rects(svg)) == 45**2
    assert not [each for each in texts(svg) if re.fullmatch(r"[+-]\d.*", each)]
    assert f"from TAG3 to TAG7: {scores[3, 7]:+.4g}" in titles(svg)
    assert float(shapes(svg, "svg")[0].get("width")) < 900


def test_too_many_labels_keep_the_strongest_and_say_so():
    scores = np.random.default_rng(0).normal(size=(80, 80)) / 100
    scores[70, 3] = 9.0
    svg = transition_plot(scores, range(80), most=5)
    assert len(rects(svg)) == 25
    assert "from 70 to 3: +9" in titles(svg)
    assert "to (the 5 labels with the strongest scores of 80)" in texts(svg)
    assert {3, 70} <= set(strongest_labels(scores, 5).tolist())
    assert strongest_labels(scores, 80).tolist() == list(range(80))


def test_labels_wider_than_their_cells_are_turned_and_stay_inside():
    for label, turned in (("N", False), ("B-ORG", False), ("B-ORGANISATION", True)):
        svg = transition_plot(np.eye(3), [label] * 3)
        columns = [each for each in shapes(svg, "text") if each.text == label and each.get("text-anchor") != "end"]
        assert len(columns) == 3
        assert all(("rotate" in (each.get("transform") or "")) == turned for each in columns)
    width = float(shapes(svg, "svg")[0].get("width"))
    x, y = map(float, re.findall(r"[\d.]+", columns[-1].get("transform"))[:2])
    reach = 14 * 7.5 * np.sqrt(0.5)
    assert x + reach <= width
    assert y - reach >= 0


def test_a_score_takes_at_most_six_characters():
    for value in (*np.geomspace(1e-12, 1e12, 200), 9.999, 99.99, 999.9):
        for signed in (value, -value):
            written = score_text(signed)
            assert len(written) <= 6
            assert not written or written[0] == ("+" if signed > 0 else "-")
    assert score_text(0.001) == ""


def test_hostile_labels_are_escaped_and_read_back():
    svg = transition_plot(np.zeros((6, 6)), HOSTILE)
    assert "<script" not in svg
    assert "<img" not in svg
    assert f"from {HOSTILE[0]} to {HOSTILE[1]}: +0" in titles(svg)
    assert f"row {HOSTILE[0]}, column {HOSTILE[0]}: 1.00" in titles(heat_map([[1.0]], HOSTILE[:1], HOSTILE[:1]))


def test_what_does_not_fit_is_named():
    with pytest.raises(ValueError, match=r"shape \(2, 2\), but there are 3 row labels"):
        transition_plot(np.zeros((2, 2)), "abc")
    with pytest.raises(ValueError, match=r"forbidden has shape \(1, 1\), but there are 2 labels"):
        transition_plot(np.zeros((2, 2)), "ab", [[True]])
    with pytest.raises(ValueError, match="from 'b' to 'a' is infinite"):
        transition_plot([[0, 0], [np.inf, 0]], "ab")
