"""Where packed sequences begin, where a row of theirs lies, and what counts as a list of sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Return the offsets (S + 1,) int64 of sequences of the given lengths (S,)."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64, copy=False)


def locate(offsets: np.ndarray, row: int) -> tuple[int, int]:
    """Return the sequence a packed row belongs to, and its position there."""
    sequence = int(np.searchsorted(offsets, row, side="right")) - 1
    return sequence, int(row - offsets[sequence])


def is_sequence(values: Any) -> bool:
    """Whether values can be walked by number; text and mappings are not meant."""
    text_or_table = isinstance(values, str | bytes | Mapping)
    return hasattr(values, "__len__") and hasattr(values, "__getitem__") and not text_or_table
