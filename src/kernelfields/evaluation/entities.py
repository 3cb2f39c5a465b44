"""Entities encoded by labels, and counts of found entities.

    position t goes on with the entity of t - 1  <=>  tag(t - 1) in {B, I}, tag(t) in {I, E, L}, same type

Every other position that is not O begins an entity. These are the rules of conlleval, which accept both "bio" and
"iob1", and labels that violate their scheme: I-X after O begins an entity. An entity is
found if one with the same first position, last position and type is predicted. seqeval in its default mode gives
the same figures; it does not support "bilou", which is read here as "bioes" with other letters.

Arrays: starts, stops, types (E,) of E entities in packed positions. Cost: O(N), without loops over positions.
Raises ValueError naming a label that does not fit the scheme.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kernelfields.data.constraints import Scheme, find_scheme
from kernelfields.data.label_notations import recognize_scheme
from kernelfields.data.reading import plain_label
from kernelfields.data.spans import SpanRules, find_spans, rules_of_scheme
from kernelfields.evaluation.label_scores import Counts, check_average, total_f1
from kernelfields.evaluation.packed_labels import PackedLabels, pack_labels

#: The label of positions that belong to no entity.
OUTSIDE = "O"


class Span(NamedTuple):
    """An entity: ``labels[start:stop]`` are its labels.

    Parameters
    ----------
    type : str
        The type.
    start : int
        The first position.
    stop : int
        The position after the last.

    Examples
    --------
    >>> from kernelfields.evaluation import entity_spans
    >>> entity_spans(["O", "B-PER", "I-PER"])[0].type
    'PER'
    """

    type: str
    start: int
    stop: int


class PackedSpans(NamedTuple):
    """Entities of packed labels: begins, ends and type codes, (E,) each."""

    starts: np.ndarray
    stops: np.ndarray
    types: np.ndarray


class EntityReader:
    """A reader of entities from codes of labels in a scheme; ``types`` are the sorted entity types."""

    def __init__(self, scheme: Scheme, labels: list):
        self.scheme = scheme
        #: Which labels belong to one entity, and their types.
        self.rules, self.types = rules_of_scheme(scheme, labels)

    def spans(self, codes: np.ndarray, offsets: np.ndarray) -> PackedSpans:
        """Return the entities of the sequences."""
        return PackedSpans(*find_spans(codes, offsets, self.rules))


def entity_reader(scheme: str | Scheme | None, labels: list) -> EntityReader | None:
    """Return a reader for a scheme; None without a scheme, or for "auto" if labels match no scheme."""
    if scheme is None or isinstance(scheme, Scheme):
        found = scheme
    else:
        found = recognize_scheme(labels) if scheme == "auto" else find_scheme(scheme)
    return None if found is None else EntityReader(found, labels)


def span_rules(classes: Iterable, scheme: str | Scheme | None = "auto") -> tuple[SpanRules, list]:
    """Return the label pairs within spans, and the type names, of a scheme or of plain labels.

    Labels that follow no scheme are types of their own, ``"O"`` is outside, and spans are runs of one label.
    """
    labels = [plain_label(label) for label in classes]
    reader = entity_reader(scheme, labels)
    if reader is not None:
        return reader.rules, reader.types
    types = [label for label in labels if label != OUTSIDE]
    numbers = np.array([types.index(label) if label != OUTSIDE else -1 for label in labels])
    return SpanRules(numbers, *np.ones((2, len(labels)), dtype=bool)), types


def _reader(scheme: str | None, labels: list) -> EntityReader:
    reader = entity_reader(scheme, labels)
    if reader is None:
        shown = ", ".join(map(repr, labels[:10])) + (" and more" if len(labels) > 10 else "")
        raise ValueError(
            f"scheme={scheme!r} finds no entities in the labels {shown}: name a scheme, with labels such as 'B-NP'"
        )
    return reader


def entity_counts(packed: PackedLabels, reader: EntityReader, predicted: str = "y_pred") -> Counts:
    """Count entities by sequence and type."""
    true, guessed = (reader.spans(packed.codes[name], packed.offsets) for name in ("y_true", predicted))
    stop, kind = np.zeros(packed.n_positions, dtype=np.int64), np.zeros(packed.n_positions, dtype=np.int64)
    stop[true.starts], kind[true.starts] = true.stops, true.types
    found = (stop[guessed.starts] == guessed.stops) & (kind[guessed.starts] == guessed.types)
    groups = ((guessed.starts[found], guessed.types[found]), (guessed.starts, guessed.types), (true.starts, true.types))
    return Counts(np.stack([packed.count(where, types, len(reader.types)) for where, types in groups], axis=1))


def entity_spans(labels: Sequence[object] | np.ndarray, scheme: str = "bio") -> list[Span]:
    """Return the entities of one sequence of labels, in order.

    Parameters
    ----------
    labels : sequence of str
        The labels.
    scheme : {"bio", "iob1", "bioes", "bilou", "auto"}, default "bio"
        How labels write entities; "auto" guesses it from the labels.

    Returns
    -------
    list of Span
        The entities.

    Examples
    --------
    >>> from kernelfields.evaluation import entity_spans
    >>> entity_spans(["O", "B-PER", "I-PER", "B-LOC"])
    [Span(type='PER', start=1, stop=3), Span(type='LOC', start=3, stop=4)]
    """
    if not len(labels):
        return []
    packed = pack_labels(labels=[labels])
    reader = _reader(scheme, packed.labels)
    spans = reader.spans(packed.codes["labels"], packed.offsets)
    columns = (spans.types.tolist(), spans.starts.tolist(), spans.stops.tolist())
    return [Span(reader.types[kind], start, stop) for kind, start, stop in zip(*columns, strict=True)]


def entity_f1_score(y_true: object, y_pred: object, *, scheme: str = "bio", average: str = "micro") -> float:
    """Return the F1 of entities with the right positions and type.

    Parameters
    ----------
    y_true : list of label sequences
        The true labels.
    y_pred : list of label sequences
        The predicted labels.
    scheme : {"bio", "iob1", "bioes", "bilou", "auto"}, default "bio"
        How labels write entities.
    average : {"micro", "macro", "weighted"}, default "micro"
        The average over types; "micro" is the figure of conlleval.

    Returns
    -------
    float
        F1, 0 if there is no entity in either.

    Examples
    --------
    >>> from kernelfields.evaluation import entity_f1_score
    >>> round(entity_f1_score([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "O", "O"]]), 3)
    0.667
    """
    check_average(average)
    packed = pack_labels(y_true=y_true, y_pred=y_pred)
    reader = _reader(scheme, packed.labels)
    return total_f1(entity_counts(packed, reader), average)
