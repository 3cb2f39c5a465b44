"""Readers of rows for transformers: of strings, or of whatever else sequences hold, with missing values.

TextReader     lists of lists of strings, for transformers that make numbers of them            -> rows (N,)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from kernelfields.data.readers import RowReader
from kernelfields.data.reading import has_words
from kernelfields.numerics.sparse_rows import make_offsets


@dataclass(eq=False)
class TextReader(RowReader):
    """Reader of sequences of strings as rows of one column, for transformers of text."""

    n_features: int = 1

    def learn_arrays(self, X: Any) -> tuple[Any, np.ndarray]:
        """Return the strings (N,) of all sequences, and their offsets (S + 1,)."""
        return self.read_inputs(X)

    def learn_inputs(self, X: Any, *, keep_zeros: bool = False) -> tuple[Any, np.ndarray]:
        """Return the strings (N,) of all sequences, and their offsets (S + 1,)."""
        return self.read_inputs(X)

    def read_inputs(self, X: Any) -> tuple[Any, np.ndarray]:
        """Return the strings (N,) of all sequences, and their offsets (S + 1,)."""
        for index, sequence in enumerate(X):
            if isinstance(sequence, str) or not all(isinstance(text, str) for text in sequence):
                raise TypeError(
                    f"sequence {index} must be a list of strings, as those of the fit, got {sequence!r:.60}"
                )
        texts = list(chain.from_iterable(X))
        return np.array(texts, dtype=object), make_offsets(np.array([len(x) for x in X]))


def choose_reader(X: object) -> RowReader:
    """Return an unfitted reader for the kind of X, which accepts missing values."""
    settings: dict[str, Any] = {"finite": False, "warns": False}
    return TextReader(**settings) if has_words(X) else RowReader(**settings)
