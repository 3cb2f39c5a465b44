"""The forms of one position of an item: a mapping of features, a collection of feature strings, or neither.

Raises TypeError that shows the value, for an item without positions in an order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from typing import TypeGuard

import numpy as np

from kernelfields.numerics.containers import find_shape

# The classes that come most often first: a look at an abstract one costs more than all the rest.
_COLLECTIONS = (list, tuple, set, frozenset, Set)


def is_collection(values: object) -> TypeGuard[Collection]:
    """Whether values can be a collection of feature strings, by its kind."""
    if isinstance(values, np.ndarray):
        return values.ndim == 1 and values.dtype.kind in "OU"
    return isinstance(values, _COLLECTIONS)


def is_feature_position(position: object) -> bool:
    """Whether a position is a feature dict or a collection of feature strings."""
    if isinstance(position, Mapping):
        return True
    return is_collection(position) and isinstance(next(iter(position), None), str | bytes)


def check_sequence(item: object, name: str) -> None:
    """Raise if an item has no ordered positions: often a text instead of a list of words.

    ``name`` is how the message calls it.
    """
    if isinstance(item, str | bytes):
        raise TypeError(f"{name} is {show_value(item)}: split texts into lists of words, and pass one alone as [words]")
    if item is None or isinstance(item, Iterator | Set):
        raise TypeError(f"{name} is {show_value(item)}: make a list of its positions, in their order")


def show_value(value: object) -> str:
    """Return a value as text for messages."""
    shape, kind = find_shape(value), type(value).__name__
    return f"{value!r:.60} ({kind})" if shape is None else f"a {kind} of shape {shape}"
