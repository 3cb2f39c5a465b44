"""What a fitted ChainCRF answers, against the list of every labelling of short sequences."""

from itertools import pairwise

import numpy as np
import pytest

from kernelfields import ChainCRF, EdgeCliques
from kernelfields.kernels import RBF
from kernelfields.numerics import Workers
from tests.oracles.labellings import Labellings, all_labellings
from tests.samples import labelled_sequences

X, y = labelled_sequences()
SHORT = [x[:4] for x in X]
RULES = {"transitions": [("b", "d")], "start": ["d"], "end": ["b"]}
FIELDS = {
    "tied": ChainCRF(RBF(gamma=0.3), rank=15, prior_variance=0.5, random_state=0),
    "edge kernel": ChainCRF(RBF(gamma=0.3), edges=EdgeCliques(RBF(gamma=0.1)), rank=15, random_state=0),
    "constrained": ChainCRF("linear", constraints=RULES, random_state=0),
}


@pytest.fixture(scope="module", params=FIELDS)
def crf(request):
    labels = [np.array(["b", "c", "d"])[each] for each in y]
    if request.param == "constrained":
        labels = [np.append(np.where(each == "d", "c", each)[:-1], "c") for each in labels]
        labels[0][:2] = ["c", "d"]
    return FIELDS[request.param].fit(X, labels)


def breaks_rules(labels):
    named = np.array(["b", "c", "d"])[labels].tolist()
    return ("b", "d") in pairwise(named) or named[0] == "d" or named[-1] == "b"


def law(crf, x):
    """The distribution of the labellings of one sequence, by asking for the likelihood of each."""
    labellings = all_labellings(len(x), 3)
    logs = crf.log_likelihood([x] * len(labellings), list(crf.classes_[labellings]), per_item=True)
    assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-12)
    if crf.constraints is not None:
        np.testing.assert_array_equal(np.isneginf(logs), list(map(breaks_rules, labellings)))
    return Labellings(labellings, logs, 3)


def test_every_answer_is_that_of_the_list_of_labellings(crf):
    nodes, edges = crf.predict_marginals(SHORT, cliques="edge")
    best, likely = crf.predict(SHORT, decode="viterbi"), crf.predict(SHORT, decode="posterior")
    ranked, entropies = crf.predict_nbest(SHORT, 100), crf.entropy(SHORT)
    for i, x in enumerate(SHORT):
        truth = law(crf, x)
        np.testing.assert_allclose(nodes[i], truth.marginals, atol=1e-12)
        joints = np.reshape([truth.joint((t - 1, t)) for t in range(1, len(x))], (-1, 3, 3))
        np.testing.assert_allclose(edges[i], joints, atol=1e-12)
        np.testing.assert_array_equal(best[i], crf.classes_[truth.best])
        np.testing.assert_array_equal(likely[i], crf.classes_[truth.likeliest])
        assert entropies[i] == pytest.approx(truth.entropy, abs=1e-11)
        np.testing.assert_allclose([log for _, log in ranked[i]], [log for _, log in truth.ranked(100)], atol=1e-11)
        assert len({tuple(labels) for labels, _ in ranked[i]}) == len(ranked[i])


def test_samples_come_with_their_probabilities(crf):
    n_samples = 4000
    nodes, edges = crf.predict_marginals(X, cliques="edge")
    for draws, node, edge in zip(crf.sample(X, n_samples, random_state=1), nodes, edges, strict=True):
        codes = np.searchsorted(crf.classes_, draws)
        assert codes.shape == (n_samples, len(node))
        share = (codes[:, :, None] == np.arange(3)).mean(axis=0)
        assert np.all(np.abs(share - node) <= 5 * np.sqrt(node * (1 - node) / n_samples) + 1e-12)
        both = (codes[:, :-1, None, None] == np.arange(3)[:, None]) & (codes[:, 1:, None, None] == np.arange(3))
        assert np.all(np.abs(both.mean(axis=0) - edge) <= 5 * np.sqrt(edge * (1 - edge) / n_samples) + 1e-12)
    one, same, other = (np.concatenate(crf.sample(X, random_state=seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_the_objective_is_prior_plus_likelihood():
    crf = ChainCRF(
        RBF(gamma=0.3), rank=15, prior_variance=0.5, edges=EdgeCliques(prior_variance=2.0), random_state=0
    ).fit(X, y)
    sets = {each.name: each for each in crf.field_.terms}
    norms = {name: np.square(each.coefficients).sum() for name, each in sets.items()}
    prior = norms["node"] / (2 * 0.5) + norms["edge"] / (2 * 2.0)
    assert crf.solution_.value == pytest.approx(prior - crf.log_likelihood(X, y), rel=1e-12)


def test_batches_do_not_change_answers(crf):
    batches = list(crf.field_.batches(crf._reader.read(X), 9))
    assert len(batches) > 3
    answers = [crf.field_.answers(batch, Workers(1)) for batch in batches]
    marginals = np.concatenate([each.marginals for each in answers])
    np.testing.assert_allclose(marginals, np.concatenate(crf.predict_marginals(X)), atol=1e-10)
    np.testing.assert_allclose(np.concatenate([each.entropies() for each in answers]), crf.entropy(X), atol=1e-10)
    best = np.concatenate([each.best_labels() for each in answers])
    np.testing.assert_array_equal(crf.classes_[best], np.concatenate(crf.predict(X, decode="viterbi")))
