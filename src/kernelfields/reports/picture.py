"""Frames of SVG pictures, inside a page or alone in a file."""

from __future__ import annotations

import unicodedata

from kernelfields.reports.markup import Markup, element
from kernelfields.reports.style import PLOT_STYLE

# The usual width of a letter of plots in pixels; an upper estimate, since the font is the reader's.
_LETTER = 7.5
_LONGEST_LABEL = 24


def picture(width: float, height: float, description: str, *shapes: Markup) -> Markup:
    """Return shapes as one SVG picture with a description for those who cannot see it."""
    return element(
        "svg",
        element("title", description),
        *shapes,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        class_="kf-plot",
    )


def text(x: float, y: float, content: object, **attributes: object) -> Markup:
    """Return text with its baseline at (x, y)."""
    return element("text", content, x=x, y=y, **attributes)


def text_width(content: object) -> float:
    """Return about how many pixels text takes in a plot; letters of East Asian scripts count twice."""
    return _LETTER * sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in str(content))


def short(label: object) -> str:
    """Return a label for a plot, cut with an ellipsis where it is long; hover texts have the whole."""
    label = str(label)
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def standalone(svg: Markup) -> str:
    """Return a picture as the content of an .svg file: colours, and a background, come along."""
    opening, rest = svg.split(">", 1)
    background = element("rect", width="100%", height="100%", rx=8, fill="var(--kf-card)")
    return f"{opening}>{element('style', Markup(PLOT_STYLE))}{background}{rest}\n"
