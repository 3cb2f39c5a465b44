"""Sequences of a search: the folds they are cut into, and the packed part that one fold trains and scores on.

A label that the training part of a fold never shows cannot be learnt there. So sequences are dealt out to the
folds in turn, in random order, but with those next to each other that share the rarest label they hold: a label
that occurs in two sequences or more then is in every training part, unless rarer labels of those sequences pull
them together. Smaller training parts are the first of a random order, and for each label they lack the next
sequence that holds it.

Every fold knows the labels of all training sequences, those its own part lacks included: constraints, label
kernels and class weights then mean the same everywhere. But how badly a label is predicted that is not there
depends on the prior alone. So held-out sequences with such a label are left out of the scores, and ``n_dropped``
counts them.

Cost: O(N + S log S) for folds, and one packed copy of the chosen sequences for each part; parts are packed when their
turn comes, so that there is one such copy at a time.
Fails: ValueError or TypeError as ChainCRF.fit does, and for folds that cannot be made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, check_cv

from kernelfields.features.readers import ChainReader
from kernelfields.fields.chains import Chains, weigh_classes
from kernelfields.fields.constraints import ConstraintMasks
from kernelfields.fields.reading import check_sample_weight, encode_labels, offsets_of
from kernelfields.numerics.parameters import is_whole


@dataclass(frozen=True, eq=False)
class Fold:
    """Training and held-out sequences, and the random orders in which smaller parts take them."""

    train: np.ndarray
    test: np.ndarray
    train_order: np.ndarray
    test_order: np.ndarray

    def part(self, n_sequences: int | None, labels: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return ``n_sequences`` for training, a few more for their labels, and as many held-out ones at most."""
        if n_sequences is None:
            return self.train, self.test
        chosen = list(self.train_order[:n_sequences])
        known = set(np.concatenate([labels[i] for i in chosen]).tolist())
        for index in self.train_order[n_sequences:]:
            if not known.issuperset(labels[index].tolist()):
                known.update(labels[index].tolist())
                chosen.append(index)
        return np.sort(chosen), np.sort(self.test_order[:n_sequences])


def make_folds(
    cv: Any, X: list, y: list, groups: Any, labels: Sequence[np.ndarray], random: np.random.Generator
) -> list[Fold]:
    """Return the folds that ``cv`` describes: a number, a scikit-learn splitter or a list of index pairs."""
    if is_whole(cv):
        if cv < 2:
            raise ValueError(f"cv must be at least 2, got {cv}: scores need sequences that were held out")
        if cv > len(X):
            raise ValueError(f"cv={cv} folds need at least as many sequences, X has {len(X)}: lower cv")
    elif cv is None or isinstance(cv, bool | float | str):
        raise TypeError(f"cv must be a number of folds, a splitter or a list of (train, test) indices, got {cv!r}")
    if is_whole(cv) and groups is None:
        splits = spread_folds(labels, int(cv), random)
    else:
        splitter = GroupKFold(int(cv)) if is_whole(cv) else check_cv(cv)
        splits = [_checked(split, number, len(X)) for number, split in enumerate(splitter.split(X, y, groups))]
    if not splits:
        raise ValueError("cv holds no folds: give pairs of training and held-out indices")
    return [Fold(train, test, random.permutation(train), random.permutation(test)) for train, test in splits]


def spread_folds(
    labels: Sequence[np.ndarray], n_folds: int, random: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return folds of equal size over which the holders of rare labels are spread; labels are small numbers."""
    present = [np.unique(each) for each in labels]
    holders = np.bincount(np.concatenate(present))
    rarest = np.array([each[np.argmin(holders[each])] for each in present])
    order = random.permutation(len(labels))
    order = order[np.argsort(rarest[order], kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % n_folds
    return [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(n_folds)]


def _checked(split: Any, number: int, n_sequences: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of one fold as arrays; ValueError if they cannot be used."""
    train, test = (_indices(part, f"fold {number} of cv", n_sequences) for part in split)
    if np.intersect1d(train, test).size:
        raise ValueError(f"fold {number} of cv holds out sequences that it trains on; remove them from one side")
    return train, test


def _indices(part: Any, where: str, n_sequences: int) -> np.ndarray:
    indices = np.asarray(part)
    if indices.dtype == bool and indices.shape == (n_sequences,):
        indices = np.flatnonzero(indices)
    if indices.ndim != 1 or not indices.size or indices.dtype.kind not in "iu":
        raise ValueError(f"{where} must hold two lists of indices of sequences, neither empty")
    outside = indices[(indices < 0) | (indices >= n_sequences)]
    if outside.size:
        raise ValueError(f"{where} names sequence {outside[0]}, but X holds 0 to {n_sequences - 1}")
    return indices


@dataclass(frozen=True, eq=False)
class Part:
    """Packed training sequences and the held-out ones that can be scored; ``test`` is None if there are none."""

    reader: ChainReader
    train: Chains
    test: Chains | None
    X_test: list
    y_test: list


@dataclass(frozen=True, eq=False)
class Share:
    """Sequences of one fold by their numbers: to train on, to score, and how many cannot be scored."""

    train: np.ndarray
    scored: list[int]
    n_dropped: int


class TrainingData:
    """X and y as lists of sequences, with ``labels`` as numbers.

    ``keep_zeros`` lets features of weight zero count as seen, as ChainCRF does for an observed support.
    """

    def __init__(self, X: Any, y: Any, sample_weight: Any, *, keep_zeros: bool, class_weight: Any):
        X, y = (list(each) if hasattr(each, "__next__") else each for each in (X, y))
        self._keep_zeros, self._class_weight = keep_zeros, class_weight
        inputs, offsets = ChainReader().learn_inputs(X, keep_zeros=keep_zeros)
        codes, self.classes = encode_labels(y, None, np.diff(offsets))
        self.weights = check_sample_weight(sample_weight, len(offsets) - 1)
        chains = Chains(inputs, offsets, codes, self.weights)
        weigh_classes(chains, self.classes, class_weight)
        self.X, self.y = list(X), list(y)
        self.labels = chains.split(codes)

    def check_constraints(self, masks: ConstraintMasks) -> None:
        """Raise ValueError if the constraints forbid labels that are there."""
        offsets = offsets_of(np.array([len(each) for each in self.labels]))
        masks.check_labels(np.concatenate(self.labels), offsets, self.classes)

    def share(self, train: np.ndarray, test: np.ndarray) -> Share:
        """Return which of the chosen sequences can be scored."""
        known = np.zeros(len(self.classes), dtype=bool)
        known[np.concatenate([self.labels[i] for i in train])] = True
        scored = [i for i in test if known[self.labels[i]].all()]
        return Share(train, scored, len(test) - len(scored))

    def packed(self, train: np.ndarray) -> tuple[ChainReader, Chains]:
        """Return some sequences, packed, and the reader that has learnt their inputs."""
        reader = ChainReader()
        packed, offsets = reader.learn_inputs([self.X[i] for i in train], keep_zeros=self._keep_zeros)
        labels = np.concatenate([self.labels[i] for i in train])
        return reader, Chains(packed, offsets, labels, self.weights[train])

    def part(self, share: Share) -> Part:
        """Return the sequences of a fold, packed; inputs are learnt from the training ones alone."""
        reader, chains = self.packed(share.train)
        X_test, y_test = [self.X[i] for i in share.scored], [self.y[i] for i in share.scored]
        return Part(
            reader,
            weigh_classes(chains, self.classes, self._class_weight),
            reader.read(X_test, y_test, None, self.classes) if share.scored else None,
            X_test,
            y_test,
        )
