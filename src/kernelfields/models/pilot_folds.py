"""Folds of labelled data for pilot fits.

Whole sequences, graphs or instances are held out, or whole groups of them where the user names groups, such as persons:
positions of one item resemble each other, and a part of it would be predicted too well. What new items are like is
seen in many items, not in many positions of one. So

    many items      one fold: a fifth of the positions that are drawn is held out
    fewer           four folds, each item held out once: items differ more than candidates do, and which of two
                    candidates predicts a few items better says little about others. Of at most ten items there is a
                    last round, with as many folds as items
    very few        fewer than 3 sequences are cut into pieces; of fewer than 5 graphs there are no folds, see
                    auto_parameters.py

Of more positions than ``most``, long sequences are cut into pieces, and all items give some before one gives more.
Labels that are rare are spread over folds. Draws are the same in every fit.
Cost: O(N + S log S). Arrays: ``groups`` (S,), of any values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from kernelfields.data.chains import Chains
from kernelfields.engines.engine import PackedData

#: Data that are learnt from and data to judge by.
Parts: TypeAlias = tuple[PackedData, PackedData]


@dataclass(frozen=True, eq=False)
class Folds:
    """Numbers of training and held-out items for each fold.

    ``units`` (S,) are the numbers of what is held out together: of an item, or of a group of them. ``n_pieces`` is the
    number of pieces that very few sequences are cut into, else 0.
    """

    data: PackedData
    splits: Sequence[tuple[np.ndarray, np.ndarray]]
    units: np.ndarray
    n_pieces: int = 0

    @property
    def has_whole_items(self) -> bool:
        """Whether items or groups of several positions are held out, and not positions one by one."""
        return len(np.unique(self.units)) < self.data.n_positions

    def __len__(self) -> int:
        return len(self.splits)

    def __getitem__(self, number: int) -> Parts:
        """Return the training and the held-out part of a fold."""
        train, held_out = self.splits[number]
        return self.data.subset(train), self.data.subset(held_out)

    def __iter__(self) -> Iterator[Parts]:
        return (self[number] for number in range(len(self)))

    def held_out_units(self, number: int) -> np.ndarray:
        """Return the unit of each held-out position of a fold."""
        held_out = self.splits[number][1]
        return np.repeat(self.units[held_out], self.data.lengths[held_out])


_LEAST_POSITIONS = 200
_LEAST_ITEMS, _LEAST_SEQUENCES = 5, 3
# Labels of one instance are less informative than as many labels of others.
_LEAST_INSTANCES = 100
_N_FOLDS = 4
# Of so few items each is held out by itself in the last round.
_FEW = 10
_HELD_OUT = 0.2
# A single fold has to hold out so many items or groups, and so many positions.
_FIRM, _FIRM_POSITIONS = 40, 500
# Few sequences are cut into so many pieces in all; long ones, of which a part is drawn, into pieces of a length.
_PIECES, _LENGTH = 20, 100


def pilot_folds(
    data: PackedData, most: int, groups: np.ndarray | None = None, *, once: bool = False, last: bool = False
) -> Folds:
    """Return folds of about ``most`` positions; no folds for too few data.

    Items of a second part with labels that the first does not have are left out. ``once`` makes one fold of few items,
    too: fields that differ in the penalty of weights alone are told apart by few. ``last`` makes the folds of the last
    round, if there is one.
    """
    units = np.arange(len(data.weights)) if groups is None else np.unique(groups, return_inverse=True)[1]
    none = Folds(data, (), units)
    if data.n_positions < _LEAST_POSITIONS:
        return none
    if data.share_rows and len(data.weights) < _LEAST_INSTANCES:
        return none
    data, units = _select_weighted(data, units)
    n_pieces, least = 0, 2 if groups is not None else _LEAST_SEQUENCES if isinstance(data, Chains) else _LEAST_ITEMS
    if len(np.unique(units)) < least:
        if not isinstance(data, Chains):
            return none
        data, _ = in_pieces(data, max(1, data.n_positions // _PIECES))
        units, n_pieces = np.arange(len(data.weights)), len(data.weights)
        if n_pieces < _LEAST_ITEMS:
            return none
    random = np.random.default_rng(0)
    rank = random.permutation(units.max() + 1)
    sizes = np.bincount(units, data.lengths, minlength=len(rank))[np.argsort(rank)]
    ends = np.cumsum(sizes)
    n_held = int(np.searchsorted(ends, _HELD_OUT * min(ends[-1], most / (1.0 - _HELD_OUT)), side="right"))
    firm = n_held >= _FIRM and ends[n_held - 1] >= _FIRM_POSITIONS
    if last and not _N_FOLDS < len(rank) <= _FEW:
        return none
    if firm or (once and n_held >= _LEAST_ITEMS):
        n_all = max(n_held + 1, int(np.searchsorted(ends, ends[n_held - 1] + most, side="right")))
        places = rank[units]
        splits = [(np.flatnonzero((places >= n_held) & (places < n_all)), np.flatnonzero(places < n_held))]
    else:
        data, units = _draw_items(data, units, rank, most)
        units = np.unique(units, return_inverse=True)[1]
        by_unit = np.argsort(units, kind="stable")
        labels = [data.required_labels[data.offsets[i] : data.offsets[i + 1]] for i in by_unit.tolist()]
        bounds = np.cumsum(np.bincount(units))
        held = [np.concatenate(labels[begin:end]) for begin, end in pairwise([0, *bounds.tolist()])]
        folds = spread_folds(held, len(held) if last else min(_N_FOLDS, len(held)), random)
        splits = [(np.flatnonzero(np.isin(units, own)), np.flatnonzero(np.isin(units, out))) for own, out in folds]
    judged = ((own, out[_find_answerable(data.subset(own), data.subset(out))]) for own, out in splits)
    return Folds(data, [(own, out) for own, out in judged if len(out)], units, n_pieces)


def _select_weighted(data: PackedData, units: np.ndarray) -> tuple[PackedData, np.ndarray]:
    """Return the items of nonzero weight."""
    counts = data.weights > 0
    return (data, units) if counts.all() else (data.subset(counts), units[counts])


def _draw_items(data: PackedData, units: np.ndarray, rank: np.ndarray, most: int) -> tuple[PackedData, np.ndarray]:
    """Draw items of about ``most`` positions, in turn one of each unit, in the order of ``rank``."""
    if data.n_positions <= most:
        return data, units
    if isinstance(data, Chains) and data.can_be_cut:
        data, parents = in_pieces(data, _LENGTH)
        units = units[parents]
    shuffled = np.random.default_rng(1).permutation(len(units))
    by_unit = shuffled[np.argsort(units[shuffled], kind="stable")]
    counts = np.bincount(units)
    turn = np.empty(len(units), dtype=np.int64)
    turn[by_unit] = np.arange(len(units)) - np.repeat(np.cumsum(counts) - counts, counts)
    order = np.lexsort((rank[units], turn))
    chosen = np.sort(order[: max(_LEAST_ITEMS, int(np.searchsorted(np.cumsum(data.lengths[order]), most)))])
    return data.subset(chosen), units[chosen]


def _find_answerable(train: PackedData, held_out: PackedData) -> np.ndarray:
    """Return a mask of held-out items whose labels all occur in training."""
    known = np.zeros(1 + max(int(part.required_labels.max()) for part in (train, held_out)), dtype=bool)
    known[train.required_labels] = True
    lengths = held_out.lengths
    starts = np.cumsum(lengths) - lengths
    whole = np.logical_and.reduceat(known[held_out.required_labels], starts)
    return whole & np.logical_or.reduceat(held_out.given.informative(), starts)


def in_pieces(chains: Chains, length: int) -> tuple[Chains, np.ndarray]:
    """Split sequences into pieces of about ``length`` positions; return them and the sequence of each."""
    cuts = [
        np.linspace(begin, end, max(1, round((end - begin) / length)) + 1).round().astype(np.int64)[1:]
        for begin, end in pairwise(chains.offsets.tolist())
    ]
    return chains.cut_at(np.concatenate([[0], *cuts]))


def spread_folds(
    labels: list[np.ndarray], n_folds: int, random: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return folds of equal size that share the items with rare labels; labels are small numbers."""
    present = [np.unique(own) if len(own) > 1 else own for own in labels]
    holders = np.bincount(np.concatenate(present))
    # Those of which nothing is known come last, spread as well.
    rarest = np.array([own[np.argmin(holders[own])] if len(own) else len(holders) for own in present])
    order = random.permutation(len(labels))
    order = order[np.argsort(rarest[order], kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % n_folds
    return [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(n_folds)]
