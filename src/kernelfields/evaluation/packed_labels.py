"""Lists of label sequences, true and predicted, as codes that can be counted.

    y_true, y_pred: S lists of labels  ->  codes (N,) each, offsets (S + 1,), labels (L,) that the codes stand for

The labels are those that occur in any of the lists, sorted, so a label that occurs in one of them only is a label like
the others. Labels are strings, or whole numbers and booleans. Cost: O(N).
Raises ValueError or TypeError naming the list, the sequence (counted from 0) and the position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np

from kernelfields.data.partial_labels import single_labels
from kernelfields.data.reading import is_partial, is_sequence, locate, plain_label
from kernelfields.numerics.containers import find_shape, list_entries, n_dimensions

_WHOLE = (int, np.integer, np.bool_)  # bool is an int
NOTHING_KNOWN = "no label is known: there is no position to compare predictions with"


@dataclass(frozen=True, eq=False)
class PackedLabels:
    """Lists of label sequences as codes (N,) by name, with offsets (S + 1,) and the sorted labels."""

    codes: dict[str, np.ndarray]
    offsets: np.ndarray
    labels: list

    @property
    def n_sequences(self) -> int:
        """Number of sequences S."""
        return len(self.offsets) - 1

    @property
    def n_positions(self) -> int:
        """Number of positions N."""
        return int(self.offsets[-1])

    @property
    def lengths(self) -> np.ndarray:
        """Number of positions of each sequence, (S,)."""
        return np.diff(self.offsets)

    @property
    def sequence(self) -> np.ndarray:
        """Index of the sequence of each position, (N,)."""
        return np.repeat(np.arange(self.n_sequences), self.lengths)

    def split(self, values: list) -> list[list]:
        """Split values of positions into a list for each sequence."""
        return [values[begin:end] for begin, end in pairwise(self.offsets.tolist())]

    def count(self, positions: np.ndarray | slice, groups: np.ndarray, n_groups: int) -> np.ndarray:
        """Count positions by sequence and group, (S, n_groups)."""
        cells = self.sequence[positions] * n_groups + groups
        return np.bincount(cells, minlength=self.n_sequences * n_groups).reshape(self.n_sequences, n_groups)


def pack_labels(**lists: object) -> PackedLabels:
    """Pack named lists of label sequences of equal lengths: ``pack_labels(y_true=..., y_pred=...)``."""
    flat: dict[str, list] = {}
    first_name, sizes = next(iter(lists)), np.zeros(0, dtype=np.int64)
    for name, sequences in lists.items():
        listed = _list_sequences(sequences, name)
        own = np.array([len(labels) for labels in listed], dtype=np.int64)
        if name == first_name:
            sizes = own
        _check_sizes(own, sizes, name, first_name)
        flat[name] = list(chain.from_iterable(listed))
    offsets = np.cumsum([0, *sizes])
    kinds = {name: _kind(labels, offsets, name) for name, labels in flat.items()}
    for name, kind in kinds.items():
        if kind != kinds[first_name]:
            raise ValueError(
                f"{first_name} holds {kinds[first_name]} and {name} holds {kind}, so no label could ever match: "
                "use one kind throughout, for example str(label)"
            )
    labels = sorted(plain_label(label) for label in set(chain.from_iterable(flat.values())))
    code_of = {label: code for code, label in enumerate(labels)}
    codes = {
        name: np.fromiter((code_of[label] for label in values), np.int64, len(values)) for name, values in flat.items()
    }
    return PackedLabels(codes, offsets, labels)


def _list_sequences(sequences: object, name: str) -> list[list]:
    if not is_sequence(sequences) or n_dimensions(sequences) == 0:
        raise TypeError(f"{name} must be a list with one list of labels per sequence, got {type(sequences).__name__}")
    listed = [_list_labels(item, index, name) for index, item in enumerate(sequences)]
    if not listed:
        raise ValueError(f"{name} is empty: evaluation needs at least one sequence")
    return listed


def _list_labels(item: object, index: int, name: str) -> list:
    if isinstance(item, list):
        return item
    if not is_sequence(item):
        raise ValueError(
            f"sequence {index} of {name} is {item!r:.60} ({type(item).__name__}): {name} must be a list with one "
            f"list of labels per sequence; for a single sequence write [{name}], and for samples with one label each, "
            f"as of a classifier, {name}[:, None]"
        )
    if n_dimensions(item) != 1:
        raise ValueError(f"sequence {index} of {name} has shape {item.shape}, expected one label per position")
    return list_entries(item)


def _check_sizes(own: np.ndarray, sizes: np.ndarray, name: str, first_name: str) -> None:
    if len(own) != len(sizes):
        raise ValueError(f"{first_name} has {len(sizes)} sequences but {name} has {len(own)}: they have to match")
    if (wrong := np.flatnonzero(own != sizes)).size:
        index = wrong[0]
        raise ValueError(f"sequence {index} has {sizes[index]} labels in {first_name} but {own[index]} in {name}")
    if (empty := np.flatnonzero(own == 0)).size:
        raise ValueError(f"sequence {empty[0]} of {name} is empty: remove it everywhere")


def _kind(labels: list, offsets: np.ndarray, name: str) -> str:
    """Return "strings" or "numbers"; raise for labels of mixed types."""
    types = set(map(type, labels))
    if all(issubclass(kind, str) for kind in types):
        return "strings"
    if all(issubclass(kind, _WHOLE) for kind in types):
        return "numbers"
    first = _kind_of(labels[0])
    for row, label in enumerate(labels):
        kind = _kind_of(label)
        if kind is None or kind != first:
            sequence, position = locate(offsets, row)
            wanted = "strings, whole numbers or booleans" if kind is None else f"{first} like those before it"
            raise ValueError(
                f"sequence {sequence}, position {position} of {name} is {label!r:.60}: labels have to be {wanted}"
            )
    return str(first)


def _kind_of(label: object) -> str | None:
    if isinstance(label, str):
        return "strings"
    whole = isinstance(label, _WHOLE) or (isinstance(label, float | np.floating) and float(label).is_integer())
    return "numbers" if whole else None


# ---- labels that are partly known


def select_known(y: Any, others: Mapping[str, Any], scheme: str | None) -> tuple[Any, dict[str, Any], str | None]:
    """Select the positions with a known label in y and other lists; return the entity scheme, too.

    Sequences of which nothing is known are left out. ValueError if a scheme of entities is named for labels that are
    partly known.
    """
    if not is_sequence(y) or not any(map(is_partial, y)):
        return y, dict(others), scheme
    if scheme not in (None, "auto"):
        raise ValueError(
            f"scheme={scheme!r}: entities are counted where every label is known, and labels are partly known here"
        )
    single = [single_labels(labels) for labels in y]
    places = [known_places(labels) for labels in single]
    if not any(own.size for own in places):
        raise ValueError(NOTHING_KNOWN)
    sizes = np.array([-1 if labels is None else len(labels) for labels in y])
    chosen = {
        "y_true": [take_entries(labels, where) for labels, where in zip(single, places, strict=True) if where.size]
    }
    for name, values in others.items():
        if not is_sequence(values) or not all(map(is_sequence, values)):
            raise TypeError(f"{name} must hold one list or array for each sequence of y_true, got {values!r:.60}")
        own = np.array([len(labels) for labels in values])
        # None for a whole sequence has no length of its own.
        _check_sizes(own, np.where(sizes < 0, own, sizes) if len(own) == len(sizes) else sizes, name, "y_true")
        chosen[name] = [take_entries(labels, where) for labels, where in zip(values, places, strict=True) if where.size]
    return chosen.pop("y_true"), chosen, None


def known_places(labels: list) -> np.ndarray:
    """Return the positions of a sequence with a known label."""
    return np.array([position for position, label in enumerate(labels) if label is not None], dtype=np.int64)


def take_entries(values: Any, places: Sequence[int] | np.ndarray) -> Any:
    """Select entries of a list, an array, or rows of a data frame."""
    if hasattr(values, "iloc"):
        return values.iloc[places]
    return [values[place] for place in places] if find_shape(values) is None else values[places]
