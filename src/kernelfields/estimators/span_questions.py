"""Questions about spans: entities, runs of one label, segments, and the probabilities of their begins.

A probability is that of the whole span: that it begins and ends where it does, with its type, and is no part of a
longer one. It is exact (inference/spans.py), and no product of the probabilities of positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelfields.engines.choice import accept_collections_by_item
from kernelfields.estimators import library
from kernelfields.estimators.answering.formats import ByItem
from kernelfields.estimators.answering.lengths import answer_by_lengths
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


@accept_collections_by_item
def predict_entities(
    self: Any,
    X: object,
    *,
    scheme: str | None = "auto",
    least: float = 0.05,
    known: object = None,
    lengths: ArrayLike | None = None,
) -> list[list[Entity]]:
    """Return the entities of each sequence.

    They are those of :meth:`predict`. The probability of an entity is that of the whole span among all labellings:
    that it begins and ends where it does, with its type. It is exact.

    Parameters
    ----------
    X : inputs
        Sequences, graphs or rows, in a form that :meth:`fit` takes.
    scheme : {"auto", "bio", "iob1", "bioes", "bilou"} or None, default "auto"
        How labels write entities; "auto" guesses it. Without a scheme an entity is a run of one label other than
        "O", for a SegmentCRF a segment.
    least : float, default 0.05
        The least probability of alternatives, which are spans that overlap an entity.
    known : labels or None, default None
        What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.
    lengths : array (n_items,) or mask (n_items, T), default None
        The lengths of sequences in one array, as for :meth:`fit`.

    Returns
    -------
    list of lists of Entity
        For each sequence its entities: label, begin, end (exclusive), probability, alternatives.

    See Also
    --------
    predict_boundaries : Return the probability that a span begins.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> X = [["Ada", "Byron", "met", "Bob"], ["Bob", "slept"], ["Eve", "slept"]]
    >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["B-PER", "O"], ["B-PER", "O"]]
    >>> crf = ChainCRF(prior_variance=1.0, constraints="bio", random_state=0).fit(X, y)
    >>> for entity in crf.predict_entities([["Ada", "Byron", "slept"]])[0]:
    ...     print(entity.label, entity.begin, entity.end, round(entity.probability, 2))
    PER 0 2 0.81
    """
    if lengths is not None:
        given: dict[str, Any] = {"scheme": scheme, "least": least, "known": known}
        return answer_by_lengths(predict_entities, self, X, lengths, **given)
    check_is_fitted(self)
    check_least(least)
    spans = self._answer_format.spans
    rules, types = spans.rules(self.classes_, scheme)
    found: list[list[Entity]] = []
    for answers in self.answers(X, known=known):
        if not answers.data.n_positions:
            found += [[] for _ in answers.requested.lengths]
            continue
        predicted: Bounds = spans.predicted(self, answers, rules)
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


@accept_collections_by_item
def predict_boundaries(
    self: Any, X: object, *, scheme: str | None = "auto", known: object = None, lengths: ArrayLike | None = None
) -> ByItem:
    """Return the probability of the begin of a span at each position.

    Spans are those of :meth:`predict_entities`; without a scheme they are runs of one label.

    Parameters
    ----------
    X : inputs
        Sequences, graphs or rows, in a form that :meth:`fit` takes.
    scheme : {"auto", "bio", "iob1", "bioes", "bilou"} or None, default "auto"
        How labels write entities; "auto" guesses it. Without a scheme an entity is a run of one label other than
        "O", for a SegmentCRF a segment.
    known : labels or None, default None
        What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.
    lengths : array (n_items,) or mask (n_items, T), default None
        The lengths of sequences in one array, as for :meth:`fit`.

    Returns
    -------
    list of arrays (T,)
        The probabilities of each sequence.

    See Also
    --------
    predict_entities : Return the spans with their probabilities.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> X = [["Ada", "Byron", "met", "Bob"], ["Bob", "slept"], ["Eve", "slept"]]
    >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["B-PER", "O"], ["B-PER", "O"]]
    >>> crf = ChainCRF(prior_variance=1.0, constraints="bio", random_state=0).fit(X, y)
    >>> crf.predict_boundaries([["Ada", "Byron", "slept"]])[0].round(2)
    array([0.97, 0.1 , 0.03])
    """
    if lengths is not None:
        return answer_by_lengths(predict_boundaries, self, X, lengths, scheme=scheme, known=known)
    check_is_fitted(self)
    form = self._answer_format
    rules, _ = form.spans.rules(self.classes_, scheme)
    parts = (
        (batch.requested, library.boundary_probabilities(batch, rules) if batch.data.n_positions else np.empty(0))
        for batch in self.answers(X, known=known)
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
