"""Rare labels: a warning of those that are never predicted, and thresholds by held-out F1."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import f1_score

from kernelfields import ChainCRF, NodeCliques
from kernelfields.estimators.thresholds import (
    choose_by_thresholds,
    choose_thresholds,
    compute_mean_f1,
    half_largest_f1,
)
from kernelfields.serving import ServingError, load_chain


def rare_events(seed, n_sequences=80, length=60, share=0.02):
    """Sequences in which one position in fifty is an event that its input tells of, but not for sure."""
    random = np.random.default_rng(seed)
    y = [np.where(random.random(length) < share, "event", "usual") for _ in range(n_sequences)]
    X = [((labels == "event") * 0.8 + random.normal(size=length))[:, None] for labels in y]
    return X, y


TRAIN, TEST = rare_events(0), rare_events(1)


def event_f1(crf):
    return f1_score(np.concatenate(TEST[1]), np.concatenate(crf.predict(TEST[0])), pos_label="event")


@pytest.fixture(scope="module")
def by_thresholds():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ChainCRF("linear", decode="f1", random_state=0).fit(*TRAIN)


def test_a_rare_label_that_is_never_predicted_is_named_with_what_to_do():
    with pytest.warns(
        UserWarning, match=r"almost never found .*'event' \(2\.\d% of the positions\)\. decode='f1'"
    ) as told:
        crf = ChainCRF("linear", random_state=0).fit(*TRAIN)
    assert crf.thresholds_ == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ChainCRF("linear", decode="posterior", random_state=0).fit(*TRAIN)
    assert told[0].filename == __file__


def test_thresholds_find_rare_labels(by_thresholds, tmp_path):
    assert list(by_thresholds.thresholds_) == ["event"]
    assert 0.0 < by_thresholds.thresholds_["event"] < 0.5
    usual = np.concatenate(by_thresholds.predict(TEST[0], decode="posterior"))
    assert event_f1(by_thresholds) > f1_score(np.concatenate(TEST[1]), usual, pos_label="event") + 0.02
    marginals = np.concatenate(by_thresholds.predict_marginals(TEST[0]))
    expected = marginals[:, 0] > by_thresholds.thresholds_["event"]
    assert np.array_equal(np.concatenate(by_thresholds.predict(TEST[0])) == "event", expected)
    by_thresholds.save(tmp_path / "rare.safetensors")
    stored = ChainCRF.load(tmp_path / "rare.safetensors")
    assert stored.thresholds_ == by_thresholds.thresholds_
    assert stored.predict(TEST[0]) == by_thresholds.predict(TEST[0])
    with pytest.raises(ServingError, match="decode='f1' cannot be served"):
        load_chain(tmp_path / "rare.safetensors")


def test_what_cannot_have_thresholds_says_so(by_thresholds):
    with pytest.raises(ValueError, match="decode='f1' chooses thresholds by short fits"):
        ChainCRF(cliques=[NodeCliques("linear")], decode="f1").fit(*TRAIN)
    with pytest.raises(ValueError, match="streams decode by 'viterbi' or 'posterior'"):
        by_thresholds.stream()
    with pytest.raises(ValueError, match="decode must be one of"):
        by_thresholds.predict(TEST[0], decode="f1")


def test_half_the_largest_f1_is_that_of_all_thresholds():
    random = np.random.default_rng(3)
    p, weights = random.random(200), random.integers(1, 4, size=200).astype(float)
    truth = random.random(200) < p**2
    plain = max(f1_score(truth, p >= own, sample_weight=weights) for own in p)
    assert half_largest_f1(p, truth, weights) == pytest.approx(plain / 2)


def test_the_largest_factor_above_a_threshold_wins():
    marginals = np.array([[0.7, 0.2, 0.1], [0.7, 0.1, 0.2], [0.9, 0.06, 0.04], [0.5, 0.25, 0.25]])
    thresholds = np.array([1.0, 0.15, 0.1])
    assert choose_by_thresholds(marginals, thresholds).tolist() == [1, 2, 0, 2]
    assert choose_by_thresholds(marginals, np.ones(3)).tolist() == [0, 0, 0, 0]


def test_a_label_has_a_threshold_if_the_mean_f1_rises_by_it():
    random = np.random.default_rng(5)
    labels = random.choice(3, size=400, p=[0.7, 0.2, 0.1])
    marginals = random.dirichlet([4.0, 1.5, 0.8], size=400)
    marginals[np.arange(400), labels] += 0.15
    marginals /= marginals.sum(axis=1, keepdims=True)
    weights = random.integers(1, 4, size=400).astype(float)

    def plain(thresholds):
        predicted = choose_by_thresholds(marginals, np.array(thresholds))
        assert compute_mean_f1(labels, predicted, weights, 3) == pytest.approx(
            f1_score(labels, predicted, average="macro", sample_weight=weights)
        )
        return compute_mean_f1(labels, predicted, weights, 3)

    found = choose_thresholds(marginals, labels, weights, np.array([2, 1])).tolist()
    own = [1.0, *(half_largest_f1(marginals[:, label], labels == label, weights) for label in (1, 2))]
    assert plain(own) > plain([1.0, 1.0, own[2]]) > plain([1.0, 1.0, 1.0])
    assert found == own
    # Of labels that are certain every threshold is the same.
    certain = np.eye(3)[labels]
    assert choose_thresholds(certain, labels, weights, np.array([2, 1])).tolist() == [1.0, 1.0, 1.0]


def test_a_quantile_is_the_threshold_where_probabilities_are_too_high_for_half_the_largest_f1():
    labels = np.repeat([0, 1], [90, 10])
    chances = 0.3 + 0.001 * np.arange(100)
    marginals = np.column_stack([1.0 - chances, chances])
    assert half_largest_f1(chances, labels == 1, np.ones(100)) == 0.5
    marginals[40:50] = [0.6, 0.4]
    chances = marginals[:, 1]
    half = half_largest_f1(chances, labels == 1, np.ones(100))
    found = choose_thresholds(marginals, labels, np.ones(100), np.array([1]))
    assert found[1] < 0.5
    assert found[1] != half
    assert f1_score(labels, choose_by_thresholds(marginals, found)) > 0.6


def anomalies(seed, n_sequences=40, length=60):
    """Sequences of which one position in eight is an anomaly that its input hardly shows."""
    random = np.random.default_rng(seed)
    y = [np.where(random.random(length) < 0.12, "anomaly", "normal") for _ in range(n_sequences)]
    return [((labels == "anomaly") * 0.5 + random.normal(size=length))[:, None] for labels in y], y


def test_labels_of_more_than_one_position_in_twenty_are_named_and_found():
    X, y = anomalies(0)
    with pytest.warns(UserWarning, match=r"almost never found .*'anomaly' \(1[12]\.\d% of the positions\)"):
        ChainCRF("linear", random_state=0).fit(X, y)
    crf = ChainCRF("linear", decode="f1", random_state=0).fit(X, y)
    assert list(crf.thresholds_) == ["anomaly"]
    X, y = anomalies(1)
    assert f1_score(np.concatenate(y), np.concatenate(crf.predict(X)), pos_label="anomaly") > 0.25


def test_thresholds_go_with_their_labels_when_a_batch_brings_another():
    """The label that is added sorts first: its threshold is one, which nothing exceeds, and the others keep theirs."""
    X, y = rare_events(2, n_sequences=25, share=0.04)
    crf = ChainCRF("rbf", rank=10, prior_variance=1.0, scale=False, decode="f1", random_state=0, tol=1e-2)
    crf.partial_fit(X, y)
    thresholds = crf.thresholds_
    assert list(thresholds) == ["event"]
    crf.partial_fit(X[:2], [np.where(x[:, 0] < -1.0, "absent", labels) for x, labels in zip(X[:2], y[:2], strict=True)])
    assert crf.classes_.tolist() == ["absent", "event", "usual"]
    assert crf.thresholds_ == thresholds
    marginals = np.concatenate(crf.predict_marginals(TEST[0]))
    found = np.concatenate(crf.predict(TEST[0]))
    likeliest = crf.classes_[marginals.argmax(axis=1)]
    assert np.array_equal(found, np.where(marginals[:, 1] > thresholds["event"], "event", likeliest))
