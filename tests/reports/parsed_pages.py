"""Pages and pictures as trees, for the tests in this folder."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta", "img"}
#: Names that no page may take for markup, and that turn, break or hide text.
HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "\u202egnp.exe",
    "مرحبا",
    "$x_1$",
    "_a\nb",
]


class ParsedPage(HTMLParser):
    """Tags with their attributes and texts; fails on a tag that is not closed, or closed out of turn."""

    def __init__(self, document):
        super().__init__()
        self.open = []
        self.tags = []
        self.words = []
        self.feed(document)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"an attribute of <{tag}> is given twice"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    def with_class(self, role):
        """Attributes of all elements of a class."""
        return [each for _, each in self.tags if role in (each.get("class") or "").split()]

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def assert_harmless(self):
        """Nothing runs, and nothing is loaded."""
        names = {tag for tag, _ in self.tags}
        assert not names & {"script", "link", "iframe", "object", "embed", "base", "form"}
        for tag, attributes in self.tags:
            assert not [name for name in attributes if name.startswith("on")], tag
            assert "href" not in attributes
            assert attributes.get("src", "data:").startswith("data:")


def shapes(svg, tag, role=None):
    """All elements of a picture with a tag and, if given, a class."""
    found = ElementTree.fromstring(svg).iter(SVG + tag)
    return [each for each in found if role is None or role in (each.get("class") or "").split()]


def texts(svg):
    return [each.text or "" for each in shapes(svg, "text")]


def titles(svg):
    """What hovering shows; the first title is that of the picture."""
    return [each.text or "" for each in shapes(svg, "title")][1:]
