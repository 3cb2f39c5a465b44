"""Few and long sequences are cut into pieces for the lower rungs, so that halving saves work there as well."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from search_sequences import as_entities, search_sequences

from kernelfields import ChainCRF, ChainCRFCV
from kernelfields.fields.constraints import resolve_constraints
from kernelfields.kernels.stationary import RBF
from kernelfields.selection.training_data import SequenceData, piece_length


def long_sequences(n_sequences=6, length=400, seed=0):
    """Sequences of about that length, glued from short ones."""
    X, y = search_sequences(n_sequences * length // 4, seed=seed)
    cuts = np.linspace(0, len(X), n_sequences + 1).astype(int)
    parts = list(pairwise(cuts))
    return [np.concatenate(X[a:b]) for a, b in parts], [np.concatenate(y[a:b]) for a, b in parts]


X, y = long_sequences()
TAGS = as_entities(y)


def data_of(X, y, weights=None, **settings):
    crf = ChainCRF("linear", **settings)
    return SequenceData(X, y, weights, crf._training(X, y, weights, crf._progress())), crf


def test_pieces_are_contiguous_and_hold_every_position_once():
    data, _ = data_of([*X, X[0][:60]], [*y, y[0][:60]])
    n_pieces = data.cut(50, None)
    # Seven of fifty and a rest each; a sequence of sixty stays whole.
    for item in range(6):
        units = data.units(np.array([item]))
        lengths = data.lengths[units]
        assert lengths.sum() == len(X[item])
        assert lengths.min() >= 25
        assert lengths.max() < 100
        np.testing.assert_array_equal(np.concatenate(data.inputs(units)), X[item])
        np.testing.assert_array_equal(np.concatenate(data.targets(units)), y[item])
        np.testing.assert_array_equal(np.concatenate([data.labels[unit] for unit in units]), y[item])
    assert list(data.units(np.array([6]))) == [6]
    assert len(data.units(np.arange(7))) == n_pieces + 1
    # Whole sequences are what they were.
    assert data.inputs([6, 0])[1] is X[0]


def test_pieces_begin_where_the_constraints_let_a_sequence_begin():
    data, _ = data_of(X, TAGS, constraints="bio")
    data.cut(50, "bio")
    units = data.units(np.arange(len(X)))
    assert len(units) > 3 * len(X)
    assert all(tags[0] != "I-X" for tags in data.targets(units))
    masks = resolve_constraints("bio", data.classes)
    offsets = np.concatenate([[0], np.cumsum(data.lengths[units])])
    masks.check_labels(np.concatenate([data.labels[unit] for unit in units]), offsets, data.classes)
    # Where a sequence may begin with nothing but its first label, it stays whole.
    never = {"start": [0, 1, 2]}
    plain, _ = data_of(X, y)
    assert plain.cut(50, {**never, "start": [1, 2]}) < len(units)


@pytest.mark.parametrize("form", [sp.csr_array, lambda x: x.tolist(), lambda x: [{"a": str(v)} for v in x[:, 0]]])
def test_pieces_of_every_form_weigh_what_their_sequence_weighs(form):
    forms = [form(x) for x in X]
    data, crf = data_of(forms, y, np.arange(1.0, 7.0))
    data.cut(50, None)
    units = data.units(np.arange(3))
    share = data.share(units[::2], units[1::2])
    part = data.part(share, crf)
    assert part.training.data.n_positions == data.lengths[units[::2]].sum()
    assert set(part.training.data.weights) == {1.0, 2.0, 3.0}
    assert part.test.n_positions == data.lengths[units[1::2]].sum()


def test_sequences_are_cut_where_there_are_too_few_for_the_rungs():
    assert piece_length(25_000, 5, wanted=180) == 131
    assert piece_length(600, 5, wanted=180) == 25
    assert piece_length(25_000, 180, wanted=180) is None


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
        min_sequences=5,
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
