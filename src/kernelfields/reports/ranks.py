"""What a larger basis buys: accuracy in the upper panel, relative gap in the lower one, against rank.

    rank_plot([100, 300, 1000], accuracy=[0.89, 0.92, 0.93], gap=[0.2, 0.04, 0.008])

Ranks are on a logarithmic axis, gaps too. The gap is the relative gap of whatever certificate the caller has: over
the RKHS it falls with the rank, over the span it is what the solver was told to reach. Figures may have intervals,
and both panels may have several curves (see estimates.py). Gaps are held between 1e-16, zero to rounding, and
1e16.
Fails: ValueError for ranks that are not positive, or figures that do not belong to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields.reports.axes import Axis, decade_axis, linear_axis, log_axis
from kernelfields.reports.estimates import Curve, read_curves, spread
from kernelfields.reports.lines import draw_curve, grid, legend
from kernelfields.reports.markup import Markup, join
from kernelfields.reports.picture import picture, text

_WIDTH, _HEIGHT = 640.0, 470.0
_LEFT, _RIGHT = 64.0, 610.0
_TOP, _MIDDLE = 40.0, 224.0
_LOWER_TOP, _BOTTOM = 270.0, 420.0
_SMALLEST_GAP, _LARGEST_GAP = 1e-16, 1e16
# The least distance between two ticks, as a share of the axis: that of a label of six digits.
_SMALLEST_STEP = 0.085


def read_ranks(ranks: Any, accuracy: Any, gap: Any) -> tuple[np.ndarray, list[Curve], list[Curve]]:
    """Return ranks in rising order, and the curves of accuracies and of gaps in the order of the ranks."""
    try:
        places = np.asarray(ranks, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"ranks must be a list of numbers, got {ranks!r:.80}") from error
    if places.ndim != 1 or not places.size or not (np.isfinite(places) & (places > 0)).all():
        raise ValueError(f"ranks must be a list of positive numbers, got {ranks!r:.80}")
    order = np.argsort(places, kind="stable")
    accuracies = [each.take(order) for each in read_curves(accuracy, len(places), "accuracy")]
    gaps = [_held(each.take(order)) for each in read_curves(gap, len(places), "gap")]
    return places[order], accuracies, gaps


def rank_ticks(ranks: np.ndarray) -> list[float]:
    """Return the ranks themselves as ticks, those left out that are too near to the one before on a log axis."""
    decades = np.log10(ranks)
    least = _SMALLEST_STEP * max(float(decades[-1] - decades[0]), np.finfo(float).tiny)
    kept = [0]
    for index in range(1, len(ranks)):
        if decades[index] - decades[kept[-1]] >= least:
            kept.append(index)
    return ranks[kept].tolist()


def rank_plot(ranks: Any, accuracy: Any, gap: Any, *, name: str = "token accuracy") -> Markup:
    """Return accuracy and relative gap against rank as an SVG picture of two panels."""
    places, accuracies, gaps = read_ranks(ranks, accuracy, gap)
    horizontal = log_axis(float(places[0]), float(places[-1]), _LEFT + 12, _RIGHT - 12)
    low, high = spread(accuracies)
    margin = 0.06 * (high - low)
    upper = linear_axis(low - margin, high + margin, _MIDDLE, _TOP)
    lower = decade_axis(*spread(gaps), _BOTTOM, _LOWER_TOP)
    return picture(
        _WIDTH,
        _HEIGHT,
        f"{name} and relative gap against rank",
        _panel(accuracies, places, horizontal, upper, name, _TOP),
        _panel(gaps, places, horizontal, lower, "relative gap", _LOWER_TOP),
        join(
            text(horizontal.pixel(rank), _BOTTOM + 20, f"{rank:,.6g}", text_anchor="middle")
            for rank in rank_ticks(places)
        ),
        text((_LEFT + _RIGHT) / 2, _BOTTOM + 42, "rank", text_anchor="middle", class_="kf-label"),
    )


def _panel(
    curves: Sequence[Curve], places: np.ndarray, horizontal: Axis, vertical: Axis, name: str, top: float
) -> Markup:
    parts = [grid(vertical, _LEFT, _RIGHT, 4), text(_LEFT, top - 14, name, class_="kf-label")]
    for number, each in enumerate(curves):
        prefix = f"{each.name}, " if each.name else ""
        titles = [f"{prefix}rank {place:g}: {each.words(i)}" for i, place in enumerate(places)]
        parts.append(draw_curve(number, each, places.tolist(), horizontal, vertical, titles))
    parts.append(legend([each.name for each in curves], _RIGHT, top - 14))
    return join(parts)


def _held(gaps: Curve) -> Curve:
    """Hold gaps within what a logarithmic axis can show; NaN stays NaN."""
    parts = (np.clip(part, _SMALLEST_GAP, _LARGEST_GAP) for part in (gaps.values, gaps.low, gaps.high))
    return Curve(gaps.name, *parts)
