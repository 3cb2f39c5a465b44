"""Prior variances chosen by short fits on a part of the data."""

from __future__ import annotations

import numpy as np
import pytest

from kernelfields import ChainCRF, EdgeCliques, GraphCRF, KernelClassifier, MultiLabelCRF
from kernelfields.fields.chains import Chains
from kernelfields.models.pilot_fit import MOST_POSITIONS, in_pieces, split


def packed(lengths, n_labels=3, weights=None):
    random = np.random.default_rng(1)
    count = sum(lengths)
    labels = random.integers(0, n_labels, size=count)
    return Chains(random.normal(size=(count, 2)), np.concatenate([[0], np.cumsum(lengths)]), labels, weights)


def strong(n_sequences=60, length=10, noise=0.0, seed=0):
    """Labels that follow the inputs closely, or not at all with much noise."""
    random = np.random.default_rng(seed)
    X = [random.normal(size=(length, 2)) for _ in range(n_sequences)]
    y = [(x[:, 0] * x[:, 1] + noise * random.normal(size=length) > 0).astype(int) for x in X]
    return X, y


def test_whole_sequences_are_held_out_and_none_twice():
    chains = packed([7] * 50)
    train, held_out = split(chains)
    assert train.n_sequences + held_out.n_sequences == 50
    assert held_out.n_sequences == 10
    rows = {tuple(row) for row in train.inputs} & {tuple(row) for row in held_out.inputs}
    assert not rows


def test_no_more_than_so_many_positions_are_learnt_from():
    train, held_out = split(packed([100] * 300))
    assert train.n_positions <= MOST_POSITIONS
    assert held_out.n_positions <= MOST_POSITIONS / 4 + 100


@pytest.mark.parametrize("lengths", [[10] * 19, [3]])
def test_too_little_to_hold_out(lengths):
    assert split(packed(lengths)) is None


def test_few_long_sequences_are_cut_into_pieces():
    train, held_out = split(packed([300, 500]))
    assert train.n_positions + held_out.n_positions == 800
    assert held_out.n_sequences >= 3


def test_sequences_of_weight_zero_are_neither_learnt_nor_judged():
    weights = np.repeat([1.0, 0.0], 25)
    train, held_out = split(packed([10] * 50, weights=weights))
    assert train.n_sequences + held_out.n_sequences == 25
    assert (train.weights > 0).all()


def test_labels_that_were_not_learnt_are_not_asked_for():
    chains = packed([10] * 40)
    chains.labels[chains.offsets[:-1]] = np.arange(40) + 3  # each sequence has one of its own
    assert split(chains) is None


def test_pieces_keep_rows_and_weights():
    chains = packed([10, 25], weights=np.array([1.0, 2.0]))
    pieces = in_pieces(chains, 10)
    assert pieces.lengths.tolist() == [10, 12, 13]
    assert pieces.weights.tolist() == [1.0, 2.0, 2.0]
    np.testing.assert_array_equal(pieces.inputs, chains.inputs)


def test_clear_labels_get_a_larger_variance_than_noise():
    clear, noisy = (ChainCRF("rbf").fit(*strong(150, noise=noise)).prior_variance_ for noise in (0.0, 30.0))
    assert clear >= 10.0
    assert noisy <= 1.0


def test_the_choice_is_the_same_each_time_and_does_not_move_the_basis():
    X, y = strong()
    chosen = ChainCRF("rbf", rank=20, random_state=0).fit(X, y)
    given = ChainCRF("rbf", rank=20, random_state=0, prior_variance=chosen.prior_variance_).fit(X, y)
    np.testing.assert_array_equal(chosen.coef_["node"], given.coef_["node"])


def test_transitions_follow_unless_they_have_a_variance_of_their_own():
    X, y = strong()
    crf = ChainCRF("rbf", edges=EdgeCliques(prior_variance=0.5)).fit(X, y)
    variances = {term.name: term.prior_variance for term in crf.field_.terms}
    assert variances == {"node": crf.prior_variance_, "edge": 0.5}
    assert crf.prior_variance_ != 0.5


def test_every_estimator_chooses():
    X, y = strong()
    table, labels = np.vstack(X), np.concatenate(y)
    graphs = [(x, np.column_stack([np.arange(9), np.arange(1, 10)])) for x in X]
    fields = [
        GraphCRF("rbf").fit(graphs, y),
        KernelClassifier("rbf").fit(table, labels),
        MultiLabelCRF("rbf").fit(table, np.column_stack([labels, 1 - labels])),
    ]
    assert all(field.prior_variance_ >= 10.0 for field in fields)


def test_a_warm_start_keeps_the_variance_that_was_chosen():
    X, y = strong()
    crf = ChainCRF("rbf", warm_start=True).fit(X, y)
    before = crf.prior_variance_
    assert crf.fit(X[:20], y[:20]).prior_variance_ == before


def test_progress_tells_what_was_tried(capsys):
    ChainCRF("rbf", verbose=1).fit(*strong())
    shown = capsys.readouterr()
    assert "choosing the prior variance on a part of the data" in shown.out + shown.err
    assert "prior variance 10" in shown.out + shown.err


def test_a_threshold_for_rare_labels_is_learnt_kept_and_used(tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 2))
    Y = (X + 1.5 * random.normal(size=X.shape) > 2.0).astype(int)
    field = MultiLabelCRF("rbf", label_graph="none").fit(X, Y)
    assert 0.05 < field.threshold_ < 0.45
    np.testing.assert_array_equal(field.predict(X), field.predict_proba(X) > field.threshold_)
    field.save(tmp_path / "labels.model")
    assert MultiLabelCRF.load(tmp_path / "labels.model").threshold_ == field.threshold_
    half = MultiLabelCRF("rbf", label_graph="none", decision="hamming").fit(X, Y)
    assert half.threshold_ == 0.5
