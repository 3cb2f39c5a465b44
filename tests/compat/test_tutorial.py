"""The tutorial of sklearn-crfsuite, with the import changed and text of our own."""

from collections import Counter

import pytest
import scipy.stats
from sklearn.metrics import make_scorer
from sklearn.model_selection import RandomizedSearchCV
from tagged_sentences import sent2features, sent2labels, sentences

from kernelfields import compat as sklearn_crfsuite
from kernelfields.compat import metrics


@pytest.fixture(scope="module")
def data():
    train_sents, test_sents = sentences(50, seed=0), sentences(20, seed=1)
    X_train, y_train = [sent2features(s) for s in train_sents], [sent2labels(s) for s in train_sents]
    X_test, y_test = [sent2features(s) for s in test_sents], [sent2labels(s) for s in test_sents]
    return X_train, y_train, X_test, y_test


@pytest.fixture(scope="module")
def crf(data):
    X_train, y_train, _, _ = data
    crf = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100, all_possible_transitions=True)
    return crf.fit(X_train, y_train)


def test_evaluation(crf, data):
    _, _, X_test, y_test = data
    labels = list(crf.classes_)
    labels.remove("O")
    y_pred = crf.predict(X_test)
    assert metrics.flat_f1_score(y_test, y_pred, average="weighted", labels=labels) > 0.9
    sorted_labels = sorted(labels, key=lambda name: (name[1:], name[0]))
    report = metrics.flat_classification_report(y_test, y_pred, labels=sorted_labels, digits=3)
    assert [line.split()[0] for line in report.splitlines()[2:8]] == [
        "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER",
    ]  # fmt: skip


@pytest.mark.slow
def test_hyperparameter_optimisation(data):
    X_train, y_train, X_test, y_test = data
    crf = sklearn_crfsuite.CRF(algorithm="lbfgs", max_iterations=100, all_possible_transitions=True)
    params_space = {"c1": scipy.stats.expon(scale=0.5), "c2": scipy.stats.expon(scale=0.05)}
    labels = sorted({label for sentence in y_train for label in sentence} - {"O"})
    f1_scorer = make_scorer(metrics.flat_f1_score, average="weighted", labels=labels, zero_division=0)
    rs = RandomizedSearchCV(crf, params_space, cv=3, n_iter=4, scoring=f1_scorer, random_state=0)
    rs.fit(X_train, y_train)
    assert set(rs.best_params_) == {"c1", "c2"}
    assert rs.best_score_ > 0.8
    assert rs.best_estimator_.size_ / 1000000 < 1
    assert rs.best_estimator_.score(X_test, y_test) > 0.9


def test_what_the_classifier_learned(crf):
    top_transitions = Counter(crf.transition_features_).most_common(20)
    lines = ["%-6s -> %-7s %0.6f" % (*pair, weight) for pair, weight in top_transitions]  # noqa: UP031
    assert any(line.startswith("B-PER  -> I-PER") for line in lines[:5])
    unlikely = [pair for pair, _ in Counter(crf.transition_features_).most_common()[-20:]]
    assert any(previous == "O" and label.startswith("I-") for previous, label in unlikely)
    positive = Counter(crf.state_features_).most_common(30)
    (attr, label), weight = positive[0]
    assert weight > 0
    assert attr in crf.attributes_
    assert label in crf.classes_
    assert all(name.startswith("I-") for (_, name), _ in positive if _ == "-1:postag:IN")


def test_probabilities(crf, data):
    X_test = data[2]
    marginals = crf.predict_marginals(X_test)
    assert [len(sentence) for sentence in marginals] == [len(sentence) for sentence in X_test]
    for position in marginals[0]:
        assert set(position) == set(crf.classes_)
        assert sum(position.values()) == pytest.approx(1.0)
    assert crf.predict_marginals_single(X_test[0]) == marginals[0]
    assert crf.predict_single(X_test[0]) == crf.predict(X_test)[0]
