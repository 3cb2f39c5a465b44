"""AnnotatedCRF: confusions of annotators and a field, fitted together."""

import pickle
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelfields import AnnotatedCRF, ChainCRF, ChainCRFCV, GraphCRF, KernelClassifier, PartialLabels, Sequencewise
from kernelfields.annotators.annotations import read_annotations
from kernelfields.estimators import Checkpoint, LabelShares
from tests.annotators.annotated_sequences import CONFUSIONS, annotated_sequences

X, y, said = annotated_sequences()
SETTINGS = {"prior_variance": 1.0, "random_state": 0}
LINEAR = ChainCRF("linear", **SETTINGS)


@pytest.fixture(scope="module")
def fitted():
    return AnnotatedCRF(LINEAR).fit(X, said)


def test_known_confusions_are_recovered(fitted):
    for name, matrix in CONFUSIONS.items():
        np.testing.assert_allclose(fitted.confusions_[name], matrix, atol=0.08)
        np.testing.assert_allclose(fitted.confusions_[name].sum(axis=1), 1.0)
    assert fitted.annotators_ == list(CONFUSIONS)


def test_the_consensus_is_better_than_every_annotator_and_the_field(fitted):
    truth = np.concatenate(y)
    agreed = np.mean(np.concatenate(fitted.consensus(X, said)) == truth)
    for name in CONFUSIONS:
        own = np.array([word for each in said[name] for word in each], dtype=object)
        spoken = own != None  # noqa: E711
        assert agreed > np.mean(own[spoken] == truth[spoken])
    assert agreed > fitted.score(X, y)


def test_likelihood_and_consensus_are_sums_over_all_labellings(fitted):
    x, words = X[0][:4], {name: [labels[0][:4]] for name, labels in said.items()}
    total, marginals = 0.0, np.zeros((4, 3))
    for labels in product(range(3), repeat=4):
        joint = np.exp(fitted.estimator_.log_likelihood([x], [list(labels)]))
        for name, spoken in words.items():
            matrix = fitted.confusions_[name]
            joint *= np.prod([1.0 if b is None else matrix[a, b] for a, b in zip(labels, spoken[0], strict=True)])
        total += joint
        marginals[np.arange(4), labels] += joint
    np.testing.assert_allclose(fitted.log_likelihood([x], words), np.log(total))
    np.testing.assert_allclose(fitted.consensus_marginals([x], words)[0], marginals / total)


def test_perfect_annotators_and_a_strong_prior_are_the_plain_fit():
    tight = ChainCRF("linear", tol=1e-8, **SETTINGS)
    labels = [each.tolist() for each in y[:30]]
    both = AnnotatedCRF(tight, prior=(1e9, 1e-3)).fit(X[:30], {"anna": labels, "ben": labels})
    plain = tight.fit(X[:30], labels)
    for ours, theirs in zip(both.predict_marginals(X), plain.predict_marginals(X), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=3e-4)


def test_ways_to_write_annotators_agree():
    codes = read_annotations(said).codes
    by_sequence = [{name: labels[i] for name, labels in said.items()} for i in range(len(X))]
    tables = [np.array([labels[i] for labels in said.values()], dtype=object).T for i in range(len(X))]
    numbers = [table.astype(float) for table in tables]
    for given in (by_sequence, tables, [table.tolist() for table in tables], numbers):
        again = read_annotations(given)
        np.testing.assert_array_equal(again.codes, codes)
        np.testing.assert_array_equal(again.offsets, 8 * np.arange(len(X) + 1))
    assert again.annotators == [0, 1, 2]


def test_a_sequence_that_one_annotator_left_out_is_one_of_nothing_said():
    left_out = {**said, "ben": [None, *said["ben"][1:]]}
    spelt = {**said, "ben": [[None] * len(X[0]), *said["ben"][1:]]}
    np.testing.assert_array_equal(read_annotations(left_out).codes, read_annotations(spelt).codes)
    assert np.all(read_annotations(left_out).codes[:8, 1] == -1)


def test_an_empty_text_is_nothing_said():
    texts = {"anna": [["a", "b"], ["", "b"]], "ben": [["a", ""], ["b", " "]]}
    nones = {"anna": [["a", "b"], [None, "b"]], "ben": [["a", None], ["b", None]]}
    table = [np.array([["a", "a"], ["b", ""]]), np.array([["", "b"], ["b", ""]])]
    wanted = read_annotations(nones)
    for given in (texts, table):
        found = read_annotations(given)
        assert found.classes.tolist() == ["a", "b"]
        np.testing.assert_array_equal(found.codes, wanted.codes)


def test_weights_are_repetitions():
    few = {name: labels[:8] for name, labels in said.items()}
    twice = {name: [*labels[:8], *labels[:8]] for name, labels in said.items()}
    tight = ChainCRF("linear", tol=1e-6, **SETTINGS)
    weighted = AnnotatedCRF(tight, cv=[(np.arange(4), np.arange(4, 8)), (np.arange(4, 8), np.arange(4))])
    folds = [np.array([i for i in range(16) if i % 8 // 4 == fold]) for fold in (0, 1)]
    repeated = AnnotatedCRF(tight, cv=[(folds[0], folds[1]), (folds[1], folds[0])]).fit([*X[:8], *X[:8]], twice)
    weighted.fit(X[:8], few, np.full(8, 2.0))
    np.testing.assert_allclose(weighted.confusions_["ben"], repeated.confusions_["ben"], atol=1e-4)


def test_fields_of_single_labels_and_graphs():
    rows, labels = np.vstack(X[:15]), np.concatenate(y[:15])
    flat = {name: [word for each in words[:15] for word in each] for name, words in said.items()}
    single = AnnotatedCRF(KernelClassifier("linear", **SETTINGS)).fit(rows, flat)
    assert single.predict_proba(rows).shape == single.consensus_marginals(rows, flat).shape == (len(rows), 3)
    assert np.mean(single.consensus(rows, flat) == labels) > single.score(rows, labels)
    graphs = AnnotatedCRF(GraphCRF("linear", prior_variance=1.0)).fit(
        [(x, [(t, t + 1) for t in range(len(x) - 1)]) for x in X[:15]], first(said, 15)
    )
    chains = AnnotatedCRF(LINEAR).fit(X[:15], first(said, 15))
    np.testing.assert_allclose(graphs.confusions_["ben"], chains.confusions_["ben"], atol=0.05)


def test_the_field_is_kept_and_pickled(fitted, tmp_path):
    fitted.estimator_.save(tmp_path / "field")
    loaded = ChainCRF.load(tmp_path / "field")
    np.testing.assert_allclose(loaded.predict_marginals(X[:2])[1], fitted.predict_marginals(X[:2])[1])
    assert loaded.partial_labels is None
    again = pickle.loads(pickle.dumps(fitted))
    assert again.log_likelihood(X, said) == fitted.log_likelihood(X, said)
    assert clone(fitted).get_params()["estimator__prior_variance"] == 1.0
    with pytest.raises(NotFittedError):
        clone(fitted).predict(X)


def test_the_table_says_who_is_reliable(fitted):
    table = fitted.reliability()
    assert table.rows[-1].annotator == "ben"
    assert table.rows[0].accuracy > 0.8 > table.rows[-1].accuracy > table.rows[-1].kappa
    [carl] = [row for row in table.rows if row.annotator == "carl"]
    assert carl.worst[:2] == (2, 0)
    assert "most often mistaken" in str(table)
    assert "<table" in table._repr_html_()
    assert table.to_dict()["rows"][-1]["annotator"] == "ben"
    assert table.plot("anna").figure.axes
    with pytest.raises(ValueError, match="no annotator is called 'dora'"):
        table.plot("dora")


def first(words, count):
    return {name: labels[:count] for name, labels in words.items()}


def changed(name, **entries):
    words = first(said, 3)
    return {**words, name: [entries.get(f"s{i}", each) for i, each in enumerate(words[name])]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (changed("ben", s0=[0, 1]), "'ben' has 2 labels for sequence 0 and 'anna' has 8"),
        (changed("ben", s0=["x"] * 8), "labels mix strings with others: .* of annotator 'ben' has 'x'"),
        (changed("ben", s0=[{0, 1}] * 8), "sets and weights .* sequence 0, position 0, of annotator 'ben'"),
        ({**first(said, 3), "ben": [None] * 3}, "annotator 'ben' labelled nothing"),
        ({**first(said, 3), "ben": [None] * 2}, "'ben' has 2 sequences and 'anna' has 3"),
        ({name: [None, *labels[1:3]] for name, labels in said.items()}, "nobody labelled sequence 0"),
        ({"anna": 3}, "annotator 'anna' has 3, not a list"),
        ({}, "y names no annotator"),
        (7, "y is 7: labels of several annotators are"),
        ([[0] * 8] * 3, "sequence 0 of y is no table with a column for each annotator"),
        ([np.zeros((8, 2)), np.zeros((8, 3)), np.zeros((8, 2))], "sequence 1 of y has 3 columns"),
        (first(said, 2), "X has 3 sequences but y has 2"),
    ],
)
def test_bad_annotations(given, message):
    with pytest.raises(ValueError, match=message):
        AnnotatedCRF(LINEAR, cv=2).fit(X[:3], given)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"prior": 3.0}, ValueError, "prior must be two numbers above zero"),
        ({"prior": (1.0, 0.0)}, ValueError, "prior must be two numbers above zero"),
        ({"max_steps": 0}, ValueError, "max_steps"),
        ({"estimator": "rbf"}, TypeError, "estimator must be a ChainCRF"),
        (
            {"estimator": ChainCRFCV()},
            TypeError,
            r"got ChainCRFCV\(\)\. Search around it: GridSearchCV\(AnnotatedCRF\(\)",
        ),
        (
            {"estimator": ChainCRF(partial_labels=PartialLabels(expectations=[LabelShares({"a": 0.5})]))},
            ValueError,
            "without expectations",
        ),
        ({"estimator": ChainCRF("linear", callbacks=[Checkpoint("nowhere")])}, ValueError, "Checkpoint"),
    ],
)
def test_bad_parameters(settings, error, message):
    with pytest.raises(error, match=message):
        AnnotatedCRF(**settings).fit(X[:20], first(said, 20))


def test_a_pipeline_is_fitted_before_the_field():
    pipeline = make_pipeline(Sequencewise(StandardScaler()), LINEAR)
    advice = r"AnnotatedCRF\(pipeline\[-1\]\)\.fit\(pipeline\[:-1\]\.fit_transform\(X\), y\)"
    with pytest.raises(TypeError, match=advice):
        AnnotatedCRF(pipeline).fit(X[:20], first(said, 20))
    scaled = pipeline[:-1].fit_transform(X[:20])
    assert len(AnnotatedCRF(pipeline[-1]).fit(scaled, first(said, 20)).predict(scaled)) == 20


def test_strangers_and_lengths_in_questions(fitted):
    with pytest.raises(ValueError, match="'dora' was not there in the fit"):
        fitted.log_likelihood(X[:2], {"dora": y[:2]})
    with pytest.raises(ValueError, match="different lengths"):
        fitted.log_likelihood([X[0][:5]], {"anna": [y[0]]})
    with pytest.raises(ValueError, match="unknown label 9"):
        fitted.consensus(X[:1], {"anna": [[9] * 8]})
    assert fitted.log_likelihood(X[:2], {"anna": y[:2]}, per_item=True).shape == (2,)
