"""Accuracy against the degree of the kernel: one place per degree, at equal distances.

    degree_plot([1, 2, 3, "RBF"], [0.91, 0.93, 0.93, 0.94])
    degree_plot([1, 2, 3], {"Afrikaans": [...], "English": [...]})

Figures are numbers, or values with intervals, which are drawn as whiskers (see estimates.py). Degrees that are
numbers and stand beside each other are joined by a line; a kernel that has no degree, such as RBF, stands alone.
Fails: ValueError when there are no degrees, or as many figures as there should not be.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

from kernelfields.reports.axes import linear_axis
from kernelfields.reports.estimates import read_curves, spread
from kernelfields.reports.lines import draw_curve, grid, legend
from kernelfields.reports.markup import Markup, join
from kernelfields.reports.picture import picture, short, text

_WIDTH, _HEIGHT = 640.0, 320.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 624.0, 40.0, 260.0
# Curves that share a place stand this many pixels apart, so that their whiskers can be told.
_APART = 9.0


def joined_degrees(degrees: Sequence[Any]) -> list[bool]:
    """Say of every degree whether a line leads to it from the one before."""
    return [
        i > 0 and isinstance(degrees[i - 1], numbers.Real) and isinstance(degree, numbers.Real)
        for i, degree in enumerate(degrees)
    ]


def degree_plot(degrees: Sequence[Any], accuracy: Any, *, name: str = "token accuracy") -> Markup:
    """Return accuracy against degree as an SVG picture; ``name`` says what is accurate."""
    if not len(degrees):
        raise ValueError("degrees is empty: name at least one")
    curves = read_curves(accuracy, len(degrees), "accuracy")
    low, high = spread(curves)
    margin = 0.06 * (high - low)
    vertical = linear_axis(low - margin, high + margin, _BOTTOM, _TOP)
    shapes = [grid(vertical, _LEFT, _RIGHT, 5), text(_LEFT, _TOP - 14, name, class_="kf-label")]
    for i, degree in enumerate(degrees):
        middle = linear_axis(-0.5, len(degrees) - 0.5, _LEFT, _RIGHT).pixel(i)
        shapes.append(text(middle, _BOTTOM + 20, short(degree), text_anchor="middle"))
    for number, each in enumerate(curves):
        shift = _APART * (number - (len(curves) - 1) / 2)
        horizontal = linear_axis(-0.5, len(degrees) - 0.5, _LEFT + shift, _RIGHT + shift)
        titles = [
            f"{each.name + ', ' if each.name else ''}degree {degree}: {each.words(i)}"
            for i, degree in enumerate(degrees)
        ]
        places = list(range(len(degrees)))
        shapes.append(draw_curve(number, each, places, horizontal, vertical, titles, joined_degrees(degrees)))
    shapes.append(legend([each.name for each in curves], _RIGHT, _TOP - 14))
    shapes.append(text((_LEFT + _RIGHT) / 2, _BOTTOM + 44, "degree", text_anchor="middle", class_="kf-label"))
    return picture(_WIDTH, _HEIGHT, f"{name} against degree", join(shapes))
