"""Segments of chains: their begins, labels written as segments, and clique sets of durations.

    positions     a a a b b c c c c
    begins        1 0 0 1 0 1 0 0 0          segments (0, 3, a), (3, 5, b), (5, 9, c)

Labels of positions are cut where they change. Where neighbouring segments may have the same label, a run that is
longer than the longest segment is cut into as many as it needs; labels written as segments, (begin, end,
label), are cut as written.

DurationCliques are the scores h(d, y) of segments of d positions and label y, d = 1 .. D: functions of log d in the
RKHS of a kernel, one for each label or one that all labels share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from kernelfields.data.chains import Chains, Packed
from kernelfields.data.cliques import CliquesEverywhere
from kernelfields.data.partial_labels import LabelWeights, as_log_weights
from kernelfields.numerics.docstrings import complete_docstring
from kernelfields.numerics.parameters import check_count, is_whole
from kernelfields.numerics.registry import SETTINGS

#: Name of the potentials of durations, where sets of cliques name what they score.
DURATION = "duration"


class Segment(NamedTuple):
    """A segment of positions begin .. end - 1, with its label and probability.

    Parameters
    ----------
    begin : int
        The first position.
    end : int
        The position after the last.
    label : object
        The label.
    probability : float
        The probability of the segment.

    Examples
    --------
    >>> from kernelfields import SegmentCRF
    >>> X, y = [[[0.0], [0.1], [1.0]], [[0.0], [1.0], [0.9]]], [["a", "a", "b"], ["a", "b", "b"]]
    >>> crf = SegmentCRF("linear", prior_variance=10.0, scale=False).fit(X, y)
    >>> first = crf.predict_segments(X[:1])[0][0]
    >>> first.begin, first.end, first.label
    (0, 2, 'a')
    """

    begin: int
    end: int
    label: object
    probability: float


class Segmentation(NamedTuple):
    """Labels of positions (N,) and a mask (N,) of segment begins, first positions of sequences included."""

    labels: np.ndarray
    begins: np.ndarray


@SETTINGS.register("duration cliques")
@complete_docstring
@dataclass(eq=False, repr=False)
class DurationCliques(CliquesEverywhere):
    """The duration of a segment and its label, with a kernel on the logarithm of the duration.

    Parameters
    ----------
    kernel : str, Kernel, callable or scikit-learn kernel, default "rbf"
        The kernel on the logarithm of the duration.
    max_duration : int, default 1
        The longest duration D; it is set by a SegmentCRF.
    shared : bool, default False
        Whether all labels have one function of the duration.

    See Also
    --------
    kernelfields.SegmentCRF : The field on segments.

    Examples
    --------
    >>> import numpy as np
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> from kernelfields import SegmentCRF
    >>> from kernelfields.data import DurationCliques
    >>> crf = SegmentCRF("rbf", durations=DurationCliques(shared=True), prior_variance=1.0, random_state=0).fit(X, y)
    >>> crf.durations_.shape
    (4, 2)
    """

    group = DURATION
    of_segments = True
    sees_data = False

    kernel: Any = "rbf"
    max_duration: int = field(default=1, kw_only=True)
    shared: bool = field(default=False, kw_only=True)

    def check_reach(self) -> None:
        """Raise an error unless the longest duration is a whole number.

        Raises
        ------
        ValueError
            If it is none.
        """
        check_duration(self.max_duration)
        if self.observed_only:
            raise ValueError("durations have weights of their own each: leave support='all'")

    @property
    def one_table(self) -> bool:  # type: ignore[override]
        """Whether all labels have the same scores."""
        return bool(self.shared)

    @property
    def has_single_labellings(self) -> bool:
        """Whether functions belong to labels, not to contrasts: a part that all labels share counts."""
        return not self.shared

    def width(self, n_features: int) -> int:
        """Return the number of columns of the view: one, log d.

        Parameters
        ----------
        n_features : int
            The number of columns of the inputs.

        Returns
        -------
        int
            One.
        """
        return 1

    def tied_columns(self, inputs: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Return zeros: the only column, log d, is fixed.

        Parameters
        ----------
        inputs : array (m, d)
            Where the columns of the inputs go.
        edges : array (m, e)
            Where the columns of edges go.

        Returns
        -------
        array (m, 1)
            Zeros.
        """
        return np.zeros((len(inputs), 1), dtype=np.int64)

    def view(self, data: Packed) -> np.ndarray:
        """Return the logarithms of all durations, for any data.

        Parameters
        ----------
        data : Packed
            The data.

        Returns
        -------
        array (max_duration, 1)
            The logarithms.
        """
        return np.log(np.arange(1.0, self.max_duration + 1.0))[:, None]

    def weights(self, data: Packed) -> None:
        """Return None: durations have unit weights.

        Parameters
        ----------
        data : Packed
            The data.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.data import Chains, DurationCliques
        >>> DurationCliques().weights(Chains(np.zeros((5, 1)), np.array([0, 3, 5]))) is None
        True
        """


def check_least_durations(value: object, name: str) -> None:
    """Raise ValueError unless ``value`` is a whole number of positions, or a dict with one for some labels."""
    for duration in value.values() if isinstance(value, Mapping) else [value]:
        check_count(duration, name, " position, a dict of labels to such numbers, or None")


def check_duration(longest: object) -> None:
    """Raise ValueError unless ``longest`` is a whole number of positions."""
    check_count(longest, "max_duration", " position, or None")


@dataclass(frozen=True, eq=False)
class SegmentedChains(Chains):
    """Packed sequences of segments; ``begins`` (N,) marks the first rows of segments, None without labels."""

    begins: np.ndarray | None = None

    row_fields: ClassVar[tuple[str, ...]] = (*Chains.row_fields, "begins")
    can_be_cut: ClassVar[bool] = False

    @property
    def labelling(self) -> Segmentation | None:
        """The labels of positions and the begins of segments; runs of equal labels by default."""
        if self.labels is None:
            return None
        return Segmentation(self.labels, self.is_begin)

    def with_known(self, labels: np.ndarray, partial: LabelWeights | None, n_labels: int) -> Self:
        """Return the data with known labels of positions, of any segmentation."""
        return super().with_known(labels, as_log_weights(labels, partial, n_labels), n_labels)

    @property
    def is_begin(self) -> np.ndarray:
        """Mask (N,) of the first rows of segments: of runs of equal labels if ``begins`` is None."""
        if self.begins is None:
            return find_begins(self.required_labels, self.offsets)
        return self.begins | self.is_start

    @property
    def segments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """First rows, rows after the last, and labels of all segments, which end with their sequence."""
        begins, ends = segment_bounds(self.is_begin)
        return begins, ends, self.required_labels[begins]


def segment_bounds(begins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of each segment and the row after its last, from a mask (N,) of begins."""
    first = np.flatnonzero(begins)
    return first, np.append(first, len(begins))[1:]


def find_begins(
    labels: np.ndarray, offsets: np.ndarray, longest: int | None = None, *, even: bool = False
) -> np.ndarray:
    """Return a mask (N,) of the begins of runs of equal labels, with runs beyond ``longest`` split.

    Pieces have the longest duration, all but the last, or with ``even`` about the same.
    """
    begins = np.ones(len(labels), dtype=bool)
    begins[1:] = labels[1:] != labels[:-1]
    begins[offsets[:-1][np.diff(offsets) > 0]] = True
    if longest is not None:
        first, ends = segment_bounds(begins)
        sizes = ends - first
        within = np.arange(len(labels)) - np.repeat(first, sizes)
        begins |= within % (np.repeat(-(-sizes // -(-sizes // longest)), sizes) if even else longest) == 0
    return begins


def are_segments(y: object) -> bool:
    """Whether the labels of sequences are lists of (begin, end, label)."""
    if not isinstance(y, list | tuple) or not len(y) or not isinstance(y[0], list | tuple) or not len(y[0]):
        return False
    return isinstance(y[0][0], list | tuple) and len(y[0][0]) in (3, 4)


def read_segments(y: Sequence[Sequence]) -> tuple[list[list], np.ndarray]:
    """Convert segments to labels of positions for each sequence, and a mask (N,) of begins."""
    labels: list[list] = []
    begins: list[bool] = []
    for index, segments in enumerate(y):
        row: list = []
        for place, segment in enumerate(segments):
            if not isinstance(segment, list | tuple) or len(segment) not in (3, 4):
                raise ValueError(f"sequence {index} of y: {segment!r:.60} is no segment (begin, end, label)")
            begin, end, label = segment[:3]
            if not (is_whole(begin) and is_whole(end)) or begin != len(row) or end <= begin:
                raise ValueError(
                    f"sequence {index} of y: segment {place}, {tuple(segment[:3])!r:.60}, must begin where the one "
                    f"before it ends, at {len(row)}, and end behind that"
                )
            row += [label] * (end - begin)
            begins += [True] + [False] * (end - begin - 1)
        labels.append(row)
    return labels, np.array(begins, dtype=bool)
