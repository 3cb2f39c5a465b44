"""Folds of a search, and the smaller parts of them that the rungs of successive halving take.

A label that the training part of a fold never shows cannot be learnt there. So items (sequences, graphs, instances)
are dealt out to the folds in turn, in random order, but with those next to each other that share the rarest label
they hold: a label that occurs in two items or more then is in every training part, unless rarer labels of those
items pull them together. Of items with a single label this makes stratified folds.

Smaller parts are measured in positions. They are the first units of a random order, and for each label they lack the
next unit that holds it. Units are items, or pieces of long sequences (training_data.py).

Cost: O(N + S log S). Fails: ValueError or TypeError for folds that cannot be made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, check_cv

from kernelfields.numerics.parameters import is_whole

Split = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Fold:
    """Training and held-out items, and the random orders in which smaller parts take units of them."""

    train: np.ndarray
    test: np.ndarray
    train_order: np.ndarray
    test_order: np.ndarray

    def part(self, n_positions: int | None, labels: Sequence[np.ndarray], lengths: np.ndarray) -> Split:
        """Return units of ``n_positions`` for training, a few more for their labels, and held-out ones of no more.

        ``labels`` and ``lengths`` are those of every unit; None takes all items as they are.
        """
        if n_positions is None:
            return self.train, self.test
        count = _units_of(n_positions, lengths[self.train_order])
        chosen = list(self.train_order[:count])
        known = set(np.concatenate([labels[i] for i in chosen]).tolist())
        for index in self.train_order[count:]:
            if not known.issuperset(labels[index].tolist()):
                known.update(labels[index].tolist())
                chosen.append(index)
        held_out = self.test_order[: _units_of(n_positions, lengths[self.test_order])]
        return np.sort(chosen), np.sort(held_out)


def _units_of(n_positions: int, lengths: np.ndarray) -> int:
    """Return how many of the first units have ``n_positions`` together, or a little more."""
    return int(np.searchsorted(np.cumsum(lengths), n_positions)) + 1


def order_folds(
    splits: Sequence[Split], units: Callable[[np.ndarray], np.ndarray], random: np.random.Generator
) -> list:
    """Return folds with random orders; ``units`` says which units some items have."""
    return [
        Fold(train, test, random.permutation(units(train)), random.permutation(units(test))) for train, test in splits
    ]


def split_items(cv: Any, data: Any, groups: Any, random: np.random.Generator) -> list[Split]:
    """Return the training and held-out items that ``cv`` describes: a number, a splitter or a list of index pairs.

    ``data`` are the :class:`~kernelfields.selection.training_data.TrainingData` of the search.
    """
    count, noun = data.n_items, data.noun
    if is_whole(cv):
        if cv < 2:
            raise ValueError(f"cv must be at least 2, got {cv}: scores need {noun}s that were held out")
        if cv > count:
            raise ValueError(f"cv={cv} folds need at least as many {noun}s, X has {count}: lower cv")
    elif cv is None or isinstance(cv, bool | float | str):
        raise TypeError(f"cv must be a number of folds, a splitter or a list of (train, test) indices, got {cv!r}")
    if is_whole(cv) and groups is None:
        return spread_folds(data.labels[:count], int(cv), random)
    splitter = GroupKFold(int(cv)) if is_whole(cv) else check_cv(cv)
    splits = [_checked(each, number, count, noun) for number, each in enumerate(splitter.split(data.X, data.y, groups))]
    if not splits:
        raise ValueError("cv holds no folds: give pairs of training and held-out indices")
    return splits


def spread_folds(labels: Sequence[np.ndarray], n_folds: int, random: np.random.Generator) -> list[Split]:
    """Return folds of equal size over which the holders of rare labels are spread; labels are small numbers."""
    present = [np.unique(each) if len(each) > 1 else each for each in labels]
    holders = np.bincount(np.concatenate(present))
    # Those of which nothing is known come last, spread as well.
    rarest = np.array([each[np.argmin(holders[each])] if len(each) else len(holders) for each in present])
    order = random.permutation(len(labels))
    order = order[np.argsort(rarest[order], kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % n_folds
    return [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(n_folds)]


def _checked(split: Any, number: int, n_items: int, noun: str) -> Split:
    """Return the indices of one fold as arrays; ValueError if they cannot be used."""
    train, test = (_indices(part, f"fold {number} of cv", n_items, noun) for part in split)
    if np.intersect1d(train, test).size:
        raise ValueError(f"fold {number} of cv holds out {noun}s that it trains on; remove them from one side")
    return train, test


def _indices(part: Any, where: str, n_items: int, noun: str) -> np.ndarray:
    indices = np.asarray(part)
    if indices.dtype == bool and indices.shape == (n_items,):
        indices = np.flatnonzero(indices)
    if indices.ndim != 1 or not indices.size or indices.dtype.kind not in "iu":
        raise ValueError(f"{where} must hold two lists of indices of {noun}s, neither empty")
    outside = indices[(indices < 0) | (indices >= n_items)]
    if outside.size:
        raise ValueError(f"{where} names {noun} {outside[0]}, but X holds 0 to {n_items - 1}")
    return indices
