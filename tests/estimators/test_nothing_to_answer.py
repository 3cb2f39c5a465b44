"""No sequences and no graphs: no answers; nothing to fit or to score is an error."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelfields import ChainCRF, ChainCRFCV, GraphCRF, KernelClassifier, Sequencewise
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
        assert field.predict_marginals(nothing, uncertainty="probit") == []
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
        for ask in (field.score, field.log_likelihood, field.fit):
            with pytest.raises(ValueError, match=r"at least one (sequence|graph) is needed"):
                ask([], [])


def test_tables_without_rows_are_refused_as_scikit_learn_does():
    rows, labels = labelled_instances()
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        KernelClassifier(random_state=0).fit(rows, labels[:, 0]).predict(rows[:0])
