"""Chains whose labels meet across several steps: against sums over labellings, with constraints and files."""

import itertools

import numpy as np
import pytest

from kernelfields import ChainCRF, EdgeCliques, NodeCliques, SkipCliques
from kernelfields.data import OrderCliques
from kernelfields.data.chains import Chains
from kernelfields.data.reading import pack_inputs
from kernelfields.kernels import RBF

L, T = 3, 5


def data(seed=0, n_sequences=25):
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sequences):
        labels = random.integers(L, size=random.integers(1, T + 1))
        labels[2:] = np.where(random.random(len(labels[2:])) < 0.7, labels[:-2], labels[2:])
        X.append(np.eye(L)[labels] + random.normal(size=(len(labels), L)))
        y.append(labels)
    return X, y


X, y = data()
CLIQUES = [NodeCliques("linear"), EdgeCliques(), SkipCliques(lag=2), OrderCliques(RBF(0.3), order=2, rank=10)]


@pytest.fixture(scope="module")
def crf():
    return ChainCRF(cliques=CLIQUES, tol=1e-8, max_iter=2000, random_state=0).fit(X, y)


def all_scores(crf, x):
    """Scores of all labellings of one sequence, from the fitted sets and nothing else."""
    chains = Chains(*pack_inputs([x]))
    length = len(x)
    labellings = np.array(list(itertools.product(range(L), repeat=length)))
    scores = np.zeros(len(labellings))
    for each in crf.field_.terms:
        from kernelfields.numerics.threads import Workers

        rows = each.scores(chains, Workers(1))
        positions = each.clique.positions(chains)
        positions = np.arange(length) if positions is None else positions
        for index, t in enumerate(positions):
            members = [labellings[:, t - back] for back in each.clique.steps_back]
            table = rows[index if len(rows) == len(positions) and not each.tied_everywhere else 0]
            scores += table.reshape((L,) * len(members))[tuple(members)]
    return labellings, scores


def test_every_answer_is_that_of_the_sum_over_labellings(crf):
    likelihoods = crf.log_likelihood(X, y, per_item=True)
    marginals, pairs = crf.predict_marginals(X, cliques="edge")
    entropies = crf.entropy(X)
    best = crf.predict(X, decode="viterbi")
    assert max(map(len, X)) == T
    for i, x in enumerate(X):
        labellings, scores = all_scores(crf, x)
        log_partition = np.logaddexp.reduce(scores)
        probability = np.exp(scores - log_partition)
        observed = (labellings == y[i]).all(axis=1)
        assert likelihoods[i] == pytest.approx(scores[observed][0] - log_partition, abs=1e-9)
        expected = np.stack([probability @ (labellings == label) for label in range(L)], axis=1)
        np.testing.assert_allclose(marginals[i], expected, atol=1e-9)
        for t in range(1, len(x)):
            joint = np.zeros((L, L))
            np.add.at(joint, (labellings[:, t - 1], labellings[:, t]), probability)
            np.testing.assert_allclose(pairs[i][t - 1], joint, atol=1e-9)
        assert entropies[i] == pytest.approx(-(probability * (scores - log_partition)).sum(), abs=1e-8)
        np.testing.assert_array_equal(best[i], labellings[scores.argmax()])


def test_the_fit_is_certified(crf):
    assert crf.certificate_.relative_gap <= 1e-8
    certificate = crf.certify(X, y)
    assert certificate.value == pytest.approx(crf.solution_.value, rel=1e-9)
    assert certificate.lower_bound <= crf.solution_.value


def test_neighbours_alone_are_the_same_field_by_either_inference():
    plain = ChainCRF("linear", tol=1e-9, max_iter=1000).fit(X, y)
    nothing = ChainCRF(
        cliques=[NodeCliques("linear"), EdgeCliques(), SkipCliques(lag=4, prior_variance=1e-14)],
        tol=1e-9,
        max_iter=1000,
    ).fit(X, y)
    assert nothing.solution_.value == pytest.approx(plain.solution_.value, rel=1e-8)
    for ours, theirs in zip(nothing.predict_marginals(X), plain.predict_marginals(X), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_constraints_hold_in_longer_fields():
    allowed = [labels for labels in y if not ((labels[:-1] == 0) & (labels[1:] == 2)).any() and labels[0] != 1]
    kept = [X[i] for i in range(len(X)) if any(y[i] is labels for labels in allowed)]
    crf = ChainCRF(
        cliques=[NodeCliques("linear"), EdgeCliques(), OrderCliques()],
        constraints={"transitions": [(0, 2)], "start": [1]},
        random_state=0,
    ).fit(kept, allowed)
    marginals, pairs = crf.predict_marginals(X, cliques="edge")
    assert all(rows[0, 1] == 0.0 for rows in marginals)
    assert all(not rows[:, 0, 2].any() for rows in pairs)
    assert all(labels[0] != 1 for labels in crf.predict(X))
    assert np.isneginf(crf.log_likelihood([X[0][:1]], [[1]]))


@pytest.mark.parametrize(
    ("clique", "words"),
    [
        (SkipCliques(lag=0), "lag must be a whole number of at least 1"),
        (SkipCliques(lag=1.5), "lag must be a whole number of at least 1"),
        (OrderCliques(order=1), "order must be a whole number of at least 2"),
    ],
)
def test_bad_reaches_are_named(clique, words):
    with pytest.raises(ValueError, match=words):
        ChainCRF(cliques=[NodeCliques("linear"), clique]).fit(X, y)
