"""Which colour a label has: the same for all tags of an entity type, none for what is outside of entities.

Colours are hues in degrees, laid over light or dark paper as a thin veil, so that text stays readable. The first
hues are far apart; further ones follow by the golden angle. The label is written as well, so a colour only repeats
what is said. Labels are told apart by ``str``, which is how they are shown. Cost: O(L).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_FIRST_HUES = (215.0, 28.0, 145.0, 285.0, 350.0, 185.0, 52.0, 320.0, 95.0, 250.0)
_GOLDEN_ANGLE = 137.508
_OUTSIDE = "O"
_TAGGED = re.compile(r"[BIESLU](?:-(.+))?", re.DOTALL)
_FAINTEST, _STRONGEST = 0.10, 0.42


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
