"""The path of a structure search: what each addition could have brought, what it brought, what held-out data say.

    structure_plot(crf.structure_path_)

Upper panel, in decades: for each addition its bound (Remark 11), the estimate of a Newton step, and the gain.
Lower panel, if data were held out: their log-likelihood, from the field at the start on; the line leads through
what was kept. Additions that were kept have a tick before their name.

The input is a StructurePath of ``kernelfields.structure``, or the dict that its ``to_dict`` gives. Figures that
are not positive, or less than a millionth of the largest, stand at the foot of the axis, infinite bounds at its
head; hovering tells the true ones. Cost: O(steps).
Fails: ValueError when a part is missing, or when nothing was added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.reports.axes import Axis, decade_axis, linear_axis
from kernelfields.reports.estimates import Curve, spread
from kernelfields.reports.lines import draw_curve, grid, legend
from kernelfields.reports.markup import Markup, join
from kernelfields.reports.picture import picture, short, text

#: What is told of every addition, the largest first.
FIGURES = ("bound", "estimate", "gain")
#: What stands before the name of an addition that was kept.
KEPT = "✓ "
_LEFT, _TOP, _MIDDLE = 84.0, 40.0, 224.0
_LOWER_TOP, _LOWER_HEIGHT = 278.0, 120.0
_NARROWEST, _PLACE = 520.0, 64.0
_NAMES = 96.0
# The three figures of an addition stand beside each other.
_APART = 11.0
_DECADES = 1e-6


@dataclass(frozen=True, eq=False)
class StructureFigures:
    """The additions of a path: names, which were kept, bound, estimate and gain (n,), scores (n + 1,) or None."""

    names: list[str]
    kept: list[bool]
    figures: dict[str, np.ndarray]
    scores: np.ndarray | None
    reason: str

    @property
    def labels(self) -> list[str]:
        """The names, those kept with a tick before them."""
        return [f"{KEPT}{name}" if kept else name for name, kept in zip(self.names, self.kept, strict=True)]

    @property
    def held(self) -> dict[str, np.ndarray]:
        """The figures as a logarithmic axis can show them."""
        every = np.concatenate(list(self.figures.values()))
        shown = every[np.isfinite(every) & (every > 0)]
        high = float(shown.max()) if shown.size else 1.0
        low = max(float(shown.min()), _DECADES * high) if shown.size else 0.1
        return {
            name: np.clip(np.nan_to_num(values, nan=low, posinf=high), low, high)
            for name, values in self.figures.items()
        }

    def words(self, index: int) -> str:
        """One addition in words."""
        parts = [f"{name} {values[index]:.4g}" for name, values in self.figures.items()]
        return f"{self.names[index]}, {'kept' if self.kept[index] else 'taken back'}: {', '.join(parts)}"


def read_structure(given: Any) -> StructureFigures:
    """Read a StructurePath, or one as a dict."""
    steps = _part(given, "steps")
    if not isinstance(steps, Sequence) or isinstance(steps, str) or not steps:
        raise ValueError(f"steps must be a list with the field at the start and additions, got {steps!r:.80}")
    reason = str(_part(given, "reason"))
    additions = steps[1:]
    if not additions:
        raise ValueError(f"nothing was added, so there is nothing to draw: the search ended because {reason}")
    scores = [_part(step, "score") for step in steps]
    return StructureFigures(
        [str(_part(step, "added")) for step in additions],
        [bool(_part(step, "kept")) for step in additions],
        {name: np.array([_part(step, name) for step in additions], dtype=float) for name in FIGURES},
        None if None in scores else np.array(scores, dtype=float),
        reason,
    )


def structure_plot(path: Any) -> Markup:
    """Return the path of a structure search as an SVG picture of one panel, two with held-out data."""
    read = read_structure(path)
    right = max(_NARROWEST, _LEFT + _PLACE * (len(read.names) + 1))
    bottom = _MIDDLE if read.scores is None else _LOWER_TOP + _LOWER_HEIGHT
    horizontal = linear_axis(-0.5, len(read.names) + 0.5, _LEFT, right)
    shapes = [_upper(read, horizontal, right)]
    if read.scores is not None:
        shapes.append(_lower(read, read.scores, horizontal, right))
    names = [short(label) for label in read.labels]
    for place, name in enumerate(["(start)", *names] if read.scores is not None else ["", *names]):
        x, y = horizontal.pixel(place) + 4, bottom + 18
        kept = place > 0 and read.kept[place - 1]
        turned = f"rotate(-30 {x:.1f} {y:.1f})"
        role = "kf-label" if kept else None
        shapes.append(text(x, y, name, text_anchor="end", transform=turned, class_=role))
    shapes.append(
        text(right, bottom + _NAMES - 8, f"{KEPT}kept; ended: {read.reason}", text_anchor="end", class_="kf-small")
    )
    title = f"structure search: {', '.join(read.names)}"
    return picture(right + 16, bottom + _NAMES, title, *shapes)


def _upper(read: StructureFigures, horizontal: Axis, right: float) -> Markup:
    held = read.held
    every = np.concatenate(list(held.values()))
    vertical = decade_axis(float(every.min()), float(every.max()), _MIDDLE, _TOP)
    parts = [
        grid(vertical, _LEFT, right, 5),
        text(_LEFT, _TOP - 14, "improvement, nats", class_="kf-label"),
        legend(FIGURES, right, _TOP - 14),
    ]
    alone = [False] * len(read.names)
    titles = [read.words(index) for index in range(len(read.names))]
    for number, (name, values) in enumerate(held.items()):
        shift = _APART * (number - 1)
        moved = Axis(horizontal.low, horizontal.high, horizontal.first + shift, horizontal.last + shift)
        places = list(range(1, len(read.names) + 1))
        parts.append(draw_curve(number, _plain(name, values), places, moved, vertical, titles, alone))
    return join(parts)


def _lower(read: StructureFigures, scores: np.ndarray, horizontal: Axis, right: float) -> Markup:
    every = [_plain("score", scores)]
    low, high = spread(every) if np.isfinite(scores).any() else (0.0, 1.0)
    margin = 0.08 * (high - low)
    vertical = linear_axis(low - margin, high + margin, _LOWER_TOP + _LOWER_HEIGHT, _LOWER_TOP)
    parts = [
        grid(vertical, _LEFT, right, 4),
        text(_LEFT, _LOWER_TOP - 14, "held-out log-likelihood", class_="kf-label"),
    ]
    names = ["(start)", *(read.words(index) for index in range(len(read.names)))]
    # Two curves, so that the line leads past what was taken back.
    for number, wanted in ((0, True), (1, False)):
        places = [place for place, kept in enumerate([True, *read.kept]) if kept is wanted]
        titles = [f"{names[place]}; held out {scores[place]:.6g}" for place in places]
        joined = None if wanted else [False] * len(places)
        curve = _plain("kept" if wanted else "taken back", scores[places])
        parts.append(draw_curve(number, curve, places, horizontal, vertical, titles, joined))
    if not all(read.kept):
        parts.append(legend(["kept", "taken back"], right, _LOWER_TOP - 14))
    return join(parts)


def _plain(name: str, values: np.ndarray) -> Curve:
    nowhere = np.full(len(values), math.nan)
    return Curve(name, values, nowhere, nowhere)


def _part(given: Any, name: str) -> Any:
    """Return a part of a path or a step, or of the dict of one."""
    if isinstance(given, Mapping):
        if name not in given:
            raise ValueError(f"the path has no {name!r}: pass a StructurePath, or what its to_dict gives")
        return given[name]
    if not hasattr(given, name):
        raise ValueError(f"expected a StructurePath or its dict, got {type(given).__name__} without {name!r}")
    return getattr(given, name)
