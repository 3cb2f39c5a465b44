"""The glossary is short, sorted, in plain sentences, and every term leads to a page that says more."""

import re
from pathlib import Path

import pytest

from test_docs_site import LINK, anchors

DOCS = Path(__file__).parents[1] / "docs"
TERM = re.compile(r"^(\S.*)\n((?:  .*\n)+)", re.MULTILINE)


def entries():
    """Return the definitions of the glossary by their terms, in the order of the page."""
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    inside = re.search(r"^```\{glossary\}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]
    return [(term, " ".join(definition.split())) for term, definition in TERM.findall(inside)]


def test_there_are_at_most_sixty_terms_in_alphabetical_order():
    terms = [term.lower() for term, _ in entries()]
    assert 40 < len(terms) <= 60
    assert terms == sorted(set(terms))


@pytest.mark.parametrize(("term", "definition"), entries())
def test_a_term_has_one_or_two_sentences_and_a_link_that_leads_somewhere(term, definition):
    assert 1 <= len(re.findall(r"[.](?:\s|$)", definition)) <= 2
    links = LINK.findall(definition)
    assert links
    for link, anchor in links:
        page = DOCS / link
        assert page.is_file()
        assert not anchor or anchor in anchors(page)


def test_the_reference_leads_to_the_glossary():
    assert ":doc:`/glossary`" in (DOCS / "api" / "index.rst").read_text(encoding="utf-8")
