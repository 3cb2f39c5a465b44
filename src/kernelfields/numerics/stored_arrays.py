"""Checks of arrays from files, with NumPy alone.

A file may be damaged, or made up, and still have the right checksum. What passes here is finite and has the type and
shape that follow from the rest of the document. Raises ValueError that names the array.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def finite_array(array: object, what: str, shape: Sequence[int | None]) -> np.ndarray:
    """Return an array of finite numbers of this shape; None in it means any length."""
    values = _array(array, what, shape, "fiu", "numbers")
    if values.dtype == np.float16:
        raise ValueError(f"{what} must be of single or double precision")
    if not np.isfinite(values).all():
        raise ValueError(f"{what} must be finite")
    return values


def whole_array(
    array: object, what: str, shape: Sequence[int | None], below: int | None = None, least: int = 0
) -> np.ndarray:
    """Return an array of integers of this shape, from ``least`` to less than ``below``."""
    values = _array(array, what, shape, "iu", "whole numbers")
    if values.size and not (values.min() >= least and (below is None or values.max() < below)):
        raise ValueError(f"{what} must be from {least} to {'any number' if below is None else below - 1}")
    return values


def _array(array: object, what: str, shape: Sequence[int | None], kinds: str, called: str) -> np.ndarray:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds or array.ndim != len(shape):
        raise ValueError(f"{what} must be an array of {called} with {len(shape)} axes")
    if any(wanted is not None and wanted != found for wanted, found in zip(shape, array.shape, strict=True)):
        expected = ", ".join("any" if wanted is None else str(wanted) for wanted in shape)
        raise ValueError(f"{what} has the shape {array.shape}, expected ({expected})")
    return array


def whole_number(value: object, what: str, least: int = 0) -> int:
    """Return an integer of at least ``least``, within the range of an index."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**63:
        raise ValueError(f"{what} must be a whole number of at least {least}, got {value!r:.60}")
    return value
