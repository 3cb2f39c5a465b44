"""Colours of labels: hues in degrees, the same for all tags of an entity type, none for labels outside of entities.

    label_hues(["B-PER", "I-PER", "B-LOC", "O"])     {"B-PER": 215.0, "I-PER": 215.0, "B-LOC": 28.0, "O": None}

Hues contrast with white and with black, on light and dark screens alike; tags of one type differ
in lightness where they stand beside each other. Cost: O(labels).
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

_FIRST_HUES = (215.0, 28.0, 145.0, 285.0, 350.0, 185.0, 52.0, 320.0, 95.0, 250.0)
_GOLDEN_ANGLE = 137.508
_OUTSIDE = "O"
_TAGGED = re.compile(r"[BIESLU](?:-(.+))?", re.DOTALL)
_FAINTEST, _STRONGEST = 0.10, 0.42
_SATURATION = 0.6
_NOTABLE = 0.05
_MOST_NAMED = 12
#: The colour of labels without a hue, and of those that a picture does not name.
GREY = "#b8bfc7"
#: Backgrounds of dark text (``INK``) with a contrast of 4.5 or more, apart by CIEDE2000 15 for red-green blind people.
LABEL_COLOURS = (
    "#4b87ff",
    "#f0a569",
    "#0f9678",
    "#f00fb4",
    "#fff000",
    "#2dd2ff",
    "#878700",
    "#f0a5b4",
    "#3cfff0",
    "#e1ffc3",
)
INK = "#14181d"


def label_colours(count: int) -> list[str]:
    """Return ``count`` background colours "#rrggbb" for dark text; ten differ for colour-blind readers."""
    more = (_hex(_hue(number), 0.75) for number in range(len(LABEL_COLOURS), count))
    return [*LABEL_COLOURS[:count], *more]


def label_hues(labels: Iterable[object]) -> dict[str, float | None]:
    """Return the hue of each label; None for "O" among entity labels such as "B-PER" and "I-PER"."""
    names = list(dict.fromkeys(map(str, labels)))
    groups = _entity_types(names) or {name: name for name in names}
    order = list(dict.fromkeys(group for group in groups.values() if group is not None))
    hues = {group: _hue(index) for index, group in enumerate(order)}
    return {name: None if (group := groups[name]) is None else hues[group] for name in names}


def label_background(hue: float | None, probability: float) -> str | None:
    """Return the CSS of a background with a hue, stronger for a larger probability."""
    if hue is None:
        return None
    strength = _FAINTEST + (_STRONGEST - _FAINTEST) * min(max(probability, 0.0), 1.0)
    return f"background-color:hsla({hue:g},75%,50%,{strength:.3f})"


def _entity_types(names: list[str]) -> dict[str, str | None] | None:
    """Return the entity type of each label, None for "O"; None unless all are entity labels."""
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


class Palette:
    """The colours of the named labels in a picture; grey for other labels.

    Named are labels that are chosen or probable somewhere, the most probable ones if they are many. Those of one
    entity type share a hue and differ in lightness.
    """

    def __init__(self, marginals: np.ndarray, classes: Sequence[object], labels: Sequence[object]):
        largest = marginals.max(axis=0, initial=0.0)
        chosen = np.isin(np.arange(len(classes)), [classes.index(label) for label in dict.fromkeys(labels)])
        notable = np.flatnonzero(chosen | (largest >= _NOTABLE))
        order = notable[np.argsort(-(largest + chosen)[notable], kind="stable")][:_MOST_NAMED]
        self.named: list[int] = sorted(order.tolist())
        self._classes = classes
        hues = label_hues(classes)
        own = [hues[str(classes[column])] for column in self.named]
        self._colours = {
            str(classes[column]): _colour(hue, own[:number].count(hue), own.count(hue))
            for number, (column, hue) in enumerate(zip(self.named, own, strict=True))
        }

    def __getitem__(self, label: object) -> str:
        return self._colours.get(str(label), GREY)

    @property
    def others(self) -> str:
        """The name of all grey labels in the legend; empty without any."""
        left = len(self._classes) - len(self.named)
        return f"{left:,} others" if left else ""

    def shares(self, marginals: np.ndarray) -> Iterator[tuple[object, str, np.ndarray]]:
        """Yield the named labels, and the grey ones as one, with colours and columns of marginals (T, L)."""
        for column in self.named:
            yield self._classes[column], self[self._classes[column]], marginals[:, column]
        if self.others:
            named = marginals[:, self.named].sum(axis=1)
            yield self.others, GREY, np.maximum(1.0 - named, 0.0)

    def legend(self, counts: Mapping[str, int]) -> list[tuple[str, str, str]]:
        """Return the colour, the name and the count of each label."""
        entries = [
            (colour, label, f" ({counts[label]:,})" if label in counts else "")
            for label, colour in self._colours.items()
        ]
        return [*entries, (GREY, self.others, "")] if self.others else entries


def _colour(hue: float | None, number: int, alike: int) -> str:
    """Return the colour "#rrggbb" of a label among labels with the same hue; grey without a hue."""
    if hue is None:
        return GREY
    return _hex(hue, 0.55 if alike == 1 else 0.5 + 0.25 * number / (alike - 1))


def _hex(hue: float, lightness: float) -> str:
    red, green, blue = (round(255 * part) for part in colorsys.hls_to_rgb(hue / 360.0, lightness, _SATURATION))
    return f"#{red:02x}{green:02x}{blue:02x}"
