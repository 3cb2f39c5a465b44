"""Heat maps: one cell per entry, as strong as the entry; transitions in the colour of their sign."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from parsed_pages import shapes, texts

from kernelfields.reports import plot_heat_map, plot_transitions
from kernelfields.reports.heat_maps import score_text, strongest_labels
from kernelfields.reports.markup import LIGHT

SCORES = np.array([[2.0, -1.0, 0.0], [np.nan, 0.5, -np.inf], [-4.0, 1.0, 3.0]])


def cells(picture):
    """Colours (n, 4) of the cells, row by row."""
    (collection,) = picture.axes[0].collections
    return collection.get_facecolors()


def written(picture):
    return [each.get_text() for each in picture.axes[0].texts]


def column_labels(picture):
    return picture.axes[0].get_xticklabels()


def test_strength_is_the_share_of_the_largest_entry():
    matrix = np.array([[0.1, 0.4, 0.0], [0.2, 0.3, 0.4]])
    picture = plot_heat_map(matrix, ["a", "b"], ["x", "y", "z"], row_name="from", column_name="to")
    np.testing.assert_allclose(cells(picture)[:, 3], matrix.ravel() / 0.4)
    assert {to_hex(colour) for colour in cells(picture)} == {LIGHT["cell"]}
    assert written(picture) == ["0.10", "0.40", "0.20", "0.30", "0.40"]
    assert {"a", "b", "x", "y", "z", "from", "to"} <= set(texts(picture.markup()))


def test_wrong_shapes_and_values_are_refused():
    with pytest.raises(ValueError, match="2 row labels and 1 column labels"):
        plot_heat_map(np.ones((2, 2)), ["a", "b"], ["a"])
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="finite numbers >= 0"):
            plot_heat_map([[bad]], ["a"], ["a"])


def test_signs_have_their_colour_and_sizes_their_strength():
    picture = plot_transitions(SCORES, ["a", "b", "c"])
    colours = cells(picture)
    np.testing.assert_allclose(colours[:, 3], [0.5, 0.25, 0, 0, 0.125, 0, 1, 0.25, 0.75])
    below = [to_hex(colour) == LIGHT["cell-below"] for colour in colours]
    assert np.flatnonzero(below).tolist() == [1, 6]


def test_numbers_crosses_and_dots_are_written():
    picture = plot_transitions(SCORES, ["a", "b", "c"], np.diag([False, True, False]))
    assert written(picture) == ["+2.00", "-1.00", ".", "×", "×", "-4.00", "+1.00", "+3.00"]
    assert (picture.axes[0].get_ylabel(), picture.axes[0].get_xlabel()) == ("from", "to")


@pytest.mark.slow
def test_many_labels_leave_numbers_to_a_scale_of_colours():
    scores = np.random.default_rng(0).normal(size=(45, 45))
    scores[0, 1] = -np.inf
    picture = plot_transitions(scores, [f"TAG{index}" for index in range(45)])
    assert written(picture) == ["×"]
    svg = picture.markup()
    assert float(shapes(svg, "svg")[0].get("width").removesuffix("pt")) < 710
    full = np.abs(scores[np.isfinite(scores)]).max()
    assert {f"{full:+.3g}", f"{-full:+.3g}", "0"} <= set(texts(svg))
    assert "data:image" not in svg  # a raster would not follow the screen


def test_too_many_labels_keep_the_strongest_and_say_so():
    scores = np.random.default_rng(0).normal(size=(80, 80)) / 100
    scores[70, 3] = 9.0
    picture = plot_transitions(scores, range(80), most=5)
    assert len(cells(picture)) == 25
    assert picture.axes[0].get_xlabel() == "to (the 5 labels with the strongest scores of 80)"
    assert {3, 70} <= set(strongest_labels(scores, 5).tolist())
    assert strongest_labels(scores, 80).tolist() == list(range(80))
    assert len(cells(plot_transitions(np.zeros((60, 60)), range(60)))) == 50**2


def test_labels_wider_than_their_cells_are_turned_and_stay_inside():
    for label, angle in (("N", 0), ("B-ORG", 0), ("B-ORGANISATION", 45)):
        picture = plot_transitions(np.eye(3), [label] * 3)
        assert [each.get_rotation() for each in column_labels(picture)] == [angle] * 3
        picture.figure.draw_without_rendering()
        width, height = picture.figure.bbox.size
        for each in [*column_labels(picture), *picture.axes[0].get_yticklabels()]:
            box = each.get_window_extent()
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.x1 <= width
            assert box.y1 <= height
    many = plot_transitions(np.zeros((40, 40)), [f"LABEL-{index}" for index in range(40)])
    assert {each.get_rotation() for each in column_labels(many)} == {90}


def test_a_score_takes_at_most_six_characters():
    for value in (*np.geomspace(1e-12, 1e12, 200), 9.999, 99.99, 999.9):
        for signed in (value, -value):
            text = score_text(signed)
            assert len(text) <= 6
            assert not text or text[0] == ("+" if signed > 0 else "-")
    assert score_text(0.001) == ""


def test_what_does_not_fit_is_named():
    with pytest.raises(ValueError, match=r"shape \(2, 2\), but there are 3 row labels"):
        plot_transitions(np.zeros((2, 2)), "abc")
    with pytest.raises(ValueError, match=r"forbidden has shape \(1, 1\), but there are 2 labels"):
        plot_transitions(np.zeros((2, 2)), "ab", [[True]])
    with pytest.raises(ValueError, match="from 'b' to 'a' is infinite"):
        plot_transitions([[0, 0], [np.inf, 0]], "ab")
