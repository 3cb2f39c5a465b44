"""Integer labels without rounding: ids and hashes may exceed the types that NumPy chooses.

NumPy has no type for signed and unsigned numbers of 64 bits together, and takes float64 for a list or a pair of arrays
with both. Floats tell whole numbers apart up to 2^53: two ids beyond that would be one class.

    all of them in -2^63 .. 2^63 - 1     int64
    else, all of them in 0 .. 2^64 - 1   uint64
    else                                 ValueError

Numbers that fit NumPy's own choice are left to it. Cost: O(N). Raises ValueError that names two numbers which no type
holds together.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

#: Floats tell whole numbers apart up to this one.
MOST_EXACT = 2**53
_SIGNED, _UNSIGNED = np.iinfo(np.int64), np.iinfo(np.uint64)


def labels_as_array(labels: Any) -> np.ndarray:
    """Return labels as an array of NumPy, with exact integers."""
    return restore_whole_numbers(np.asarray(labels), labels)


def restore_whole_numbers(made: np.ndarray, labels: Any) -> np.ndarray:
    """Return NumPy's array of labels, or an exact array if integers were rounded."""
    if not isinstance(labels, list | tuple) or made.ndim != 1 or not _may_be_inexact(made):
        return made
    return made if any(not _is_whole(label) for label in labels) else _exact_array([int(label) for label in labels])


def find_whole_places(known: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the indices of labels among sorted known labels, which contain them."""
    return np.searchsorted(known, labels if known.dtype.kind not in "biuf" else convert_type(known, labels)[0])


def concatenate_labels(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenate arrays of labels with whole numbers exact."""
    joined = np.concatenate(arrays)
    if {array.dtype.kind for array in arrays} <= {"f"} or not _may_be_inexact(joined):
        return joined
    values = [label for array in arrays for label in array.tolist()]
    return joined if any(not _is_whole(label) for label in values) else _exact_array([int(label) for label in values])


def convert_type(known: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Convert numeric labels to the type of the known labels; return them and a mask of representable labels."""
    if known.dtype == labels.dtype:
        return labels, np.ones(labels.shape, dtype=bool)
    with np.errstate(invalid="ignore"):
        cast = labels.astype(known.dtype)
    return cast, (cast == labels) & ((cast < 0) == (labels < 0))


def _may_be_inexact(made: np.ndarray) -> bool:
    """Whether NumPy's type is none, or may not distinguish the numbers."""
    return made.dtype.kind == "O" or (made.dtype.kind == "f" and bool((np.abs(made) >= MOST_EXACT).any()))


def _is_whole(label: object) -> bool:
    """Whether a label is a whole number without rounding."""
    if isinstance(label, float | np.floating):
        return abs(float(label)) < MOST_EXACT and float(label).is_integer()
    return isinstance(label, Integral | np.bool_)


def _exact_array(numbers: list[int]) -> np.ndarray:
    """Return whole numbers as an array of an exact type."""
    least, most = min(numbers), max(numbers)
    if least >= _SIGNED.min and most <= _SIGNED.max:
        return np.array(numbers, dtype=np.int64)
    if least >= 0 and most <= _UNSIGNED.max:
        return np.array(numbers, dtype=np.uint64)
    raise ValueError(
        f"the labels {least} and {most} are whole numbers that no type of 64 bits holds together: pass strings, "
        "str(label)"
    )
