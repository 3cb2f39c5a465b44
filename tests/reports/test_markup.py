"""Markup: whatever goes in, what comes out is escaped, closed and finite."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelfields.reports.tables import Markup, element, escape, join


@given(st.text(alphabet=st.characters(codec=None)), st.text(alphabet=st.characters(codec=None)))
def test_any_text_survives_a_parser(content, title):
    written = element("p", content, title=title)
    parsed = ElementTree.fromstring(written.encode("utf-8"))
    assert len(parsed) == 0
    assert written == element("p", content, title=title)


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Cn"])))
def test_ordinary_text_is_read_back_as_written(content):
    parsed = ElementTree.fromstring(element("p", content, title=content))
    assert (parsed.text or "") == content
    assert parsed.get("title") == content


def test_hostile_text_becomes_harmless():
    written = element("td", "<script>alert(1)</script>", title='"><img src=x onerror=alert(1)>')
    assert "<script>" not in written
    assert "<img" not in written


def test_markup_is_kept_as_a_child_and_escaped_as_an_attribute():
    inner = element("b", "x")
    assert element("p", inner) == "<p><b>x</b></p>"
    assert element("p", title=inner) == '<p title="&lt;b&gt;x&lt;/b&gt;"></p>'
    assert escape(inner) is inner


def test_forbidden_characters_are_replaced():
    assert escape("a\x00b\ud800c\nd") == "a\ufffdb\ufffdc\nd"


def test_attribute_names_and_numbers():
    written = element("line", x1=1.50, stroke_width=2, class_="grid", y1=None)
    assert written == '<line x1="1.5" stroke-width="2" class="grid"></line>'


def test_negative_numbers_that_round_to_zero_have_no_sign():
    assert element("g", x=-0.001) == '<g x="0"></g>'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused(value):
    with pytest.raises(ValueError, match="'x1' must be a finite number"):
        element("line", x1=value)


def test_void_elements_have_no_content():
    assert element("img", src="a") == '<img src="a">'
    with pytest.raises(ValueError, match="<img> cannot have content"):
        element("img", "text")


def test_join_escapes_plain_parts_only():
    assert join(["<", Markup("<b></b>")]) == "&lt;<b></b>"
