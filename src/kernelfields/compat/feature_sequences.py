"""Inputs and labels in the form of sklearn-crfsuite, converted for a ChainCRF.

X and y may be any iterables of sequences, and a sequence may be empty: it has no labels to learn from and none to
predict. A position is a feature dict or a list of feature strings. Raises TypeError for other kinds of input, such
as arrays, where sklearn-crfsuite would train on nothing or crash; ValueError for labels that do not match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeGuard

import numpy as np
import scipy.sparse

from kernelfields.data.positions import is_feature_position, show_value
from kernelfields.data.reading import first_position, is_listing
from kernelfields.features import is_feature_sequences
from kernelfields.numerics.containers import n_dimensions

_EXPECTED = "must be a list of sequences of feature dicts or of lists of feature strings"
_ARRAYS = "For arrays of numbers use kernelfields.ChainCRF('linear'), which takes a list with one array per sequence"
_LISTINGS = (list, tuple, np.ndarray)
Label = str | int | np.integer | np.bool_


def check_features(X: object, name: str = "X") -> list:
    """Return X as a list of sequences; raise TypeError for features without names."""
    if scipy.sparse.issparse(X) or (isinstance(X, np.ndarray) and X.dtype != object):
        raise TypeError(f"{name} {_EXPECTED}, got {show_value(X)}. {_ARRAYS}.")
    if not _is_iterable(X):
        raise TypeError(f"{name} {_EXPECTED}, got {show_value(X)}")
    sequences = [list(sequence) if isinstance(sequence, Iterator) else sequence for sequence in X]
    first = first_position(sequences)
    last = len(sequences) if first is None else first[0] + 1
    for index, sequence in enumerate(sequences[:last]):
        if not is_listing(sequence):
            raise TypeError(f"{name} {_EXPECTED}, but sequence {index} is {show_value(sequence)}. {_ARRAYS}.")
    if first is not None and not is_feature_position(first[2]):
        place = f"position {first[1]} of sequence {first[0]}"
        raise TypeError(f"{name} {_EXPECTED}, but {place} is {show_value(first[2])}. {_ARRAYS}.")
    return sequences


def check_labelled(X: object, y: object, suffix: str = "") -> tuple[list, list]:
    """Return X and y as lists of sequences; ``suffix`` is appended to their names in messages."""
    sequences, labels = check_features(X, f"X{suffix}"), _check_labels(y, f"y{suffix}")
    if len(sequences) != len(labels):
        raise ValueError(
            f"X{suffix} has {len(sequences)} sequences but y{suffix} has {len(labels)}: each needs its labels"
        )
    for index, (sequence, its_labels) in enumerate(zip(sequences, labels, strict=True)):
        if isinstance(sequence, _LISTINGS) and len(sequence) != len(its_labels):
            raise ValueError(
                f"sequence {index} has {len(sequence)} positions in X{suffix} but {len(its_labels)} labels in "
                f"y{suffix}: each position needs one label"
            )
    if all(map(is_empty, sequences)):
        raise ValueError(f"X{suffix} holds no position: at least one sequence that is not empty is needed")
    if not is_feature_sequences(sequences):
        raise ValueError(f"X{suffix} holds no features: every position is empty")
    return sequences, labels


def is_empty(sequence: object) -> bool:
    """Whether a sequence is empty."""
    return isinstance(sequence, _LISTINGS) and len(sequence) == 0


@contextmanager
def drop_empty(sequences: list) -> Iterator[list[int]]:
    """Return a context with the numbers of nonempty sequences; errors get a note about this numbering."""
    filled = [index for index, sequence in enumerate(sequences) if not is_empty(sequence)]
    try:
        yield filled
    except (TypeError, ValueError) as error:
        if len(filled) < len(sequences):
            error.add_note(f"Sequences are counted without the {len(sequences) - len(filled)} empty ones.")
        raise


def _is_iterable(values: object) -> TypeGuard[Iterable]:
    return isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)


def _check_labels(y: object, name: str) -> list:
    if not _is_iterable(y):
        raise TypeError(f"{name} must be a list with one list of labels per sequence, got {show_value(y)}")
    listed = []
    for index, labels in enumerate(y):
        if not _is_iterable(labels) or n_dimensions(labels) != 1:
            raise ValueError(
                f"sequence {index} of {name} is {show_value(labels)}: each sequence needs a list of labels"
            )
        listed.append(labels.tolist() if isinstance(labels, np.ndarray) else list(labels))
    return listed
