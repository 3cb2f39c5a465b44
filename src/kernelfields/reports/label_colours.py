"""Colours of labels: hues in degrees, the same for all tags of an entity type, none for what is outside of entities.

    label_hues(["B-PER", "I-PER", "B-LOC", "O"])     {"B-PER": 215.0, "I-PER": 215.0, "B-LOC": 28.0, "O": None}

Hues are such that they can be told from white and from black, on light and dark screens alike; tags of one type differ
in lightness where they stand beside each other. Cost: O(labels).
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kernelfields.reports.tables import Markup, element

_FIRST_HUES = (215.0, 28.0, 145.0, 285.0, 350.0, 185.0, 52.0, 320.0, 95.0, 250.0)
_GOLDEN_ANGLE = 137.508
_OUTSIDE = "O"
_TAGGED = re.compile(r"[BIESLU](?:-(.+))?", re.DOTALL)
_FAINTEST, _STRONGEST = 0.10, 0.42
_SATURATION = 0.6
_GREY = 0.75
_NOTABLE = 0.05
_MOST_NAMED = 12


def label_hues(labels: Iterable[object]) -> dict[str, float | None]:
    """Return a hue for each label; None for "O" among labels of entities such as "B-PER" and "I-PER"."""
    names = list(dict.fromkeys(map(str, labels)))
    groups = _entity_types(names) or {name: name for name in names}
    order = list(dict.fromkeys(group for group in groups.values() if group is not None))
    hues = {group: _hue(index) for index, group in enumerate(order)}
    return {name: None if (group := groups[name]) is None else hues[group] for name in names}


def veil(hue: float | None, probability: float) -> str | None:
    """Return the CSS of a background in this hue, stronger for a larger probability."""
    if hue is None:
        return None
    strength = _FAINTEST + (_STRONGEST - _FAINTEST) * min(max(probability, 0.0), 1.0)
    return f"background-color:hsla({hue:g},75%,50%,{strength:.3f})"


def _entity_types(names: list[str]) -> dict[str, str | None] | None:
    """Return the type of each label, None for "O", if the labels are of entities; else None."""
    types: dict[str, str | None] = {}
    for name in names:
        match = _TAGGED.fullmatch(name)
        if match is None and name != _OUTSIDE:
            return None
        types[name] = None if match is None else match[1] or ""
    return types if any("-" in name for name in names) or _OUTSIDE in names else None


def _hue(index: int) -> float:
    if index < len(_FIRST_HUES):
        return _FIRST_HUES[index]
    return round((_FIRST_HUES[-1] + _GOLDEN_ANGLE * (index - len(_FIRST_HUES) + 1)) % 360.0, 1)


def notable_labels(marginals: np.ndarray, classes: Sequence[Any], labels: Sequence[Any]) -> list[int]:
    """Return the columns of labels that are chosen or probable somewhere, the most probable if they are many."""
    largest = marginals.max(axis=0, initial=0.0)
    chosen = np.isin(np.arange(len(classes)), [classes.index(each) for each in dict.fromkeys(labels)])
    notable = np.flatnonzero(chosen | (largest >= _NOTABLE))
    order = notable[np.argsort(-(largest + chosen)[notable], kind="stable")][:_MOST_NAMED]
    return sorted(order.tolist())


def label_tones(classes: Sequence[Any], named: Sequence[int]) -> list[tuple[float | None, float]]:
    """Return hue and lightness of the named labels; those of one entity type share a hue and differ in lightness."""
    hues = label_hues(classes)
    own = [hues[str(classes[column])] for column in named]
    tones: list[tuple[float | None, float]] = []
    for place, hue in enumerate(own):
        alike, before = own.count(hue), own[:place].count(hue)
        tones.append((hue, 0.55 if alike == 1 else 0.5 + 0.25 * before / (alike - 1)))
    return tones


def rgb_of(hue: float | None, lightness: float) -> tuple[float, float, float]:
    """Return a tone as shares of red, green and blue; grey for no hue."""
    if hue is None:
        return (0.72, 0.75, 0.78)
    return colorsys.hls_to_rgb(hue / 360.0, lightness, _SATURATION)


def css_of(hue: float | None, lightness: float) -> str:
    """Return a tone as CSS."""
    red, green, blue = (round(255 * each) for each in rgb_of(hue, lightness))
    return f"#{red:02x}{green:02x}{blue:02x}"


class Palette:
    """CSS colours of the labels that a picture names, grey for the others, and the legend that tells them."""

    OTHERS = css_of(None, _GREY)

    def __init__(self, marginals: np.ndarray, classes: Sequence[Any], labels: Sequence[Any]):
        self.named = notable_labels(marginals, classes, labels)
        self._classes = classes
        tones = label_tones(classes, self.named)
        self._colours = {str(classes[column]): css_of(*tone) for column, tone in zip(self.named, tones, strict=True)}

    def __getitem__(self, label: object) -> str:
        return self._colours.get(str(label), self.OTHERS)

    def legend(self, counts: dict[str, int], notes: Iterable[str] = ()) -> Markup:
        """Return a line with a patch of each colour and its label, how often it was chosen, and notes."""
        entries = [
            _entry(colour, label, f" ({counts[label]:,})" if label in counts else "")
            for label, colour in self._colours.items()
        ]
        if left := len(self._classes) - len(self.named):
            entries.append(_entry(self.OTHERS, f"{left:,} others", ""))
        quiet = [element("span", note, class_="kf-quiet") for note in notes]
        return element("p", *entries, *quiet, class_="kf-legend")


def _entry(colour: str, label: str, after: str) -> Markup:
    patch = element("i", style=f"background-color:{colour}")
    return element("span", patch, element("bdi", label), after)
