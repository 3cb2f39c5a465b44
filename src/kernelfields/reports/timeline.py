"""Time lines: labels as coloured bands along a sequence, true above predicted, and the probabilities below them.

    true         ████████▒▒▒▒▒▒▒▒▒▒████████
    wrong                ▌▌
    predicted    ██████████▒▒▒▒▒▒▒▒████████
    probability  stacked marginals of the labels, 1 in all
                 0        500      1000

A run of positions with the same label is one band; hovering tells which label, where, and how probable it is on
average. Probabilities are means over stretches of positions where there are more of these than the picture is wide.
Where there are more runs than that, a band has the most frequent label of each stretch, and the legend says so.

The picture is SVG without scripts in the colours of the page around it. Cost: O(T L), and a size that is bounded
whatever T: some 2,000 bands and 360 steps of each curve.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from kernelfields.reports.label_colours import Palette
from kernelfields.reports.tables import Markup, element, printable

_WIDTH, _LEFT, _RIGHT = 960.0, 84.0, 26.0
_BAND, _GAP, _WRONG = 22.0, 3.0, 6.0
_CURVES, _AXIS = 110.0, 24.0
_MOST_RUNS = 2000
_MOST_STEPS = 360
_MOST_HOVERS = 240
_LETTER = 6.4
_LISTED = 4


def runs(values: Sequence[Any]) -> list[tuple[int, int]]:
    """Return begin and end of every stretch of equal values."""
    ends = [t for t in range(1, len(values)) if values[t] != values[t - 1]]
    return list(zip([0, *ends], [*ends, len(values)], strict=True)) if len(values) else []


class Timeline:
    """The picture of one LabelledSequence (sequences.py); labels are shown as ``str`` writes them."""

    def __init__(self, sequence: Any):
        self._sequence = sequence
        self._palette = Palette(sequence.marginals, list(sequence.classes), list(sequence.labels))
        self._length = len(sequence)
        self._per_position = (_WIDTH - _LEFT - _RIGHT) / self._length
        self._coarse = False

    def markup(self) -> Markup:
        """Return a figure: heading, picture and legend."""
        parts: list[Markup] = []
        top = 4.0
        sequence = self._sequence
        if sequence.truth is not None:
            parts += self._band(sequence.truth, top, "true")
            parts += self._wrong(top + _BAND + _GAP)
            top += _BAND + 2 * _GAP + _WRONG
        parts += self._band(sequence.labels, top, "predicted", sequence.segments)
        parts += self._curves(top + _BAND + 4 * _GAP)
        height = top + _BAND + 4 * _GAP + _CURVES + _AXIS
        drawing = element(
            "svg",
            element("title", self._heading()),
            *parts,
            viewBox=f"0 0 {_WIDTH:g} {height:g}",
            role="img",
            class_="kf-plot",
            font_size="12",
        )
        counts = Counter(map(str, sequence.labels))
        caption = f"{sequence.caption}: {self._heading()}" if sequence.caption else self._heading()
        heading = element("figcaption", element("bdi", caption))
        return element("figure", heading, drawing, self._palette.legend(counts, self._notes()), class_="kf-sequence")

    def _heading(self) -> str:
        positions = f"{self._length:,} position{'s' if self._length > 1 else ''}"
        if self._sequence.truth is None:
            return positions
        return f"{positions}, {100 * (1 - self._sequence.wrong.mean()):.1f} % right"

    def _notes(self) -> list[str]:
        notes = []
        if self._length > _MOST_STEPS:
            notes.append(f"probabilities: means over {self._length / _MOST_STEPS:.1f} positions each")
        if self._coarse:
            notes.append("bands: the most frequent label of each stretch")
        return notes

    def _x(self, position: float) -> float:
        return _LEFT + position * self._per_position

    def _name(self, top: float, height: float, words: str) -> Markup:
        return element(
            "text", words, x=_LEFT - 8, y=top + height / 2 + 4, text_anchor="end", style="fill:var(--kf-muted)"
        )

    def _band(
        self, labels: Sequence[Any], top: float, name: str, segments: Sequence[Any] | None = None
    ) -> Iterator[Markup]:
        """Yield the runs of labels, or segments, as rectangles, with their labels where these fit.

        The fainter a segment is, the less probable.
        """
        yield self._name(top, _BAND, name)
        names = [str(label) for label in labels]
        stretches = runs(names) if segments is None else [(begin, end) for begin, end, *_ in segments]
        chances = {} if segments is None else {begin: chance for begin, _, _, chance in segments}
        if len(stretches) > _MOST_RUNS:
            self._coarse = True
            names, stretches = _most_frequent(names)
            chances = {}
        for begin, end in stretches:
            label, left, width = names[begin], self._x(begin), (end - begin) * self._per_position
            chance = chances.get(begin)
            title = element("title", self._run_words(label, begin, end, chance))
            place = {"x": left, "y": top, "width": width, "height": _BAND, "class_": "kf-run"}
            opacity = None if chance is None else f"{0.35 + 0.65 * chance:.2f}"
            yield element("rect", title, **place, fill=self._palette[label], fill_opacity=opacity)
            if width > _LETTER * len(label) + 8:
                # Dark on all tones, whatever the screen.
                middle = {"x": left + width / 2, "y": top + _BAND / 2 + 4, "text_anchor": "middle"}
                yield element("text", printable(label), **middle, style="fill:#14181d")

    def _run_words(self, label: str, begin: int, end: int, chance: float | None = None) -> str:
        where = f"position {begin}" if end - begin == 1 else f"positions {begin} to {end - 1}"
        if chance is not None:
            return f"{label}, {where}, probability of the segment {chance:.3f}"
        known = [str(each) for each in self._sequence.classes]
        if label not in known:
            return f"{label}, {where}"
        mean = self._sequence.marginals[begin:end, known.index(label)].mean()
        return f"{label}, {where}, {'probability' if end - begin == 1 else 'mean probability'} {mean:.3f}"

    def _wrong(self, top: float) -> Iterator[Markup]:
        """Yield marks where the label is not the true one."""
        yield self._name(top, _WRONG, "wrong")
        wrong = self._sequence.wrong
        edges = np.linspace(0, self._length, min(self._length, int(_WIDTH)) + 1).astype(int)
        counts = np.add.reduceat(wrong, edges[:-1], dtype=np.int64)
        shares = counts / np.diff(edges)
        for begin, end in runs(shares.tolist()):
            if shares[begin] == 0:
                continue
            first, last = int(edges[begin]), int(edges[end])
            title = element("title", f"{counts[begin:end].sum():,} wrong, positions {first} to {last - 1}")
            place = {"x": self._x(first), "y": top, "width": max((last - first) * self._per_position, 1.0)}
            # Where a column holds many positions, the fainter the fewer of them are wrong.
            style = f"fill:var(--kf-wrong);fill-opacity:{0.25 + 0.75 * shares[begin]:.2f}"
            yield element("rect", title, **place, height=_WRONG, style=style, class_="kf-missed")

    def _curves(self, top: float) -> Iterator[Markup]:
        """Yield the stacked probabilities, an axis, and columns to hover over."""
        sequence, named = self._sequence, self._palette.named
        edges = np.linspace(0, self._length, min(self._length, _MOST_STEPS) + 1).astype(int)
        means = np.add.reduceat(sequence.marginals, edges[:-1], axis=0) / np.diff(edges)[:, None]
        below = np.zeros(len(means))
        for column in named:
            above = below + means[:, column]
            path = self._steps(edges, below, above, top)
            yield element("path", d=path, fill=self._palette[sequence.classes[column]], class_="kf-curve")
            below = above
        if len(named) < len(sequence.classes):
            yield element("path", d=self._steps(edges, below, np.ones(len(means)), top), fill=Palette.OTHERS)
        yield self._name(top, _CURVES, "probability")
        for share in (0.0, 0.5, 1.0):
            y = top + _CURVES * (1 - share)
            yield element("text", f"{share:g}", x=_WIDTH - _RIGHT + 2, y=y + 4, style="fill:var(--kf-muted)")
        yield from self._hovers(top)
        yield from self._ticks(top + _CURVES)

    def _steps(self, edges: np.ndarray, low: np.ndarray, high: np.ndarray, top: float) -> str:
        """Return a path around the area between two step curves."""
        forth, back = [], []
        for begin, end, y in zip(edges[:-1], edges[1:], top + _CURVES * (1 - np.minimum(high, 1.0)), strict=True):
            forth.append(f"{self._x(begin):.1f},{y:.1f} {self._x(end):.1f},{y:.1f}")
        for begin, end, y in zip(edges[:-1], edges[1:], top + _CURVES * (1 - np.minimum(low, 1.0)), strict=True):
            back.append(f"{self._x(end):.1f},{y:.1f} {self._x(begin):.1f},{y:.1f}")
        return f"M{' '.join(forth)} {' '.join(reversed(back))}Z"

    def _hovers(self, top: float) -> Iterator[Markup]:
        """Yield transparent columns that tell the probabilities of their positions."""
        sequence = self._sequence
        edges = np.linspace(0, self._length, min(self._length, _MOST_HOVERS) + 1).astype(int)
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            words = sequence.hover(begin) if end - begin == 1 else self._mean_words(begin, end)
            place = {"x": self._x(begin), "y": top, "width": (end - begin) * self._per_position, "height": _CURVES}
            yield element("rect", element("title", words), **place, fill="transparent", class_="kf-hover")

    def _mean_words(self, begin: int, end: int) -> str:
        means = self._sequence.marginals[begin:end].mean(axis=0)
        order = np.argsort(-means, kind="stable")[:_LISTED]
        lines = [f"{self._sequence.classes[i]} {means[i]:.3f}" for i in order if means[i] >= 0.0005]
        return "\n".join([f"positions {begin} to {end - 1}", *lines])

    def _ticks(self, top: float) -> Iterator[Markup]:
        step = _nice_step(self._length / 8)
        for position in range(0, self._length, step):
            x = self._x(position + 0.5 if self._length <= _MOST_HOVERS else position)
            yield element("line", x1=x, x2=x, y1=top, y2=top + 4, style="stroke:var(--kf-muted)")
            style = "fill:var(--kf-muted)"
            yield element("text", f"{position:,}", x=x, y=top + 17, text_anchor="middle", style=style)


def _most_frequent(names: Sequence[str]) -> tuple[list[str], list[tuple[int, int]]]:
    """Return names in which every stretch has its most frequent one, and the runs of these."""
    edges = np.linspace(0, len(names), int(_WIDTH) + 1).astype(int).tolist()
    coarse: list[str] = []
    for begin, end in pairwise(edges):
        label, _ = Counter(names[begin:end]).most_common(1)[0]
        coarse += [label] * (end - begin)
    return coarse, runs(coarse)


def _nice_step(wanted: float) -> int:
    """Return 1, 2 or 5 times a power of ten, at least what is wanted."""
    power = 10 ** int(np.floor(np.log10(max(wanted, 1.0))))
    return next(int(factor * power) for factor in (1, 2, 5, 10) if factor * power >= wanted)
