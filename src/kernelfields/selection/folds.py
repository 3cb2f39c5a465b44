"""Items of a search, its folds, and the smaller parts for rungs of successive halving.

Items are sequences, graphs, instances or samples; ``X`` and ``y`` are split between them, in the user's form. A label
that is missing in the training part of a fold cannot be learnt there. Therefore items are grouped by their rarest
label, in random order, and dealt to the folds in turn: a label of two or more items is then in every
training part, unless rarer labels of these items prevent it. Items with a single label get stratified folds.

The size of smaller parts is measured in positions. They consist of the first items of a random order and, for each
missing label, the next item that contains it.

Estimators read their own data (``prepare_fit``): all of them once, so that errors are raised early, and then the
training part of each fold, from which names of features, scales and dictionaries are learnt. Every fold has the labels
of all items, including those missing in its training part, so that constraints, label kernels and class weights have
the same meaning. The score of a label that is missing in training would depend on the prior alone, so held-out items
with such a label are left out; ``n_dropped`` counts them.

Cost: O(N + S log S), and one packed copy of the selected items at a time. Raises ValueError or TypeError for impossible
folds, and the errors of the estimator's fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.utils import _safe_indexing, get_tags, indexable

from kernelfields.data.partial_labels import SoftTargets
from kernelfields.data.readers import InputReader
from kernelfields.data.table_reader import TableReader
from kernelfields.estimators.answering.formats import get_answer_format
from kernelfields.estimators.fit_state import FitState
from kernelfields.models.pilot_folds import spread_folds
from kernelfields.numerics.parameters import is_whole
from kernelfields.selection.candidates import Searched

Split = tuple[np.ndarray, np.ndarray]
#: Reader and classes of all items.
Learnt = tuple[InputReader, np.ndarray]


class Fold(NamedTuple):
    """Training and held-out items of a fold, with random orders for smaller parts."""

    train: np.ndarray
    test: np.ndarray
    train_order: np.ndarray
    test_order: np.ndarray


@dataclass(frozen=True, eq=False)
class Share:
    """Numbers of the training and scoring items of a fold, and the count of items without a score."""

    train: np.ndarray
    scored: np.ndarray
    n_dropped: int


class Part(NamedTuple):
    """Inputs, labels and weights of some items, and their number of positions."""

    X: object
    y: object
    weights: np.ndarray | None
    n_positions: int


class Items:
    """Labelled items of a search; ``training`` has all of them as read by the estimator.

    ``labels`` of each item are whole numbers, those that are known where some are not, as ``given`` says; ``lengths``
    are its positions. Messages call an item ``noun``, its positions ``part``.
    """

    def __init__(self, estimator: Searched, training: FitState, X: Any, y: Any, sample_weight: object):
        self.tables = isinstance(training.reader, TableReader)
        self.noun, part = get_answer_format(estimator).headings
        self.part = self.noun if self.tables or not part else part
        listed = (lambda values: indexable(values)[0]) if self.tables else list
        self.X: Any = listed(X)
        self.y: Any = y if isinstance(y, SoftTargets) else listed(y)
        self.labels = estimator.structure.item_labels(training, y)
        self.n_items = len(self.labels)
        self.lengths = np.ones(self.n_items, dtype=np.int64) if self.tables else training.data.lengths
        self.given = training.data.given
        self.learnt: Learnt = training.reader, training.classes
        self._weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self._estimator = estimator

    def select(self, numbers: np.ndarray) -> Part:
        """Return the items with given numbers, in the user's form."""
        y = self.y.subset(numbers) if isinstance(self.y, SoftTargets) else _safe_indexing(self.y, numbers)
        weights = None if self._weights is None else self._weights[numbers]
        return Part(_safe_indexing(self.X, numbers), y, weights, int(self.lengths[numbers].sum()))

    def share(self, fold: Fold, n_positions: int | None = None) -> Share:
        """Select training items of ``n_positions``, items with missing labels, and at most as many held-out items.

        None takes all items.
        """
        train, test = fold.train, fold.test
        if n_positions is not None:
            count, n_test = (
                int(np.searchsorted(np.cumsum(self.lengths[order]), n_positions)) + 1
                for order in (fold.train_order, fold.test_order)
            )
            chosen = list(fold.train_order[:count])
            seen = set(np.concatenate([self.labels[item] for item in chosen]).tolist())
            for item in fold.train_order[count:]:
                if not seen.issuperset(self.labels[item].tolist()):
                    seen.update(self.labels[item].tolist())
                    chosen.append(item)
            train, test = np.sort(chosen), np.sort(fold.test_order[:n_test])
        if has_several_labels(self._estimator):  # of each label, both of its values can be learnt
            return Share(train, test, 0)
        learnt = np.zeros(len(self.learnt[1]), dtype=bool)
        learnt[np.concatenate([self.labels[item] for item in train])] = True
        scored = np.array([item for item in test if learnt[self.labels[item]].all()], dtype=np.int64)
        return Share(train, scored, len(test) - len(scored))


def has_several_labels(estimator: Searched) -> bool:
    """Whether instances have several binary labels."""
    tags = get_tags(estimator).classifier_tags
    return tags is not None and tags.multi_label


def split_items(
    cv: object, labels: list[np.ndarray], groups: Any, random: np.random.Generator, noun: str, X: Any, y: Any
) -> list[Split]:
    """Split items into training and held-out ones by ``cv``: a number, a splitter or pairs of indices.

    ``labels`` of each item are small numbers; X and y go to the splitter.
    """
    count = len(labels)
    if groups is not None and len(groups) != count:
        raise ValueError(f"groups has {len(groups)} entries for {count} {noun}s")
    if is_whole(cv):
        if cv < 2:
            raise ValueError(f"cv must be at least 2, got {cv}: scores need {noun}s that were held out")
        if cv > count:
            raise ValueError(f"cv={cv} folds need at least as many {noun}s, X has {count}: lower cv")
        if groups is None:
            return spread_folds(labels, int(cv), random)
    elif cv is None or isinstance(cv, bool | float | str):
        raise TypeError(f"cv must be a number of folds, a splitter or a list of (train, test) indices, got {cv!r}")
    splitter = GroupKFold(int(cv)) if is_whole(cv) else check_cv(cv)
    splits = []
    for number, (train, test) in enumerate(splitter.split(X, None if isinstance(y, SoftTargets) else y, groups)):
        train, test = (_to_indices(part, f"fold {number} of cv", count, noun) for part in (train, test))
        if np.intersect1d(train, test).size:
            raise ValueError(f"fold {number} of cv holds out {noun}s that it trains on; remove them from one side")
        splits.append((train, test))
    if not splits:
        raise ValueError("cv holds no folds: give pairs of training and held-out indices")
    return splits


def _to_indices(part: object, where: str, n_items: int, noun: str) -> np.ndarray:
    """Return the item numbers of one side of a fold; ValueError for invalid ones."""
    indices = np.asarray(part)
    if indices.dtype == bool and indices.shape == (n_items,):
        indices = np.flatnonzero(indices)
    if indices.ndim != 1 or not indices.size or indices.dtype.kind not in "iu":
        raise ValueError(f"{where} must hold two lists of indices of {noun}s, neither empty")
    outside = indices[(indices < 0) | (indices >= n_items)]
    if outside.size:
        raise ValueError(f"{where} names {noun} {outside[0]}, but X holds 0 to {n_items - 1}")
    return indices
