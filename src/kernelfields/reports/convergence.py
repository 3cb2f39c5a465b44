"""A fit seen through its certificate: the minimum lies in a band that closes.

Upper panel: value P(theta_k) and the best lower bound on min P so far, against passes over the data; whatever
the solver, the minimum lies in the shaded band between them. Lower panel: the relative gap
(value - lower bound) / value in decades, with the tolerance if given.

The upper panel is in decades once the bound is positive (the minimum of P is). The first bounds can be far
below zero; the panel shows the band where it matters and cuts off the rest. Bounds that are still minus infinity
are not drawn. Relative gaps are held between 1e-16, which is zero to rounding, and 1e16.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernelfields.reports.axes import Axis, decade_axis, linear_axis, log_axis
from kernelfields.reports.lines import grid, points
from kernelfields.reports.markup import Markup, element, join
from kernelfields.reports.picture import picture, text
from kernelfields.solvers.loop import Iteration, Solution

_WIDTH, _HEIGHT = 880.0, 452.0
_LEFT, _RIGHT = 64.0, 864.0
_TOP, _MIDDLE = 40.0, 264.0
_LOWER_TOP, _BOTTOM = 302.0, 408.0
_SMALLEST_GAP, _LARGEST_GAP = 1e-16, 1e16
_MOST_DOTS = 60
# How far the upper panel reaches below the last bound, as a share of the way from there to the first value.
_ROOM_BELOW = 0.3


def convergence_plot(solution: Solution, tol: float | None = None) -> Markup:
    """Return the history of a fit as an SVG picture: value, lower bound and relative gap against passes."""
    history = finite_history(solution)
    passes = linear_axis(min(0.0, history[0].passes), max(each.passes for each in history), _LEFT, _RIGHT)
    description = (
        f"Convergence of {solution.solver}: value {solution.value:.6g}, relative gap "
        f"{solution.relative_gap:.2g} after {solution.passes:g} passes"
    )
    return picture(
        _WIDTH,
        _HEIGHT,
        description,
        _band_panel(history, passes),
        _gap_panel(history, passes, tol),
        join(text(passes.pixel(tick), _BOTTOM + 18, label, text_anchor="middle") for tick, label in passes.ticks(8)),
        text((_LEFT + _RIGHT) / 2, _BOTTOM + 38, "passes over the data", text_anchor="middle", class_="kf-label"),
    )


def finite_history(solution: Solution) -> list[Iteration]:
    """Return the iterations of a fit that have a value; raise ValueError if none has."""
    history = [each for each in solution.history if math.isfinite(each.value)]
    if not history:
        raise ValueError("the solution has no history with a finite value; pass the solution_ of a fitted estimator")
    return history


def value_range(values: list[float], bounds: list[float]) -> tuple[float, float, bool]:
    """Return the ends of an axis that covers values and the bounds near the last one, and if it is in decades."""
    high = max(values)
    if not bounds:
        return min(values), high, False
    last = bounds[-1]
    if last <= _SMALLEST_GAP * high:  # zero to rounding
        return max(min(bounds), last - _ROOM_BELOW * (high - last)), high, False
    return max(min(bounds), last * (last / high) ** _ROOM_BELOW), high, True


def _band_panel(history: Sequence[Iteration], passes: Axis) -> Markup:
    values = [(each.passes, each.value) for each in history]
    bounded = [each for each in history if math.isfinite(each.lower_bound)]
    bounds = [(each.passes, each.lower_bound) for each in bounded]
    axis = _value_axis([value for _, value in values], [bound for _, bound in bounds])
    band = [(each.passes, each.value) for each in bounded] + bounds[::-1]
    # A nested picture cuts off what lies outside it, and needs no id that a second plot would repeat.
    x, y, width, height = _LEFT - 4, _TOP - 4, _RIGHT - _LEFT + 8, _MIDDLE - _TOP + 8
    drawn = element(
        "svg",
        element("polygon", points=points(band, passes, axis), class_="kf-band"),
        element("polyline", points=points(bounds, passes, axis), class_="kf-bound"),
        element("polyline", points=points(values, passes, axis), class_="kf-value"),
        _dots(bounds, passes, axis, "kf-bound-dot"),
        _dots(values, passes, axis, "kf-dot"),
        x=x,
        y=y,
        width=width,
        height=height,
        viewBox=f"{x:g} {y:g} {width:g} {height:g}",
    )
    return join([grid(axis, _LEFT, _RIGHT, 5), drawn, _panel_name(_TOP, "negative log-posterior"), _legend()])


def _gap_panel(history: Sequence[Iteration], passes: Axis, tol: float | None) -> Markup:
    gaps = [
        (each.passes, min(max(each.relative_gap, _SMALLEST_GAP), _LARGEST_GAP))
        for each in history
        if math.isfinite(each.relative_gap)
    ]
    heights = [gap for _, gap in gaps] + ([tol] if tol else [])
    axis = decade_axis(min(heights, default=_SMALLEST_GAP), max(heights, default=1.0), _BOTTOM, _LOWER_TOP)
    parts = [
        grid(axis, _LEFT, _RIGHT, 4),
        element("polyline", points=points(gaps, passes, axis), class_="kf-gap"),
        _dots(gaps, passes, axis, "kf-dot"),
        _panel_name(_LOWER_TOP, "relative gap"),
    ]
    if tol:
        height = axis.pixel(tol)
        parts.append(element("line", x1=_LEFT, x2=_RIGHT, y1=height, y2=height, class_="kf-tol"))
        parts.append(text(_LEFT + 6, height - 5, f"tol = {tol:g}"))
    return join(parts)


def _value_axis(values: list[float], bounds: list[float]) -> Axis:
    low, high, logarithmic = value_range(values, bounds)
    return (log_axis if logarithmic else linear_axis)(low, high, _MIDDLE, _TOP)


def _panel_name(top: float, name: str) -> Markup:
    return text(_LEFT, top - 11, name, class_="kf-label")


def _legend() -> Markup:
    """Value, bound and band, in a row above the upper panel's right end."""
    y = _TOP - 11
    return join(
        [
            element("line", x1=_RIGHT - 330, x2=_RIGHT - 304, y1=y - 4, y2=y - 4, class_="kf-value"),
            text(_RIGHT - 298, y, "value"),
            element("line", x1=_RIGHT - 250, x2=_RIGHT - 224, y1=y - 4, y2=y - 4, class_="kf-bound"),
            text(_RIGHT - 218, y, "lower bound"),
            element("rect", x=_RIGHT - 131, y=y - 10, width=26, height=12, class_="kf-band"),
            text(_RIGHT, y, "minimum is here", text_anchor="end"),
        ]
    )


def _dots(data: Sequence[tuple[float, float]], horizontal: Axis, vertical: Axis, role: str) -> Markup:
    """Mark single iterations while there are few enough to tell apart."""
    if len(data) > _MOST_DOTS:
        return Markup("")
    return join(element("circle", cx=horizontal.pixel(x), cy=vertical.pixel(y), r=2.5, class_=role) for x, y in data)
