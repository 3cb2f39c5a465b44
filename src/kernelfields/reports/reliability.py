"""The reliability diagram: how often labels are right, against how probable the field said they were.

    expected calibration error = sum_bins (n_bin / N) |accuracy - confidence|

Upper panel: a mark for each bin of confidence, at its mean confidence and its accuracy, with its interval where
there is one; on the diagonal the probabilities are as good as they say, below it the field is too sure of itself.
Lower panel: how many positions the bins hold, which says how much each mark weighs.

The input is a Calibration or a ReliabilityCurve of ``kernelfields.evaluation``, or the dict that their ``to_dict``
gives. Arrays: edges (n + 1,), counts, confidence, accuracy, low, high (n,), NaN for bins that are empty.
Fails: ValueError when a part is missing or the parts do not fit together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.reports.axes import Axis, linear_axis
from kernelfields.reports.estimates import Curve, read_figure
from kernelfields.reports.lines import draw_curve, grid
from kernelfields.reports.markup import Markup, element, join
from kernelfields.reports.picture import picture, text

_WIDTH, _HEIGHT = 640.0, 560.0
_LEFT, _RIGHT = 64.0, 624.0
_TOP, _MIDDLE = 34.0, 384.0
_LOWER_TOP, _BOTTOM = 430.0, 510.0
#: Beside each other, the numbers of more bins than this do not fit.
MOST_NUMBERS = 12
_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Reliability:
    """Bins of confidence and the expected calibration error (value, low, high; NaN without an interval)."""

    edges: np.ndarray
    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    low: np.ndarray
    high: np.ndarray
    expected_error: tuple[float, float, float]

    @property
    def filled(self) -> np.ndarray:
        """Indices of the bins that hold positions."""
        return np.flatnonzero(self.counts > 0)

    @property
    def error_words(self) -> str:
        """The expected calibration error with its interval in words."""
        value, low, high = (np.array([part]) for part in self.expected_error)
        return f"expected calibration error {Curve('', value, low, high).words(0, '.3f')}"

    def words(self, index: int) -> str:
        """One bin in words."""
        curve = Curve("", self.accuracy, self.low, self.high)
        low, high = self.edges[index : index + 2]
        return (
            f"probability {low:.3g} to {high:.3g}: {self.counts[index]:,.0f} positions, "
            f"mean probability {self.confidence[index]:.3f}, right {curve.words(index, '.3f')}"
        )


def read_reliability(given: Any) -> Reliability:
    """Read a Calibration, a ReliabilityCurve, or one of them as a dict."""
    error = _part(given, "expected_error")
    curve = given if error is None else _part(given, "curve")
    columns = {name: _column(curve, name) for name in ("edges", "counts", "confidence", "accuracy")}
    n_bins = len(columns["counts"])
    empty = np.full(n_bins, np.nan)
    ends = [empty if _part(curve, name) is None else _column(curve, name) for name in ("accuracy_low", "accuracy_high")]
    for name, column in [*columns.items(), ("accuracy_low", ends[0]), ("accuracy_high", ends[1])]:
        expected = n_bins + 1 if name == "edges" else n_bins
        if len(column) != expected:
            raise ValueError(f"{name} has {len(column)} entries, but {n_bins} bins need {expected}")
    counts, filled = columns["counts"], columns["counts"] > 0
    if not filled.any():
        raise ValueError("counts are all zero: there is nothing to draw")
    shares = np.concatenate([columns["confidence"][filled], columns["accuracy"][filled], columns["edges"]])
    if not ((shares >= -_SUM_TOLERANCE) & (shares <= 1 + _SUM_TOLERANCE)).all():
        raise ValueError("edges, and confidence and accuracy of bins that are not empty, must lie between 0 and 1")
    distance = np.abs(columns["accuracy"] - columns["confidence"])[filled]
    own = float(counts[filled] @ distance / counts.sum())
    figure = (own, np.nan, np.nan) if error is None else read_figure(error, "expected_error")
    return Reliability(**columns, low=ends[0], high=ends[1], expected_error=figure)


def reliability_plot(given: Any) -> Markup:
    """Return the reliability diagram as an SVG picture, with the counts of the bins below it."""
    bins = read_reliability(given)
    horizontal = linear_axis(0.0, 1.0, _LEFT, _RIGHT)
    vertical = linear_axis(0.0, 1.0, _MIDDLE, _TOP)
    curve = Curve("", bins.accuracy, bins.low, bins.high).take(bins.filled)
    titles = [bins.words(i) for i in bins.filled]
    places = bins.confidence[bins.filled].tolist()
    diagonal = {"x1": _LEFT, "y1": _MIDDLE, "x2": _RIGHT, "y2": _TOP}
    return picture(
        _WIDTH,
        _HEIGHT,
        f"reliability diagram, {bins.error_words}",
        grid(vertical, _LEFT, _RIGHT, 5),
        element("line", **diagonal, class_="kf-tol"),
        draw_curve(0, curve, places, horizontal, vertical, titles),
        text(_LEFT, _TOP - 14, "share of right labels", class_="kf-label"),
        text(_RIGHT, _TOP - 14, bins.error_words, text_anchor="end"),
        _histogram(bins, horizontal),
        join(
            text(horizontal.pixel(tick), _BOTTOM + 18, label, text_anchor="middle")
            for tick, label in horizontal.ticks(5)
        ),
        text(
            (_LEFT + _RIGHT) / 2,
            _BOTTOM + 40,
            "probability of the most probable label",
            text_anchor="middle",
            class_="kf-label",
        ),
    )


def _histogram(bins: Reliability, horizontal: Axis) -> Markup:
    vertical = linear_axis(0.0, float(bins.counts.max()), _BOTTOM, _LOWER_TOP)
    parts = [
        element("line", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM, class_="kf-grid"),
        text(_LEFT, _LOWER_TOP - 20, "positions", class_="kf-label"),
    ]
    for i in bins.filled:
        left, right = horizontal.pixel(bins.edges[i]), horizontal.pixel(bins.edges[i + 1])
        top = vertical.pixel(float(bins.counts[i]))
        box = {"x": left + 1, "y": top, "width": max(right - left - 2, 0.5), "height": _BOTTOM - top}
        parts.append(element("rect", element("title", bins.words(i)), **box, class_="kf-bar"))
        if len(bins.counts) <= MOST_NUMBERS:
            middle = (left + right) / 2
            parts.append(text(middle, top - 4, f"{bins.counts[i]:,.0f}", text_anchor="middle", class_="kf-small"))
    return join(parts)


def _part(given: Any, name: str) -> Any:
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)


def _column(curve: Any, name: str) -> np.ndarray:
    column = _part(curve, name)
    if column is None:
        raise ValueError(
            f"the reliability curve has no {name!r}: pass a Calibration or a ReliabilityCurve of "
            "kernelfields.evaluation, or what their to_dict() returns"
        )
    return np.array([np.nan if value is None else value for value in column], dtype=float)
