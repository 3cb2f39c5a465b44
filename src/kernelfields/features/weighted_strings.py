r"""Feature strings that carry their weights, as CRFsuite's data files write them.

    ["bias", "len:2.5", "time=12\:30"]  ->  {"bias": 1.0, "len": 2.5, "time=12:30": 1.0}

A colon separates name and weight; in a name, "\:" is a colon and "\\" a backslash. Only CRFsuite's own program
reads strings so. For python-crfsuite, and for everything else here, a feature string is a name and weighs 1,
whatever it holds. Fails: ValueError that quotes the string, where CRFsuite would go on with a weight of zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import isfinite

# What a backslash protects is taken first, and the possessive quantifier never gives it back.
_STRING = re.compile(r"((?:\\[:\\]|[^:])*+)(?::(.*))?", re.DOTALL)
_PROTECTED = re.compile(r"\\([:\\])")


def read_weighted(strings: Iterable[str]) -> dict[str, float]:
    """Return the feature dict of one position given as strings with weights; equal names add up."""
    features: dict[str, float] = {}
    for string in strings:
        name, text = _STRING.fullmatch(string).groups()  # type: ignore[union-attr]
        name = _PROTECTED.sub(r"\1", name)
        features[name] = features.get(name, 0.0) + _weight(string, text or "1")
    return features


def _weight(string: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError as error:
        raise ValueError(rf"{string!r}: {text!r} is no weight; a colon in a name is written \:") from error
    if not isfinite(weight):
        raise ValueError(f"{string!r}: weights must be finite")
    return weight
