"""RingCRF: fields of closed sequences, turned, with constraints across the seam, and what they refuse."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

from kernelfields import EdgeCliques, EndCliques, NodeCliques, RingCRF, SkipCliques, StartCliques
from kernelfields.selection import StructureSearch

LENGTHS = (1, 2, 3, 5, 6) * 6
FIELDS = {
    "linear": RingCRF(kernel="linear", prior_variance=1.0, tol=1e-6),
    "windows": RingCRF(kernel="rbf", edges=EdgeCliques("rbf"), window=3, prior_variance=1.0),
    "skips": RingCRF(cliques=[NodeCliques("linear"), EdgeCliques(), SkipCliques(lag=2)]),
}


@pytest.fixture(scope="module")
def sample():
    random = np.random.default_rng(3)
    X = [random.normal(size=(length, 3)) for length in LENGTHS]
    return X, [(x[:, 0] > 0).astype(int) + (np.roll(x[:, 0], 1) > 0.5) for x in X]


@pytest.fixture(scope="module")
def fitted(sample):
    return {name: clone(field).fit(*sample) for name, field in FIELDS.items()}


@pytest.mark.parametrize("name", FIELDS)
def test_where_a_ring_is_cut_open_changes_nothing(sample, fitted, name):
    X, y = sample
    turned = [np.roll(x, 2, axis=0) for x in X]
    before, after = fitted[name].predict_marginals(X), fitted[name].predict_marginals(turned)
    for first, second in zip(before, after, strict=True):
        np.testing.assert_allclose(np.roll(first, 2, axis=0), second, atol=1e-12)
    again = clone(FIELDS["linear"]).fit(turned, [np.roll(labels, 2) for labels in y])
    np.testing.assert_allclose(again.transitions_, fitted["linear"].transitions_, atol=1e-4)


def test_scores_of_a_ring_are_those_of_its_steps(sample, fitted):
    # Where all inputs are alike, labellings with the same labels in another order differ by their steps alone.
    ring, x = fitted["linear"], np.repeat(sample[0][4][:1], 6, axis=0)
    labellings = [np.array([0, 0, 1, 2, 1, 2]), np.array([2, 0, 2, 0, 1, 1])]
    scores = [sum(ring.transitions_[labels[t - 1], labels[t]] for t in range(6)) for labels in labellings]
    logs = [ring.log_likelihood([x], [labels]) for labels in labellings]
    assert logs[1] - logs[0] == pytest.approx(scores[1] - scores[0])


def test_constraints_hold_across_the_seam(sample):
    X, _ = sample
    ring = RingCRF(kernel="linear", prior_variance=1.0, constraints=[("a", "b")])
    with pytest.raises(ValueError, match="sequence 3, position 0: label 'b' is forbidden after 'a'"):
        ring.fit(X[:5], [["c"], ["c", "b"], ["c", "c", "a"], list("bccca"), list("cccccc")])
    y = [["c"], ["c", "b"], ["c", "c", "a"], list("bccac"), list("cbacca")]
    for labels in ring.fit(X[:5], y).predict(X, decode="viterbi"):
        closed = [*labels, labels[0]] if len(labels) > 1 else []
        assert ("a", "b") not in list(pairwise(closed))


def test_what_has_no_meaning_for_rings_is_refused(sample, fitted):
    X, y = sample
    with pytest.raises(ValueError, match="a stream needs sequences with a beginning"):
        fitted["linear"].stream()
    entities = [["B-X" if label else "O" for label in labels] for labels in y]
    entities[3][:2] = ["B-X", "I-X"]
    with pytest.raises(ValueError, match="a ring has no first and no last label"):
        RingCRF(kernel="linear", constraints="bio").fit(X, entities)
    for cliques in (StartCliques(), EndCliques()):
        with pytest.raises(ValueError, match="a ring has no first and no last label: leave out"):
            RingCRF(cliques=[NodeCliques("linear"), EdgeCliques(), cliques]).fit(X, y)


def test_a_search_for_cliques_finds_no_ends(sample):
    ring = RingCRF("linear", prior_variance=1.0, random_state=0)
    learnt = StructureSearch(ring, [StartCliques(), EndCliques(), SkipCliques(lag=2)]).fit(*sample)
    assert not {"start", "end"} & set(learnt.coef_)
    bounds = [step.bounds for step in learnt.structure_path_.steps]
    assert all(bound.get(name, 0.0) == 0.0 for bound in bounds for name in ("start", "end"))
