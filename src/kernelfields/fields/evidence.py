"""Labels that are partly known: what ``y`` says of a position, read in one place for all estimators.

    "B-NP"                     the label itself
    None, NaN, pandas.NA       nothing is known; a whole sequence may be None
    {"B-NP", "I-NP"}           one of these
    {"B-NP": 0.9, "O": 0.1}    weights q(y), the likelihood of what was observed if the label were y

Evidence is kept as logarithms, (N, L) float64: log q, minus infinity for labels that are excluded, the largest of each
row zero, since a factor common to all labels says nothing. A ``y`` in which every label is known has no evidence but
labels, and takes the road it always took.

:class:`SoftTargets` is another thing: marginals that the field is asked to match, as of a teacher or of several
annotators together. A likelihood with them stays convex.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any

import numpy as np

from kernelfields.fields.reading import (
    SEQUENCES,
    Nouns,
    check_sample_weight,
    encode_labels,
    is_sequence,
    listed,
    offsets_of,
    open_groups,
    plain_label,
)
from kernelfields.fields.soft_targets import SoftRows, SoftTargets
from kernelfields.numerics.parameters import is_real

# Types whose values are labels, never evidence.
_PLAIN = {str, int, bool, np.str_, np.int64, np.bool_}


def read_labels(
    y: Any, classes: Any = None, lengths: np.ndarray | None = None, nouns: Nouns = SEQUENCES
) -> tuple[np.ndarray, Any, np.ndarray]:
    """Return labels (N,), evidence (N, L) or None where every label is known, and the sorted classes (L,).

    Where a label is not known, the one in ``labels`` is the most frequent of those that are possible. ``classes=None``
    learns them from all labels that are named, alone, in sets or with weights. ``lengths`` holds the rows of every
    sequence, which tell how long one is that is None.
    """
    if isinstance(y, SoftTargets):
        return y.read(classes, lengths, nouns)
    y = open_groups(None, y)[1]
    if not is_sequence(y) or getattr(y, "ndim", 1) == 0 or not any(map(is_partial, y)):
        labels, known = encode_labels(y, classes, lengths, nouns)
        return labels, None, known
    entries = _Entries(list(y), lengths, nouns)
    known, places = entries.encode(classes)
    evidence = np.zeros((entries.n_positions, len(known)))
    evidence[entries.rows] = -np.inf
    evidence[entries.rows, places] = np.log(entries.weights)
    evidence -= evidence.max(axis=1, keepdims=True)
    totals = np.bincount(places, minlength=len(known))
    # So little that it decides between equals only.
    labels = (evidence + 1e-9 * totals / totals.sum()).argmax(axis=1) if len(places) else np.zeros(len(evidence), int)
    if np.all((evidence > -np.inf).sum(axis=1) == 1):
        return labels, None, known
    return labels, evidence, known


def named_labels(y: Any, lengths: np.ndarray, nouns: Nouns = SEQUENCES) -> np.ndarray:
    """Return the sorted labels that partly known labels name, however many they are."""
    labels = _Entries(list(y), lengths, nouns).labels
    return np.unique(np.array([plain_label(label) for label in labels])) if labels else np.empty(0)


def is_unknown(label: Any) -> bool:
    """Whether an entry says that nothing is known: None, NaN or pandas.NA."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, float | np.floating) and bool(np.isnan(label))


def informative(evidence: Any) -> np.ndarray:
    """Return a mask of the rows that say something, (N,); targets always do."""
    if isinstance(evidence, SoftRows):
        return np.ones(len(evidence.node), dtype=bool)
    return (evidence != 0.0).any(axis=1)


def log_weights(evidence: Any) -> np.ndarray:
    """Return evidence as log q (N, L); of targets, their logarithms."""
    return evidence.logs if isinstance(evidence, SoftRows) else evidence


def as_evidence(labels: np.ndarray, evidence: Any, n_labels: int) -> np.ndarray:
    """Return log q (N, L) of what :func:`read_labels` has found: also where every label is known."""
    if isinstance(evidence, SoftRows):
        raise ValueError(
            "SoftTargets are matched by a fit and tell nothing of a label: give a dict of weights for each"
        )
    if evidence is not None:
        return evidence
    return np.where(labels[:, None] == np.arange(n_labels), 0.0, -np.inf)


def label_shares(evidence: Any) -> np.ndarray:
    """Return how much of each label the rows are known to have, (N, L): rows add up to one, or are zero if unknown."""
    if isinstance(evidence, SoftRows):
        return evidence.node
    shares = np.exp(evidence)
    shares /= shares.sum(axis=1, keepdims=True)
    shares[~informative(evidence)] = 0.0
    return shares


def possible_labellings(evidence: Any, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return cliques and labellings that are observed together: one row for each possible labelling of a clique.

    ``members`` (n, k) are the rows that meet in a clique. A clique counts if something is known of all its rows; a
    label of which nothing is known anywhere counts wherever it is possible, or it could not be learnt at all.
    """
    logs = log_weights(evidence)
    n_labels, possible, told = logs.shape[1], logs > -np.inf, informative(logs)
    seen = (possible & told[:, None]).any(axis=0)
    counted = possible & (told[:, None] | ~seen)
    rows, numbers = np.arange(len(members)), np.zeros(len(members), dtype=np.int64)
    for column in members.T:
        where, label = np.nonzero(counted[column[rows]])
        rows, numbers = rows[where], numbers[where] * n_labels + label
    return rows, numbers


def single_labels(item: Any) -> list:
    """Return the labels of one sequence, None where they are not known: also for sets and weights of several."""
    return [_single(entry) for entry in ([] if item is None else _listed_entries(item, 0))]


def _single(entry: Any) -> Any:
    if is_unknown(entry):
        return None
    if isinstance(entry, Mapping):
        entry = {label for label, weight in entry.items() if weight > 0}
    if isinstance(entry, set | frozenset):
        return next(iter(entry)) if len(entry) == 1 else None
    return entry


def known_labels(y: Any, classes: Any, lengths: np.ndarray, nouns: Nouns = SEQUENCES) -> tuple[np.ndarray, np.ndarray]:
    """Return labels (N,), -1 for those that are not among the classes, and a mask of the positions that have one.

    A position has one if one label alone is named. ValueError if none has.
    """
    y = open_groups(None, y)[1]
    if not is_sequence(y) or getattr(y, "ndim", 1) == 0 or not any(map(is_partial, y)):
        labels, _ = encode_labels(y, classes, lengths, nouns, unknown_allowed=True)
        return labels, np.ones(len(labels), dtype=bool)
    entries = _Entries(list(y), lengths, nouns)
    known = np.bincount(entries.rows, minlength=entries.n_positions) == 1
    if not known.any():
        raise ValueError(f"no label of y is known: there is no {nouns.part} to compare predictions with")
    labels = np.full(entries.n_positions, -1, dtype=np.int64)
    labels[entries.rows] = entries.places(classes)
    return labels, known


def share_right(
    y: Any,
    classes: np.ndarray,
    lengths: np.ndarray,
    predict: Callable[[], Any],
    sample_weight: Any = None,
    nouns: Nouns = SEQUENCES,
) -> float:
    """Return the share of positions whose label is the predicted one; labels outside the classes are errors.

    Positions whose label is not known do not count.
    """
    labels, known = known_labels(y, classes, lengths, nouns)
    weights = np.repeat(check_sample_weight(sample_weight, len(lengths), nouns), lengths)[known]
    if not weights.any():
        raise ValueError(f"no {nouns.part} whose label is known has a positive weight: there is nothing to score")
    right = (np.searchsorted(classes, np.concatenate(predict())) == labels)[known]
    return float(np.average(right, weights=weights))


class _Entries:
    """What y says of each position, flat: ``rows``, the labels named there, and their ``weights``."""

    def __init__(self, items: list, lengths: np.ndarray | None, nouns: Nouns):
        self._nouns = nouns
        if lengths is not None and len(items) != len(lengths):
            raise ValueError(f"X has {len(lengths)} {nouns.whole}s but y has {len(items)}: each needs its labels")
        sizes = [self._size(index, item, lengths) for index, item in enumerate(items)]
        self._offsets = offsets_of(np.array(sizes, dtype=np.int64))
        self.n_positions = int(self._offsets[-1])
        rows: list[int] = []
        self.labels: list[Any] = []
        weights: list[float] = []
        row = 0
        for item, size in zip(items, sizes, strict=True):
            for entry in _listed_entries(item, size):
                for label, weight in self._mentioned(entry, row):
                    rows.append(row)
                    self.labels.append(label)
                    weights.append(weight)
                row += 1
        self.rows, self.weights = np.array(rows, dtype=np.int64), np.array(weights)

    def _size(self, index: int, item: Any, lengths: np.ndarray | None) -> int:
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
        size = len(item) if isinstance(item, Sized) else len(list(item))
        if size == 0:
            raise ValueError(f"{nouns.name(index)} of y is empty: remove it from X and y")
        if lengths is not None and size != lengths[index]:
            raise ValueError(
                f"{nouns.name(index)} has {size} labels for {lengths[index]} rows of X. "
                f"Each {nouns.part} needs one label, or None where it is not known"
            )
        return size

    def _place(self, row: int) -> str:
        return self._nouns.place(self._offsets, row)

    def _mentioned(self, entry: Any, row: int) -> list[tuple[Any, float]]:
        """Return the labels that an entry names, with their weights."""
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

    def encode(self, classes: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the sorted classes and the place among them of every label that is named."""
        nouns = self._nouns
        if not self.labels and classes is None:
            raise ValueError(
                f"no {nouns.part} of y is labelled, so there is nothing to learn labels from: label some of them, say "
                "what is expected by partial_labels=PartialLabels(classes=[...], expectations=[...]), or find clusters "
                "with FieldClustering"
            )
        self._check_kinds()
        array = np.array([plain_label(label) for label in self.labels])
        known = np.unique(array) if classes is None else np.unique(np.asarray(classes))
        if len(known) < 2 and classes is None:
            raise ValueError(
                f"y names one class only, {listed(known)}: fitting needs at least two different labels; those that no "
                f"{nouns.part} shows are declared by partial_labels=PartialLabels(classes=[...])"
            )
        if not len(array):
            return known, np.empty(0, dtype=np.int64)
        if (known.dtype.kind == "U") != (array.dtype.kind == "U"):
            place = self._place(int(self.rows[0]))
            raise ValueError(f"unknown label {plain_label(self.labels[0])!r} at {place}: known are {listed(known)}")
        places = np.minimum(np.searchsorted(known, array), len(known) - 1)
        if (wrong := np.flatnonzero(known[places] != array)).size:
            place = self._place(int(self.rows[wrong[0]]))
            raise ValueError(f"unknown label {plain_label(array[wrong[0]])!r} at {place}: known are {listed(known)}")
        return known, places

    def places(self, classes: np.ndarray) -> np.ndarray:
        """Return the place among the classes of every label that is named, -1 for those that are not there."""
        self._check_kinds()
        numbers = {plain_label(label): place for place, label in enumerate(classes)}
        return np.array([numbers.get(plain_label(label), -1) for label in self.labels])

    def _check_kinds(self) -> None:
        """Raise at the first label that is neither of the kind of the first nor usable at all."""
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
                    "are strings, whole numbers or booleans; None, a set or a dict of weights tell what is partly known"
                )
            if not text and label != int(label):
                raise ValueError(
                    f"label {label} at {self._place(row)} is not a whole number: labels are classes, and these look "
                    "like regression targets. Bin them, or pass strings."
                )


def _listed_entries(item: Any, size: int) -> list:
    if item is None:
        return [None] * size
    return np.asarray(item, dtype=object).tolist() if hasattr(item, "__array__") else list(item)


def tells_partly(y: Any) -> bool:
    """Whether the labels of samples, one for each, are partly known, or targets."""
    return isinstance(y, SoftTargets) or (y is not None and is_partial(y))


def is_partial(item: Any) -> bool:
    """Whether the labels of a sequence, or a single entry, hold anything that is no label."""
    if isinstance(item, np.ndarray) and item.dtype.kind != "O":
        return item.dtype.kind == "f" and bool(np.isnan(item).any())
    if hasattr(item, "__array__") and not isinstance(item, np.ndarray | np.generic) and not hasattr(item, "is_nested"):
        item = np.asarray(item)
        return is_partial(item) if item.dtype.kind != "O" else any(map(_is_evidence, item.ravel()))
    if item is None:
        return True
    if not is_sequence(item) or _PLAIN.issuperset(map(type, item)):
        return False
    return any(map(_is_evidence, item))


def _is_evidence(entry: Any) -> bool:
    return is_unknown(entry) or isinstance(entry, set | frozenset | Mapping)
