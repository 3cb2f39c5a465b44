"""Curves in a panel: grid, lines, whiskers for intervals, marks that can be told apart without colour, a legend.

A panel is two axes. A curve is drawn from point to point; where a value is missing (NaN), or where ``joined`` says
so, the line is interrupted. Curves differ in colour, in the shape of their marks and, from the fifth on, in
dashes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from kernelfields.reports.axes import Axis
from kernelfields.reports.estimates import Curve
from kernelfields.reports.markup import Markup, element, join
from kernelfields.reports.picture import text, text_width

_COLOURS = 4
_DASHES = (None, "7 3", "2 3", "9 3 2 3")
_RADIUS = 4.0
_WHISKER = 4.0


def points(data: Iterable[tuple[float, float]], horizontal: Axis, vertical: Axis) -> str:
    """Return points as the attribute of a polyline or polygon."""
    return " ".join(f"{horizontal.pixel(x):.1f},{vertical.pixel(y):.1f}" for x, y in data)


def grid(vertical: Axis, left: float, right: float, count: int) -> Markup:
    """Return horizontal lines at about ``count`` round values, with their labels to the left."""
    parts = []
    for tick, label in vertical.ticks(count):
        height = vertical.pixel(tick)
        parts.append(element("line", x1=left, x2=right, y1=height, y2=height, class_="kf-grid"))
        parts.append(text(left - 8, height + 4, label, text_anchor="end"))
    return join(parts)


def draw_curve(
    number: int,
    figures: Curve,
    places: Sequence[float],
    horizontal: Axis,
    vertical: Axis,
    titles: Sequence[str],
    joined: Sequence[bool] | None = None,
) -> Markup:
    """Return the curve with this number in the plot: line, whiskers, and marks that say ``titles`` on hover.

    ``places`` (n,) are where the values lie on the horizontal axis; ``joined[i]`` says whether the line leads from
    point i - 1 to point i, everywhere by default.
    """
    role = f"kf-curve-{number % _COLOURS}"
    known = [math.isfinite(value) for value in figures.values]
    runs: list[list[tuple[float, float]]] = []
    parts = []
    for i, (place, value) in enumerate(zip(places, figures.values.tolist(), strict=True)):
        if not known[i]:
            continue
        if i == 0 or not known[i - 1] or (joined is not None and not joined[i]):
            runs.append([])
        runs[-1].append((place, value))
        x, y = horizontal.pixel(place), vertical.pixel(value)
        ends = figures.interval(i)
        whisker = [] if ends is None else [_whisker(x, vertical.pixel(ends[0]), vertical.pixel(ends[1]), role)]
        parts.append(element("g", element("title", titles[i]), *whisker, _mark(number, x, y, role)))
    lines = [
        element(
            "polyline",
            points=points(run, horizontal, vertical),
            class_=f"kf-curve {role}",
            stroke_dasharray=_DASHES[number // _COLOURS % len(_DASHES)],
        )
        for run in runs
        if len(run) > 1
    ]
    return join([*lines, *parts])


def legend(names: Sequence[str], right: float, y: float) -> Markup:
    """Return the names of curves in a row that ends at ``right``, each behind its mark; nothing for one curve."""
    if len(names) < 2:
        return Markup("")
    parts = []
    x = right - sum(24 + text_width(name) for name in names)
    for number, name in enumerate(names):
        parts.append(_mark(number, x + 12, y - 4, f"kf-curve-{number % _COLOURS}"))
        parts.append(text(x + 20, y, name))
        x += 24 + text_width(name)
    return join(parts)


def _whisker(x: float, low: float, high: float, role: str) -> Markup:
    ends = f"M{x - _WHISKER:.1f},{low:.1f}h{2 * _WHISKER:g}M{x - _WHISKER:.1f},{high:.1f}h{2 * _WHISKER:g}"
    return element("path", d=f"{ends}M{x:.1f},{low:.1f}V{high:.1f}", class_=f"kf-whisker {role}")


def _mark(number: int, x: float, y: float, role: str) -> Markup:
    """Return a disc, square, triangle or diamond."""
    r, shape = _RADIUS, number % 4
    if shape == 0:
        return element("circle", cx=x, cy=y, r=r, class_=f"kf-mark {role}")
    corners = {
        1: [(-r, -r), (r, -r), (r, r), (-r, r)],
        2: [(0, -1.25 * r), (1.2 * r, r), (-1.2 * r, r)],
        3: [(0, -1.4 * r), (1.4 * r, 0), (0, 1.4 * r), (-1.4 * r, 0)],
    }[shape]
    drawn = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return element("polygon", points=drawn, class_=f"kf-mark {role}")
