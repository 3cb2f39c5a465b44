"""Scores at which the prediction set of an item loses a true label, entity or labelling.

    positions    the marginal of each true label, at positions whose label is known
    labellings   -log p(y | x) of the true labelling
    entities     the probability of each true entity

Cost: that of the answers. Raises ValueError if required labels are unknown, or inference is approximate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kernelfields.data.partial_labels import replace_unseen
from kernelfields.data.reading import listed, plain_label
from kernelfields.estimators.answering.formats import get_answer_format
from kernelfields.estimators.answering.spans import SpanReading
from kernelfields.estimators.questions import LabelField
from kernelfields.inference.answers import Answers
from kernelfields.inference.choice import refuse_approximate
from kernelfields.inference.spans import span_probabilities
from kernelfields.numerics.sparse_rows import make_offsets
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.selection.held_out import unwrap_fitted_field

POSITIONS, LABELLINGS, ENTITIES = "positions", "labellings", "entities"
#: Spans that are less probable are never listed.
LEAST_SPAN = 1e-3


#: Labels that the fit never saw, by packed position.
Unseen: TypeAlias = dict[int, Any]


class Events(NamedTuple):
    """Scores (M,) of events with their items and labels (or entity types); lengths of n items, (n,).

    ``likeliest`` (M,): of positions, whether the true label is the most probable one; else None.
    """

    scores: np.ndarray
    items: np.ndarray
    kinds: np.ndarray
    lengths: np.ndarray
    likeliest: np.ndarray | None = None

    def increments(self, by_kind: bool = False) -> np.ndarray:
        """Return the increase of the loss of an item, or of its kind, at each event."""
        cells = self.items * (int(self.kinds.max(initial=0)) + 1) + self.kinds if by_kind else self.items
        _, place, counts = np.unique(cells, return_inverse=True, return_counts=True)
        return 1.0 / counts[place]


def concatenate_events(parts: Sequence[Events]) -> Events:
    """Concatenate the events of all batches."""
    first = make_offsets(np.array([len(part.lengths) for part in parts]))
    moved = [part._replace(items=part.items + begin) for part, begin in zip(parts, first, strict=False)]
    scores, items, kinds, lengths = map(np.concatenate, zip(*(part[:4] for part in moved), strict=True))
    likeliest = [part.likeliest for part in moved if part.likeliest is not None]
    return Events(scores, items, kinds, lengths, np.concatenate(likeliest) if likeliest else None)


def find_answers(
    model: object, X: Any, y: Any = None, *, labelled: bool = False
) -> tuple[LabelField, Iterator[Answers]]:
    """Return the field of a model and its answers for batches of data; TypeError for other models.

    ``find_labelled_answers``: with labels, which are y or a column of X; ValueError if there are none.
    """
    field, X, y = unwrap_fitted_field(model, X, y, labelled=labelled)
    if labelled and y is None:
        raise ValueError("y is None: calibration needs labels")
    return field, field.answers(X, y)


def find_labelled_answers(
    model: object, X: Any, y: Any
) -> tuple[LabelField, Iterator[tuple[Answers, Unseen]], Counter]:
    """Return the field of a model, its answers for labelled batches, and the labels unknown to it.

    A class of the field stands in their place, and each batch has the packed positions and labels where it does so.
    """
    field, X, y = unwrap_fitted_field(model, X, y, labelled=True)
    if y is None:
        raise ValueError("y is None: calibration needs labels")
    y, unseen = replace_unseen(y, field.classes_, plain_label(np.ravel(field.classes_)[0]))
    labels = Counter(label for _, _, label in unseen)

    def iterate_batches() -> Iterator[tuple[Answers, Unseen]]:
        first, left = 0, unseen
        for answers in field.answers(X, y):
            offsets, end = make_offsets(answers.requested.lengths), first + len(answers.requested.lengths)
            own = {int(offsets[item - first]) + row: label for item, row, label in left if item < end}
            yield answers, own
            first, left = end, [place for place in left if place[0] >= end]

    return field, iterate_batches(), labels


def list_kinds(field: LabelField, target: str, scheme: str | None) -> list:
    """Return the names of the labels of a field, or of the types of its entities."""
    if target == ENTITIES:
        return get_span_reader(field).rules(field.classes_, scheme)[1]
    return [plain_label(label) for label in get_answer_format(field).labels(field)]


def get_span_reader(field: LabelField) -> SpanReading:
    """Return a reader of spans from the labels of a field; TypeError unless it labels sequences."""
    spans = get_answer_format(field).spans
    if spans is None:
        raise TypeError(f"target={ENTITIES!r} is for sequences, and {type(field).__name__} labels none")
    return spans


def find_events(model: object, X: Any, y: Any, target: str, scheme: str | None) -> tuple[Events, list]:
    """Return the events of labelled items, and the names of their kinds."""
    field, batches, unseen = find_labelled_answers(model, X, y)
    found = (compute_events(field, batch, target, scheme, own) for batch, own in batches)
    parts = [part for part in found if part is not None]
    if not parts:
        raise ValueError("there are no calibration items with positions")
    events = concatenate_events(parts)
    if unseen:
        strange = f"y holds labels that the fit never saw, {listed(sorted(unseen))} at {unseen.total()} positions"
        if np.isneginf(events.scores).all():
            raise ValueError(f"{strange}, and no others: it saw {listed(field.classes_)}")
        warn_user(f"{strange}: no set can hold them, and they count as missed", UserWarning)
    return events, list_kinds(field, target, scheme)


def compute_events(
    field: LabelField, answers: Answers, target: str, scheme: str | None, unseen: Unseen | None = None
) -> Events | None:
    """Compute the events of a batch of labelled items; None without positions.

    No set holds what is ``unseen``: its score is minus infinity, of labellings infinity, its kind beyond all others.
    """
    if not answers.data.n_positions:
        return None
    if target == POSITIONS:
        return _position_events(answers, unseen or {})
    if target == LABELLINGS:
        return _labelling_events(answers, unseen or {})
    return _span_events(field, answers, scheme, unseen or {})


def find_true_parts(
    field: LabelField, answers: Answers, target: str, scheme: str | None, unseen: Unseen
) -> Iterator[tuple[int, int, list[tuple[Any, Hashable, bool]]]]:
    """Yield the numbers of items, their lengths, and the true labels, entities or labellings.

    Each truth with its label or type, and whether the fit has seen all its labels.

    Written as prediction sets hold it: (position, label), the labels, or (type, begin, end). Items of which nothing is
    known are left out.
    """
    if not answers.data.n_positions:
        return
    offsets, asked = answers.family.offsets, np.flatnonzero(answers.requested.lengths)
    names, labels = list_kinds(field, target, scheme), answers.data.labels
    if target == POSITIONS:
        starts = find_known_positions(answers)
        kinds, stops = [unseen.get(row, names[labels[row]]) for row in starts.tolist()], starts + 1
    elif target == LABELLINGS:
        _check_labels(answers, target)
        starts, stops, kinds = offsets[:-1], offsets[1:], [None] * (len(offsets) - 1)
    else:
        starts, stops, kinds = _find_true_spans(field, answers, scheme, unseen)
    rows = list(zip(starts.tolist(), stops.tolist(), kinds, strict=True))
    ends = np.searchsorted(starts, offsets).tolist()
    for item, (begin, end) in enumerate(pairwise(offsets.tolist())):
        own = rows[ends[item] : ends[item + 1]]
        parts: list[tuple[Any, Hashable, bool]] = []
        for start, stop, kind in own:
            written: Hashable = kind, start - begin, stop - begin
            if target == POSITIONS:
                written = start - begin, kind
            elif target == LABELLINGS:
                written = tuple(unseen.get(row, names[labels[row]]) for row in range(begin, end))
            parts.append((kind, written, unseen.keys().isdisjoint(range(start, stop))))
        if parts or target != POSITIONS:
            yield int(asked[item]), end - begin, parts


def _check_labels(answers: Answers, target: str) -> np.ndarray:
    """Return labels (N,); ValueError for unknown labels."""
    given = answers.data.given
    given.check_complete(f"target={target!r} needs all labels of the calibration items, and some are not known")
    return given.numbers


def find_known_positions(answers: Answers) -> np.ndarray:
    """Return the positions with a known label."""
    return np.flatnonzero(answers.data.given.certain())


def _position_events(answers: Answers, unseen: Unseen) -> Events:
    offsets, known = answers.family.offsets, find_known_positions(answers)
    items, kinds = np.searchsorted(offsets, known, side="right") - 1, answers.data.labels[known]
    has = np.bincount(items, minlength=len(offsets) - 1) > 0  # an item of which nothing is known has nothing to lose
    scores, likeliest = answers.marginals[known, kinds], answers.marginals[known].argmax(axis=1) == kinds
    lost = np.isin(known, list(unseen))
    scores[lost], likeliest[lost], kinds[lost] = -np.inf, False, answers.family.n_labels
    return Events(scores, (np.cumsum(has) - 1)[items], kinds, np.diff(offsets)[has], likeliest)


def _labelling_events(answers: Answers, unseen: Unseen) -> Events:
    refuse_approximate(answers.family, "a set of labellings")
    _check_labels(answers, LABELLINGS)
    scores = answers.log_partition - answers.label_scores(answers.data.labelling)
    scores[answers.family.position_items[list(unseen)]] = np.inf
    items = np.arange(answers.family.n_items)
    return Events(scores, items, np.zeros_like(items), np.diff(answers.family.offsets))


def _find_true_spans(
    field: LabelField, answers: Answers, scheme: str | None, unseen: Unseen
) -> tuple[np.ndarray, np.ndarray, list]:
    """Return starts, stops and type names of the true spans, including types unknown to the field."""
    spans, strange = get_span_reader(field), sorted(set(unseen.values()))
    rules, types = spans.rules(field.classes_, scheme, strange)
    labels = _check_labels(answers, ENTITIES).copy()
    for row, label in unseen.items():
        labels[row] = len(field.classes_) + strange.index(label)
    starts, stops, kinds = spans.labelled(answers, labels, rules)
    return starts, stops, [types[kind] for kind in kinds.tolist()]


def _span_events(field: LabelField, answers: Answers, scheme: str | None, unseen: Unseen) -> Events:
    offsets, (rules, names) = answers.family.offsets, get_span_reader(field).rules(field.classes_, scheme)
    starts, stops, true_types = _find_true_spans(field, answers, scheme, unseen)
    strange = np.zeros(answers.data.n_positions + 1, dtype=np.int64)
    strange[[row + 1 for row in unseen]] = 1
    seen = np.diff(np.cumsum(strange)[np.stack([starts, stops])], axis=0)[0] == 0
    kinds = np.array([names.index(kind) if kind in names else len(names) for kind in true_types], dtype=np.int64)
    items, scores = np.searchsorted(offsets, starts, side="right") - 1, np.full(len(starts), -np.inf)
    scores[seen] = span_probabilities(answers, rules, starts[seen], stops[seen], kinds[seen])
    return Events(scores, items, kinds, np.diff(offsets))
