"""Labels and weights of sequences: S lists of labels become indices (N,) into the sorted classes (L,).

Labels are strings, whole numbers or booleans, of one kind throughout; weights are one number per sequence.
Cost: O(N log L). Fails: ValueError or TypeError naming the sequence (counted from 0) and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kernelfields.fields.sequences import SEQUENCES, Nouns, is_sequence, locate, offsets_of

_SHOWN_CLASSES = 10


def encode_labels(
    y: Any, classes: Any = None, lengths: np.ndarray | None = None, nouns: Nouns = SEQUENCES
) -> tuple[np.ndarray, np.ndarray]:
    """Turn label sequences into indices (N,) into sorted classes (L,); return both.

    ``classes=None`` learns them and needs at least two. ``lengths`` holds the rows of every sequence in X.
    ``nouns`` says what messages call a sequence and its positions.
    """
    items = _list_label_sequences(y, nouns)
    if lengths is not None and len(items) != len(lengths):
        raise ValueError(f"X has {len(lengths)} {nouns.whole}s but y has {len(items)}: each needs its labels")
    arrays = [_label_array(item, f"{nouns.name(index)} of y", nouns) for index, item in enumerate(items)]
    sizes = np.array([len(array) for array in arrays], dtype=np.int64)
    if lengths is not None and (wrong := np.flatnonzero(sizes != lengths)).size:
        index = wrong[0]
        raise ValueError(
            f"{nouns.name(index)} has {lengths[index]} rows in X but {sizes[index]} labels in y. "
            f"Each {nouns.part} needs one label; {nouns.unlabelled}"
        )
    if (empty := np.flatnonzero(sizes == 0)).size:
        raise ValueError(f"{nouns.name(empty[0])} of y is empty: remove it from X and y")
    strings = np.array([array.dtype.kind == "U" for array in arrays])
    if (other := np.flatnonzero(strings != strings[0])).size:
        names = ("strings", "numbers") if strings[0] else ("numbers", "strings")
        raise ValueError(
            f"labels mix strings and numbers: {nouns.name(0)} has {names[0]}, {nouns.name(other[0])} has "
            f"{names[1]}. Use one kind throughout, for example str(label)."
        )
    flat = np.concatenate(arrays)
    offsets = offsets_of(sizes)
    _check_whole(flat, offsets, nouns)
    if classes is None:
        known = np.unique(flat)
        if len(known) < 2:
            raise ValueError(
                f"y holds one class only, {known[0].item()!r}: fitting needs at least two different labels"
            )
    else:
        known = np.unique(_label_array(list(classes), "classes", nouns))
        if (known.dtype.kind == "U") != strings[0]:
            raise ValueError(
                f"unknown label {flat[0].item()!r} at {nouns.name(0)}, {nouns.part} 0: known are {_show(known)}"
            )
    labels = np.minimum(np.searchsorted(known, flat), len(known) - 1)
    if classes is not None and (unknown := np.flatnonzero(known[labels] != flat)).size:
        sequence, position = locate(offsets, unknown[0])
        raise ValueError(
            f"unknown label {flat[unknown[0]].item()!r} at {nouns.name(sequence)}, {nouns.part} {position}: "
            f"known are {_show(known)}"
        )
    return labels, known


def check_sample_weight(sample_weight: Any, n_sequences: int, nouns: Nouns = SEQUENCES) -> np.ndarray:
    """Return one non-negative finite weight per sequence, ones for None."""
    if sample_weight is None:
        return np.ones(n_sequences)
    expected = f"sample_weight holds one number per {nouns.whole}, {n_sequences} here"
    single = f"Weights of single {nouns.part}s are not supported; weigh whole {nouns.whole}s."
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{expected}, got {type(sample_weight).__name__} ({error}). {single}") from error
    if weights.shape != (n_sequences,):
        raise ValueError(f"{expected}, got shape {weights.shape}. {single}")
    if (bad := np.flatnonzero(~np.isfinite(weights) | (weights < 0))).size:
        raise ValueError(f"sample_weight[{bad[0]}] is {weights[bad[0]]}: weights must be finite and not negative")
    if not weights.any():
        raise ValueError(f"sample_weight is zero for every {nouns.whole}: nothing is left to fit")
    return weights


def _show(known: np.ndarray) -> str:
    shown = ", ".join(repr(label) for label in known[:_SHOWN_CLASSES].tolist())
    rest = len(known) - _SHOWN_CLASSES
    return f"{shown} and {rest} more" if rest > 0 else shown


def _expected(nouns: Nouns) -> str:
    return f"y must be a list with one list or array of labels per {nouns.whole}"


def _list_label_sequences(y: Any, nouns: Nouns) -> list:
    if not is_sequence(y) or getattr(y, "ndim", 1) == 0:
        raise TypeError(f"{_expected(nouns)}, got {type(y).__name__}")
    return list(y)


def _label_array(item: Any, where: str, nouns: Nouns) -> np.ndarray:
    if isinstance(item, Iterable) and not isinstance(item, str | bytes | Mapping | list | tuple | np.ndarray):
        item = np.asarray(item) if hasattr(item, "__array__") else list(item)
    if isinstance(item, np.ndarray) and item.ndim == 1 and item.dtype.kind in "OT":
        item = item.tolist()
    if not isinstance(item, list | tuple | np.ndarray):
        raise ValueError(f"{where} is {item!r:.60} ({type(item).__name__}): {_expected(nouns)}")
    if not isinstance(item, np.ndarray):
        # np.asarray would silently turn the 1 of ["a", 1] into "1".
        textual = {issubclass(kind, str) for kind in set(map(type, item))}
        if len(textual) == 2:
            first = isinstance(item[0], str)
            position = next(place for place, label in enumerate(item) if isinstance(label, str) != first)
            raise ValueError(
                f"{where} mixes strings with other labels: {nouns.part} 0 is {item[0]!r}, {nouns.part} {position} "
                f"is {item[position]!r}. Every {nouns.part} needs one label of one kind."
            )
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise ValueError(f"{where} is not a flat list of labels: {error}") from error
    if array.ndim != 1:
        raise ValueError(
            f"{where} has shape {array.shape}, expected one label per {nouns.part}. For one-hot rows use "
            "labels.argmax(axis=1), for a single column or a grid labels.ravel()."
        )
    if array.dtype.kind not in "biufU":
        numbers = (int, float, np.integer, np.floating, np.bool_)
        position = next((place for place, label in enumerate(item) if not isinstance(label, numbers)), 0)
        raise ValueError(
            f"{where} holds a label of type {type(item[position]).__name__} ({item[position]!r:.60}) at "
            f"{nouns.part} {position}: use strings, whole numbers or booleans, and leave no label missing"
        )
    return array


def _check_whole(flat: np.ndarray, offsets: np.ndarray, nouns: Nouns) -> None:
    if flat.dtype.kind != "f":
        return
    if (bad := np.flatnonzero(~np.isfinite(flat) | (flat != np.floor(flat)))).size:
        sequence, position = locate(offsets, bad[0])
        place = f"label {flat[bad[0]]} at {nouns.name(sequence)}, {nouns.part} {position}"
        if np.isnan(flat[bad[0]]):
            raise ValueError(f"{place} is missing: each {nouns.part} needs one label; {nouns.unlabelled}")
        raise ValueError(
            f"{place} is not a whole number: labels are classes, and these look like regression targets. "
            "Bin them, or pass strings."
        )
