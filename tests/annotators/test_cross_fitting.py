"""Labels completed by fields of other folds: what is computed, where it helps, and the doors of scikit-learn."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from kernelfields import AnnotatedCRF, ChainCRF, GraphCRF, KernelClassifier, LabelDictionary, SoftTargets
from kernelfields.annotators import annotated_crf, completion
from kernelfields.annotators.annotations import PresumedLabels, read_annotations
from kernelfields.annotators.confusions import Confusions, prior_counts
from kernelfields.data.partial_labels import find_shown_labels
from kernelfields.data.reading import SEQUENCES
from kernelfields.evaluation import evaluate
from kernelfields.formats import ModelFileError
from tests.annotators.annotated_sequences import annotated_sequences

X, y, said = annotated_sequences(n_sequences=40)
# Short fits are enough to see most things.
pytestmark = pytest.mark.filterwarnings("ignore:.* of the labels changed")
BY_SEQUENCE = [{name: labels[i] for name, labels in said.items()} for i in range(len(X))]
SETTINGS = {"prior_variance": 1.0, "tol": 1e-3, "random_state": 0}
LINEAR = ChainCRF("linear", **SETTINGS)


@pytest.fixture(scope="module")
def fitted():
    return AnnotatedCRF(LINEAR).fit(X, said)


def test_one_round_is_what_fields_of_the_other_folds_make_of_it(monkeypatch):
    monkeypatch.setattr(completion, "_FOLD_TOLERANCE", 1e-9)
    field = ChainCRF("linear", prior_variance=1.0, tol=1e-9)
    found = AnnotatedCRF(field, cv=4, max_steps=1).fit(X, said)
    annotations = read_annotations(said)
    confusions = Confusions(annotations, prior_counts(4.0, 1.0, 3))
    logs = confusions.log_consensus(np.ones(len(annotations.codes)))
    presumed = np.exp(PresumedLabels(annotations, logs).read(None, None, SEQUENCES)[1])
    start = annotations.split(presumed / presumed.sum(axis=1, keepdims=True))
    weights = np.exp(confusions.log_weights())
    known = annotations.split([dict(enumerate(row)) for row in weights.tolist()])
    completed = [None] * len(X)
    for train, test in KFold(4).split(X):
        targets = SoftTargets([start[i] for i in train], classes=[0, 1, 2])
        others = clone(field).fit([X[i] for i in train], targets)
        marginals = others.predict_marginals([X[i] for i in test], known=[known[i] for i in test])
        for i, rows in zip(test, marginals, strict=True):
            completed[i] = rows
    confusions.update(np.concatenate(completed))
    for name, matrix in zip(annotations.annotators, confusions.matrices, strict=True):
        np.testing.assert_allclose(found.confusions_[name], matrix, atol=1e-5)
    labels = np.concatenate(found.consensus_)
    np.testing.assert_array_equal(labels, np.concatenate(completed).argmax(axis=1))
    assert len(found.label_changes_) == 1


def test_without_inputs_the_start_is_that_of_dawid_and_skene():
    annotations = read_annotations(said)
    confusions = Confusions(annotations, prior_counts(4.0, 1.0, 3))
    logs = confusions.log_consensus(np.ones(len(annotations.codes)))
    completed = np.exp(logs)
    np.testing.assert_allclose(completed.sum(axis=1), 1.0)
    again = Confusions(annotations, prior_counts(4.0, 1.0, 3), confusions.matrices)
    again.update(completed)
    np.testing.assert_allclose(again.matrices, confusions.matrices, atol=1e-12)
    truth = np.concatenate(y)
    assert np.mean(completed.argmax(axis=1) == truth) > np.mean(annotations.counts.argmax(axis=1) == truth)


def memorable(n_sequences=120, seed=0):
    """Words that depend on labels, and a mark of its own at each position that a field can memorise."""
    random = np.random.default_rng(seed)
    X, truth, said = [], [], {f"a{number}": [] for number in range(6)}
    for sequence in range(n_sequences):
        labels = random.integers(3, size=6)
        words = np.where(random.random(6) < 0.75, labels, random.integers(3, size=6))
        X.append([{f"w{word}": 1.0, f"{sequence}.{place}": 1.0} for place, word in enumerate(words)])
        truth.append(labels)
        for own in said.values():
            spoken = np.where(random.random(6) < 0.5, labels, random.integers(3, size=6))
            own.append(spoken.tolist() if random.random() < 0.5 else None)
        if all(own[-1] is None for own in said.values()):
            said["a0"][-1] = labels.tolist()
    return X, np.concatenate(truth), said


def test_a_field_that_memorises_corrects_the_labels_of_other_folds():
    X, truth, said = memorable()
    model = AnnotatedCRF(ChainCRF("linear", prior_variance=10.0), max_steps=100).fit(X, said)
    annotations = read_annotations(said)
    start = Confusions(annotations, prior_counts(4.0, 1.0, 3)).log_consensus(np.ones(len(truth)))
    assert np.mean(np.concatenate(model.consensus_) == truth) > np.mean(start.argmax(axis=1) == truth) + 0.02


def test_rounds_end_when_labels_stay(fitted):
    assert fitted.label_changes_[-1] <= fitted.tol < fitted.label_changes_[0]
    with pytest.warns(ConvergenceWarning, match="of the labels changed in the last of max_steps=2 rounds"):
        assert len(AnnotatedCRF(LINEAR, max_steps=2, tol=0.0).fit(X, said).label_changes_) == 2
    field = fitted.estimator_
    assert field.solution_.reason == "gap"
    assert field.certificate_.relative_gap <= field.tol


def test_a_callback_ends_all_rounds():
    stop = clone(LINEAR).set_params(callbacks=[lambda iteration: iteration.iteration >= 3])
    assert AnnotatedCRF(stop).fit(X, said).estimator_.solution_.reason == "callback"


def test_groups_are_held_out_together(monkeypatch):
    seen = []
    usual = completion.CrossFitting.__init__
    monkeypatch.setattr(
        completion.CrossFitting,
        "__init__",
        lambda self, *given: (seen.append(given[2]), usual(self, *given))[1],
    )
    AnnotatedCRF(LINEAR, cv=2, max_steps=1).fit(X, said, groups=np.arange(40) % 8)
    AnnotatedCRF(LINEAR, cv=KFold(4), max_steps=1).fit(X, said)
    assert all(len(set(seen[0][np.arange(40) % 8 == group])) == 1 for group in range(8))
    np.testing.assert_array_equal(seen[1], np.repeat(np.arange(4), 10))


def test_much_data_have_two_folds_and_named_features_the_weights_that_were_seen(monkeypatch):
    folds = []
    usual = completion.CrossFitting.__init__
    monkeypatch.setattr(
        completion.CrossFitting,
        "__init__",
        lambda self, *given: (folds.append(given[2]), usual(self, *given))[1],
    )
    words = [[[f"x{round(row[0])}", f"z{round(row[1])}"] for row in x] for x in X]
    model = AnnotatedCRF(ChainCRF("linear", prior_variance=1.0), max_steps=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        few = model.fit(words, said).estimator_
        monkeypatch.setattr(annotated_crf, "_MANY_POSITIONS", 100)
        model.fit(words, said)
    assert [own.max() + 1 for own in folds] == [5, 2]
    assert not few.field_.terms[0].pairs.complete
    assert (few.support, few.l1, few.engine, few.partial_labels) == ("auto", "auto", "auto", None)


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (1, "cv must be 'auto', a number of folds of at least 2"),
        ("five", "cv must be 'auto', a number of folds of at least 2"),
        (None, "cv must be 'auto', a number of folds of at least 2"),
        (41, "cv=41 folds need at least as many sequences, X has 40"),
        (ShuffleSplit(3, random_state=0), "cv must hold out every sequence exactly once"),
    ],
)
def test_folds_that_cannot_be_used(cv, message):
    with pytest.raises(ValueError, match=message):
        AnnotatedCRF(LINEAR, cv=cv).fit(X, said)


# ---- constraints

WORDS = [["the", "dog", "barks"], ["dogs", "bark"], ["a", "big", "dog"], ["it", "barks"], ["the", "cat"]] * 4
TRUTH = [["B-X", "I-X", "O"], ["B-X", "O"], ["B-X", "I-X", "I-X"], ["B-X", "O"], ["B-X", "I-X"]] * 4
INVALID = [["O", "I-X", "O"], ["B-X", "O"], ["O", "I-X", "I-X"], ["B-X", "O"], ["O", "I-X"]] * 4


@pytest.mark.parametrize("allowed", [None, LabelDictionary("word", min_count=2)])
def test_an_annotator_may_say_what_constraints_forbid(allowed):
    words = [[{"word": word} for word in sentence] for sentence in WORDS]
    field = ChainCRF("linear", constraints="bio", support="observed", allowed=allowed, **SETTINGS)
    if allowed is None:  # a dictionary of these labels alone would forbid everything
        with pytest.warns(UserWarning, match="only annotator"):
            AnnotatedCRF(clone(field), cv=4, max_steps=5).fit(words, {"careless": INVALID})
    model = AnnotatedCRF(field, cv=4, max_steps=5).fit(words, {"careful": TRUTH, "sure": TRUTH, "careless": INVALID})
    assert [list(labels) for labels in model.consensus_] == TRUTH
    assert [list(labels) for labels in model.consensus(words, {"careless": INVALID})] == TRUTH
    assert model.log_likelihood(words, {"careless": INVALID}) > -np.inf


# ---- prior variance, support


def test_the_prior_variance_is_chosen_by_the_labels_of_the_start():
    X, _, said = memorable(60)
    model = AnnotatedCRF(ChainCRF("linear", prior_variance="auto", support="observed"), cv=3, max_steps=2)
    assert model.fit(X, said).estimator_.prior_variance_ in (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)


def test_labels_that_somebody_said_are_observed_unless_they_are_overruled():
    annotations = read_annotations({name: [[None, *own[1:]] for own in labels[:10]] for name, labels in said.items()})
    silent = ~np.any(annotations.counts, axis=1)
    logs = np.random.default_rng(0).normal(size=(80, 3))
    for favoured in (None, 0):
        if favoured is not None:
            logs[:, favoured] += 100.0
        log_weights = PresumedLabels(annotations, logs).read(None, None, SEQUENCES)[1]
        expected = annotations.counts > 0
        if favoured is not None:
            expected[expected[:, favoured], 1:] = False
        np.testing.assert_array_equal(find_shown_labels(log_weights), expected | silent[:, None])
        assert np.isfinite(log_weights).all()
        np.testing.assert_array_equal(log_weights.max(axis=1), 0.0)
        assert not log_weights[silent].any()


# ---- scores, searches, evaluation


def test_the_score_of_annotators_is_their_mean_log_likelihood(fitted):
    n_said = sum(label is not None for labels in said.values() for own in labels for label in own)
    np.testing.assert_allclose(fitted.score(X, said), fitted.log_likelihood(X, said) / n_said)
    np.testing.assert_allclose(fitted.score(X, BY_SEQUENCE), fitted.score(X, said))
    weights = np.arange(len(X)) % 2
    odd = {name: labels[1::2] for name, labels in said.items()}
    np.testing.assert_allclose(fitted.score(X, said, weights), fitted.score(X[1::2], odd))
    usual = copy.copy(fitted)
    usual.confusions_ = {**fitted.confusions_, "anna": prior_counts(0.8, 0.2, 3)}
    stranger = fitted.score(X[:2], {"dora": y[:2]})
    np.testing.assert_allclose(stranger, usual.log_likelihood(X[:2], {"anna": y[:2]}) / 16)
    assert fitted.score(X, y) == fitted.estimator_.score(X, y)


def test_the_likelihood_of_labels_that_are_right_is_that_of_the_field(fitted):
    assert fitted.log_likelihood(X, y) == fitted.estimator_.log_likelihood(X, y)


def test_searches_choose_by_annotators():
    grid = {"estimator__prior_variance": [1e-6, 1.0]}
    search = GridSearchCV(AnnotatedCRF(LINEAR, cv=2, max_steps=2), grid, cv=2, error_score="raise")
    assert search.fit(X, BY_SEQUENCE).best_params_ == {"estimator__prior_variance": 1.0}
    tables = [np.array([item[name] for name in said], dtype=object).T for item in BY_SEQUENCE]
    for table in tables[20:]:
        table[:, 0] = None  # an annotator who is silent in a training part
    model = make_pipeline(FunctionTransformer(), AnnotatedCRF(LINEAR, cv=2, max_steps=2))
    scores = cross_val_score(model, X, tables, cv=2, error_score="raise")
    assert np.all((scores < 0) & np.isfinite(scores))


def test_evaluations_take_labels_that_are_right(fitted):
    report = evaluate(fitted, X, y, n_resamples=10)
    assert report.accuracy.value == fitted.score(X, y)
    for given in (said, BY_SEQUENCE):
        with pytest.raises(TypeError, match="labels of several annotators"):
            evaluate(fitted, X, given)


def test_weights_are_those_of_the_field(fitted):
    assert str(fitted.weights()) == str(fitted.estimator_.weights())


# ---- files


def graphs(X):
    return [(x, [(t, t + 1) for t in range(len(x) - 1)]) for x in X]


FLAT = {(name, 1): [word for each in words for word in each] for name, words in said.items()}
FILES = {
    "chain": (LINEAR, X, said),
    "numbers": (LINEAR, X, [np.array([item[name] for name in said], dtype=object).T for item in BY_SEQUENCE]),
    "graph": (GraphCRF("linear", prior_variance=1.0), graphs(X), said),
    "single": (KernelClassifier("linear", prior_variance=1.0), np.vstack(X), FLAT),
}


@pytest.mark.parametrize("name", FILES)
def test_files_hold_field_and_confusions(name, tmp_path):
    field, inputs, words = FILES[name]
    model = AnnotatedCRF(field, prior=(3.0, 1.0), max_steps=2).fit(inputs, words)
    model.save(tmp_path / "model")
    loaded = AnnotatedCRF.load(tmp_path / "model")
    assert loaded.annotators_ == model.annotators_
    assert loaded.log_likelihood(inputs, words) == model.log_likelihood(inputs, words)
    assert str(loaded.reliability()) == str(model.reliability())
    np.testing.assert_array_equal(loaded.label_changes_, model.label_changes_)
    assert loaded.get_params()["estimator__prior_variance"] == 1.0
    assert loaded.get_params()["prior"] == (3.0, 1.0)
    np.testing.assert_array_equal(
        np.concatenate(list(map(np.atleast_1d, loaded.predict(inputs)))),
        np.concatenate(list(map(np.atleast_1d, model.predict(inputs)))),
    )


def test_files_that_are_not_sound(fitted, tmp_path, monkeypatch):
    document = fitted._to_document()
    for changes, message in [
        ({"confusions": 2.0 * document["confusions"]}, "add up to one"),
        ({"annotators": {"as": "list", "items": ["anna", "anna", "ben"]}}, "each once"),
        ({"field": {**document["field"], "kind": "other"}}, "unknown kind 'other'"),
    ]:
        monkeypatch.setattr(AnnotatedCRF, "_to_document", lambda self, changes=changes: {**document, **changes})
        fitted.save(tmp_path / "model")
        with pytest.raises(ModelFileError, match=message):
            AnnotatedCRF.load(tmp_path / "model")
    monkeypatch.undo()
    named = AnnotatedCRF(LINEAR, cv=2, max_steps=1).fit(X, {1j: said["anna"], "b": said["ben"]})
    with pytest.raises(TypeError, match="names of annotators must be text or numbers"):
        named.save(tmp_path / "model")
