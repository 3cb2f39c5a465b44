"""SequenceClassifier: classes of whole sequences by chains of hidden states."""

import pickle
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

from kernelfields import ChainCRF, EdgeCliques, SequenceClassifier, SoftTargets, load
from kernelfields.features import Sequencewise
from kernelfields.formats import ModelFileError


def turns(n_sequences=24, seed=0):
    """Sequences that go up and then down, or down and then up: their inputs are the same, their order is not."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for number in range(n_sequences):
        length = int(random.integers(4, 8))
        half = np.where(np.arange(length) < length // 2, 1.0, -1.0)[:, None]
        up = number % 2 == 0
        X.append((half if up else -half) * 2.0 + random.normal(scale=0.5, size=(length, 1)))
        y.append("up" if up else "down")
    return X, y


X, y = turns()
SETTINGS = {"n_states": 2, "rank": 20, "prior_variance": 3.0, "tol": 1e-3, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return SequenceClassifier(**SETTINGS).fit(X, y)


def test_order_is_told_by_hidden_states_and_not_without(fitted):
    assert fitted.score(X, y) == 1.0
    assert SequenceClassifier(**{**SETTINGS, "n_states": 1}).fit(X, y).score(X, y) < 0.9


def test_a_class_is_the_sum_over_labellings_by_its_states(fitted):
    x = X[0][:3]
    assert fitted.classes_.tolist() == ["down", "up"]
    expected = [
        sum(np.exp(fitted.estimator_.log_likelihood([x], [list(states)])) for states in product(own, repeat=3))
        for own in ((0, 1), (2, 3))
    ]
    np.testing.assert_allclose(fitted.predict_proba([x])[0], expected)
    np.testing.assert_allclose(np.sum(expected), 1.0)


def test_one_state_of_a_class_is_the_fit_to_known_states():
    single = SequenceClassifier(**{**SETTINGS, "n_states": 1, "tol": 1e-8}).fit(X, y)
    assert single.estimator_.solution_.reason == "gap"
    assert single.estimator_.certificate_.completed is False


def test_files_clones_and_pickles(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = SequenceClassifier.load(tmp_path / "model")
    assert loaded.get_params() == fitted.get_params()
    for again in (loaded, pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_allclose(again.predict_proba(X), fitted.predict_proba(X))
        assert again.predict(X).tolist() == y
    with pytest.raises(ModelFileError):
        ChainCRF.load(tmp_path / "model")
    with pytest.raises(NotFittedError):
        clone(fitted).predict(X)
    assert fitted.predict([]).shape == (0,)


def test_edges_have_the_prior_variance_of_transitions_and_first_states():
    for edges, expected in ((None, 3.0), (EdgeCliques(), 3.0), (EdgeCliques(prior_variance=0.5), 0.5)):
        fitted = SequenceClassifier(edges=edges, **SETTINGS).fit(X, y)
        variances = {term.name: term.prior_variance for term in fitted.estimator_.field_.terms}
        assert variances == {"node": 3.0, "edge": expected, "start": expected}
    assert SequenceClassifier().set_params(edges__prior_variance=0.5).edges.prior_variance == 0.5
    with pytest.raises(TypeError, match=r"no parameter 'edge_prior_variance': use edges=EdgeCliques\(prior_variance="):
        SequenceClassifier(edge_prior_variance=0.5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([], []), "X must be a list of sequences"),
        ((X, y[:-1]), "X has 24 sequences and y 23"),
        ((X, 3), "X has 24 sequences and y 3"),
        ((X, [[label] for label in y]), "one class for each sequence is needed; ChainCRF labels each position"),
        ((X, ["up"] * len(X)), "the one class 'up'"),
        (([X[0][:0], *X[1:]], y), "sequence 0 of X is empty"),
        (([X[0][:, :0], *X[1:]], y), "feature"),
    ],
)
def test_bad_data(given, message):
    with pytest.raises(ValueError, match=message):
        SequenceClassifier(**SETTINGS).fit(*given)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_states": -1}, "n_states"),
        ({"prior_variance": -1.0}, "prior_variance"),
        ({"rank": 0}, "rank"),
        ({"edges": EdgeCliques(prior_variance=-1.0)}, "clique set 'edge': prior_variance must be a positive number"),
    ],
)
def test_bad_parameters(settings, message):
    with pytest.raises(ValueError, match=message):
        SequenceClassifier(**settings).fit(X, y)


def test_weights_of_a_class_count_once_for_a_sequence():
    """The objective is that of enumeration: a weight of a class stands for the sequence, not for each position."""
    some, told = [x[:3] for x in X[:4]], ["up", "down", {"up": 0.8, "down": 0.2}, None]
    crf = SequenceClassifier(**(SETTINGS | {"tol": 1e-8})).fit(some, told)
    shares = crf.predict_proba(some)  # columns: down, up
    value = -np.log(shares[0, 1]) - np.log(shares[1, 0]) - np.log(shares[2] @ [0.25, 1.0])
    value += sum(0.5 * np.sum(np.square(term.known)) / term.prior_variance for term in crf.estimator_.field_.terms)
    assert crf.solution_.value == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (SoftTargets([np.eye(2)] * 2, classes=["a", "b"]), "SoftTargets are for labels of positions: give a dict"),
        ([None, None], "no sample of y is labelled"),
        (["a", set()], "the set of allowed labels at sample 1 is empty"),
        ([["a"], ["b"]], "y has lists of labels"),
    ],
    ids=["targets", "nothing", "empty set", "lists"],
)
def test_classes_that_cannot_be_used_are_named(labels, words):
    with pytest.raises(ValueError, match=words):
        SequenceClassifier(**SETTINGS).fit(X[:2], labels)


def test_questions_about_classes_follow_from_their_probabilities(fitted):
    some = X[:5]
    chances = fitted.predict_proba(some)
    np.testing.assert_allclose(fitted.predict_log_proba(some), np.log(chances), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fitted.entropy(some), -np.sum(chances * np.log(chances), axis=1), atol=1e-9)
    numbers = [fitted.classes_.tolist().index(label) for label in y[:5]]
    likelihoods = fitted.log_likelihood(some, y[:5], per_item=True)
    np.testing.assert_allclose(likelihoods, np.log(chances[np.arange(5), numbers]), atol=1e-9)
    for (first, second), row in zip(fitted.predict_nbest(some, 5), chances, strict=True):
        assert [first[0], second[0]] == fitted.classes_[np.argsort(-row)].tolist()
        np.testing.assert_allclose(np.exp([first[1], second[1]]), np.sort(row)[::-1])
    drawn = fitted.sample(some, 2000, random_state=0)
    assert drawn.shape == (2000, 5)
    np.testing.assert_allclose((drawn == fitted.classes_[1]).mean(axis=0), chances[:, 1], atol=0.05)
    assert fitted.sample(some, random_state=0).shape == (5,)


def test_questions_about_classes_of_which_something_is_known(fitted):
    told = ["up", None, {"up": 0.2, "down": 0.8}, {"up", "down"}]
    chances = fitted.predict_proba(X[:4]) * [[0.0, 1.0], [1.0, 1.0], [1.0, 0.25], [1.0, 1.0]]
    expected = chances / chances.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_proba(X[:4], known=told), expected, atol=1e-9)
    np.testing.assert_allclose(
        fitted.log_likelihood(X[:4], told, per_item=True), np.log(chances.sum(axis=1)), atol=1e-9
    )
    np.testing.assert_allclose(fitted.entropy(X[:4], known=told)[0], 0.0, atol=1e-12)
    assert fitted.predict_nbest(X[:1], 2, known=["down"])[0][0][0] == "down"
    with pytest.raises(ValueError, match="known: unknown label 'left' at sample 0"):
        fitted.entropy(X[:1], known=["left"])
    with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
        fitted.predict_nbest(X[:1], 0)


def test_classes_may_be_unknown_sets_or_weights():
    few, labels = X[:6], y[:6]
    kept = SequenceClassifier(**SETTINGS).fit(few, labels)
    every = {"up", "down"}
    for unknown in ([None] * 6, [every] * 6, [{"up": 0.5, "down": 0.5}] * 6, [np.nan] * 6):
        fitted = SequenceClassifier(**SETTINGS).fit(X[:12], [*labels, *unknown])
        assert fitted.classes_.tolist() == ["down", "up"]
        assert fitted.score(X, y) >= kept.score(X, y) - 0.1
        assert fitted.score(X[:12], [*labels, *unknown]) == fitted.score(few, labels)
    certain = [{label: 1.0} for label in labels]
    for known in ([{label} for label in labels], certain):
        same = SequenceClassifier(**SETTINGS).fit(few, known)
        np.testing.assert_allclose(same.predict_proba(X), kept.predict_proba(X), atol=1e-6)
    weighed = SequenceClassifier(**SETTINGS, class_weight={"up": 1.0}).fit(
        X[:8], [*labels, None, {"up": 0.9, "down": 0.1}]
    )
    assert weighed.estimator_.solution_.converged


def swings(n_sequences: int, seed: int = 0):
    """Return sequences of noise whose class is how far they swing, as single positions tell."""
    random = np.random.default_rng(seed)
    classes = ["calm", "wild"] * (n_sequences // 2)
    return [random.normal(scale=1.0 + (c == "wild"), size=(int(random.integers(8, 14)), 2)) for c in classes], classes


def slopes(n_sequences: int, seed: int = 0):
    """Return sequences that rise or fall a little, from levels that differ much: positions tell little."""
    random = np.random.default_rng(seed)
    classes = ["down", "up"] * (n_sequences // 2)
    X = []
    for c in classes:
        length = int(random.integers(8, 14))
        trend = np.linspace(-1.0, 1.0, length) * (1.0 if c == "up" else -1.0)
        X.append(np.column_stack([random.normal(scale=20.0) + trend, random.normal(size=length)]))
    return X, classes


def test_summaries_take_the_place_of_hidden_states_where_they_predict_better(tmp_path):
    X, y = slopes(60)
    X_new, y_new = slopes(40, seed=1)
    model = SequenceClassifier(random_state=0).fit(X, y)
    assert model.n_states_ == 0
    assert {trial.settings["n_states"] for trial in model.choices_.trials} == {0, 3}
    assert model.n_features_in_ == 2
    assert model.score(X_new, y_new) > 0.8
    alone = SequenceClassifier(n_states=0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(alone.predict_proba(X_new), model.predict_proba(X_new))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X_new)), model.predict_proba(X_new))
    with pytest.raises(ValueError, match="no hidden states"):
        model.predict_states(X_new)
    assert "the whole sequence" in str(model.show(X_new[0]))
    assert "up" in str(model.summary())
    model.save(tmp_path / "model.kfm")
    again = load(tmp_path / "model.kfm")
    assert again.n_states_ == 0
    assert str(again.choices_) == str(model.choices_)
    np.testing.assert_array_equal(again.predict_proba(X_new), model.predict_proba(X_new))


def test_hidden_states_stay_where_positions_tell():
    model = SequenceClassifier(random_state=0).fit(*swings(60))
    assert model.n_states_ == 3
    assert model.choices_.trials[0].settings == model.choices_.chosen == {"n_states": 3}


def test_too_few_of_a_class_and_unknown_classes_have_hidden_states():
    X, y = swings(6)
    assert SequenceClassifier(random_state=0).fit(X[:3], y[:3]).n_states_ == 3
    assert SequenceClassifier(random_state=0).fit(X, [*y[:5], None]).n_states_ == 3


def test_summaries_are_of_numbers_as_they_come():
    with pytest.raises(ValueError, match="leave out features"):
        SequenceClassifier(n_states=0, features=Sequencewise(StandardScaler())).fit(*swings(6))
