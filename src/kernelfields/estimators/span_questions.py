"""Questions about spans of a sequence as a whole: entities, runs of one label, segments, and where they begin.

A probability is that of the whole span: that it begins and ends where it does, with its type, and is no part of a
longer one. It is exact (inference/spans.py), and no product of the probabilities of positions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.chains import Chains
from kernelfields.data.reading import plain_label
from kernelfields.engines.choice import answers_collections
from kernelfields.estimators import library
from kernelfields.estimators.questions import ByItem, LabelQuestions
from kernelfields.numerics.parameters import is_real

if TYPE_CHECKING:
    from kernelfields.data.spans import SpanRules
    from kernelfields.inference.answers import Answers


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


class SpanQuestions(LabelQuestions[Chains]):
    """Questions about the spans of sequences; see the module."""

    @abstractmethod
    def decoded(self, answers: Answers, decode: str | None = None) -> np.ndarray:
        """Return the numbers of the predicted labels.

        Parameters
        ----------
        answers : Answers
            The distribution of labels.
        decode : {"auto", "viterbi", "posterior"} or None, default None
            How labels are chosen; None means ``decode`` of the estimator.

        Returns
        -------
        ndarray (N,)
            The numbers of the labels.
        """

    @answers_collections
    def predict_entities(
        self, X: object, *, scheme: str | None = "auto", least: float = 0.05, known: object = None
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

        check_is_fitted(self)
        if not is_real(least) or not 0.0 < least <= 1.0:
            raise ValueError(f"least must be above 0 and at most 1, got {least!r}")
        rules, types = self.span_rules(scheme)
        found: list[list[Entity]] = []
        for answers in self.answers(X, known=known):
            if not answers.data.n_positions:
                found += [[] for _ in answers.asked.lengths]
                continue
            predicted = self.predicted_spans(answers, rules)
            chances = library.span_probabilities(answers, rules, *predicted)
            others = _by_item(answers, library.likely_spans(answers, rules, float(least)), types)
            own = _by_item(answers, library.Spans(*predicted, chances), types)
            found += answers.by_item((_beside(*pair) for pair in zip(own, others, strict=True)), [])
        return found

    @answers_collections
    def predict_boundaries(self, X: object, *, scheme: str | None = "auto", known: object = None) -> ByItem:
        """Return the probability that a span begins, position by position.

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

        check_is_fitted(self)
        rules, _ = self.span_rules(scheme)
        parts = (
            (batch.asked, library.boundary_probabilities(batch, rules) if batch.data.n_positions else np.empty(0))
            for batch in self.answers(X, known=known)
        )
        return self.arranged(parts)

    def span_rules(self, scheme: str | None, unseen: Sequence = ()) -> tuple[SpanRules, list]:
        """Return which labels belong to one span, and the names of the types of spans.

        Parameters
        ----------
        scheme : {"auto", "bio", "iob1", "bioes", "bilou"} or None
            How labels write spans.
        unseen : sequence of labels, default ()
            Labels that were not in the fit; they are numbered after those, which decide the scheme.

        Returns
        -------
        rules : SpanRules
            Which labels begin and continue spans.
        types : list
            The names of the types.
        """

        classes = [plain_label(label) for label in self.classes_]
        if unseen:
            reader = library.entity_reader(scheme, classes)
            scheme = None if reader is None else reader.scheme.name
        return library.span_rules([*classes, *unseen], scheme)

    def labelled_spans(
        self, answers: Answers, labels: np.ndarray, rules: SpanRules
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the spans that the labels of data write.

        Parameters
        ----------
        answers : Answers
            The data.
        labels : array (N,)
            The numbers of their labels.
        rules : SpanRules
            Which labels begin and continue spans.

        Returns
        -------
        starts : ndarray
            The first positions.
        stops : ndarray
            The positions after the last.
        types : ndarray
            The numbers of the types.
        """

        return library.spans_of(labels, answers.family.offsets, rules)

    def predicted_spans(self, answers: Answers, rules: SpanRules) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the spans that are predicted.

        Parameters
        ----------
        answers : Answers
            The distribution of labels.
        rules : SpanRules
            Which labels begin and continue spans.

        Returns
        -------
        starts : ndarray
            The first positions.
        stops : ndarray
            The positions after the last.
        types : ndarray
            The numbers of the types.
        """

        return library.spans_of(self.decoded(answers), answers.family.offsets, rules)


def _by_item(answers: Answers, spans: library.Spans, types: list) -> Iterator[list[Entity]]:
    """Yield the spans of each item that has positions, counted from its first one."""
    offsets = answers.family.offsets
    columns = [column.tolist() for column in spans]
    for (first, _), (begin, end) in zip(
        pairwise(offsets.tolist()), pairwise(np.searchsorted(spans.starts, offsets).tolist()), strict=True
    ):
        rows = zip(*(column[begin:end] for column in columns), strict=True)
        yield [Entity(types[kind], start - first, stop - first, chance) for start, stop, kind, chance in rows]


def _beside(entities: list[Entity], spans: list[Entity]) -> list[Entity]:
    """Return entities with the other spans that overlap them."""
    found = []
    for entity in entities:
        others = [other for other in spans if other.begin < entity.end and entity.begin < other.end]
        others = [other for other in others if other[:3] != entity[:3]]
        found.append(entity._replace(alternatives=tuple(sorted(others, key=lambda other: -other.probability))))
    return found
