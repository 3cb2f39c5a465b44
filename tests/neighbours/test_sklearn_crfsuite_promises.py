"""What sklearn-crfsuite and python-crfsuite promise in their documents, asked of our CRF, and of theirs where it is.

Each promise is written once, for a package that has ``CRF``, ``metrics`` and ``scorers``, and holds for both. Where
theirs is installed, values are compared too. tests/compat has what is our own: refusals, files, stopping rules.
"""

import copy
import pickle
from collections import Counter

import numpy as np
import pytest
import scipy.stats
from sklearn.base import clone
from sklearn.metrics import make_scorer
from sklearn.model_selection import RandomizedSearchCV, cross_val_predict, cross_val_score

import kernelfields.compat
from tests.compat.tagged_sentences import tagged_data

try:
    import sklearn_crfsuite
    import sklearn_crfsuite.metrics
    import sklearn_crfsuite.scorers
except ImportError:
    sklearn_crfsuite = None

X, y = tagged_data(30)
X_TEST, Y_TEST = tagged_data(10, seed=1)
LABELS = sorted({label for labels in y for label in labels})
SETTINGS = {"algorithm": "lbfgs", "c1": 0.05, "c2": 0.1, "max_iterations": 100, "all_possible_transitions": True}
TIGHT = {"c2": 0.1, "epsilon": 1e-7, "delta": 0.0}
needs_theirs = pytest.mark.skipif(sklearn_crfsuite is None, reason="sklearn-crfsuite is not installed")


@pytest.fixture(
    scope="module", params=["kernelfields.compat", pytest.param("sklearn_crfsuite", marks=needs_theirs)], ids=str
)
def package(request):
    return kernelfields.compat if request.param == "kernelfields.compat" else sklearn_crfsuite


@pytest.fixture(scope="module")
def crf(package):
    return package.CRF(**SETTINGS).fit(X, y)


def listed(answers):
    return [list(each) for each in answers]


# ---- sklearn_crfsuite.CRF


def test_fit_returns_the_model_and_answers_come_sequence_by_sequence(package, crf):
    model = package.CRF(max_iterations=3)
    assert model.fit(X, y) is model
    predicted = listed(crf.predict(X_TEST))
    assert [len(labels) for labels in predicted] == [len(x) for x in X_TEST]
    assert {label for labels in predicted for label in labels} <= set(LABELS)
    assert predicted == [list(crf.predict_single(x)) for x in X_TEST]


def test_marginals_are_a_dict_of_probabilities_for_each_position(crf):
    marginals = listed(crf.predict_marginals(X_TEST))
    assert marginals == [crf.predict_marginals_single(x) for x in X_TEST]
    for x, rows in zip(X_TEST, marginals, strict=True):
        assert len(rows) == len(x)
        for row in rows:
            assert set(row) == set(LABELS)
            assert sum(row.values()) == pytest.approx(1.0, abs=1e-6)


def test_score_is_the_share_of_right_positions(package, crf):
    predicted = [label for labels in crf.predict(X_TEST) for label in labels]
    true = [label for labels in Y_TEST for label in labels]
    assert crf.score(X_TEST, Y_TEST) == pytest.approx(np.mean([p == t for p, t in zip(predicted, true, strict=True)]))
    assert crf.score(X_TEST, Y_TEST) == package.metrics.flat_accuracy_score(Y_TEST, crf.predict(X_TEST))


def test_what_a_model_knows_has_names(crf):
    assert sorted(crf.classes_) == LABELS
    assert crf.num_attributes_ == len(crf.attributes_)
    assert crf.size_ > 0
    states, transitions = crf.state_features_, crf.transition_features_
    assert {label for _, label in states} <= set(LABELS)
    assert {name for name, _ in states} == set(crf.attributes_)
    assert {label for pair in transitions for label in pair} <= set(LABELS)
    # The tutorial's tables of likely and unlikely ones.
    assert ("B-PER", "I-PER") in [pair for pair, _ in Counter(transitions).most_common(5)]
    assert Counter(states).most_common()[-1][1] < 0 < Counter(states).most_common(1)[0][1]


def test_the_log_of_a_training_has_iterations(package):
    log = package.CRF(c2=0.1, max_iterations=7).fit(X, y).training_log_
    assert [each["num"] for each in log.iterations] == list(range(1, len(log.iterations) + 1))
    assert len(log.iterations) <= 7
    assert {"loss", "feature_norm", "error_norm", "time"} <= set(log.last_iteration)
    assert log.featgen_num_features > 0


def test_verbose_shows_progress(package, capfd):
    package.CRF(c2=0.1, max_iterations=3).fit(X, y)
    assert capfd.readouterr() == ("", "")
    package.CRF(c2=0.1, max_iterations=3, verbose=True).fit(X, y)
    assert any(capfd.readouterr())


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda crf: pickle.loads(pickle.dumps(crf))])
def test_models_can_be_pickled_and_copied(crf, duplicate):
    twin = duplicate(crf)
    assert listed(twin.predict(X_TEST)) == listed(crf.predict(X_TEST))
    assert twin.state_features_ == crf.state_features_


def test_clone_keeps_parameters_and_forgets_the_fit(crf):
    twin = clone(crf)
    assert {name: twin.get_params()[name] for name in SETTINGS} == SETTINGS
    assert twin.set_params(c1=0.5).c1 == 0.5
    assert crf.c1 == 0.05
    with pytest.raises(AttributeError):  # that of a NotFittedError, or of a tagger that is None
        twin.predict(X_TEST)


@pytest.mark.parametrize(
    "parameters",
    [
        {"algorithm": "l2sgd", "c2": 0.1, "max_iterations": 20},
        {"algorithm": "lbfgs", "num_memories": 3, "epsilon": 1e-4, "period": 5, "delta": 1e-4},
        {"min_freq": 2, "all_possible_states": True},
    ],
    ids=str,
)
def test_parameters_of_the_documents_are_taken(package, parameters):
    assert package.CRF(**parameters).fit(X, y).score(X, y) > 0.8


@pytest.mark.parametrize(
    "position",
    [
        {"word": "the", "weight": 0.5, "flag": True, "off": False, "count": 3},
        {"nested": {"word": "the", "deep": {"size": 2.0}}},
        {"many": ["a", "b"], "set": {"c"}},
        ["word=the", "shape=x"],
    ],
    ids=["values", "nested", "several", "strings"],
)
def test_positions_in_the_forms_of_python_crfsuite(package, position):
    other = ["word=a"] if isinstance(position, list) else {"word": "a"}
    model = package.CRF(c2=0.01).fit([[position, other]] * 3, [["here", "there"]] * 3)
    assert list(model.predict_single([position, other])) == ["here", "there"]
    pycrfsuite = pytest.importorskip("pycrfsuite")
    named = pycrfsuite.ItemSequence([position, other]).items()
    assert set(model.attributes_) == {name for each in named for name, weight in each.items() if weight}


# ---- scikit-learn around it


def test_a_randomized_search_finds_parameters_as_in_the_tutorial(package):
    labels = [label for label in LABELS if label != "O"]
    f1 = make_scorer(package.metrics.flat_f1_score, average="weighted", labels=labels, zero_division=0)
    space = {"c1": scipy.stats.expon(scale=0.5), "c2": scipy.stats.expon(scale=0.05)}
    search = RandomizedSearchCV(
        package.CRF(max_iterations=30), space, cv=3, n_iter=4, scoring=f1, random_state=0, error_score="raise"
    ).fit(X, y)
    assert set(search.best_params_) == {"c1", "c2"}
    assert search.best_score_ > 0.8
    assert sorted(search.best_estimator_.classes_) == LABELS


def test_cross_validation_takes_models_and_scorers(package):
    model = package.CRF(max_iterations=20)
    for scorer in (None, package.scorers.flat_accuracy, package.scorers.sequence_accuracy):
        scores = cross_val_score(model, X, y, cv=3, scoring=scorer, error_score="raise")
        assert ((scores > 0.1) & (scores <= 1)).all()
    predicted = cross_val_predict(model, X, y, cv=3)
    assert package.metrics.flat_accuracy_score(y, predicted) > 0.8


# ---- sklearn_crfsuite.metrics

TRUE = [["a", "b", "b"], ["c"], ["a", "a"]]
PREDICTED = [["a", "b", "c"], ["c"], ["b", "a"]]


def test_metrics_are_those_of_scikit_learn_over_positions(package):
    metrics = package.metrics
    assert metrics.flat_accuracy_score(TRUE, PREDICTED) == pytest.approx(4 / 6)
    options = {"labels": ["a", "b"], "average": None}
    np.testing.assert_allclose(metrics.flat_precision_score(TRUE, PREDICTED, **options), [1, 1 / 2])
    np.testing.assert_allclose(metrics.flat_recall_score(TRUE, PREDICTED, **options), [2 / 3, 1 / 2])
    np.testing.assert_allclose(metrics.flat_f1_score(TRUE, PREDICTED, **options), [4 / 5, 1 / 2])
    np.testing.assert_allclose(metrics.flat_fbeta_score(TRUE, PREDICTED, beta=2, **options), [5 / 7, 1 / 2])
    assert "precision" in metrics.flat_classification_report(TRUE, PREDICTED, labels=["a", "b", "c"])
    assert metrics.sequence_accuracy_score(TRUE, PREDICTED) == pytest.approx(1 / 3)
    assert metrics.sequence_accuracy_score([], []) == 0


# ---- values beside theirs


@needs_theirs
@pytest.mark.parametrize(
    "parameters",
    [TIGHT, {**TIGHT, "c1": 0.2}, {**TIGHT, "all_possible_states": True, "all_possible_transitions": True}],
    ids=["c2", "c1 and c2", "all possible"],
)
def test_values_are_those_of_sklearn_crfsuite(parameters):
    ours, theirs = (each.CRF(**parameters).fit(X, y) for each in (kernelfields.compat, sklearn_crfsuite))
    assert listed(ours.predict(X_TEST)) == listed(theirs.predict(X_TEST))
    for names in ("state_features_", "transition_features_"):
        mine, other = getattr(ours, names), getattr(theirs, names)
        assert max(abs(mine.get(key, 0.0) - other.get(key, 0.0)) for key in {*mine, *other}) < 1e-3
    pairs = zip(ours.predict_marginals(X_TEST), theirs.predict_marginals(X_TEST), strict=True)
    for mine, other in pairs:
        for row, expected in zip(mine, other, strict=True):
            assert row == pytest.approx(expected, abs=1e-3)


def test_a_tagger_of_python_crfsuite_answers_what_our_model_answers(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params(TIGHT)
    for sequence, labels in zip(X, y, strict=True):
        trainer.append(sequence, labels)
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    ours = kernelfields.compat.CRF(**TIGHT).fit(X, y)
    assert sorted(tagger.labels()) == ours.classes_
    assert set(tagger.info().attributes) == set(ours.attributes_)
    for sequence, labels in zip(X_TEST, Y_TEST, strict=True):
        assert tagger.tag(sequence) == ours.predict_single(sequence)
        tagger.set(sequence)
        expected = tagger.probability(labels)
        assert np.exp(ours.chain_.log_likelihood([sequence], [labels])) == pytest.approx(expected, rel=0.02, abs=1e-6)
        row = ours.predict_marginals_single(sequence)[0]
        assert row == pytest.approx({label: tagger.marginal(label, 0) for label in ours.classes_}, abs=1e-3)
