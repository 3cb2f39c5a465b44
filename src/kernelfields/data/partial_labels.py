"""Labels that are partly known, and targets in place of labels.

    "B-NP"                     the label itself
    None, NaN, pandas.NA       nothing is known; a whole sequence may be None
    {"B-NP", "I-NP"}           one of these
    {"B-NP": 0.9, "O": 0.1}    weights q(y), the likelihood of what was observed if the label were y

Partial labels are kept as log-weights (N, L) float64: log q, minus infinity for excluded labels, the largest of each
row zero, since a factor common to all labels cancels. A ``y`` in which every label is known has labels alone.

:class:`SoftTargets` are marginals for the field to match, as of a teacher or of several annotators together. A
likelihood with them stays convex.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.data.reading import (
    SEQUENCES,
    ItemNames,
    LabelForm,
    SampleNames,
    check_number,
    check_sample_weight,
    check_whole,
    encode_labels,
    find_label_places,
    has_partial_labels,
    is_partial,
    is_partial_entry,
    is_sequence,
    is_unknown,
    label_offsets,
    listed,
    plain_label,
    wrap_labels,
)
from kernelfields.data.whole_numbers import labels_as_array
from kernelfields.numerics.containers import list_entries
from kernelfields.numerics.memory import check_labels_fit
from kernelfields.numerics.parameters import is_real
from kernelfields.numerics.sparse_rows import make_offsets

# Rows of targets may differ so much from a sum of one: those of float32 networks do.
_ROUNDING = 1e-4
#: Labels of a smaller share of the largest weight of their position do not count as observed.
LEAST_SHOWN = 1e-3


@dataclass(frozen=True, eq=False)
class SoftRows:
    """Targets of packed rows: of single labels (N, L), and of pairs at t - 1 and t (N, L, L), zero at starts.

    Without the latter, labels are independent.
    """

    node: np.ndarray
    edge: np.ndarray | None = None

    def __getitem__(self, rows: slice | np.ndarray) -> SoftRows:
        return SoftRows(self.node[rows], None if self.edge is None else self.edge[rows])

    def pairs(self, offsets: np.ndarray) -> np.ndarray:
        """Return the targets of the labels at t - 1 and t, (N, L, L), zero at starts."""
        if self.edge is not None:
            return self.edge
        edge = np.zeros((*self.node.shape, self.node.shape[1]))
        edge[1:] = self.node[:-1, :, None] * self.node[1:, None, :]
        edge[offsets[:-1]] = 0.0
        return edge

    @property
    def logs(self) -> np.ndarray:
        """Logarithms of the targets of single labels, (N, L)."""
        with np.errstate(divide="ignore"):
            return np.log(self.node)


#: What is known of labels: log q (N, L), or targets.
LabelWeights: TypeAlias = np.ndarray | SoftRows


class SoftTargets(LabelForm):
    """Target marginals in place of labels: of a teacher, or of several annotators together.

    The objective sums the expected score under the targets in place of that of the labels: it stays convex, and
    certificates hold as ever. Where targets are one at a label, it is the fit to these labels.

    Parameters
    ----------
    nodes : list of arrays (T, L) or array (n, L)
        The probabilities of the labels at each position, an array for each sequence; for KernelClassifier one array.
    pairs : list of arrays (T - 1, L, L) or None, default None
        The probabilities of the labels of neighbours, which must agree with ``nodes``; None takes them for independent.
    classes : array (L,)
        The labels that the columns stand for.

    References
    ----------
    .. [1] G. Hinton, O. Vinyals and J. Dean, "Distilling the knowledge in a neural network", 2015, arXiv:1503.02531.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF, SoftTargets
    >>> X = [np.array([[20.0], [21.0], [10.0]])]
    >>> targets = SoftTargets([np.array([[0.1, 0.9], [0.2, 0.8], [0.7, 0.3]])], classes=["rain", "sun"])
    >>> crf = ChainCRF("rbf", prior_variance=10.0, scale=True, random_state=0).fit(X, targets)
    >>> crf.predict(X)
    [['sun', 'sun', 'rain']]
    """

    def __init__(
        self,
        nodes: np.ndarray | list,
        pairs: Sequence[ArrayLike] | None = None,
        *,
        classes: Collection | np.ndarray,
    ):
        self.nodes = nodes
        self.pairs = pairs
        self.classes = classes

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def shape(self) -> tuple[int]:
        """The number of sequences or samples, which scikit-learn reads before it selects some."""
        return (len(self),)

    def __getitem__(self, items: Any) -> SoftTargets:
        """Select targets of sequences or samples by a list of numbers, a mask or a slice."""
        chosen = items[0] if isinstance(items, tuple) else items
        return self.subset(np.atleast_1d(np.arange(len(self))[chosen]))

    def subset(self, items: np.ndarray) -> SoftTargets:
        """Select targets of sequences or samples.

        Parameters
        ----------
        items : array
            Their numbers.

        Returns
        -------
        SoftTargets
            The targets.
        """
        nodes = self.nodes[items] if isinstance(self.nodes, np.ndarray) else [self.nodes[item] for item in items]
        pairs = None if self.pairs is None else [self.pairs[item] for item in items]
        return SoftTargets(nodes, pairs, classes=self.classes)

    def read(
        self, classes: Iterable | None, lengths: np.ndarray | None, nouns: ItemNames
    ) -> tuple[np.ndarray, LabelWeights, np.ndarray]:
        """Return the most probable labels, the targets and the sorted classes.

        Parameters
        ----------
        classes : iterable of labels or None
            The labels of the model; None for those of the targets.
        lengths : array (S,) or None
            The lengths of sequences.
        nouns : ItemNames
            What messages call the items.

        Returns
        -------
        labels : ndarray (N,)
            The numbers of the most probable labels.
        targets : SoftRows
            The targets.
        classes : ndarray (L,)
            The sorted labels.

        Raises
        ------
        ValueError
            If targets do not fit the items, or are no probabilities.
        """
        own, places = np.unique(labels_as_array(self.classes), return_inverse=True)
        if len(own) != len(self.classes) or len(own) < 2:
            raise ValueError(f"classes of SoftTargets must be two or more different labels, got {listed(self.classes)}")
        if classes is not None and not np.array_equal(own, np.unique(labels_as_array(classes))):
            raise ValueError(f"SoftTargets are for the labels {listed(own)}, and the model has {listed(classes)}")
        tables = [self.nodes] if isinstance(nouns, SampleNames) else list(self.nodes)
        check_number(len(tables), lengths, nouns, "targets")
        rows = [self._table(table, index, lengths, nouns) for index, table in enumerate(tables)]
        offsets = make_offsets(np.array([len(table) for table in rows]))
        order = np.argsort(places)
        node = np.concatenate(rows)[:, order]
        edge = self._edges(node, offsets, order, nouns)
        return node.argmax(axis=1), SoftRows(node, edge), own

    def _table(self, table: ArrayLike, index: int, lengths: np.ndarray | None, nouns: ItemNames) -> np.ndarray:
        rows = np.asarray(table, dtype=np.float64)
        name = nouns.name(index)
        expected = (len(rows) if lengths is None else int(lengths[index]), len(self.classes))
        if rows.shape != expected:
            raise ValueError(f"{name}: targets have shape {rows.shape}, expected {expected}")
        wrong = ~np.isfinite(rows).all(axis=1) | (rows < 0).any(axis=1) | (np.abs(rows.sum(axis=1) - 1) > _ROUNDING)
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                f"{name}, {nouns.part} {row}: targets {np.array2string(rows[row], precision=4, threshold=6)} are "
                "no probabilities that add up to one"
            )
        return rows / rows.sum(axis=1, keepdims=True)

    def _edges(self, node: np.ndarray, offsets: np.ndarray, order: np.ndarray, nouns: ItemNames) -> np.ndarray | None:
        if self.pairs is None:
            return None
        if nouns is not SEQUENCES:
            raise ValueError("pairs of SoftTargets are those of neighbours in sequences: leave them out here")
        edge = np.zeros((len(node), node.shape[1], node.shape[1]))
        tables = list(self.pairs)
        if len(tables) != len(offsets) - 1:
            raise ValueError(f"pairs has {len(tables)} {nouns.whole}s but nodes has {len(offsets) - 1}")
        for index, (begin, end) in enumerate(pairwise(offsets.tolist())):
            table = np.asarray(tables[index], dtype=np.float64)
            expected = (end - begin - 1, node.shape[1], node.shape[1])
            if table.shape != expected:
                raise ValueError(f"{nouns.name(index)}: targets of pairs have shape {table.shape}, expected {expected}")
            table = table[:, order][:, :, order]
            before, after = node[begin : end - 1], node[begin + 1 : end]
            off = np.abs(table.sum(axis=2) - before).max(axis=1) + np.abs(table.sum(axis=1) - after).max(axis=1)
            if (wrong := (off > _ROUNDING) | (table < 0).any(axis=(1, 2)) | ~np.isfinite(off)).any():
                raise ValueError(
                    f"{nouns.name(index)}: targets of the pair of {nouns.part}s {int(wrong.argmax())} and "
                    f"{int(wrong.argmax()) + 1} do not add up to those of the single labels"
                )
            edge[begin + 1 : end] = table
        return edge


def read_partial_labels(
    y: Iterable, classes: Iterable | None, lengths: np.ndarray | None, nouns: ItemNames, fewest: int = 2
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Read labels of which some are partly known; see :func:`kernelfields.data.readers.read_labels`."""
    entries = _Entries(list(y), lengths, nouns)
    known, places = entries.encode(classes, fewest=fewest)
    check_labels_fit(len(known), entries.n_positions)
    partial = np.zeros((entries.n_positions, len(known)))
    partial[entries.rows] = -np.inf
    partial[entries.rows, places] = np.log(entries.weights)
    partial -= partial.max(axis=1, keepdims=True)
    totals = np.bincount(places, minlength=len(known))
    # So little that it decides between equals only.
    labels = (partial + 1e-9 * totals / totals.sum()).argmax(axis=1) if len(places) else np.zeros(len(partial), int)
    return labels, None if certain(partial).all() else partial, known


def are_partly_known(y: object) -> bool:
    """Whether labels of samples, one for each, are partly known or targets."""
    return isinstance(y, SoftTargets) or (y is not None and is_partial(y))


def replace_unseen(y: Any, classes: np.ndarray, other: object) -> tuple[Any, list[tuple[int, int, Any]]]:
    """Replace labels outside the classes by ``other``; return y and the replacements: item, position, label.

    Segments (begin, end, label) have their label replaced. y as it is where all labels are classes, and where these are
    not one list.
    """
    if np.ndim(classes) != 1 or not is_sequence(y):
        return y, []
    single, known = not any(map(is_sequence, y)), set(np.asarray(classes).tolist())
    found: list[tuple[int, int, Any]] = []

    def replaced(entry: Any, item: int, position: int) -> Any:
        begin, end, label = entry[:3] if isinstance(entry, list | tuple) else (position, position + 1, entry)
        label = plain_label(label)
        if is_partial_entry(label) or not isinstance(label, Hashable) or label in known:
            return entry
        found.extend((position, 0, label) if single else (item, row, label) for row in range(begin, end))
        return (begin, end, other) if isinstance(entry, list | tuple) else other

    items = [
        None if own is None else [replaced(entry, item, place) for place, entry in enumerate(list_entries(own))]
        for item, own in enumerate([y] if single else y)
    ]
    return (items[0] if single else items) if found else y, found


def informative(partial: LabelWeights) -> np.ndarray:
    """Return a mask (N,) of the rows with fewer than all labels possible; of all rows for targets."""
    if isinstance(partial, SoftRows):
        return np.ones(len(partial.node), dtype=bool)
    return (partial != 0.0).any(axis=1)


def certain(partial: LabelWeights) -> np.ndarray:
    """Return a mask (N,) of the rows with one possible label."""
    return (log_weights(partial) > -np.inf).sum(axis=1) == 1


def log_weights(partial: LabelWeights) -> np.ndarray:
    """Return partial labels, or targets, as log q (N, L)."""
    return partial.logs if isinstance(partial, SoftRows) else partial


def find_shown_labels(partial: LabelWeights) -> np.ndarray:
    """Return a mask (N, L) of labels with at least a thousandth of the largest weight of their row."""
    logs = log_weights(partial)
    return logs >= logs.max(axis=1, keepdims=True) + np.log(LEAST_SHOWN)


def as_log_weights(labels: np.ndarray, partial: LabelWeights | None, n_labels: int) -> np.ndarray:
    """Return labels of :func:`read_labels`, known or partly known, as log q (N, L)."""
    if isinstance(partial, SoftRows):
        raise ValueError(
            "SoftTargets are matched by a fit and say nothing about one label: give a dict of weights for each"
        )
    if partial is not None:
        return partial
    return np.where(labels[:, None] == np.arange(n_labels), 0.0, -np.inf)


def label_shares(partial: LabelWeights) -> np.ndarray:
    """Return the known share of each label in each row, (N, L): rows add up to one, or are zero if unknown."""
    if isinstance(partial, SoftRows):
        return partial.node
    shares = np.exp(partial)
    shares /= shares.sum(axis=1, keepdims=True)
    shares[~informative(partial)] = 0.0
    return shares


def possible_labellings(partial: LabelWeights, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a row for each possible labelling of a clique: cliques and labellings.

    ``members`` (n, k) are the rows that meet in a clique. A clique counts if something is known of all its rows; a
    label of which nothing is known anywhere counts wherever it is possible, or it could not be learnt at all.
    """
    possible, known = find_shown_labels(partial), informative(log_weights(partial))
    n_labels = possible.shape[1]
    seen = (possible & known[:, None]).any(axis=0)
    counted = possible & (known[:, None] | ~seen)
    rows, numbers = np.arange(len(members)), np.zeros(len(members), dtype=np.int64)
    for column in members.T:
        where, label = np.nonzero(counted[column[rows]])
        rows, numbers = rows[where], numbers[where] * n_labels + label
    return rows, numbers


def single_labels(item: Iterable | None) -> list:
    """Return the labels of one sequence, None for entries with several possible labels."""
    return [_single(entry) for entry in ([] if item is None else list_entries(item))]


def _single(entry: object) -> object:
    if is_unknown(entry):
        return None
    if isinstance(entry, Mapping):
        entry = {label for label, weight in entry.items() if weight > 0}
    if isinstance(entry, set | frozenset):
        return next(iter(entry)) if len(entry) == 1 else None
    return entry


def known_labels(
    y: object, classes: np.ndarray, lengths: np.ndarray | None, nouns: ItemNames = SEQUENCES
) -> tuple[np.ndarray, np.ndarray]:
    """Return labels (N,), -1 for labels outside the classes, and a mask of labelled positions.

    A position has one if one label alone is named. ValueError if none has.
    """
    y, lengths = wrap_labels(y, lengths, nouns)
    if not has_partial_labels(y):
        labels, _ = encode_labels(y, classes, lengths, nouns, unknown_allowed=True)
        return labels, np.ones(len(labels), dtype=bool)
    entries = _Entries(list(y), lengths, nouns)
    known = np.bincount(entries.rows, minlength=entries.n_positions) == 1
    if not known.any():
        raise ValueError(f"no label of y is known: there is no {nouns.part} to compare predictions with")
    labels = np.full(entries.n_positions, -1, dtype=np.int64)
    labels[entries.rows] = entries.encode(classes, unknown_allowed=True)[1]
    return labels, known


def share_right(
    y: object,
    classes: np.ndarray,
    lengths: np.ndarray,
    predict: Callable[[], Sequence[ArrayLike] | np.ndarray],
    sample_weight: object = None,
    nouns: ItemNames = SEQUENCES,
) -> float:
    """Return the share of right predictions; labels outside the classes are errors.

    Positions whose label is not known do not count; with targets, the share is the one they expect. ``sample_weight``
    holds one number for each sequence, or for each sample.
    """
    weights = np.repeat(check_sample_weight(sample_weight, len(lengths), nouns), lengths)
    if isinstance(y, SoftTargets):
        targets = cast(SoftRows, y.read(classes, wrap_labels(y, lengths, nouns)[1], nouns)[1])
        right = targets.node[np.arange(len(weights)), _numbers(predict(), classes)]
        return float(np.average(right, weights=weights))
    labels, known = known_labels(y, classes, lengths, nouns)
    if not weights[known].any():
        raise ValueError(f"no {nouns.part} whose label is known has a positive weight: there is nothing to score")
    return float(np.average((_numbers(predict(), classes) == labels)[known], weights=weights[known]))


def _numbers(predicted: Sequence[ArrayLike] | np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return predicted labels as class numbers, (N,)."""
    flat = predicted if isinstance(predicted, np.ndarray) else np.concatenate(predicted)
    return np.searchsorted(classes, flat)


class _Entries:
    """The flat entries of y: ``rows``, the labels named in each, and their ``weights``."""

    def __init__(self, items: list, lengths: np.ndarray | None, nouns: ItemNames):
        self._nouns = nouns
        check_number(len(items), lengths, nouns)
        sizes = [self._size(index, item, lengths) for index, item in enumerate(items)]
        self._offsets = label_offsets(sizes, lengths, nouns)
        self.n_positions = int(self._offsets[-1])
        rows: list[int] = []
        self.labels: list[object] = []
        weights: list[float] = []
        row = 0
        for item, size in zip(items, sizes, strict=True):
            for entry in [None] * size if item is None else list_entries(item):
                for label, weight in self._parse_entry(entry, row):
                    rows.append(row)
                    self.labels.append(label)
                    weights.append(weight)
                row += 1
        self.rows, self.weights = np.array(rows, dtype=np.int64), np.array(weights)

    def _size(self, index: int, item: object, lengths: np.ndarray | None) -> int:
        nouns = self._nouns
        if item is None:
            if lengths is None:
                raise ValueError(f"{nouns.name(index)} of y is None, and without X its length is not known")
            return int(lengths[index])
        if not isinstance(item, Iterable) or isinstance(item, str | bytes | Mapping):
            raise ValueError(
                f"{nouns.name(index)} of y is {item!r:.60} ({type(item).__name__}): y must be a list with one list or "
                f"array of labels per {nouns.whole}"
            )
        return len(item) if isinstance(item, Sized) else len(list(item))

    def _place(self, row: int) -> str:
        return self._nouns.place(self._offsets, row)

    def _parse_entry(self, entry: object, row: int) -> list[tuple[object, float]]:
        """Return the labels of an entry, with their weights."""
        if is_unknown(entry):
            return []
        if isinstance(entry, Mapping):
            for label, weight in entry.items():
                if not is_real(weight) or not 0 <= weight < np.inf:
                    raise ValueError(
                        f"the weight of {label!r} at {self._place(row)} is {weight!r}: weights of labels must be "
                        "finite numbers of at least 0"
                    )
            named = [(label, float(weight)) for label, weight in entry.items() if weight > 0]
            if not named:
                raise ValueError(
                    f"no label has a positive weight at {self._place(row)}: give one, or None if nothing is known"
                )
            return named
        if isinstance(entry, set | frozenset):
            if not entry:
                raise ValueError(
                    f"the set of allowed labels at {self._place(row)} is empty: name the labels that are possible, "
                    "or None if nothing is known"
                )
            return [(label, 1.0) for label in entry]
        return [(entry, 1.0)]

    def encode(
        self, classes: Iterable | None, unknown_allowed: bool = False, fewest: int = 2
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the sorted classes and the class number of every named label.

        With ``unknown_allowed`` the place of a label that is not among the classes is -1. Where classes are None, the
        ``fewest`` or more must be named.
        """
        nouns = self._nouns
        if not self.labels and classes is None:
            raise ValueError(
                f"no {nouns.part} of y is labelled, so there is nothing to learn labels from: label some of them, or "
                "say what is expected by partial_labels=PartialLabels(classes=[...], expectations=[...])"
            )
        self._check_kinds()
        array = labels_as_array([plain_label(label) for label in self.labels])
        check_whole(array, self._entry_place, nouns)
        known = np.unique(array if classes is None else labels_as_array(classes))
        if len(known) < fewest and classes is None:
            raise ValueError(
                f"y names one class only, {listed(known)}: fitting needs at least two different labels; those that no "
                f"{nouns.part} shows are declared by partial_labels=PartialLabels(classes=[...])"
            )
        if not len(array):
            return known, np.empty(0, dtype=np.int64)
        return known, find_label_places(known, array, self._entry_place, unknown_allowed)

    def _entry_place(self, entry: int) -> str:
        return self._place(int(self.rows[entry]))

    def _check_kinds(self) -> None:
        """Raise at the first label of another kind than the first, or of no usable kind."""
        text = bool(self.labels) and isinstance(self.labels[0], str)
        for row, label in zip(self.rows.tolist(), self.labels, strict=True):
            if isinstance(label, str) != text:
                first = f"{self._place(int(self.rows[0]))} has {plain_label(self.labels[0])!r}"
                raise ValueError(
                    f"labels mix strings with others: {first}, "
                    f"{self._place(row)} has {plain_label(label)!r}. Use one kind throughout, for example str(label)."
                )
            if not text and not is_real(label) and not isinstance(label, bool | np.bool_):
                raise ValueError(
                    f"the label {label!r:.60} ({type(label).__name__}) at {self._place(row)} cannot be used: labels "
                    "are strings, whole numbers or booleans; None, a set or a dict of weights mean a partly known one"
                )
