"""Axes to draw into, loaded with matplotlib when they are asked for; names that are shown as they are.

Labels come from data: "$" would start a formula, "_" would hide an entry of a legend, and a line break would tear
a plot apart. Here they are text. Fails: ImportError that says what to install.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from kernelfields.reports.picture import short
from kernelfields.reports.shaded_tables import printable

#: Colours of curves, the same as in reports on light paper; they can be told apart in grey, too.
COLOURS = ("#2156a5", "#9c4f00", "#1a7347", "#7b3ea3")
MARKERS = ("o", "s", "^", "D")
MUTED = "#7a8494"
# A word joiner has no width and no ink.
_WORD_JOINER = "\u2060"


def matplotlib_module(name: str) -> Any:
    """Return a module of matplotlib."""
    try:
        return import_module(f"matplotlib.{name}")
    except ImportError as error:
        raise ImportError(f"plots need matplotlib: pip install kernelfields[plots] ({error})") from error


def new_axes(ax: Any, size: tuple[float, float]) -> Any:
    """Return the Axes given, or those of a new figure of this size in inches."""
    if ax is not None:
        return ax
    return matplotlib_module("pyplot").subplots(figsize=size, layout="constrained")[1]


def new_panels(axes: Any, count: int, size: tuple[float, float]) -> Any:
    """Return the Axes given, ``count`` of them, or those of a new figure, one above the other."""
    if axes is None:
        pyplot = matplotlib_module("pyplot")
        return pyplot.subplots(count, figsize=size, sharex=True, layout="constrained")[1]
    if not hasattr(axes, "__len__") or len(axes) != count:
        given = len(axes) if hasattr(axes, "__len__") else type(axes).__name__
        raise ValueError(f"axes must hold {count} Axes, one for each panel, got {given}")
    return axes


def plain(label: object) -> str:
    """Return a label as one line of text of a length that fits a plot."""
    return short(printable(label, 1000))


def tick_labels(axis: Any, places: Sequence[float], labels: Sequence[object], **style: Any) -> None:
    """Put labels at places of an axis, as text."""
    axis.set_ticks(list(places), [plain(label) for label in labels], parse_math=False, **style)


def legend(ax: Any, handles: Sequence[Any], labels: Sequence[object], **style: Any) -> None:
    """Add a legend whose labels are text."""
    words = [plain(label) for label in labels]
    words = [_WORD_JOINER + each if each.startswith("_") else each for each in words]
    for each in ax.legend(handles, words, **{"frameon": False, **style}).get_texts():
        each.set_parse_math(False)
