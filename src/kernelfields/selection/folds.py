"""Items of a search, the folds that hold some of them out, and the smaller parts that rungs of successive halving take.

Items are sequences, graphs, instances or samples; ``X`` and ``y`` are cut between them, in the form in which they were
given. A label that the training part of a fold never shows cannot be learnt there. So items are dealt out to the folds
in turn, in random order, but with those next to each other that share the rarest label they hold: a label that occurs
in two items or more then is in every training part, unless rarer labels of those items pull them together. Of items
with a single label this makes stratified folds.

Smaller parts are measured in positions. They are the first units of a random order, and for each label they lack the
next unit that holds it. A unit is an item, or a piece of a long sequence: contiguous rows, from where the constraints
let a sequence begin, after a label with which it may end. Segments stay whole.

Estimators read their own data (``fit_state``): all of them once, so that errors are raised at once, and then the
training part of every fold, from which alone inputs are learnt: names of features, scales, dictionaries. Every fold
has the labels of all items, those its own part lacks included: constraints, label kernels and class weights then mean
the same everywhere. But how badly a label is predicted that is not there depends on the prior alone. So held-out items
with such a label are left out of the scores, and ``n_dropped`` counts them.

Cost: O(N + S log S), and one packed copy of the chosen items at a time.
Fails: ValueError or TypeError for folds that cannot be made, and where the estimator's fit does.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.utils import _safe_indexing, get_tags, indexable

from kernelfields.data.constraints import resolve_constraints
from kernelfields.data.partial_labels import SoftTargets
from kernelfields.data.readers import ChainReader, GraphReader, TableReader
from kernelfields.data.segments import are_segments
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.estimators.fit_state import FitState
from kernelfields.estimators.segment_crf import SegmentCRF
from kernelfields.numerics.parameters import is_whole
from kernelfields.selection.candidates import Searched

#: Sequences of up to this many positions are not cut any further: a field must see what follows what.
SHORTEST_PIECE = 25

Split = tuple[np.ndarray, np.ndarray]
#: Reader and classes of all items.
Learnt = tuple[ChainReader | GraphReader | TableReader, np.ndarray]


class Fold(NamedTuple):
    """Training and held-out items, and the random orders in which smaller parts take units of them."""

    train: np.ndarray
    test: np.ndarray
    train_order: np.ndarray
    test_order: np.ndarray


@dataclass(frozen=True, eq=False)
class Share:
    """Units of one fold by their numbers: to train on, to score, and how many cannot be scored."""

    train: np.ndarray
    scored: np.ndarray
    n_dropped: int


class Part(NamedTuple):
    """Inputs, labels and weights of some units, and how many positions they have."""

    X: object
    y: object
    weights: np.ndarray | None
    n_positions: int


class Items:
    """Labelled items of a search by their numbers; ``training`` is how the estimator has read all of them.

    ``labels`` of each unit are whole numbers, those that are known where labels are ``partly`` known; ``lengths`` are
    its positions. Messages call an item ``noun``, its positions ``part``.
    """

    def __init__(self, estimator: Searched, training: FitState, X: Any, y: Any, sample_weight: object):
        self.tables = isinstance(training.reader, TableReader)
        self.noun, part = estimator.place_headings
        self.part = self.noun if self.tables or not part else part
        listed = (lambda values: indexable(values)[0]) if self.tables else list
        self.X: Any = listed(X)
        self.y: Any = y if isinstance(y, SoftTargets) else listed(y)
        self.labels = estimator.item_labels(training, y)
        self.n_items = len(self.labels)
        self.lengths = np.ones(self.n_items, dtype=np.int64) if self.tables else training.data.lengths
        self.partly = training.data.partial is not None
        self.learnt: Learnt = training.reader, training.classes
        self._weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self._estimator = estimator
        self._pieces: list[np.ndarray] | None = None

    def take(self, units: np.ndarray) -> Part:
        """Return some units, in the form in which they were given."""
        y = self.y.subset(units) if isinstance(self.y, SoftTargets) else _safe_indexing(self.y, units)
        weights = None if self._weights is None else self._weights[units]
        return Part(_safe_indexing(self.X, units), y, weights, int(self.lengths[units].sum()))

    def cut(self, train: np.ndarray, wanted: int) -> None:
        """Cut long sequences into pieces where there are fewer than ``wanted`` in the training part of a fold.

        Pieces have 25 positions or more. Only where every position has a known label of its own; others stay whole.
        """
        estimator, classes = self._estimator, self.learnt[1]
        by_position = isinstance(estimator, ChainCRF | SegmentCRF) and not self.partly and not are_segments(self.y)
        if len(train) >= wanted or not by_position:
            return
        # The last piece of a sequence may be twice as long, and the others a little longer where constraints are.
        length = max(SHORTEST_PIECE, int(self.lengths[train].sum()) // (wanted + 2 * len(train)))
        masks = resolve_constraints(estimator.constraints, classes)
        self._pieces, owners = [], list(range(self.n_items))
        for item, labels in enumerate(self.labels[:]):
            opens = (masks.start[labels[1:]] == 0) & (masks.end[labels[:-1]] == 0)
            if isinstance(estimator, SegmentCRF):
                opens &= labels[1:] != labels[:-1]
            bounds = [0, *_cuts(np.flatnonzero(opens) + 1, length, len(labels)), len(labels)]
            pieces = [slice(*pair) for pair in pairwise(bounds)] if len(bounds) > 2 else []
            self._pieces.append(len(owners) + np.arange(len(pieces)) if pieces else np.array([item]))
            owners += [item] * len(pieces)
            self.X += [_safe_indexing(self.X[item], piece) for piece in pieces]
            self.y += [classes[labels[piece]] for piece in pieces]
            self.labels += [labels[piece] for piece in pieces]
        self.lengths = np.array([len(labels) for labels in self.labels])
        self._weights = None if self._weights is None else self._weights[owners]

    def fold(self, split: Split, random: np.random.Generator) -> Fold:
        """Return a fold with random orders of its units: pieces where items were cut, else whole items."""
        units = [
            part if self._pieces is None else np.concatenate([self._pieces[item] for item in part]) for part in split
        ]
        return Fold(*split, *map(random.permutation, units))

    def share(self, fold: Fold, n_positions: int | None = None) -> Share:
        """Return units of ``n_positions`` to train on, a few more for their labels, and held-out ones of no more.

        None takes all items as they are.
        """
        train, test = fold.train, fold.test
        if n_positions is not None:
            count, n_test = (
                int(np.searchsorted(np.cumsum(self.lengths[order]), n_positions)) + 1
                for order in (fold.train_order, fold.test_order)
            )
            chosen = list(fold.train_order[:count])
            seen = set(np.concatenate([self.labels[unit] for unit in chosen]).tolist())
            for unit in fold.train_order[count:]:
                if not seen.issuperset(self.labels[unit].tolist()):
                    seen.update(self.labels[unit].tolist())
                    chosen.append(unit)
            train, test = np.sort(chosen), np.sort(fold.test_order[:n_test])
        if several_labels(self._estimator):  # of each label, both of its values can be learnt
            return Share(train, test, 0)
        learnt = np.zeros(len(self.learnt[1]), dtype=bool)
        learnt[np.concatenate([self.labels[unit] for unit in train])] = True
        scored = np.array([unit for unit in test if learnt[self.labels[unit]].all()], dtype=np.int64)
        return Share(train, scored, len(test) - len(scored))


def several_labels(estimator: Searched) -> bool:
    """Whether each instance has several yes-or-no labels."""
    tags = get_tags(estimator).classifier_tags
    return tags is not None and tags.multi_label


def _cuts(opens: np.ndarray, length: int, total: int) -> list[int]:
    """Return where to cut a sequence: the first openings ``length`` after each other and before the end."""
    cuts, last = [], 0
    while total - last >= 2 * length:
        index = int(np.searchsorted(opens, last + length))
        if index == len(opens) or total - opens[index] < length // 2:
            break
        last = int(opens[index])
        cuts.append(last)
    return cuts


def split_items(cv: object, items: Items, groups: object, random: np.random.Generator) -> list[Split]:
    """Return the training and held-out items that ``cv`` describes: a number, a splitter or a list of index pairs."""
    count, noun = items.n_items, items.noun
    if is_whole(cv):
        if cv < 2:
            raise ValueError(f"cv must be at least 2, got {cv}: scores need {noun}s that were held out")
        if cv > count:
            raise ValueError(f"cv={cv} folds need at least as many {noun}s, X has {count}: lower cv")
        if groups is None:
            return spread_folds(items.labels, int(cv), random)
    elif cv is None or isinstance(cv, bool | float | str):
        raise TypeError(f"cv must be a number of folds, a splitter or a list of (train, test) indices, got {cv!r}")
    splitter = GroupKFold(int(cv)) if is_whole(cv) else check_cv(cv)
    splits = []
    for number, (train, test) in enumerate(
        splitter.split(items.X, None if isinstance(items.y, SoftTargets) else items.y, groups)
    ):
        train, test = (_indices(part, f"fold {number} of cv", count, noun) for part in (train, test))
        if np.intersect1d(train, test).size:
            raise ValueError(f"fold {number} of cv holds out {noun}s that it trains on; remove them from one side")
        splits.append((train, test))
    if not splits:
        raise ValueError("cv holds no folds: give pairs of training and held-out indices")
    return splits


def spread_folds(labels: list[np.ndarray], n_folds: int, random: np.random.Generator) -> list[Split]:
    """Return folds of equal size over which the holders of rare labels are spread; labels are small numbers."""
    present = [np.unique(own) if len(own) > 1 else own for own in labels]
    holders = np.bincount(np.concatenate(present))
    # Those of which nothing is known come last, spread as well.
    rarest = np.array([own[np.argmin(holders[own])] if len(own) else len(holders) for own in present])
    order = random.permutation(len(labels))
    order = order[np.argsort(rarest[order], kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % n_folds
    return [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(n_folds)]


def _indices(part: object, where: str, n_items: int, noun: str) -> np.ndarray:
    """Return the indices of one side of a fold as an array; ValueError if they cannot be used."""
    indices = np.asarray(part)
    if indices.dtype == bool and indices.shape == (n_items,):
        indices = np.flatnonzero(indices)
    if indices.ndim != 1 or not indices.size or indices.dtype.kind not in "iu":
        raise ValueError(f"{where} must hold two lists of indices of {noun}s, neither empty")
    outside = indices[(indices < 0) | (indices >= n_items)]
    if outside.size:
        raise ValueError(f"{where} names {noun} {outside[0]}, but X holds 0 to {n_items - 1}")
    return indices
