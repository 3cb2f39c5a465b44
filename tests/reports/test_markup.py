"""Templates: whatever goes in, what comes out is escaped and closed."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from parsed_pages import SVG

from kernelfields.reports import LabelledSequence, Markup, Table
from kernelfields.reports.page import beside, section


@given(st.text(alphabet=st.characters(codec=None)), st.text(alphabet=st.characters(codec=None)))
def test_any_text_survives_a_parser(content, title):
    shown = LabelledSequence([content], [[1.0]], [content], [title], caption=title)
    parsed = ElementTree.fromstring(shown.markup().encode("utf-8"))
    assert len(list(parsed.iter("li"))) == 1
    assert shown.markup() == shown.markup()
    ElementTree.fromstring(section(title, content, Table((title,), [(content,)], content)).encode("utf-8"))


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Cn"])))
def test_ordinary_text_is_read_back_as_written(content):
    parsed = ElementTree.fromstring(section(content, content))
    assert [part.text or "" for part in parsed] == [content, content]
    shown = LabelledSequence([content], [[1.0]], [content], [content])
    (item,) = ElementTree.fromstring(shown.markup()).iter("li")
    assert item.get("title") == f"0: {content} {content} 1.000"  # XML reads line breaks of attributes as blanks


def test_hostile_text_becomes_harmless():
    hostile = '"><img src=x onerror=alert(1)><script>alert(1)</script>'
    written = Table((hostile,), [(hostile,)], hostile, note=hostile).markup() + beside((hostile, hostile))
    assert "<script>" not in written
    assert "<img" not in written


def test_markup_is_kept_and_forbidden_characters_are_replaced():
    inner = Markup("<b>x</b>")
    assert section("h", inner) == "<section><h2>h</h2><b>x</b></section>"
    assert section("a\x00b\ud800c\nd") == "<section><h2>a\ufffdb\ufffdc\nd</h2></section>"
    shown = LabelledSequence(["a"], [[1.0]], ["a"], caption="x\x00")
    assert ElementTree.fromstring(shown.markup()).find("svg") is None  # in the name space of SVG
    assert ElementTree.fromstring(shown.markup()).find(SVG + "svg") is not None
