"""Questions about spans: entities, runs of one label, segments, and the probabilities of their begins.

A probability is that of the whole span: that it begins and ends where it does, with its type, and is no part of a
longer one. It is exact (inference/spans.py), and no product of the probabilities of positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelfields.estimators import library
from kernelfields.estimators.answering.formats import ByItem
from kernelfields.numerics.parameters import is_real

if TYPE_CHECKING:
    from kernelfields.data.spans import SpanRules
    from kernelfields.estimators.answering.spans import Bounds


class Entity(NamedTuple):
    """A span of positions with a label, its probability, and the spans that overlap it.

    Parameters
    ----------
    label : object
        The type of the span.
    begin : int
        The first position.
    end : int
        The position after the last.
    probability : float
        The probability of the span.
    alternatives : tuple of Entity, default ()
        The spans that overlap it, the likeliest first; they have none of their own.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> X = [[{"word": "in"}, {"word": "New"}, {"word": "York"}], [{"word": "to"}, {"word": "New"}, {"word": "York"}]]
    >>> y = [["O", "B-city", "I-city"], ["O", "B-city", "I-city"]]
    >>> (entity,) = ChainCRF("linear", prior_variance=10.0).fit(X, y).predict_entities(X[:1])[0]
    >>> entity.label, entity.begin, entity.end
    ('city', 1, 3)
    """

    label: Any
    begin: int
    end: int
    probability: float
    alternatives: tuple[Entity, ...] = ()


def find_entities(model: Any, X: object, scheme: str | None, least: float, known: object) -> list[list[Entity]]:
    """Return the entities of each sequence, with the spans of probability ``least`` that overlap them."""
    check_is_fitted(model)
    check_least(least)
    spans = model._answer_format.spans
    rules, types = spans.rules(model.classes_, scheme)
    found: list[list[Entity]] = []
    for answers in model.answers(X, known=known):
        if not answers.data.n_positions:
            found += [[] for _ in answers.requested.lengths]
            continue
        predicted: Bounds = spans.predicted(model, answers, rules)
        found += answers.by_item(list_entities(answers, predicted, rules, types, float(least)), [])
    return found


def check_least(least: object) -> None:
    """Raise ValueError unless the least probability of alternatives is above 0 and at most 1."""
    if not is_real(least) or not 0.0 < least <= 1.0:
        raise ValueError(f"least must be above 0 and at most 1, got {least!r}")


def list_entities(
    answers: library.Answers, bounds: Bounds, rules: SpanRules, types: list, least: float
) -> Iterator[list[Entity]]:
    """Yield the entities at given bounds in each nonempty item, and overlapping spans."""
    chances = library.span_probabilities(answers, rules, *bounds)
    others = _by_item(answers, library.likely_spans(answers, rules, least), types)
    own = _by_item(answers, library.Spans(*bounds, chances), types)
    return (_add_alternatives(*pair) for pair in zip(own, others, strict=True))


def boundary_shares(model: Any, X: object, scheme: str | None, known: object) -> ByItem:
    """Return the probability of the begin of a span at each position."""
    check_is_fitted(model)
    form = model._answer_format
    rules, _ = form.spans.rules(model.classes_, scheme)
    parts = (
        (batch.requested, library.boundary_probabilities(batch, rules) if batch.data.n_positions else np.empty(0))
        for batch in model.answers(X, known=known)
    )
    return form.arrange(parts)


def _by_item(answers: library.Answers, spans: library.Spans, types: list) -> Iterator[list[Entity]]:
    """Yield the spans of each nonempty item, with positions relative to its first."""
    offsets = answers.family.offsets
    columns = [column.tolist() for column in spans]
    for (first, _), (begin, end) in zip(
        pairwise(offsets.tolist()), pairwise(np.searchsorted(spans.starts, offsets).tolist()), strict=True
    ):
        rows = zip(*(column[begin:end] for column in columns), strict=True)
        yield [Entity(types[kind], start - first, stop - first, chance) for start, stop, kind, chance in rows]


def _add_alternatives(entities: list[Entity], spans: list[Entity]) -> list[Entity]:
    """Return entities with the overlapping spans as alternatives."""
    found = []
    for entity in entities:
        others = [other for other in spans if other.begin < entity.end and entity.begin < other.end]
        others = [other for other in others if other[:3] != entity[:3]]
        found.append(entity._replace(alternatives=tuple(sorted(others, key=lambda other: -other.probability))))
    return found
