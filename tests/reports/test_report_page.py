"""Pages: well-formed, self-contained, escaped."""

import re

from parsed_pages import ParsedPage

from kernelfields.reports import Table, plot_heat_map
from kernelfields.reports.markup import notebook
from kernelfields.reports.page import page, section, side_by_side
from kernelfields.reports.tables import Row


def test_a_page_is_balanced_and_holds_its_parts():
    rows = [("linear", 0.5), Row(("rbf", 0.75), role="best")]
    document = page(
        "A title",
        "a lead",
        [
            section("Numbers", "A paragraph.", Table(["field", "score"], rows)),
            section(
                "Maps",
                side_by_side(("one", plot_heat_map([[1.0]], [0], [0])), ("two", plot_heat_map([[1.0]], [0], [0]))),
            ),
        ],
        "the end",
    )
    parsed = ParsedPage(document)
    assert document.startswith("<!DOCTYPE html>")
    for word in ("A title", "a lead", "Numbers", "A paragraph.", "linear", "0.75", "one", "two", "the end"):
        assert word in parsed.words
    tags = [tag for tag, _ in parsed.tags]
    assert tags.count("tr") == 3
    assert tags.count("svg") == 2
    assert [attributes.get("class") for tag, attributes in parsed.tags if tag == "tr"] == [None, None, "kf-best"]


def test_nothing_is_loaded_from_elsewhere():
    ParsedPage(page("t", "l", [section("s", plot_heat_map([[1.0]], [0], [0]))])).assert_harmless()


def test_hostile_text_stays_text_everywhere():
    hostile = "<script>alert(1)</script>"
    document = page(
        hostile,
        hostile,
        [section(hostile, hostile, Table([hostile], [[hostile]])), section("m", side_by_side((hostile, section("x"))))],
        hostile,
    )
    parsed = ParsedPage(document)
    assert "script" not in {tag for tag, _ in parsed.tags}
    assert parsed.words.count(hostile) == 9


def test_all_colour_schemes_define_the_same_names():
    document = page("t", "l", [])
    schemes = re.findall(r"\{ (--kf-[^}]*) \}", document + notebook([]))
    names = [{item.split(":")[0] for item in scheme.split(";")} for scheme in schemes]
    assert len(names) == 3
    assert names[0] == names[1] == names[2]
    assert set(re.findall(r"var\((--kf-[a-z-]+)", document)) <= names[0]
