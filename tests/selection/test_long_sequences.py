"""Few and long sequences are cut into pieces for the lower rungs, so that halving saves work there as well."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from search_sequences import as_entities, search_sequences

from kernelfields import ChainCRF, ChainCRFCV
from kernelfields.data.constraints import resolve_constraints
from kernelfields.estimators.fit_state import NoProgress
from kernelfields.kernels import RBF
from kernelfields.selection.folds import Fold, Items


def long_sequences(n_sequences=6, length=400, seed=0):
    """Sequences of about that length, glued from short ones."""
    X, y = search_sequences(n_sequences * length // 4, seed=seed)
    cuts = np.linspace(0, len(X), n_sequences + 1).astype(int)
    parts = list(pairwise(cuts))
    return [np.concatenate(X[a:b]) for a, b in parts], [np.concatenate(y[a:b]) for a, b in parts]


X, y = long_sequences()
TAGS = as_entities(y)


def items_of(X, y, weights=None, **settings):
    crf = ChainCRF("linear", **settings)
    return Items(crf, crf.fit_state(X, y, weights, NoProgress()), X, y, weights)


def cut(items, length):
    """Cut so that there are about as many pieces as have that length; return the units of all sequences."""
    everything = np.arange(items.n_items)
    items.cut(everything, items.lengths.sum() // length - 2 * items.n_items)
    return items.fold((everything, everything), np.random.default_rng(0)).train_order


def units_of(items, item):
    split = np.array([item]), np.array([item])
    return np.sort(items.fold(split, np.random.default_rng(0)).train_order)


def test_pieces_are_contiguous_and_hold_every_position_once():
    items = items_of([*X, X[0][:60]], [*y, y[0][:60]])
    units = cut(items, 50)
    # Seven of fifty and a rest each; a sequence of sixty stays whole.
    for item in range(6):
        own = units_of(items, item)
        lengths = items.lengths[own]
        assert lengths.sum() == len(X[item])
        assert lengths.min() >= 25
        assert lengths.max() < 100
        part = items.take(own)
        np.testing.assert_array_equal(np.concatenate(part.X), X[item])
        np.testing.assert_array_equal(np.concatenate(part.y), y[item])
        np.testing.assert_array_equal(np.concatenate([items.labels[unit] for unit in own]), y[item])
    assert list(units_of(items, 6)) == [6]
    assert len(units) > 7 * 5
    assert len(np.unique(units)) == len(units)
    # Whole sequences are what they were.
    assert items.take(np.array([6, 0])).X[1] is X[0]


def test_pieces_begin_where_the_constraints_let_a_sequence_begin():
    items = items_of(X, TAGS, constraints="bio")
    units = cut(items, 50)
    assert len(units) > 3 * len(X)
    assert all(tags[0] != "I-X" for tags in items.take(units).y)
    classes = items.learnt[1]
    masks = resolve_constraints("bio", classes)
    offsets = np.concatenate([[0], np.cumsum(items.lengths[units])])
    masks.check_labels(np.concatenate([items.labels[unit] for unit in units]), offsets, classes)
    # Where a sequence may begin with few labels, it is cut in fewer places.
    zeros = [np.concatenate([[0], labels]) for labels in y]
    rarely = items_of([np.concatenate([x[:1], x]) for x in X], zeros, constraints={"start": [1, 2]})
    assert len(cut(rarely, 50)) < len(units)


@pytest.mark.parametrize("form", [sp.csr_array, lambda x: x.tolist(), lambda x: [{"a": str(v)} for v in x[:, 0]]])
def test_pieces_of_every_form_weigh_what_their_sequence_weighs(form):
    forms = [form(x) for x in X]
    weights = np.arange(1.0, 7.0)
    items = items_of(forms, y, weights)
    cut(items, 50)
    units = np.concatenate([units_of(items, item) for item in range(3)])
    share = items.share(Fold(units[::2], units[1::2], units[::2], units[1::2]))
    train, test = items.take(share.train), items.take(share.scored)
    assert train.n_positions == items.lengths[units[::2]].sum()
    assert set(train.weights) == {1.0, 2.0, 3.0}
    assert test.n_positions == items.lengths[units[1::2]].sum()
    chains = ChainCRF("linear").fit_state(train.X, train.y, train.weights, NoProgress(), items.learnt).data
    assert chains.n_positions == train.n_positions
    assert set(chains.weights) == {1.0, 2.0, 3.0}


def test_sequences_are_cut_where_there_are_too_few_for_the_rungs():
    def longest(wanted):
        items = items_of(X, y)
        train = np.arange(5)
        items.cut(train, wanted)
        return items.lengths[units_of(items, 0)].max()

    assert longest(5) == len(X[0])
    # About a hundredth of all positions, and no fewer than 25.
    assert 1.0 <= longest(90) / (sum(map(len, X[:5])) / 100) < 3.0
    assert 25 <= longest(10_000) < 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("constraints", "labels", "scoring"), [(None, y, "log_likelihood"), ("bio", TAGS, "accuracy")], ids=["free", "bio"]
)
def test_rungs_save_work_on_few_and_long_sequences(constraints, labels, scoring):
    kernels = [RBF(gamma) for gamma in (0.01, 0.03, 0.1, 0.3)]
    search = ChainCRFCV(
        ChainCRF(rank=6, constraints=constraints, tol=0.01),
        kernels=kernels,
        prior_variances=[0.1, 1.0],
        scoring=scoring,
        factor=2,
        min_items=5,
        extend=False,
        refit=False,
        random_state=0,
    ).fit(X, labels)
    results = search.cv_results_
    sizes = [results["n_resources"][results["iter"] == rung][0] for rung in range(3)]
    everything = max(sum(len(X[i]) for i in train) for train, _ in search.splits_)
    assert sizes[2] == everything
    assert sizes[0] < 0.35 * everything
    assert sizes[1] < 0.65 * everything
    assert [np.sum(results["iter"] == rung) for rung in range(3)] == [8, 4, 2]
    assert np.isfinite(results["mean_test_score"]).all()
