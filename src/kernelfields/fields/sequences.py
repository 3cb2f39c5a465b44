"""Where packed sequences begin, where a row of theirs lies, what counts as a list of them, what to call them.

Graphs are packed in the same way, nodes in the place of positions; Nouns lets the same checks speak of either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Nouns:
    """What messages call the things that are packed; the defaults speak of sequences."""

    whole: str = "sequence"
    part: str = "position"
    #: What is read of each whole, as in "node_features of graph 3"; empty for the whole itself.
    table: str = ""
    #: What to do about labels that are not known.
    unlabelled: str = "if the last one is unknown, drop that row."
    #: What to do about words where numbers are needed.
    words: str = "Lists of feature dicts, one dict per position, are the way to pass words and categories."

    def name(self, index: int) -> str:
        """Return how messages call number ``index``."""
        return f"{self.table}{self.whole} {index}"


SEQUENCES = Nouns()


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Return the offsets (S + 1,) int64 of sequences of the given lengths (S,)."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64, copy=False)


def locate(offsets: np.ndarray, row: int) -> tuple[int, int]:
    """Return the sequence a packed row belongs to, and its position there."""
    sequence = int(np.searchsorted(offsets, row, side="right")) - 1
    return sequence, int(row - offsets[sequence])


def rows_of(offsets: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the packed rows of the chosen sequences, in their order, and the offsets these will have."""
    lengths = np.diff(offsets)[chosen]
    after = offsets_of(lengths)
    return np.repeat(offsets[:-1][chosen] - after[:-1], lengths) + np.arange(after[-1]), after


def is_sequence(values: Any) -> bool:
    """Whether values can be walked by number; text and mappings are not meant."""
    text_or_table = isinstance(values, str | bytes | Mapping)
    return hasattr(values, "__len__") and hasattr(values, "__getitem__") and not text_or_table
