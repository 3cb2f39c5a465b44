"""An evaluation as text, as HTML and as plain data; of a fitted field from end to end."""

import json
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, SegmentCRF, SequenceClassifier
from kernelfields.compat import CRF
from kernelfields.evaluation import compare, evaluate
from kernelfields.reports import report_page


@pytest.fixture(scope="module")
def fitted():
    random = np.random.default_rng(0)
    y = [
        [f"{tag}-{kind}" if tag != "O" else "O" for kind in random.choice(["LOC", "PER"], size=3) for tag in "BIO"]
        for _ in range(30)
    ]
    codes = {label: place for place, label in enumerate(["B-LOC", "B-PER", "I-LOC", "I-PER", "O"])}
    X = [np.eye(5)[[codes[label] for label in labels]] + random.normal(size=(len(labels), 5)) for labels in y]
    return ChainCRF("linear", constraints="bio").fit(X[:20], y[:20]), X[20:], y[20:]


@pytest.fixture(scope="module")
def evaluation(fitted):
    crf, X, y = fitted
    return evaluate(
        y,
        crf.predict(X),
        marginals=crf.predict_marginals(X),
        classes=crf.classes_,
        log_likelihood=crf.log_likelihood(X, y, per_item=True),
        scheme="auto",
        random_state=0,
    )


def test_labels_that_are_partly_known_count_where_they_are_known():
    true, predicted = [["a", None, "b"], None, [{"a", "b"}, "a"]], [["a", "b", "a"], ["a"], ["a", "a"]]
    found = evaluate(true, predicted, n_resamples=0)
    assert (found.n_sequences, found.n_tokens, found.accuracy.value) == (2, 3, pytest.approx(2 / 3))
    assert compare(true, predicted, predicted, n_resamples=0).n_tokens == 3
    with pytest.raises(ValueError, match="sequence 2 has 2 labels in y_true but 1 in y_pred"):
        evaluate(true, [*predicted[:2], ["a"]])
    with pytest.raises(ValueError, match="y_true has 3 sequences but y_pred has 2"):
        evaluate(true, predicted[:2])
    with pytest.raises(TypeError, match="y_pred must hold one list or array for each sequence"):
        evaluate(true, 3)
    with pytest.raises(ValueError, match="no label is known"):
        evaluate([None] * 3, predicted)
    with pytest.raises(ValueError, match="scheme='bio': entities are counted where every label is known"):
        evaluate(true, predicted, scheme="bio")


def test_what_a_model_answers_and_what_is_passed_are_not_mixed():
    X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
    crf = ChainCRF("linear").fit(X, y)
    with pytest.raises(TypeError, match="evaluate asks a model for marginals"):
        evaluate(crf, X, y, marginals=crf.predict_marginals(X))
    with pytest.raises(TypeError, match=r"decode and labels_only are for a model: evaluate\(model, X, y"):
        evaluate(y, y, decode="viterbi")


def test_confusions_are_those_of_scikit_learn(fitted, evaluation):
    crf, X, y = fitted
    true, predicted = (np.concatenate(labels) for labels in (y, crf.predict(X)))
    expected = confusion_matrix(true, predicted, labels=list(evaluation.per_label))
    np.testing.assert_array_equal(evaluation.confusion_matrix, expected)
    row = next(line for line in reversed(str(evaluation).splitlines()) if line.startswith("I-PER"))
    assert row.split() == ["I-PER", *map(str, expected[list(evaluation.per_label).index("I-PER")])]
    pairs = json.loads(json.dumps(evaluation.to_dict()))["confusions"]
    assert sum(pair["count"] for pair in pairs) == len(true)
    assert {(pair["true"], pair["predicted"]) for pair in pairs} == set(evaluation.confusions)
    assert "Which labels are confused?" in report_page("Test", evaluation=evaluation)


def test_of_many_labels_the_most_frequent_confusions_are_listed():
    labels = [f"l{number:02d}" for number in range(20)]
    result = evaluate([labels * 3], [["l00", "l00", *labels[2:]] * 2 + ["l00", "l02", *labels[2:]]], n_resamples=0)
    lines = str(result).splitlines()
    begin = next(index for index, line in enumerate(lines) if line.startswith("true"))
    assert [line.split() for line in lines[begin:]] == [
        ["true", "predicted", "count", "share", "of", "the", "true", "label"],
        ["l01", "l00", "2", "0.667"],
        ["l01", "l02", "1", "0.333"],
    ]
    right = evaluate([labels], [labels], n_resamples=0)
    assert not any(line.startswith("true") for line in str(right).splitlines())
    assert "Which labels are confused?" not in report_page("Test", evaluation=right)


class Cells(HTMLParser):
    """Text of the cells, and tags that must be closed in turn."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_auto_counts_no_entities_where_labels_write_none():
    assert evaluate([["NN", "VB"]], [["NN", "NN"]], scheme="auto", n_resamples=0).entities is None
    with pytest.raises(ValueError, match="label 'NN' does not fit the scheme 'bio'"):
        evaluate([["NN", "VB"]], [["NN", "NN"]], scheme="bio")


def test_entities_come_first(evaluation):
    lines = str(evaluation).splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("figure")) + 1
    assert lines[first].split()[:3] == ["entity", "F1", "(bio)"]
    assert f"{evaluation.entities.averages['micro'].f1:.4f}" in lines[first]
    assert lines[first + 1].startswith("accuracy")
    page = report_page("Entities", evaluation=evaluation)
    assert f"Entity F1 (bio) {evaluation.entities.averages['micro'].f1:.3f} on 10 sequences." in page
    labels = str(evaluate([["a", "b"]] * 3, [["a", "a"]] * 3, n_resamples=0)).splitlines()
    assert labels[3].startswith("accuracy")


def test_decodings_are_listed_where_they_differ(fitted):
    crf, X, y = fitted
    viterbi, posterior = crf.predict(X, decode="viterbi"), crf.predict(X, decode="posterior")
    found = evaluate(crf, X, y, random_state=0)
    assert list(found.decodings) == ["viterbi", "posterior"]
    for name, labels in (("viterbi", viterbi), ("posterior", posterior)):
        own, listed = evaluate(y, labels, random_state=0), found.decodings[name]
        assert (listed.accuracy, listed.sequence_accuracy) == (own.accuracy, own.sequence_accuracy)
        assert listed.entity_f1 == own.entities.averages["micro"].f1
    changed = int(np.sum(np.concatenate(viterbi) != np.concatenate(posterior)))
    assert sorted(each.n_changed for each in found.decodings.values()) == [0, changed]
    lines = str(found).splitlines()
    assert [line.split()[0] for line in lines if line.startswith(("viterbi", "posterior"))] == list(found.decodings)
    assert "Decoded in other ways" in report_page("Both", evaluation=found)
    chosen = evaluate(crf, X, y, decode="posterior", random_state=0)
    assert chosen.accuracy == found.decodings["posterior"].accuracy
    assert chosen.log_likelihood == found.log_likelihood
    bare = evaluate(crf, X, y, labels_only=True, random_state=0)
    assert bare.log_likelihood is bare.calibration is None
    assert bare.decodings == found.decodings


def test_marginals_tell_the_other_decoding(fitted):
    crf, X, y = fitted
    marginals, classes = crf.predict_marginals(X), crf.classes_
    found = evaluate(y, crf.predict(X, decode="viterbi"), marginals=marginals, classes=classes, n_resamples=0)
    assert list(found.decodings) == ["predicted", "posterior"]
    posterior = crf.predict(X, decode="posterior")
    assert found.decodings["posterior"].accuracy == evaluate(y, posterior, n_resamples=0).accuracy
    assert evaluate(y, posterior, marginals=marginals, classes=classes, n_resamples=0).decodings is None


def test_decodings_are_checked(fitted):
    crf, X, y = fitted
    with pytest.raises(ValueError, match="decode must be 'viterbi', 'posterior' or None"):
        evaluate(crf, X, y, decode="best")
    with pytest.raises(TypeError, match="evaluate takes a fitted estimator of labels, got dict"):
        evaluate({}, X, y)


def test_figures_are_named_by_what_they_are_of():
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    single = str(evaluate(KernelClassifier("linear").fit(X, y), X, y, n_resamples=0))
    assert single.startswith("4 samples\n")
    assert "log-likelihood per sample" in single
    assert "sample accuracy" not in single  # the share of right labels is the share of right samples
    sequences = [np.array([[value]]) for value in X[:, 0]]
    whole = SequenceClassifier("linear", n_states=1, n_jobs=1, random_state=0).fit(sequences, y)
    assert str(evaluate(whole, sequences, y, n_resamples=0)).startswith("4 sequences\n")
    edges = np.array([[0, 1]])
    graphs = [(np.array([[-1.0], [1.0]]), edges), (np.array([[1.0], [-1.0]]), edges)]
    text = str(evaluate(GraphCRF("linear").fit(graphs, [[0, 1], [1, 0]]), graphs, [[0, 1], [1, 0]]))
    assert text.startswith("2 graphs, 4 nodes; ")
    assert "resamples of graphs" in text
    assert "graph accuracy" in text
    assert "log-likelihood per node" in text


def test_labels_that_the_fit_never_saw_are_errors_and_named(fitted):
    crf, X, y = fitted
    other = [list(labels) for labels in y]
    other[0][0], other[3][1] = "B-NEW", "B-NEW"
    found = evaluate(crf, X, other, random_state=0)
    assert found.accuracy.value == pytest.approx(crf.score(X, other))
    assert found.unseen == {"B-NEW": 2}
    assert found.log_likelihood.n_impossible == 2
    assert "labels that the fit never saw, counted as errors: 'B-NEW' (2)" in str(found)
    assert found.to_dict()["unseen"] == [{"label": "B-NEW", "count": 2}]
    assert "&#39;B-NEW&#39; (2)" in report_page("Unseen", evaluation=found)
    kept = [number for number in range(len(X)) if number not in (0, 3)]
    fine = evaluate(crf, [X[n] for n in kept], [y[n] for n in kept], n_resamples=0)
    assert fine.unseen == {}
    np.testing.assert_allclose(
        fine.log_likelihood.per_sequence.value, crf.log_likelihood([X[n] for n in kept], [y[n] for n in kept]) / 8
    )
    rows, classes = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array(["a", "a", "b", "b"])
    single = evaluate(KernelClassifier("linear").fit(rows, classes), rows, ["a", "c", "b", "b"], n_resamples=0)
    assert (single.accuracy.value, single.unseen) == (0.75, {"c": 1})


def test_the_face_of_sklearn_crfsuite_and_segments_are_evaluated():
    words = [[{"word": word} for word in sentence] for sentence in ("abca", "bcab", "cabc", "aabb")]
    tags = [[item["word"].upper() for item in sentence] for sentence in words]
    crf = CRF(c2=0.1).fit(words, tags)
    found, inner = (evaluate(model, words, tags, random_state=0) for model in (crf, crf.chain_))
    assert found.to_dict() == inner.to_dict()
    assert found.accuracy.value == crf.score(words, tags)
    X = [np.repeat([[0.0], [1.0]], 3, axis=0) + 0.01 * number for number in range(4)]
    segments = [[(0, 3, "low"), (3, 6, "high")]] * 4
    field = SegmentCRF("linear", prior_variance=1.0).fit(X, segments)
    labels = [["low"] * 3 + ["high"] * 3] * 4
    written, plain = (evaluate(field, X, y, random_state=0) for y in (segments, labels))
    assert written.accuracy == plain.accuracy
    assert written.log_likelihood == plain.log_likelihood
