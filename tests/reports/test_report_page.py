"""Pages: well-formed, self-contained, escaped."""

from html.parser import HTMLParser

import pytest

from kernelfields.reports.heat_map import heat_map
from kernelfields.reports.page import beside, page, section, table

VOID = {"meta", "img"}


class Balanced(HTMLParser):
    """Fails on a tag that is not closed, or closed out of turn."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.seen = []
        self.words = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def parse(document):
    parser = Balanced()
    parser.feed(document)
    parser.close()
    assert parser.open == []
    return parser


def test_a_page_is_balanced_and_holds_its_parts():
    rows = [("linear", 0.5), ("rbf", 0.75)]
    document = page(
        "A title",
        "a lead",
        [
            section("Numbers", "A paragraph.", table(["field", "score"], rows, best=1)),
            section("Maps", beside(("one", heat_map([[1.0]], [0], [0])), ("two", heat_map([[1.0]], [0], [0])))),
        ],
        "the end",
    )
    parsed = parse(document)
    assert document.startswith("<!DOCTYPE html>")
    for word in ("A title", "a lead", "Numbers", "A paragraph.", "linear", "0.75", "one", "two", "the end"):
        assert word in parsed.words
    tags = [tag for tag, _ in parsed.seen]
    assert tags.count("tr") == 3
    assert tags.count("svg") == 2
    assert [attributes.get("class") for tag, attributes in parsed.seen if tag == "tr"] == [None, None, "best"]


def test_nothing_is_loaded_from_elsewhere():
    parsed = parse(page("t", "l", [section("s", heat_map([[1.0]], [0], [0]))]))
    assert not {"script", "link", "iframe"} & {tag for tag, _ in parsed.seen}
    for _, attributes in parsed.seen:
        assert not {"src", "href", "onload"} & set(attributes)


def test_hostile_text_stays_text_everywhere():
    hostile = "<script>alert(1)</script>"
    document = page(
        hostile,
        hostile,
        [section(hostile, hostile, table([hostile], [[hostile]])), section("m", beside((hostile, section("x"))))],
        hostile,
    )
    parsed = parse(document)
    assert "script" not in {tag for tag, _ in parsed.seen}
    assert parsed.words.count(hostile) == 9


def test_both_colour_schemes_define_the_same_names():
    document = page("t", "l", [])
    light, dark = (part.split("}")[0] for part in document.split(":root {")[1:3])
    names = [{item.split(":")[0].strip() for item in scheme.split(";")} for scheme in (light, dark)]
    assert names[0] == names[1]
    assert {name.strip() for name in names[0]} == {part.split(")")[0] for part in document.split("var(")[1:]}


def test_rows_must_fit_the_columns():
    with pytest.raises(ValueError, match="row 1 of the table has 1 cells, but there are 2 columns"):
        table(["a", "b"], [[1, 2], [3]])
