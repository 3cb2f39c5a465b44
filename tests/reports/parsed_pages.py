"""Pages and pictures as trees, for the tests in this folder."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np

from kernelfields.solvers import Iteration, Solution

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
            assert attributes.get("xlink:href", attributes.get("href", "#")).startswith("#"), (
                "only a picture may refer, and only to itself"
            )
            assert attributes.get("src", "data:").startswith("data:")
            assert not re.search(r"url\((?!#)", " ".join(filter(None, attributes.values()))), tag


def shapes(svg, tag):
    """All elements of a picture with a tag."""
    return list(ElementTree.fromstring(svg).iter(SVG + tag))


def picture_in(document):
    """The first picture of a document as an element; the document is checked to be harmless and well-formed."""
    ParsedPage(document).assert_harmless()
    begin, end = document.index("<svg"), document.index("</svg>") + len("</svg>")
    return ElementTree.fromstring(document[begin:end])


def drawn_by(picture, kind, number=1):
    """The shapes of one collection of matplotlib in a picture, such as the second "PathCollection"."""
    name = f"-{kind}_{number}"
    groups = [each for each in picture.iter(SVG + "g") if (each.get("id") or "").endswith(name)]
    defined = {shape for group in groups for defs in group.iter(SVG + "defs") for shape in defs.iter()}
    shapes = [each for group in groups for each in group.iter() if each.tag in (SVG + "path", SVG + "use")]
    return [shape for shape in shapes if shape not in defined]


def box_of(path):
    """Left, top, width and height of a path of straight lines."""
    corners = np.array([float(word) for word in path.get("d").split() if word not in "MLz"]).reshape(-1, 2)
    return *corners.min(axis=0), *np.ptp(corners, axis=0)


def texts(svg):
    return [each.text or "" for each in shapes(svg, "text")]


def solution_of(values, bounds, tol=None):
    """A solution with this history of values and lower bounds."""
    history = [
        Iteration(i, i + 0.5, 0.1 * i, value, bound, 1.0, 1.0, tol=tol)
        for i, (value, bound) in enumerate(zip(values, bounds, strict=True))
    ]
    last = history[-1]
    return Solution(
        np.zeros(1), "newton", last.value, last.lower_bound, 1.0, last.iteration, last.passes, 0.1, "gap", history
    )
