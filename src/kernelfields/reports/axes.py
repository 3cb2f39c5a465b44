"""Axes of plots: where ticks go, how they read, and where a number lies on the picture.

    pixel(v) = first + (last - first) (g(v) - g(low)) / (g(high) - g(low)),    g(v) = v or log10 v

Pixels are held within a few picture heights of the axis, so that one absurd value (a lower bound of -1e300)
does not put numbers into the file that drawing programs cannot read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_FARTHEST = 10_000.0
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Axis:
    """Maps data in [low, high] to pixels in [first, last], linearly or in decades."""

    low: float
    high: float
    first: float
    last: float
    logarithmic: bool = False

    def pixel(self, value: float) -> float:
        """Return the position of a value."""
        low, high, at = self.low, self.high, value
        if self.logarithmic:
            low, high = math.log10(low), math.log10(high)
            at = math.log10(value) if value > 0 else -math.inf
        share = (at - low) / (high - low)
        return min(max(self.first + (self.last - self.first) * share, -_FARTHEST), _FARTHEST)

    def ticks(self, count: int = 5) -> list[tuple[float, str]]:
        """Return about ``count`` round values inside the axis with their labels."""
        if self.logarithmic:
            few = self.high < 100 * self.low
            return _few_decade_ticks(self.low, self.high) if few else _decade_ticks(self.low, self.high, count)
        return _round_ticks(self.low, self.high, count)


def linear_axis(low: float, high: float, first: float, last: float) -> Axis:
    """Return a linear axis; a range of a single value is widened around it."""
    # Below 1e-300 the steps between ticks would leave the range of floats.
    if not high - low > max(1e-12 * max(abs(low), abs(high)), 1e-300):
        margin = 0.05 * max(1.0, abs(low))
        low, high = low - margin, high + margin
    return Axis(low, high, first, last)


def log_axis(low: float, high: float, first: float, last: float) -> Axis:
    """Return a logarithmic axis over positive values; a range of a single value is widened around it."""
    if not high > (1 + 1e-12) * low:
        low, high = 0.95 * low, 1.05 * high
    return Axis(low, high, first, last, logarithmic=True)


def decade_axis(low: float, high: float, first: float, last: float) -> Axis:
    """Return a logarithmic axis that ends at whole powers of ten."""
    bottom = math.floor(math.log10(low))
    top = max(math.ceil(math.log10(high)), bottom + 1)
    return Axis(10.0**bottom, 10.0**top, first, last, logarithmic=True)


def _round_ticks(low: float, high: float, count: int) -> list[tuple[float, str]]:
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= 0.999 * rough)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    values = [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    plain = decimals <= 6 and max(abs(low), abs(high)) < 1e7
    return [(value, f"{value:,.{decimals}f}" if plain else f"{value:.6g}") for value in values]


def _few_decade_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Ticks at 1, 2 and 5 times powers of ten; round steps where even those are too far apart."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    inside = [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
    if len(inside) < 3:
        return _round_ticks(low, high, 4)
    return [(value, f"{value:,.6g}") for value in inside]


def _decade_ticks(low: float, high: float, count: int) -> list[tuple[float, str]]:
    bottom, top = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    stride = max(1, math.ceil((top - bottom) / count))
    return [(10.0**power, "10" + str(power).translate(_SUPERSCRIPTS)) for power in range(bottom, top + 1, stride)]
