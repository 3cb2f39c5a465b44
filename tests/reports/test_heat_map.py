"""Heat maps: one cell per entry, as strong as the entry, with the number in it."""

from xml.etree import ElementTree

import numpy as np
import pytest

from kernelfields.reports.heat_map import heat_map

SVG = "{http://www.w3.org/2000/svg}"


def cells(svg):
    return [each for each in ElementTree.fromstring(svg).iter(SVG + "rect") if each.get("class") == "kf-cell"]


def words(svg):
    return [each.text or "" for each in ElementTree.fromstring(svg).iter(SVG + "text")]


def test_strength_is_the_share_of_the_largest_entry():
    matrix = np.array([[0.1, 0.4, 0.0], [0.2, 0.3, 0.4]])
    svg = heat_map(matrix, ["a", "b"], ["x", "y", "z"], row_name="from", column_name="to")
    strengths = [float(cell.get("fill-opacity")) for cell in cells(svg)]
    np.testing.assert_allclose(strengths, matrix.ravel() / 0.4, atol=0.005)
    written = words(svg)
    for word in ("a", "b", "x", "y", "z", "from", "to", "0.10", "0.40", "0.20", "0.30"):
        assert word in written
    assert "0.00" not in written


def test_two_maps_share_a_scale():
    svg = heat_map([[0.25]], ["a"], ["a"], largest=0.5)
    assert float(cells(svg)[0].get("fill-opacity")) == 0.5


def test_an_empty_looking_matrix_is_drawn():
    svg = heat_map(np.zeros((2, 2)), [0, 1], [0, 1])
    assert [cell.get("fill-opacity") for cell in cells(svg)] == ["0"] * 4


def test_hostile_and_long_labels():
    svg = heat_map([[1.0]], ["<script>alert(1)</script>"], ["x" * 500])
    assert "<script>" not in svg
    assert max(len(word) for word in words(svg)) <= 24


def test_wrong_shapes_and_values_are_refused():
    with pytest.raises(ValueError, match="2 row labels and 1 column labels"):
        heat_map(np.ones((2, 2)), ["a", "b"], ["a"])
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="finite numbers >= 0"):
            heat_map([[bad]], ["a"], ["a"])
