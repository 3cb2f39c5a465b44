"""Inputs and labels as sklearn-crfsuite takes them, made ready for a ChainCRF.

X and y may be any iterables of sequences, and a sequence may be empty: it has no labels to learn from and none to
predict. A position is a feature dict or a list of feature strings. Fails: TypeError for other kinds of input, such
as arrays, where sklearn-crfsuite would train on nothing or crash; ValueError for labels that do not match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.features.chunks import is_collection
from kernelfields.features.readers import is_feature_sequences
from kernelfields.fields.reading import is_sequence

_EXPECTED = "must be a list of sequences of feature dicts or of lists of feature strings"
_ARRAYS = "For arrays of numbers use kernelfields.ChainCRF('linear'), which takes a list with one array per sequence"
_LISTINGS = (list, tuple, np.ndarray)
_LABELS = (str, int, np.integer, np.bool_)


def feature_sequences(X: Any, name: str = "X") -> list:
    """Return X as a list of sequences; raise TypeError where its first features are no names."""
    if scipy.sparse.issparse(X) or (isinstance(X, np.ndarray) and X.dtype != object):
        raise TypeError(f"{name} {_EXPECTED}, got {_describe(X)}. {_ARRAYS}.")
    if not _is_iterable(X):
        raise TypeError(f"{name} {_EXPECTED}, got {_describe(X)}")
    sequences = [list(sequence) if isinstance(sequence, Iterator) else sequence for sequence in X]
    if problem := _first_without_names(sequences):
        raise TypeError(f"{name} {_EXPECTED}, but {problem}. {_ARRAYS}.")
    return sequences


def labelled_sequences(X: Any, y: Any, suffix: str = "") -> tuple[list, list]:
    """Return X and y as lists, sequence by sequence; ``suffix`` is that of their names in messages."""
    sequences, labels = feature_sequences(X, f"X{suffix}"), _label_sequences(y, f"y{suffix}")
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


def is_empty(sequence: Any) -> bool:
    """Whether a sequence has no positions."""
    return isinstance(sequence, _LISTINGS) and len(sequence) == 0


def the_only_label(labels: list) -> Any:
    """Return the label that every position has; None if there are several, or if some cannot be a label."""
    every = chain.from_iterable(labels)
    first = next(every, None)
    textual = isinstance(first, str)
    same = all(isinstance(label, _LABELS) and isinstance(label, str) is textual and label == first for label in every)
    return first if same and isinstance(first, _LABELS) else None


@contextmanager
def without_empty(sequences: list) -> Iterator[list[int]]:
    """Give the numbers of the sequences that are not empty; errors inside say that only these are counted."""
    filled = [index for index, sequence in enumerate(sequences) if not is_empty(sequence)]
    try:
        yield filled
    except (TypeError, ValueError) as error:
        if len(filled) < len(sequences):
            error.add_note(f"Sequences are counted without the {len(sequences) - len(filled)} empty ones.")
        raise


def answer_each(sequences: list, answer: Callable[[list], Iterable]) -> np.ndarray:
    """Ask for answers to the sequences that are not empty; return all as objects (S,), [] for empty ones."""
    answers = np.empty(len(sequences), dtype=object)
    with without_empty(sequences) as filled:
        given = answer([sequences[index] for index in filled]) if filled else []
    for index in range(len(sequences)):
        answers[index] = []
    for index, each in zip(filled, given, strict=True):
        answers[index] = each
    return answers


def _is_iterable(values: Any) -> bool:
    return isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)


def _label_sequences(y: Any, name: str) -> list:
    if not _is_iterable(y):
        raise TypeError(f"{name} must be a list with one list of labels per sequence, got {_describe(y)}")
    listed = []
    for index, labels in enumerate(y):
        if not _is_iterable(labels) or getattr(labels, "ndim", 1) != 1:
            raise ValueError(f"sequence {index} of {name} is {_describe(labels)}: each sequence needs a list of labels")
        listed.append(labels.tolist() if isinstance(labels, np.ndarray) else list(labels))
    return listed


def _first_without_names(sequences: list) -> str:
    """Say where the first features are that have no names; nothing if the first features have names."""
    for index, sequence in enumerate(sequences):
        if not is_sequence(sequence) or getattr(sequence, "dtype", np.dtype(object)) != np.dtype(object):
            return f"sequence {index} is {_describe(sequence)}"
        for place, position in enumerate(sequence):
            if isinstance(position, Mapping):
                return ""
            if is_collection(position) and len(position) == 0:
                continue
            named = is_collection(position) and isinstance(next(iter(position)), str | bytes)
            return "" if named else f"position {place} of sequence {index} is {_describe(position)}"
    return ""


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"a {type(value).__name__} of shape {shape}"
    return f"{value!r:.60} ({type(value).__name__})"
