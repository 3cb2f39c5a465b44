"""SegmentCRF: a semi-Markov kernel conditional random field on sequences, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.reading import plain_label
from kernelfields.data.segments import (
    DurationCliques,
    Segment,
    SegmentedChains,
    check_duration,
    check_least_durations,
    find_begins,
    read_segments,
    segment_bounds,
)
from kernelfields.data.spans import SpanRules
from kernelfields.engines.choice import accept_collections_by_item
from kernelfields.estimators.answering.decisions import ParameterRule
from kernelfields.estimators.answering.formats import AnswerFormat
from kernelfields.estimators.answering.lengths import answer_by_lengths
from kernelfields.estimators.answering.ranked import Condition, ranked_labellings
from kernelfields.estimators.answering.spans import Bounds, SpanReading
from kernelfields.estimators.chain_crf import SequenceField
from kernelfields.estimators.edges import clique_set
from kernelfields.estimators.inspecting.inspection import SequenceInspection
from kernelfields.estimators.questions import Ranked
from kernelfields.inference.answers import Answers
from kernelfields.inference.segments.family import SegmentFamily, SegmentMember
from kernelfields.numerics.parameters import (
    attribute,
    check_count,
    declares_parameters,
    or_auto,
    or_none,
    parameter,
)
from kernelfields.reports.sequences import LabelledSequence
from kernelfields.structures.segments import SegmentStructure, plain_labels

#: Begin, end and label of a segment.
Bounded: TypeAlias = tuple[int, int, Any]


@dataclass(frozen=True)
class SegmentSpans(SpanReading):
    """Segments as spans: each segment is one span."""

    def rules(self, classes: np.ndarray, scheme: str | None, unseen: Sequence = ()) -> tuple[SpanRules, list]:
        """Return which labels belong to one span, and the names of the types; ValueError for a scheme."""
        if scheme not in (None, "auto"):
            raise ValueError(
                f"scheme={scheme!r} is for labels of positions, and segments are entities as they are: leave it out"
            )
        return super().rules(classes, None, unseen)

    def labelled(self, answers: Answers, labels: np.ndarray, rules: SpanRules) -> Bounds:
        """Return starts, stops and types of the segments of data that are entities."""
        begins, ends, _ = answers.data.segments
        return _entities(begins, ends, labels[begins], rules)

    def predicted(self, model: Any, answers: Answers, rules: SpanRules) -> Bounds:
        """Return starts, stops and types of the predicted segments that are entities."""
        decision = model._decision_rule.decision(model, None)
        if decision.jointly:
            labels, mask = _family(answers).best_segmentation(answers.potentials, answers.workers)
        else:  # labels one by one, which are cut as labels without segments are in a fit
            labels, spec = decision.choose(answers), model.field_.spec
            mask = find_begins(labels, answers.family.offsets, spec.max_duration if spec.repeats else None)
        begins, ends = segment_bounds(mask)
        return _entities(begins, ends, labels[begins], rules)


@dataclass(frozen=True)
class SegmentInspection(SequenceInspection):
    """Inspection of fields on segments."""

    @property
    def why_unexplained(self) -> str:
        """Reason: another label at one position would split a segment, which has one score as a whole."""
        return (
            "SegmentCRF has no explanations of single labels: weights() lists its weights, predict_nbest(X, k) the "
            "segmentations that came next"
        )

    def picture(
        self, model: Any, x: object, y: Sequence | None, tokens: Sequence | None, caption: str
    ) -> LabelledSequence:
        """Return the segments of one sequence on a time axis, with the true segments above."""
        truth = None if y is None else plain_labels([y])[0][0]
        segments, marginals = model.predict_segments([x])[0], model.predict_marginals([x])[0]
        labels = read_segments([segments])[0][0]
        return LabelledSequence(labels, marginals, model.classes_.tolist(), tokens, truth, caption, segments)


@declares_parameters
class SegmentCRF(SequenceField):
    """Conditional random field on segments of sequences, with potentials in reproducing kernel Hilbert spaces.

    A sequence is cut into segments (begin, end, label) of at most D positions:

        score = sum over segments [ sum_t f_node(x_t, y) + h(log(end - begin), y) ] + sum over neighbours f_edge(y, y')

    with Gaussian process priors on f_node, h and f_edge. A run of equal labels in ``y`` is a segment; labels may also
    be written as lists of (begin, end, label). Inference is exact and takes O(N L^2 + N L D) time. docs/segments.md.

    Parameters
    ----------
    engine : "auto", "threads", "torch" or Engine, default "auto"
        Where features are kept, and kernels of new data computed; segments are inferred by threads.
    decode : "auto", "viterbi" or "posterior", default "auto"
        How labels are chosen: "auto" and "viterbi" take those of the most probable segmentation, "posterior" the most
        probable label of each position.
    constraints : str, Constraints, dict, iterable of label pairs or None, default None
        What is forbidden between segments, at the ends of sequences, or everywhere; labels of positions that break a
        scheme of entities are mended with a warning.
    edges : EdgeCliques or None, default None
        The transitions between segments; with a kernel they see the inputs where the second begins. What the set leaves
        open is that of the estimator.
    durations : "auto", DurationCliques or None, default "auto"
        The functions of the logarithm of the duration; "auto" is ``DurationCliques("rbf")``, None leaves them out. What
        the set leaves open is that of the estimator.
    max_duration : int or None, default None
        The most positions D of a segment. None is twice the longest segment of the training data, at most the longest
        sequence.
    min_duration : int, dict or None, default None
        The least positions of a segment: one number for all labels, or a dict from labels to numbers, one for labels
        that it does not name. It holds for the first and the last segment of a sequence, too.
    repeats : bool, default False
        Whether a segment may follow one of the same label; then runs longer than ``max_duration`` are cut into pieces.

    Attributes
    ----------
    max_duration_ : int
        The most positions of a segment.
    durations_ : ndarray (D, L) or None
        The scores of durations.

    See Also
    --------
    ChainCRF : Fields on positions.

    References
    ----------
    .. [1] S. Sarawagi and W. W. Cohen, "Semi-Markov conditional random fields for information extraction", NIPS 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import SegmentCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [[(0, 2, "sun"), (2, 4, "rain")], [(0, 2, "rain"), (2, 3, "sun")]]
    >>> crf = SegmentCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> [tuple(segment)[:3] for segment in crf.predict_segments([np.array([[21.0], [20.0], [10.0]])])[0]]
    [(0, 2, 'sun'), (2, 3, 'rain')]
    """

    _kind = "SegmentCRF"
    _structures = SegmentStructure
    _answer_format = AnswerFormat(spans=SegmentSpans())
    _decision_rule = ParameterRule(jointly=True)
    _inspection = SegmentInspection()

    durations: DurationCliques | str | None = parameter("auto", or_auto(clique_set(DurationCliques)))
    max_duration: int | None = parameter(None, or_none(lambda value, name: check_duration(value)))
    min_duration: int | Mapping[Any, int] | None = parameter(None, or_none(check_least_durations))
    repeats: bool = parameter(False)

    durations_: np.ndarray | None = attribute()

    @property
    def max_duration_(self) -> int:
        """Maximal number of positions of a segment."""
        check_is_fitted(self, "field_")
        return self.field_.spec.max_duration

    # ---- answers

    def predict_segments(
        self, X: object, *, known: object = None, lengths: ArrayLike | None = None
    ) -> list[list[Segment]]:
        """Return the most probable segmentation of each sequence.

        Parameters
        ----------
        X : list of sequences
            The sequences, in a form that :meth:`fit` takes.
        known : labels or None, default None
            What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.
        lengths : array (n_items,) or mask (n_items, T), default None
            The lengths of sequences in one array, as for :meth:`fit`.

        Returns
        -------
        list of lists of Segment
            The begin, end (exclusive), label and probability of each segment: that of a segment with this begin, end
            and label among all segmentations.

        See Also
        --------
        predict_nbest : Return the most probable segmentations.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import SegmentCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
        >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
        >>> crf = SegmentCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
        >>> for segment in crf.predict_segments([np.array([[21.0], [20.0], [10.0]])])[0]:
        ...     print(segment.begin, segment.end, segment.label, round(segment.probability, 2))
        0 2 sun 0.4
        2 3 rain 0.47
        """
        if lengths is not None:
            return answer_by_lengths(SegmentCRF.predict_segments, self, X, lengths, known=known)
        check_is_fitted(self, "field_")
        found: list[list[Segment]] = []
        for answers in self.answers(X, known=known):
            if not answers.data.n_positions:
                found += [[] for _ in answers.requested.lengths]
                continue
            labels, mask = _family(answers).best_segmentation(answers.potentials, answers.workers)
            begins, ends = segment_bounds(mask)
            member = answers.member
            assert isinstance(member, SegmentMember)
            chances = np.exp(np.minimum(member.segment_log_probabilities(begins, ends, labels[begins]), 0.0))
            places = iter(chances.tolist())
            for segments in self._format_segments(answers.requested, labels, mask):
                found.append([Segment(*bounds, next(places)) for bounds in segments])
        return found

    def _format_segments(self, data: SegmentedChains, labels: np.ndarray, mask: np.ndarray) -> list[list[Bounded]]:
        """Convert labels (N,) and a mask of begins to (begin, end, label) for each sequence."""
        return [self._decode_segments(labels[a:b], mask[a:b]) for a, b in pairwise(data.offsets.tolist())]

    @accept_collections_by_item
    def predict_nbest(
        self,
        X: object,
        k: int,
        *,
        segments: bool = False,
        known: object = None,
        where: Condition | None = None,
        max_ranked: int = 1000,
        lengths: ArrayLike | None = None,
    ) -> Ranked:
        """Return the k most probable segmentations of each sequence, with their log-probabilities.

        If segments of one label may follow each other, several segmentations can have the same labels.

        Parameters
        ----------
        X : list of sequences
            The sequences, in a form that :meth:`fit` takes.
        k : int
            The most segmentations of a sequence; there may be fewer.
        segments : bool, default False
            Whether to return lists of (begin, end, label) instead of the labels of positions.
        known : labels or None, default None
            What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.
        where : callable or None, default None
            A condition: a function of the labels of a sequence, or of its segments, as they are returned. Only those
            that it accepts are returned, the most probable of them first; no more are ranked than it takes.
        max_ranked : int, default 1000
            The most labellings of an item that ``where`` sees.
        lengths : array (n_items,) or mask (n_items, T), default None
            The lengths of sequences in one array, as for :meth:`fit`.

        Returns
        -------
        list of lists of (labels, float)
            For each sequence its segmentations, the most probable first, each with its log-probability.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import SegmentCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
        >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
        >>> crf = SegmentCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
        >>> (segments, log_probability), *others = crf.predict_nbest([np.array([[21.0], [10.0]])], 2, segments=True)[0]
        >>> segments
        [(0, 1, 'sun'), (1, 2, 'rain')]
        >>> round(log_probability, 2)
        -0.91
        """
        given: dict[str, Any] = {"known": known, "where": where, "max_ranked": max_ranked}
        if lengths is not None:
            return answer_by_lengths(SegmentCRF.predict_nbest, self, X, lengths, k=k, segments=segments, **given)
        check_is_fitted(self, "field_")
        if not segments:
            return super().predict_nbest(X, k, **given)
        check_count(k, "k")
        check_count(max_ranked, "max_ranked")
        results: Ranked = []
        for batch in self.answers(X, known=known):
            found: Ranked = []
            if batch.data.n_positions:
                found = ranked_labellings(batch, int(k), self._rank_segments, where, max_ranked)
            results += batch.by_item(found, [([], 0.0)])
        return results

    def _rank_segments(self, answers: Answers, size: int) -> Iterator[list[tuple[Any, float]]]:
        """Yield the best segmentations of each sequence, written as segments, with their scores."""
        family = _family(answers)
        labels, masks, scores = family.n_best_segmentations(answers.potentials, size, answers.workers)
        for sequence, (begin, end) in enumerate(pairwise(family.offsets.tolist())):
            count = int(np.isfinite(scores[sequence]).sum())
            rows = zip(labels[:count, begin:end], masks[:count, begin:end], scores[sequence], strict=False)
            yield [(self._decode_segments(row, mask), score) for row, mask, score in rows]

    def _decode_segments(self, labels: np.ndarray, mask: np.ndarray) -> list[Bounded]:
        """Convert labels (T,) of one sequence and a mask of begins to (begin, end, label)."""
        begins, ends = segment_bounds(mask)
        names = [plain_label(label) for label in self.classes_[labels[begins]]]
        return list(zip(begins.tolist(), ends.tolist(), names, strict=True))


def _entities(begins: np.ndarray, ends: np.ndarray, labels: np.ndarray, rules: SpanRules) -> Bounds:
    """Return begins, ends and types of the segments (n,) that are entities."""
    types = rules.types[labels]
    return begins[types >= 0], ends[types >= 0], types[types >= 0]


def _family(answers: Answers) -> SegmentFamily:
    """Return the family of segmentations of answers."""
    assert isinstance(answers.family, SegmentFamily)
    return answers.family
