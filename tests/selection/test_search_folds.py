"""Folds of sequences keep labels in every training part as far as that is possible."""

import numpy as np
import pytest
from search_sequences import search_sequences
from sklearn.model_selection import GroupKFold, KFold

from kernelfields import ChainCRF
from kernelfields.estimators.base import prepare_fit
from kernelfields.models.pilot_folds import spread_folds
from kernelfields.selection.folds import Fold, Items, split_items

X, y = search_sequences()


def items_of(X, y):
    crf = ChainCRF()
    return Items(crf, prepare_fit(crf, X, y, None), X, y, None)


ITEMS = items_of(X, y)


def folds(cv, groups=None, seed=0):
    random = np.random.default_rng(seed)
    splits = split_items(cv, ITEMS.labels, groups, random, "sequence", X, y)
    return [Fold(*split, *map(random.permutation, split)) for split in splits]


@pytest.mark.parametrize("n_folds", [2, 3, 5])
def test_folds_hold_every_sequence_out_once(n_folds):
    made = folds(n_folds)
    assert sorted(np.concatenate([fold.test for fold in made])) == list(range(len(X)))
    sizes = [len(fold.test) for fold in made]
    assert max(sizes) - min(sizes) <= 1
    for fold in made:
        assert sorted([*fold.train, *fold.test]) == list(range(len(X)))
        assert sorted(fold.train_order) == list(fold.train)


def with_rare_labels(random):
    """Thirty sequences of four common labels; six more labels occur in two sequences each."""
    labels = [random.integers(4, size=5) for _ in range(30)]
    for rare in range(4, 10):
        for holder in (2 * rare, 2 * rare + 1):
            labels[holder] = np.append(labels[holder], rare)
    return labels


def n_labels_of_training_parts(labels, splits):
    return [len(np.unique(np.concatenate([labels[i] for i in train]))) for train, _ in splits]


def test_a_label_of_two_sequences_is_in_every_training_part():
    spread, plain = [], []
    for seed in range(20):
        random = np.random.default_rng(seed)
        labels = with_rare_labels(random)
        spread += n_labels_of_training_parts(labels, spread_folds(labels, 3, random))
        splits = KFold(3, shuffle=True, random_state=seed).split(labels)
        plain += n_labels_of_training_parts(labels, splits)
    assert set(spread) == {10}
    assert min(plain) < 10


def test_folds_follow_the_seed():
    one, same, other = (folds(3, seed=seed) for seed in (0, 0, 1))
    assert all(np.array_equal(a.test, b.test) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a.test, b.test) for a, b in zip(one, other, strict=True))


def test_splitters_lists_and_groups():
    splitter = KFold(3, shuffle=True, random_state=4)
    wanted = list(splitter.split(X))
    masks = [[np.isin(np.arange(len(X)), part) for part in split] for split in wanted]
    for cv in (splitter, wanted, iter(wanted), masks):
        for fold, (train, test) in zip(folds(cv), wanted, strict=True):
            np.testing.assert_array_equal(fold.train, train)
            np.testing.assert_array_equal(fold.test, test)
    groups = np.arange(len(X)) % 5
    for cv in (3, GroupKFold(3)):
        for fold in folds(cv, groups):
            assert not set(groups[fold.train]) & set(groups[fold.test])


def test_smaller_parts_are_nested_and_hold_every_label():
    labels = [np.array([0, 1])] * 30 + [np.array([2]), np.array([3, 0]), np.array([0])]
    items = items_of([np.zeros((len(own), 1)) for own in labels], labels)
    random = np.random.default_rng(0)
    fold = Fold(np.arange(0, 32), np.array([32]), random.permutation(32), np.array([32]))
    lengths = np.array(list(map(len, labels)))
    for size in (4, 12):
        share = items.share(fold, size)
        order = list(fold.train_order)
        first = next(n for n in range(1, 33) if lengths[order[:n]].sum() >= size)
        assert set(order[:first]) <= set(share.train)
        assert first <= len(share.train) <= first + 2
        assert set(np.concatenate([labels[i] for i in share.train]).tolist()) == {0, 1, 2, 3}
        assert list(share.scored) == [32]
    everything = items.share(fold)
    assert everything.train is fold.train
    assert list(everything.scored) == [32]


@pytest.mark.parametrize(
    ("cv", "error", "words"),
    [
        (1, ValueError, "cv must be at least 2, got 1"),
        (25, ValueError, "cv=25 folds need at least as many sequences, X has 24: lower cv"),
        (None, TypeError, "cv must be a number of folds"),
        (True, TypeError, "cv must be a number of folds"),
        (3.0, TypeError, "cv must be a number of folds"),
        ("3", TypeError, "cv must be a number of folds"),
        ([], ValueError, "cv holds no folds"),
        ([([0, 1], [1, 2])], ValueError, "fold 0 of cv holds out sequences that it trains on"),
        ([([0, 1], [2]), ([0, 1], [])], ValueError, "fold 1 of cv must hold two lists of indices"),
        ([([0, 1], [24])], ValueError, "fold 0 of cv names sequence 24, but X holds 0 to 23"),
        ([([0, 1], [-1])], ValueError, "fold 0 of cv names sequence -1"),
        ([([0.5], [1])], ValueError, "fold 0 of cv must hold two lists of indices"),
    ],
)
def test_folds_that_cannot_be_used_are_refused(cv, error, words):
    with pytest.raises(error, match=words):
        folds(cv)
