"""What a fitted ChainCRF answers, against sums over every labelling of short sequences."""

import numpy as np
import pytest

from kernelfields import ChainCRF, EdgeCliques
from kernelfields.kernels import RBF
from kernelfields.numerics.threads import Workers
from tests.samples import enumerated, labelled_sequences

X, y = labelled_sequences()
SHORT = [x[:4] for x in X]
FIELDS = {
    "tied": ChainCRF(RBF(gamma=0.3), rank=15, prior_variance=0.5, random_state=0),
    "edge kernel": ChainCRF(RBF(gamma=0.3), edges=EdgeCliques(RBF(gamma=0.1)), rank=15, random_state=0),
    "constrained": ChainCRF("linear", constraints={"transitions": [("b", "d")], "start": ["d"]}, random_state=0),
}


@pytest.fixture(scope="module", params=FIELDS)
def crf(request):
    labels = [np.array(["b", "c", "d"])[each] for each in y]
    if request.param == "constrained":
        labels = [np.where(each == "d", "c", each) for each in labels]
        labels[0][:2] = ["c", "d"]
    return FIELDS[request.param].fit(X, labels)


def test_probabilities_sum_to_one(crf):
    for x in SHORT:
        assert enumerated(crf, x)[1].sum() == pytest.approx(1.0, abs=1e-12)


def test_viterbi_is_the_most_probable_labelling_as_a_whole(crf):
    for x, predicted in zip(SHORT, crf.predict(SHORT, decode="viterbi"), strict=True):
        labellings, probabilities = enumerated(crf, x)
        np.testing.assert_array_equal(predicted, crf.classes_[labellings[probabilities.argmax()]])


def test_posterior_decoding_takes_the_most_probable_label_at_each_position(crf):
    marginals = crf.predict_marginals(X)
    for predicted, belief in zip(crf.predict(X, decode="posterior"), marginals, strict=True):
        np.testing.assert_array_equal(predicted, crf.classes_[belief.argmax(axis=1)])


def test_decoders_maximise_what_they_say(crf):
    best, likely = crf.predict(X), crf.predict(X, decode="posterior")
    assert crf.log_likelihood(X, best) >= crf.log_likelihood(X, likely)

    def expected_right(labels):
        codes = np.searchsorted(crf.classes_, np.concatenate(labels))
        return np.concatenate(crf.predict_marginals(X))[np.arange(len(codes)), codes].sum()

    assert expected_right(likely) >= expected_right(best)


def test_marginals_are_sums_over_labellings(crf):
    nodes, edges = crf.predict_marginals(SHORT, cliques="edge")
    for x, node, edge in zip(SHORT, nodes, edges, strict=True):
        labellings, probabilities = enumerated(crf, x)
        expected_node, expected_edge = np.zeros_like(node), np.zeros_like(edge)
        for labels, probability in zip(labellings, probabilities, strict=True):
            expected_node[np.arange(len(x)), labels] += probability
            expected_edge[np.arange(len(x) - 1), labels[:-1], labels[1:]] += probability
        np.testing.assert_allclose(node, expected_node, atol=1e-12)
        np.testing.assert_allclose(edge, expected_edge, atol=1e-12)


def test_pairs_agree_with_single_positions(crf):
    nodes, edges = crf.predict_marginals(X, cliques="edge")
    for node, edge, alone in zip(nodes, edges, crf.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(node, alone)
        assert edge.shape == (len(node) - 1, 3, 3)
        np.testing.assert_allclose(edge.sum(axis=2), node[:-1], atol=1e-12)
        np.testing.assert_allclose(edge.sum(axis=1), node[1:], atol=1e-12)
        np.testing.assert_allclose(node.sum(axis=1), 1.0, atol=1e-12)


def test_n_best_are_the_labellings_in_order_of_probability(crf):
    for x, best in zip(SHORT, crf.predict_nbest(SHORT, 100), strict=True):
        _, probabilities = enumerated(crf, x)
        possible = probabilities > 0
        logs = np.array([log for _, log in best])
        assert len(best) == min(100, possible.sum())
        np.testing.assert_allclose(logs, np.sort(np.log(probabilities[possible]))[::-1], atol=1e-11)
        assert len({tuple(labels) for labels, _ in best}) == len(best)
        each = crf.log_likelihood([x] * len(best), [labels for labels, _ in best], per_item=True)
        np.testing.assert_allclose(logs, each, atol=1e-11)
        np.testing.assert_array_equal(best[0][0], crf.predict([x], decode="viterbi")[0])
    assert [len(best) for best in crf.predict_nbest(X, 2)] == [2] * len(X)


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


def test_samples_follow_the_random_state(crf):
    one, same, other = (crf.sample(X, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(np.concatenate(one), np.concatenate(same))
    assert not np.array_equal(np.concatenate(one), np.concatenate(other))
    assert [draw.shape for draw in one] == [(len(x),) for x in X]
    assert len(crf.sample(X, random_state=np.random.RandomState(3))) == len(X)


def test_entropy_is_that_of_all_labellings(crf):
    for x, entropy in zip(SHORT, crf.entropy(SHORT), strict=True):
        probabilities = enumerated(crf, x)[1]
        probabilities = probabilities[probabilities > 0]
        assert entropy == pytest.approx(-(probabilities @ np.log(probabilities)), abs=1e-11)


def test_log_likelihood_is_a_sum_over_sequences(crf):
    best = crf.predict(X)
    each = crf.log_likelihood(X, best, per_item=True)
    assert each.shape == (len(X),)
    assert np.all(each <= 0)
    assert crf.log_likelihood(X, best) == pytest.approx(each.sum(), abs=1e-10)
    assert isinstance(crf.log_likelihood(X, best), float)


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
