"""Hypotheses about wrong labels: what they change, and by how much scores rise."""

from itertools import product

import numpy as np
import pytest

from kernelfields.data import Chains
from kernelfields.inference import Answers, ChainFamily, Potentials
from kernelfields.labelling.hypotheses import (
    MOST,
    REACH,
    Given,
    SegmentLabels,
    chain_gains,
    find_runs,
    gains,
    independent_scores,
    marginals_without_neighbours,
    propose_corrections,
)
from kernelfields.numerics import Workers
from tests.samples import chain_potentials

BIO = ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]
BIOES = ["B-PER", "E-PER", "I-PER", "O", "S-PER"]


def answers_of(rng, n_labels, tied=True, spread=2.0):
    node, edge, offsets = chain_potentials(rng, n_labels, spread, tied=tied)
    family = ChainFamily(offsets, n_labels, tied=tied)
    data = Chains(np.zeros((offsets[-1], 1)), offsets)
    return Answers(data, family, Potentials(node, {"edge": edge}), Workers(1))


def given_by(answers, labels, known=None):
    known = np.ones(len(labels), dtype=bool) if known is None else known
    return Given(labels, known, answers.marginals, answers.best_labels())


def changed_labellings(names, given, best=None):
    """All labellings that hypotheses about one sequence propose, as strings, where every label is likely."""
    numbers = np.array([names.index(label) for label in given])
    best = numbers if best is None else np.array([names.index(label) for label in best])
    family = ChainFamily([0, len(given)], len(names))
    data = Chains(np.zeros((len(given), 1)), np.array([0, len(given)]))
    answers = Answers(data, family, Potentials(np.zeros((len(given), len(names))), {"edge": np.zeros((1, 5, 5))}), 1)
    marginals = np.full((len(given), len(names)), 1 / len(names))
    tried = propose_corrections(
        answers, Given(numbers, np.ones(len(given), dtype=bool), marginals, best), SegmentLabels(names)
    )
    found = {}
    for number in range(len(tried)):
        rows, labels = tried.get_change(number)
        other = numbers.copy()
        other[rows] = labels
        found.setdefault(" ".join(names[label] for label in other), set()).add(int(tried.kinds[number]))
    return found


@pytest.mark.parametrize("tied", [True, False])
def test_gains_of_chains_are_those_of_every_family(tied):
    rng = np.random.default_rng(3)
    for _ in range(5):
        answers = answers_of(rng, 5, tied)
        labels = rng.integers(5, size=answers.family.n_positions)
        tried = propose_corrections(answers, given_by(answers, labels), SegmentLabels(BIO))
        assert len(tried) > answers.family.n_positions
        np.testing.assert_allclose(
            chain_gains(answers, labels, tried), gains(answers, labels, tried), atol=1e-10, rtol=0
        )


def test_gains_are_conditional_log_odds():
    """Against enumeration: log p(other labels of the window | x, all others) - log p(given labels | the same)."""
    rng = np.random.default_rng(0)
    node, edge = rng.normal(size=(4, 3)), rng.normal(size=(1, 3, 3))
    family = ChainFamily([0, 4], 3)
    answers = Answers(Chains(np.zeros((4, 1)), np.array([0, 4])), family, Potentials(node, {"edge": edge}), Workers(1))
    labels = np.array([0, 0, 1, 2])
    tried = propose_corrections(answers, given_by(answers, labels), SegmentLabels(["a", "b", "c"]))
    logs = {y: float(answers.label_scores(np.array(y))[0]) for y in product(range(3), repeat=4)}
    for number, gain in enumerate(gains(answers, labels, tried)):
        rows, new = tried.get_change(number)
        inside = [y for y in logs if all(y[t] == labels[t] for t in range(4) if t not in rows)]
        total = np.logaddexp.reduce([logs[y] for y in inside])
        other = labels.copy()
        other[rows] = new
        expected = (logs[tuple(other.tolist())] - total) - (logs[tuple(labels.tolist())] - total)
        assert gain == pytest.approx(expected, abs=1e-12)


def test_entities_change_type_end_elsewhere_and_appear():
    position, boundary, segment = range(3)
    found = changed_labellings(BIO, ["O", "B-PER", "I-PER", "O"])
    assert segment in found["O B-LOC I-LOC O"]
    assert segment in found["O O O O"]
    assert boundary in found["O B-PER O O"]
    assert boundary in found["B-PER I-PER I-PER O"]
    assert boundary in found["O B-PER I-PER I-PER"]
    assert position in found["O B-PER B-PER O"]
    missing = changed_labellings(BIO, ["O", "O", "O"])
    assert segment in missing["B-LOC I-LOC O"]
    assert segment in missing["O B-PER I-PER"]


def test_borders_between_entities_move():
    found = changed_labellings(BIO, ["B-PER", "I-PER", "B-LOC", "I-LOC"])
    assert 1 in found["B-PER B-LOC I-LOC I-LOC"]
    assert 1 in found["B-PER I-PER I-PER B-LOC"]


def test_entities_whose_ends_are_marked_stay_valid():
    found = changed_labellings(BIOES, ["B-PER", "I-PER", "E-PER", "O", "O"])
    assert 1 in found["B-PER E-PER O O O"]
    assert 1 in found["B-PER I-PER I-PER E-PER O"]
    assert 2 in changed_labellings(BIOES, ["O", "O"])["S-PER O"]
    assert 2 in changed_labellings(BIOES, ["O", "O"])["B-PER E-PER"]


def test_runs_of_equal_labels_are_segments():
    names = ["a", "b", "c", "d", "e"]
    found = changed_labellings(names, list("aaabb"), list("abbbb"))
    assert 2 in found["c c c b b"]
    assert 1 in found["a a b b b"]
    assert 2 in found["a b b b b"]


def test_positions_that_are_not_given_are_not_changed():
    rng = np.random.default_rng(1)
    answers = answers_of(rng, 5)
    labels = rng.integers(5, size=answers.family.n_positions)
    known = rng.random(len(labels)) < 0.6
    tried = propose_corrections(answers, given_by(answers, labels, known), SegmentLabels(BIO))
    assert known[tried.rows].all()


def test_labels_that_cannot_be_written_are_not_proposed():
    segments = SegmentLabels(["B-PER", "I-LOC", "O"])
    kinds = {segments.type_of[0]: 1, segments.type_of[1]: 1}
    assert len(kinds) == 2
    assert segments.encode(int(segments.type_of[0]), 2) is None
    assert segments.encode(int(segments.type_of[0]), 1).tolist() == [0]
    assert segments.encode(int(segments.type_of[1]), 1) is None


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("forbidden", [False, True])
def test_a_position_is_judged_by_labels_that_are_not_near_it(tied, forbidden):
    rng = np.random.default_rng(5)
    offsets = np.array([0, 2 * REACH + 5, 2 * REACH + 6, 3 * REACH + 9])
    n_positions = offsets[-1]
    node, edge = 2 * rng.normal(size=(n_positions, 3)), 2 * rng.normal(size=(1 if tied else n_positions, 3, 3))
    if forbidden:
        edge[:, 0, 2] = -np.inf
    answers = Answers(
        Chains(np.zeros((n_positions, 1)), offsets),
        ChainFamily(offsets, 3, tied=tied),
        Potentials(node, {"edge": edge}),
        Workers(1),
    )
    labels = rng.integers(3 - forbidden, size=n_positions)
    found, items = marginals_without_neighbours(answers, labels), answers.family.position_items
    for t in range(n_positions):
        far = (np.abs(np.arange(n_positions) - t) > REACH) & (items == items[t])
        log_weights = np.where(far[:, None] & (np.arange(3) != labels[:, None]), -np.inf, 0.0)
        np.testing.assert_allclose(found[t], answers.condition(log_weights).marginals[t], atol=1e-12)
    scores = independent_scores(found, labels, runs=True)
    order = np.argsort(-found[np.arange(n_positions), labels])
    assert (np.diff(scores[order]) >= 0).all()
    assert scores.max() < MOST


def test_where_labels_far_away_forbid_every_label_they_are_left_out():
    """No labelling leads from a to b in fewer than REACH steps, and the given labels do so."""
    n_labels = REACH + 3
    edge = np.full((1, n_labels, n_labels), -np.inf)
    edge[0, np.arange(n_labels), np.arange(n_labels)] = 0.0
    edge[0, np.arange(n_labels - 1), np.arange(1, n_labels)] = 0.0
    offsets = np.array([0, 2 * REACH + 3])
    data, family = Chains(np.zeros((offsets[-1], 1)), offsets), ChainFamily(offsets, n_labels)
    answers = Answers(data, family, Potentials(np.zeros((offsets[-1], n_labels)), {"edge": edge}), Workers(1))
    labels = np.full(offsets[-1], n_labels - 1)
    labels[-1] = 0
    np.testing.assert_allclose(
        marginals_without_neighbours(answers, labels)[REACH + 1], answers.marginals[REACH + 1], atol=1e-12
    )


def test_runs_of_positive_scores_end_with_their_item():
    scores = np.array([1.0, 1.0, -1.0, 1.0, 1.0, 1.0, 1.0, -1.0, 1.0])
    firsts, ends = find_runs(scores, np.array([0, 5, 9]))
    assert list(zip(firsts.tolist(), ends.tolist(), strict=True)) == [(0, 2), (3, 5), (5, 7)]
