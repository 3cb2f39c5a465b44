"""The features of one position as pairs of name and weight: what python-crfsuite makes of it, in plain Python.

    {"word": "cat", "upper": True, "len": 3.0}  ->  ("word:cat", 1), ("upper", 1), ("len", 3)

A string joins its name with ":" and weighs 1; a number is a weight, True is 1 and False 0; a nested dict or a
collection of strings puts its name in front ("a:b"). A position may also be a collection of feature strings, each
of weight 1: a string is a name and nothing else, so that "x:2.5" has the weight 1 too. Bytes are read as UTF-8.

Other than there, a tuple or frozenset is taken as value too, every mapping counts as dict, and a name may hold
"\\0". Sets are read in sorted order, because their own changes from run to run.

This is the twin of feature_chunks.py, which is faster and knows fewer kinds of input. Fails: TypeError or
ValueError that says which feature is wrong; the caller knows where.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from math import isfinite
from numbers import Number
from typing import Any

import numpy as np

SEPARATOR = ":"
# The classes that come most often first: a look at an abstract one costs more than all the rest.
_MAPPINGS = (dict, Mapping)
_COLLECTIONS = (list, tuple, set, frozenset, Set)
_NUMBERS = (float, int)
_ARRAYS = "Rows of numbers are passed as one array of shape (rows, features) for each sequence."


def is_collection(values: Any) -> bool:
    """Whether values can be a collection of feature strings, by its kind."""
    if isinstance(values, np.ndarray):
        return values.ndim == 1 and values.dtype.kind in "OU"
    return isinstance(values, _COLLECTIONS)


def features_of(position: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield names and weights of a position, in order, ``prefix`` before every name."""
    if isinstance(position, _MAPPINGS):
        for name, value in position.items():
            full = prefix + _text(name)
            if isinstance(value, str | bytes):
                yield full + SEPARATOR + _text(value), 1.0
            elif isinstance(value, _NUMBERS):
                yield full, _finite(full, value)
            elif isinstance(value, _MAPPINGS) or is_collection(value):
                yield from features_of(value, full + SEPARATOR)
            else:
                yield full, _other_number(full, value)
    elif is_collection(position):
        for name in _ordered(position):
            yield prefix + _text(name), 1.0
    else:
        raise TypeError(_not_a_position(position))


def _ordered(names: Collection) -> Collection:
    return sorted(names, key=str) if isinstance(names, set | frozenset) else names


def _text(text: Any) -> str:
    if type(text) is str:
        return text
    if isinstance(text, str):
        # The letters themselves, not what a subclass such as an enumeration prints.
        return "".join([text])
    if isinstance(text, bytes):
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{text!r:.60} is not UTF-8: {error.reason}. Decode it to a string first.") from error
    advice = _ARRAYS if isinstance(text, Number) else ""
    kind = type(text).__name__
    raise TypeError(f"feature name {text!r:.60} is {kind}, expected a string; write str(name). {advice}".rstrip())


def _finite(name: str, value: Any) -> float:
    try:
        weight = float(value)
    except OverflowError as error:
        raise ValueError(f"feature {name!r} is {value!r:.60}, too large for a weight") from error
    if not isfinite(weight):
        raise ValueError(
            f"feature {name!r} is {weight}. Weights must be finite; leave the feature out where it is unknown."
        )
    return weight


def _other_number(name: str, value: Any) -> float:
    """The weight of what is no number in Python but can be made one: of NumPy and others, but no arrays."""
    numeric = hasattr(value, "__float__") or hasattr(value, "__index__")
    if not numeric or isinstance(value, np.complexfloating) or getattr(value, "ndim", 0) != 0:
        raise TypeError(
            f"feature {name!r} is {value!r:.60} ({type(value).__name__}). Use a number, a bool, a string, a dict "
            "or a list of strings; leave the feature out where it is unknown."
        )
    return _finite(name, value)


def _not_a_position(position: Any) -> str:
    if isinstance(position, str | bytes):
        advice = f"A string would be taken for a list of letters; write [{position!r:.60}]."
    elif isinstance(position, Number | np.ndarray):
        advice = _ARRAYS
    else:
        advice = ""
    return (
        f"expected a feature dict or a list of feature strings, got {position!r:.60} "
        f"({type(position).__name__}). {advice}".rstrip()
    )
