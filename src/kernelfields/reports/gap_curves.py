"""Solvers compared: how the gap of each closes, in panels beside each other, all axes in decades.

    gap_curves({"passes over the data": {"lbfgs": [(0.5, 1.0), (9.5, 1e-3)], "newton": [(0.5, 1.0), (40, 1e-6)]}})

Panels are named by their horizontal axis; a curve is a list of (place, gap), and has the same colour, mark and
dashes in every panel. All panels share the vertical axis. Places are positive; gaps are held between 1e-16, which
is zero to rounding, and 1e16, and gaps that are NaN are not drawn. Points nearer to each other than two marks are
left out, the ends never. Cost: O(points).
Fails: ValueError naming the panel or curve that is empty, or that has a place no logarithmic axis can show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernelfields.reports.axes import Axis, decade_axis, log_axis
from kernelfields.reports.estimates import Curve
from kernelfields.reports.lines import draw_curve, grid
from kernelfields.reports.markup import Markup, element, join
from kernelfields.reports.picture import picture, short, text, text_width

_WIDTH, _HEIGHT = 880.0, 400.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 864.0, 52.0, 340.0
_BETWEEN = 64.0
_SMALLEST_GAP, _LARGEST_GAP = 1e-16, 1e16
# Pixels from one mark to the next, at least.
_APART = 12.0
_SAMPLE = 26.0

Pairs = Sequence[tuple[float, float]]


def gap_curves(
    panels: Mapping[str, Mapping[str, Pairs]], *, tol: float | None = None, name: str = "relative gap"
) -> Markup:
    """Return gaps against one or more measures of work as an SVG picture, with a line at ``tol`` if given."""
    if not panels:
        raise ValueError("panels is empty: name at least one horizontal axis, with its curves")
    read = {panel: _read_panel(panel, curves) for panel, curves in panels.items()}
    names = list(dict.fromkeys(curve for curves in read.values() for curve in curves))
    gaps = [gap for curves in read.values() for pairs in curves.values() for _, gap in pairs]
    vertical = decade_axis(*_range([*gaps, tol] if tol else gaps), _BOTTOM, _TOP)
    width = (_RIGHT - _LEFT - _BETWEEN * (len(read) - 1)) / len(read)
    shapes = [text(_LEFT, _TOP - 30, name, class_="kf-label"), _legend(names)]
    for index, (panel, curves) in enumerate(read.items()):
        left = _LEFT + index * (width + _BETWEEN)
        shapes.append(_panel(panel, curves, names, vertical, left, left + width, tol))
    return picture(_WIDTH, _HEIGHT, f"{name} of {', '.join(names)}", *shapes)


def _read_panel(panel: str, curves: Mapping[str, Pairs]) -> dict[str, list[tuple[float, float]]]:
    if not curves:
        raise ValueError(f"panel {panel!r} has no curves")
    return {str(curve): _read_pairs(pairs, f"curve {curve!r} of panel {panel!r}") for curve, pairs in curves.items()}


def _read_pairs(pairs: Any, what: str) -> list[tuple[float, float]]:
    """Return places and gaps as numbers in rising order of places, without those that have no gap."""
    try:
        rows = np.array([(place, gap) for place, gap in pairs], dtype=float).reshape(-1, 2)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be a list of pairs (place, gap), got {pairs!r:.80}") from error
    wrong = ~(np.isfinite(rows[:, 0]) & (rows[:, 0] > 0))
    if wrong.any():
        raise ValueError(
            f"{what} has a point at {rows[wrong][0, 0]:g}, and a logarithmic axis shows positive places only: "
            "leave the point out"
        )
    rows = rows[~np.isnan(rows[:, 1])]
    if not len(rows):
        raise ValueError(f"{what} has no gap to draw")
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return list(zip(rows[:, 0].tolist(), np.clip(rows[:, 1], _SMALLEST_GAP, _LARGEST_GAP).tolist(), strict=True))


def _range(numbers: list[float]) -> tuple[float, float]:
    return min(numbers), max(numbers)


def _panel(
    name: str,
    curves: Mapping[str, Pairs],
    names: Sequence[str],
    vertical: Axis,
    left: float,
    right: float,
    tol: float | None,
) -> Markup:
    places = [place for pairs in curves.values() for place, _ in pairs]
    horizontal = log_axis(*_range(places), left + 8, right - 8)
    parts = [grid(vertical, left, right, 8)]
    if tol:
        height = vertical.pixel(tol)
        parts.append(element("line", x1=left, x2=right, y1=height, y2=height, class_="kf-tol"))
        parts.append(text(left + 6, height - 5, f"tol = {tol:g}"))
    for curve, pairs in curves.items():
        kept = spaced(pairs, horizontal, vertical)
        gaps = np.array([gap for _, gap in kept])
        nowhere = np.full(len(kept), math.nan)
        titles = [f"{curve}, {name} {place:.4g}: {gap:.3g}" for place, gap in kept]
        figures = Curve(curve, gaps, nowhere, nowhere)
        number = names.index(curve)
        parts.append(draw_curve(number, figures, [place for place, _ in kept], horizontal, vertical, titles))
    for tick, label in horizontal.ticks(6):
        parts.append(text(horizontal.pixel(tick), _BOTTOM + 20, label, text_anchor="middle"))
    parts.append(text((left + right) / 2, _BOTTOM + 44, name, text_anchor="middle", class_="kf-label"))
    return join(parts)


def spaced(pairs: Pairs, horizontal: Axis, vertical: Axis) -> list[tuple[float, float]]:
    """Return the points of a curve whose marks do not touch; the first and the last are always among them."""
    kept = [pairs[0]]
    for place, gap in pairs[1:-1]:
        there = horizontal.pixel(place), vertical.pixel(gap)
        if all(_far(there, (horizontal.pixel(x), vertical.pixel(y))) for x, y in (kept[-1], pairs[-1])):
            kept.append((place, gap))
    return kept if len(pairs) == 1 else [*kept, pairs[-1]]


def _far(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return math.dist(one, other) >= _APART


def _legend(names: Sequence[str]) -> Markup:
    """Return the names in a row that ends at the right, each behind a piece of its curve, dashes and all."""
    across, down = Axis(0.0, _WIDTH, 0.0, _WIDTH), Axis(0.0, _HEIGHT, 0.0, _HEIGHT)
    parts = []
    x, y = _RIGHT - sum(_SAMPLE + 20 + text_width(short(name)) for name in names), _TOP - 30
    for number, name in enumerate(names):
        nowhere = np.full(2, math.nan)
        sample = Curve(name, np.full(2, y - 4), nowhere, nowhere)
        parts.append(draw_curve(number, sample, [x, x + _SAMPLE], across, down, [name, name]))
        parts.append(text(x + _SAMPLE + 8, y, short(name)))
        x += _SAMPLE + 20 + text_width(short(name))
    return join(parts)
