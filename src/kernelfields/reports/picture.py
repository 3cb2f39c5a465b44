"""Frames of SVG pictures, inside a page or alone in a file."""

from __future__ import annotations

from kernelfields.reports.markup import Markup, element
from kernelfields.reports.style import PLOT_STYLE


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


def standalone(svg: Markup) -> str:
    """Return a picture as the content of an .svg file: colours, and a background, come along."""
    opening, rest = svg.split(">", 1)
    background = element("rect", width="100%", height="100%", rx=8, fill="var(--kf-card)")
    return f"{opening}>{element('style', Markup(PLOT_STYLE))}{background}{rest}\n"
