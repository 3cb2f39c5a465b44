"""Tables: the same cells as text and as HTML, aligned, shaded, escaped, cut where a terminal is too narrow."""

from xml.etree import ElementTree

import numpy as np
import pytest

from kernelfields.reports import Estimate, Shown, Table
from kernelfields.reports.tables import Row, list_table, matrix_table, printable, shade, signed

HOSTILE = "<script>alert(1)</script>"


def rows_of(table):
    """Cells of all rows of the HTML."""
    tree = ElementTree.fromstring(table.markup())
    return [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]


def test_words_stand_left_and_numbers_right():
    table = Table(("kernel", "accuracy", "note"), [("linear", 0.5, "x"), ("rbf", 0.125, "yz")], words=(0, 2))
    assert table.text().splitlines() == [
        "kernel   accuracy   note",
        "linear        0.5   x",
        "rbf         0.125   yz",
    ]
    assert rows_of(table) == [["kernel", "accuracy", "note"], ["linear", "0.5", "x"], ["rbf", "0.125", "yz"]]
    tree = ElementTree.fromstring(table.markup())
    roles = [[cell.get("class") for cell in row] for row in tree.iter("tr")]
    assert roles == [["kf-words", None, "kf-words"]] * 3


def test_an_empty_row_is_a_gap():
    table = Table(("label", "F1"), [("a", "0.5"), (), ("mean", "0.5")])
    assert table.text().splitlines() == ["label    F1", "a       0.5", "", "mean    0.5"]
    tree = ElementTree.fromstring(table.markup())
    assert [row.get("class") for row in tree.iter("tr")] == [None, None, "kf-total"]


def test_parts_are_set_in_and_words_cut_so_that_lines_fit_a_terminal():
    table = list_table("", [Row(("+1.000", "n" * 300)), Row(("+1.000", "n" * 300), role="part")])
    whole, part = table.text().splitlines()
    assert len(whole) == len(part) == 80
    assert part.startswith("          +1.000  nnn")
    assert rows_of(table)[1][1] == "n" * 300


def test_rows_or_cells_are_shaded():
    tree = ElementTree.fromstring(Table((), [Row(("a", "b"), -1.0), Row(("a", "b"), [np.nan, 0.5])]).markup())
    first, second = tree.iter("tr")
    assert (first.get("style"), first[0].get("style")) == (shade(-1.0), None)
    assert (second.get("style"), second[0].get("style"), second[1].get("style")) == (None, None, shade(0.5))


def test_shades_follow_sign_and_size():
    assert shade(1.0) == shade(7.0) == "background-color:rgba(0,140,60,0.450)"
    assert shade(-0.5) == "background-color:rgba(210,30,30,0.225)"
    assert shade(0.0) is shade(np.nan) is shade(1e-6) is None


def test_a_matrix_wider_than_the_terminal_is_cut_into_bands():
    columns = ["c" * 30, *(f"c{index}" for index in range(20))]
    values = [float(index) for index in range(21)]
    table = matrix_table("", ["r"], columns, [[signed(value) for value in values]], [values])
    text = table.text()
    bands = text.split("\n\n")
    assert len(bands) == 3
    assert [word for band in bands for word in band.splitlines()[1].split()[1:]] == [signed(i) for i in range(21)]
    assert max(map(len, text.splitlines())) <= 80
    assert "c" * 15 + "…" in text
    assert "c" * 30 in table.markup()


def test_a_matrix_is_shaded_by_its_largest_entry():
    table = matrix_table("", ["r"], ["x", "y", "z"], [["a", "b", "c"]], [[1.0, -4.0, np.nan]])
    cells = next(ElementTree.fromstring(table.markup()).find("table/tbody").iter("tr"))
    assert [cell.get("style") for cell in cells] == [None, shade(0.25), shade(-1.0), None]


def test_names_are_escaped_and_control_characters_written_out():
    table = Table((HOSTILE, "b"), [(HOSTILE, "a\x1b[2J\n")], HOSTILE)
    assert "<script" not in table.markup()
    assert "\x1b" not in table.text()
    assert "a\\x1b[2J\\n" in table.text()
    assert rows_of(table)[0][0] == HOSTILE
    assert printable("naïve 猫") == "naïve 猫"


def test_rows_must_fit_the_columns():
    with pytest.raises(ValueError, match="row 1 of the table has 1 cells, but there are 2 columns"):
        Table(["a", "b"], [[1, 2], [3]])


class Pair(Shown):
    """Two tables below a heading."""

    def parts(self):
        return ["a < b", Table(("a", "b"), [("x", 1.5), (), ("z", None)]), Table(("c",), [(Estimate(0.5, 0.25, 1),)])]


def test_tables_below_a_heading():
    assert str(Pair()) == "a < b\n\na     b\nx   1.5\n\nz\n\nc\n0.500 [0.250, 1.000]"
    tree = ElementTree.fromstring(Pair()._repr_html_())
    assert tree.find("div/p").text == "a < b"
    assert len(list(tree.iter("table"))) == 2
    assert Pair().to_rows() == [{"a": "x", "b": 1.5}, {"a": "z", "b": None}, {"c": 0.5, "c low": 0.25, "c high": 1}]


def test_cells_have_the_format_of_their_column():
    table = Table(("n", "share", "figure"), [("a", 1234, Estimate(0.5)), ("b", "none", None)], words=(0,))
    formatted = Table(table.columns, table.rows, formats={"share": ",", "figure": ".1f"}, note="the end")
    assert formatted.text().splitlines() == ["n   share   figure", "a   1,234      0.5", "b    none", "the end"]
    assert rows_of(formatted) == [["n", "share", "figure"], ["a", "1,234", "0.5"], ["b", "none", ""]]
    assert rows_of(table)[1] == ["a", "1234", "0.500"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.23456, "+1.235"),
        (-0.0, "+0.000"),
        (-0.00012345, "-1.23e-04"),
        (1234567.0, "+1.23e+06"),
        (99999.0, "+99999.000"),
        (np.nan, "."),
        (np.inf, "+inf"),
    ],
)
def test_numbers_keep_their_sign_and_their_meaning(number, text):
    assert signed(number) == text
