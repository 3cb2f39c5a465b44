"""Best labellings, samples and entropies of long chains, by rescoring and closed forms."""

import numpy as np
import pytest

from kernelfields.inference.chain.decoding import viterbi
from kernelfields.numerics import Workers
from tests.arrays import chain_entropy, n_best_chains, sample_chains


def test_n_best_labellings_are_distinct_and_descend():
    rng = np.random.default_rng(0)
    offsets = np.array([0, 1, 30, 50])
    node, edge = rng.normal(size=(50, 5)), rng.normal(size=(50, 5, 5))
    labellings, scores = n_best_chains(node, edge, offsets, 100)
    assert [len(found) for found in labellings] == [5, 100, 100]
    best_labels, best_scores = viterbi(node, edge, offsets)
    for i, (found, ranked) in enumerate(zip(labellings, scores, strict=True)):
        start, stop = offsets[i], offsets[i + 1]
        assert len(np.unique(found, axis=0)) == len(found)
        assert (np.diff(ranked) <= 0).all()
        positions = np.arange(start, stop)
        rescored = node[positions, found].sum(axis=1)
        rescored += edge[positions[1:], found[:, :-1], found[:, 1:]].sum(axis=1)
        np.testing.assert_allclose(ranked, rescored, atol=1e-11)
        np.testing.assert_array_equal(found[0], best_labels[start:stop])
        assert ranked[0] == pytest.approx(best_scores[i], rel=1e-12)


def test_samples_with_large_spreads_and_late_forbidden_steps():
    # Label 0 leads by e^5000 at every position, and the last step can only be taken from label 1.
    node = np.tile([5000.0, 0.0], (4, 1))
    edge = np.zeros((4, 2, 2))
    edge[1:3] = [[0.0, -np.inf], [-np.inf, 0.0]]
    edge[3] = [[-np.inf, -np.inf], [1.0, 0.0]]
    offsets = np.array([0, 4])
    samples = sample_chains(node, edge, offsets, 50, random_state=0)
    np.testing.assert_array_equal(samples, np.tile([1, 1, 1, 0], (50, 1)))
    np.testing.assert_array_equal(viterbi(node, edge, offsets)[0], [1, 1, 1, 0])
    np.testing.assert_allclose(chain_entropy(node, edge, offsets), 0, atol=1e-14)


def test_results_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(3)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 40, size=200))])
    node, edge = rng.normal(size=(offsets[-1], 5)), rng.normal(size=(1, 5, 5))
    many = Workers(3)
    assert len(many.runs(offsets, 5)) > 1
    for alone, shared in zip(viterbi(node, edge, offsets), viterbi(node, edge, offsets, many), strict=True):
        np.testing.assert_array_equal(alone, shared)
    for alone, shared in zip(
        n_best_chains(node, edge, offsets, 3), n_best_chains(node, edge, offsets, 3, many), strict=True
    ):
        for of_one, of_many in zip(alone, shared, strict=True):
            np.testing.assert_array_equal(of_one, of_many)
    np.testing.assert_array_equal(
        sample_chains(node, edge, offsets, 4, random_state=5),
        sample_chains(node, edge, offsets, 4, random_state=np.random.default_rng(5), workers=many),
    )
    np.testing.assert_array_equal(chain_entropy(node, edge, offsets), chain_entropy(node, edge, offsets, many))
    node[offsets[150]] = -np.inf
    node[offsets[180]] = -np.inf
    with pytest.raises(ValueError, match="sequence 150: every labelling is forbidden"):
        viterbi(node, edge, offsets, many)


@pytest.mark.slow
def test_a_million_positions():
    rng = np.random.default_rng(4)
    length = 1_000_000
    offsets = np.array([0, length])
    stay, move = 0.75, 0.25
    edge = np.log([[[stay, move], [move, stay]]])
    # A doubly stochastic chain from a uniform start: every step adds the entropy of one transition.
    rate = -stay * np.log(stay) - move * np.log(move)
    constant = np.full((length, 2), 7.0)
    np.testing.assert_allclose(chain_entropy(constant, edge, offsets), np.log(2) + (length - 1) * rate, rtol=1e-13)
    samples = sample_chains(constant, edge, offsets, random_state=6)[0]
    moved = np.mean(samples[1:] != samples[:-1])
    assert abs(moved - move) <= 5 * np.sqrt(move * stay / length)

    node = rng.normal(size=(length, 2))
    labels, scores = viterbi(node, edge, offsets)
    rescored = node[np.arange(length), labels].sum() + edge[0, labels[:-1], labels[1:]].sum()
    np.testing.assert_allclose(scores, rescored, rtol=1e-12)
    (labellings,), (ranked,) = n_best_chains(node, edge, offsets, 2)
    np.testing.assert_array_equal(labellings[0], labels)
    assert (labellings[1] != labels).any()
    assert ranked[1] <= ranked[0] == pytest.approx(scores[0], rel=1e-12)


def test_no_sequences_give_empty_results():
    chains = np.zeros((0, 2)), np.zeros((1, 2, 2)), np.array([0])
    assert [len(part) for part in viterbi(*chains)] == [0, 0]
    assert n_best_chains(*chains, 3) == ([], [])
    assert sample_chains(*chains, 2).shape == (2, 0)
    assert chain_entropy(*chains).shape == (0,)


@pytest.mark.parametrize("count", [0, -1, 1.5, "2"])
def test_counts_must_be_positive_whole_numbers(count):
    chains = np.zeros((2, 2)), np.zeros((1, 2, 2)), np.array([0, 2])
    with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
        n_best_chains(*chains, count)
    with pytest.raises(ValueError, match="n_samples must be a whole number of at least 1"):
        sample_chains(*chains, count)
