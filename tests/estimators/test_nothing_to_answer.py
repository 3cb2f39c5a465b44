"""No sequences and no graphs: no answers; nothing to fit or to score is an error.

A sequence without positions has one labelling, the empty one: every question has an answer for it.
"""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelfields import (
    ChainCRF,
    ChainCRFCV,
    Constraints,
    EdgeCliques,
    GraphCRF,
    KernelClassifier,
    LabelDictionary,
    LabelNgrams,
    NodeCliques,
    RingCRF,
    SegmentCRF,
    SequenceClassifier,
    Sequencewise,
    SkipCliques,
)
from kernelfields.compat import CRF
from tests.compat.tagged_sentences import tagged_data
from tests.samples import labelled_instances, labelled_sequences

X, y = labelled_sequences()
NOTHING = [[], (), np.empty(0, dtype=object)]


@pytest.fixture(scope="module")
def chain():
    field = ChainCRF("linear").fit(X, y)
    field.laplace(X, y, n_samples=2, random_state=0)
    return field


@pytest.fixture(scope="module")
def graphs():
    edges = [np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))]) for x in X]
    field = GraphCRF("linear").fit(list(zip(X, edges, strict=True)), y)
    field.laplace(list(zip(X, edges, strict=True)), y, n_samples=2, random_state=0)
    return field


@pytest.mark.parametrize("nothing", NOTHING, ids=["list", "tuple", "array"])
def test_nothing_asked_is_nothing_answered(chain, graphs, nothing):
    for field in (chain, graphs):
        for ask in (field.predict, field.predict_marginals, field.predict_variances, field.sample):
            assert ask(nothing) == []
        assert field.predict_marginals(nothing, uncertainty=True) == []
        assert field.entropy(nothing).shape == (0,)
    assert chain.predict(nothing, decode="posterior") == chain.predict_nbest(nothing, 2) == []
    assert chain.predict_marginals(nothing, cliques="edge") == ([], [])
    assert graphs.predict_marginals(nothing, "edge") == ([], [])


def test_models_around_a_chain_answer_nothing_as_well():
    pipeline = make_pipeline(Sequencewise(StandardScaler()), ChainCRF("linear")).fit(X, y)
    search = ChainCRFCV(ChainCRF("linear"), prior_variances=[1.0], cv=2, random_state=0).fit(X, y)
    words = ChainCRF("linear").fit([[{"a": 1.0}, {"b": 1.0}]], [["a", "b"]])
    for model in (pipeline, search, words):
        assert model.predict([]) == []
    assert len(CRF().fit(*tagged_data(5)).predict([])) == 0


def test_nothing_cannot_be_scored_or_fitted(chain, graphs):
    for field in (chain, graphs):
        for ask in (field.score, field.fit):
            with pytest.raises(ValueError, match=r"at least one (sequence|graph) is needed"):
                ask([], [])
        with pytest.raises(ValueError, match=r"at least one (sequence|graph) is needed"):
            field.log_likelihood([], y[:1])
        assert field.log_likelihood([], []) == 0.0
        assert field.log_likelihood([], [], per_item=True).shape == (0,)


FIELDS = {
    "chain": lambda: ChainCRF("linear", prior_variance=1.0),
    "constraints": lambda: ChainCRF("linear", prior_variance=1.0, constraints=Constraints(start=[9][:0])),
    "ring": lambda: RingCRF("linear", prior_variance=1.0),
    "n-grams": lambda: ChainCRF(cliques=[NodeCliques("linear"), EdgeCliques(), LabelNgrams(n=3)]),
    "skips": lambda: ChainCRF(cliques=[NodeCliques("linear"), EdgeCliques(), SkipCliques(lag=2)]),
    "segments": lambda: SegmentCRF("linear", prior_variance=1.0, max_duration=7),
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_sequence_without_positions_has_an_empty_answer_in_its_place(name):
    crf = FIELDS[name]().fit(X, y)
    crf.laplace(X, y, n_samples=3, random_state=0)
    empty, asked, labels = X[0][:0], [X[0], X[0][:0], X[1], []], [y[0], y[0][:0], y[1], []]
    full, n_labels = [X[0], X[1]], len(crf.classes_)
    for ask in (
        crf.predict,
        lambda some: crf.predict(some, decode="posterior"),
        lambda some: crf.predict(some, known=[None] * len(some)),
        crf.predict_marginals,
        lambda some: crf.predict_marginals(some, uncertainty=True),
        lambda some: crf.predict_marginals(some, "edge")[1],
        crf.predict_variances,
        lambda some: crf.sample(some, random_state=0),
    ):
        answers = ask(asked)
        assert [len(answer) for answer in answers[1::2]] == [0, 0]
        for own, other in zip(answers[::2], ask(full), strict=True):
            np.testing.assert_array_equal(own, other)
        assert [len(answer) for answer in ask([empty, []])] == [0, 0]
    assert crf.predict_marginals([empty])[0].shape == (0, n_labels)
    assert crf.sample(asked, 2, random_state=0)[1].shape == (2, 0)
    ((labelling, log),) = crf.predict_nbest(asked, 2)[1]
    assert (len(labelling), log) == (0, 0.0)
    np.testing.assert_array_equal(crf.entropy(asked)[1::2], 0.0)
    logs = crf.log_likelihood(asked, labels, per_item=True)
    np.testing.assert_array_equal(logs, np.insert(crf.log_likelihood(full, labels[::2], per_item=True), [1, 2], 0.0))
    assert crf.score(asked, labels) == crf.score(full, labels[::2])
    with pytest.raises(ValueError, match="sequence 10 has no rows: remove empty sequences from X and y"):
        FIELDS[name]().fit([*X, empty], [*y, y[0][:0]])
    with pytest.raises(ValueError, match="sequence 10 has no rows: remove empty sequences from X and y"):
        crf.certify([*X, empty], [*y, y[0][:0]])


def test_segments_of_a_sequence_without_positions():
    crf = FIELDS["segments"]().fit(X, y)
    for asked in ([X[0], X[0][:0]], [X[0][:0]]):
        assert crf.predict_segments(asked)[-1] == []
        assert crf.predict_nbest(asked, 2, segments=True)[-1] == [([], 0.0)]


def test_empty_sequences_of_named_features_and_in_pipelines():
    words = [[{"word": "a"}, {"word": "b"}], [{"word": "b"}, {"word": "a"}]]
    tags = [["a", "b"], ["b", "a"]]
    for allowed in (None, LabelDictionary("word", min_count=1)):
        crf = ChainCRF("linear", prior_variance=1.0, allowed=allowed).fit(words, tags)
        assert crf.predict([words[0], [], words[1]]) == [tags[0], [], tags[1]]
        assert crf.predict([[]]) == [[]]
        assert crf.log_likelihood([[]], [[]]) == 0.0
    pipeline = make_pipeline(Sequencewise(StandardScaler()), ChainCRF("linear", prior_variance=1.0)).fit(X, y)
    assert [len(answer) for answer in pipeline.predict([X[0], X[0][:0], X[1]])] == [len(X[0]), 0, len(X[1])]
    assert [len(answer) for answer in pipeline.predict([X[0][:0]])] == [0]


def test_batches_and_development_sets_refuse_empty_sequences():
    empty, message = X[0][:0], "sequence 1 has no rows: remove empty sequences from X and y"
    crf = ChainCRF("rbf", rank=10, prior_variance=1.0, random_state=0).partial_fit(X, y)
    with pytest.raises(ValueError, match=message):
        crf.partial_fit([X[0], empty], [y[0], y[0][:0]])
    with pytest.raises(ValueError, match=message):
        ChainCRF("linear", prior_variance=1.0).fit(X, y, X_dev=[X[0], empty], y_dev=[y[0], y[0][:0]])
    with pytest.raises(ValueError, match=message):
        ChainCRF("linear", warm_start=True).fit(X, y).fit([X[0], empty], [y[0], y[0][:0]])


def test_a_whole_sequence_without_positions_says_nothing_of_its_class():
    crf = SequenceClassifier("linear", random_state=0).fit(X, [0, 1] * 5)
    np.testing.assert_allclose(crf.predict_proba([X[0], X[0][:0]])[1], 0.5)
    assert len(crf.predict_states([X[0], X[0][:0]])[1]) == 0


def test_tables_without_rows_are_refused_as_scikit_learn_does():
    rows, labels = labelled_instances()
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        KernelClassifier(random_state=0).fit(rows, labels[:, 0]).predict(rows[:0])
