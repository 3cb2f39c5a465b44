"""Labels of several annotators, as one table of codes.

    {"anna": y_anna, "ben": y_ben}                         by annotator, each as one would pass it to a fit
    [{"anna": labels, "ben": labels}, ...]                 by sequence
    [array (T, R), ...]                                    by sequence, a column for each annotator, numbered from 0

None (NaN, pandas.NA, an empty text) is a missing label; a whole sequence may be None. Codes (N, R) are indices into the
sorted classes, -1 for missing labels. Cost: O(N R).
Raises ValueError with the annotator and the place for different lengths, for labels of mixed types, for a named
annotator without labels, and for a sequence without labels. A column without labels is allowed, as in a part of the
data.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernelfields.data.given_labels import given_labels
from kernelfields.data.partial_labels import LEAST_SHOWN, SoftTargets
from kernelfields.data.readers import read_labels
from kernelfields.data.reading import (
    SAMPLES,
    SEQUENCES,
    ItemNames,
    check_number,
    is_sequence,
    label_offsets,
    listed,
)
from kernelfields.numerics.containers import has_array, list_entries, n_dimensions
from kernelfields.numerics.sparse_rows import make_offsets

_FORMS = (
    "labels of several annotators are a dict annotator -> labels of all {whole}s, or a list with, for each {whole}, a "
    "dict annotator -> labels or an array with a column per annotator"
)
_SINGLE_FORMS = "labels of several annotators are a dict annotator -> (n,) labels, or an array (n, annotators)"
UNSAID = -1


@dataclass(frozen=True, eq=False)
class Annotations:
    """Annotators, sorted classes (L,), label codes (N, R) and offsets of sequences (S + 1,)."""

    annotators: list[Hashable]
    classes: np.ndarray
    codes: np.ndarray
    offsets: np.ndarray

    @property
    def n_annotators(self) -> int:
        """Number of annotators R."""
        return len(self.annotators)

    @property
    def counts(self) -> np.ndarray:
        """Number of annotators that gave each label at each position, (N, L)."""
        counts = np.zeros((len(self.codes), len(self.classes)))
        for said in self.codes.T:
            rows = np.flatnonzero(said != UNSAID)
            counts[rows, said[rows]] += 1.0
        return counts

    def split(self, rows: Sequence[object] | np.ndarray) -> list:
        """Split an array over positions by sequence."""
        return [rows[begin:end] for begin, end in zip(self.offsets[:-1], self.offsets[1:], strict=True)]


class PresumedLabels(SoftTargets):
    """Log-weights (N, L) of labels at annotated positions, in the form of partial labels.

    Labels that no annotator has given, and overruled ones (:func:`find_shown_labels`), do not count as observed, but
    are not excluded. A position without any annotation is unknown.
    """

    def __init__(self, annotations: Annotations, log_weights: np.ndarray):
        super().__init__(log_weights, classes=annotations.classes)
        said = annotations.counts > 0
        silent = ~said.any(axis=1, keepdims=True)
        partial = log_weights - np.where(said | silent, log_weights, -np.inf).max(axis=1, keepdims=True)
        partial = np.where(said, partial, np.minimum(partial, np.log(LEAST_SHOWN) - 1.0))
        self._partial = np.where(silent, 0.0, partial)
        self._lengths = np.diff(annotations.offsets)

    def __len__(self) -> int:
        return len(self._lengths)

    def read(
        self, classes: Iterable | None, lengths: np.ndarray | None, nouns: ItemNames
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the most probable labels (N,), log-weights (N, L) and the sorted classes."""
        check_number(len(self), lengths, nouns)
        label_offsets(self._lengths.tolist(), lengths, nouns)
        return self._partial.argmax(axis=1), self._partial, np.asarray(self.classes)


@dataclass(frozen=True)
class _AnnotatorLabels(ItemNames):
    """Places of labels in messages, for labels ordered by annotator.

    ``rows`` are the positions of what each of them said.
    """

    names: tuple[Hashable, ...] = ()
    offsets: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    inner: ItemNames = SEQUENCES
    rows: tuple[np.ndarray, ...] = ()

    def name(self, index: int) -> str:
        return f"annotator {self.names[index]!r}"

    def place(self, offsets: np.ndarray, row: int) -> str:
        ends = np.cumsum([len(rows) for rows in self.rows])
        place = int(np.concatenate(self.rows)[row])
        name = self.names[int(np.searchsorted(ends, row, side="right"))]
        return f"{self.inner.place(self.offsets, place)}, of annotator {name!r}"


def read_annotations(
    y: object, *, single: bool = False, classes: Iterable | None = None, annotators: Sequence[Hashable] | None = None
) -> Annotations:
    """Read the labels of annotators; ``single`` for samples with one label each.

    ``classes`` are all labels there are, None for those that somebody said. ``annotators`` are those that are known
    from a fit: they may be silent here, and there are no others.
    """
    nouns = SAMPLES if single else SEQUENCES
    columns = _group_by_annotator(y, single)
    if not columns:
        raise ValueError(f"y names no annotator: {_find_forms(single)}")
    silent_allowed = annotators is not None or not _has_names(y, single)
    if annotators is not None:
        if strangers := [name for name in columns if name not in annotators]:
            raise ValueError(f"annotator {strangers[0]!r} was not there in the fit: known are {listed(annotators)}")
        columns = {name: columns[name] for name in annotators if name in columns}
    offsets = make_offsets(_find_lengths(columns, nouns))
    # Most annotators say nothing of most sequences.
    spoke = {name: [index for index, own in enumerate(labels) if own is not None] for name, labels in columns.items()}
    speaking = [name for name, items in spoke.items() if items]
    rows = [np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in spoke[name]]) for name in speaking]
    speakers = _AnnotatorLabels("annotator", names=tuple(speaking), offsets=offsets, inner=nouns, rows=tuple(rows))
    said, known = _encode([_flatten(columns[name], spoke[name]) for name in speaking], classes, speakers)
    names = list(columns if annotators is None else annotators)
    codes = np.full((len(names), int(offsets[-1])), UNSAID)
    for name, places, own in zip(speaking, rows, said, strict=True):
        codes[names.index(name), places] = own
    for name, own in zip(names, codes, strict=True):
        if not silent_allowed and not np.any(own != UNSAID):
            raise ValueError(f"annotator {name!r} labelled nothing: leave this annotator out")
    return Annotations(names, known, codes.T, offsets)


def are_annotations(y: object, *, single: bool = False) -> bool:
    """Whether y has the form of labels by several annotators."""
    if _has_names(y, single):
        return True
    first = y if single else next(iter(y), None) if is_sequence(y) else None
    return n_dimensions(first) == 2 or (is_sequence(first) and any(is_sequence(entry) for entry in first))


def _has_names(y: object, single: bool) -> bool:
    by_item = not single and is_sequence(y) and any(isinstance(item, Mapping) for item in y)
    return isinstance(y, Mapping) or by_item


def _find_forms(single: bool) -> str:
    return _SINGLE_FORMS if single else _FORMS.format(whole="sequence")


def _group_by_annotator(y: object, single: bool) -> dict[Hashable, list]:
    """Group labels by annotator, as a list of sequences each; samples with single labels are one sequence."""
    if isinstance(y, Mapping):
        if single:
            return {name: [labels] for name, labels in y.items()}
        for name, labels in y.items():
            if not is_sequence(labels):
                raise ValueError(
                    f"annotator {name!r} has {labels!r:.60}, not a list of sequences: {_find_forms(single)}"
                )
        return {name: list(labels) for name, labels in y.items()}
    if single:
        return dict(enumerate([column] for column in _make_table(y, "y", single).T.tolist()))
    if not is_sequence(y) or not len(y):
        raise ValueError(f"y is {y!r:.60}: {_find_forms(single)}")
    sequences: list[Mapping] = []
    for index, item in enumerate(y):
        if isinstance(item, Mapping):
            sequences.append(item)
        else:
            table = _make_table(item, f"sequence {index} of y", single)
            if sequences and len(sequences[0]) != table.shape[1]:
                raise ValueError(
                    f"sequence {index} of y has {table.shape[1]} columns of annotators, sequence 0 has "
                    f"{len(sequences[0])}: every sequence needs a column for each, None where one said nothing"
                )
            sequences.append(dict(enumerate(table.T.tolist())))
    names = list(dict.fromkeys(name for item in sequences for name in item))
    return {name: [item.get(name) for item in sequences] for name in names}


def _make_table(item: object, where: str, single: bool) -> np.ndarray:
    if not has_array(item):
        rows = list(item) if is_sequence(item) else [item]
        table = np.empty((len(rows), len(rows[0]) if rows and is_sequence(rows[0]) else 0), dtype=object)
        for index, row in enumerate(rows):
            if not is_sequence(row) or len(row) != table.shape[1]:
                raise ValueError(f"{where} is no table with a column for each annotator: {_find_forms(single)}")
            table[index] = list(row)
    else:
        table = np.asarray(item, dtype=object)
    if table.ndim != 2 or not table.size:
        raise ValueError(
            f"{where} has the shape {table.shape}, expected a column for each annotator: {_find_forms(single)}"
        )
    return table


def _find_lengths(columns: Mapping[Hashable, list], nouns: ItemNames) -> np.ndarray:
    """Return the length of each sequence; ValueError if annotators disagree."""
    counts = {name: len(labels) for name, labels in columns.items()}
    first = next(iter(counts))
    for name, count in counts.items():
        if count != counts[first]:
            raise ValueError(
                f"annotator {name!r} has {count} {nouns.whole}s and {first!r} has {counts[first]}: each annotator "
                f"needs an entry for every {nouns.whole}, None where nothing of it was labelled"
            )
    lengths = []
    for index in range(counts[first]):
        said = {name: labels[index] for name, labels in columns.items() if labels[index] is not None}
        if not said:
            raise ValueError(f"nobody labelled {nouns.name(index)}: it carries no information, leave it out of X and y")
        for name, labels in said.items():
            if not is_sequence(labels):
                raise ValueError(f"annotator {name!r} has {labels!r:.60} for {nouns.name(index)}, not a list of labels")
        sizes = {name: len(labels) for name, labels in said.items()}
        speaker, size = next(iter(sizes.items()))
        for name, own in sizes.items():
            if own != size:
                raise ValueError(
                    f"annotator {name!r} has {own} labels for {nouns.name(index)} and {speaker!r} has {size}: each "
                    f"{nouns.part} needs one, None where nothing was said"
                )
        lengths.append(size)
    return np.array(lengths, dtype=np.int64)


def _flatten(labels: list, items: list[int]) -> list:
    """Concatenate the labels of one annotator over the labelled sequences."""
    flat = [label for item in items for label in list_entries(labels[item])]
    # Tables of annotators have an empty cell where one said nothing.
    return [None if isinstance(label, str) and not label.strip() else label for label in flat]


def _encode(
    flat: list[list], classes: Iterable | None, speakers: _AnnotatorLabels
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the label codes of each annotator, and the sorted classes."""
    labels, partial, known = read_labels(flat, classes, np.array([len(labels) for labels in flat]), speakers)
    given = given_labels(labels, partial)
    said = given.informative()
    several = np.flatnonzero(said & ~given.certain())
    if several.size:
        place = speakers.place(speakers.offsets, int(several[0]))
        raise ValueError(f"sets and weights of labels are not for annotators, at {place}: give a label, or None")
    labels = np.where(said, labels, UNSAID)
    return np.split(labels, np.cumsum([len(own) for own in flat])[:-1]), known
