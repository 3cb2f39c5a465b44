"""Searches on labels that are partly known: folds and scores by what is known."""

import numpy as np
import pytest

from kernelfields import ChainCRF, ChainCRFCV, FieldSearchCV, GraphCRF, KernelClassifier, MultiLabelCRF
from tests.samples import as_words, labelled_sequences

GRID = {
    "kernels": "linear",
    "prior_variances": (0.1, 1.0),
    "cv": 2,
    "halving": False,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def partly():
    X, y = labelled_sequences(10, longest=5, seed=1)
    words = [each.tolist() for each in as_words(y)]
    known = [[None if t % 2 else label for t, label in enumerate(labels)] for labels in words]
    known[3] = None
    known[4][1:2] = [{"adj", "noun"}]
    return X, known


def test_chains_are_scored_by_the_probability_of_what_is_known(partly):
    X, known = partly
    base = ChainCRF("linear", tol=1e-8)
    search = ChainCRFCV(base, **GRID).fit(X, known)
    assert sorted(np.concatenate([test for _, test in search.splits_]).tolist()) == list(range(10))
    expected = []
    for train, test in search.splits_:
        crf = ChainCRF("linear", tol=1e-8, prior_variance=search.best_params_["prior_variance"])
        crf.fit([X[i] for i in train], [known[i] for i in train])
        told = sum(entry is not None for i in test for entry in known[i] or [])
        expected.append(crf.log_likelihood([X[i] for i in test], [known[i] for i in test]) / told)
    assert search.best_score_ == pytest.approx(np.mean(expected), rel=1e-4)
    accurate = ChainCRFCV(base, **GRID, scoring="accuracy", refit=False).fit(X, known)
    assert 0.0 <= accurate.best_score_ <= 1.0
    assert search.predict(X[:1], known=[["noun", *[None] * (len(X[0]) - 1)]])[0][0] == "noun"


def test_scores_that_need_every_label_are_refused(partly):
    X, known = partly
    tags = [None if each is None else ["O" if entry is None else None for entry in each] for each in known]
    with pytest.raises(ValueError, match="scoring='entity_f1' needs every label, and labels are partly known here"):
        ChainCRFCV(ChainCRF("linear"), **GRID, scoring="entity_f1").fit(
            X, [["B-X", *each[1:]] if each else each for each in tags]
        )


def test_graphs_instances_and_samples_are_searched_too():
    random = np.random.default_rng(0)
    X = random.normal(size=(24, 2))
    y = (X[:, 0] > 0).astype(int)
    partly = [None if i % 3 == 0 else int(label) for i, label in enumerate(y)]
    samples = FieldSearchCV(KernelClassifier(), **GRID).fit(X, partly)
    assert samples.best_score_ > np.log(0.5)
    graphs = [(X[i : i + 3], [(0, 1), (1, 2)]) for i in range(0, 24, 3)]
    field = FieldSearchCV(GraphCRF(), **GRID).fit(graphs, [partly[i : i + 3] for i in range(0, 24, 3)])
    assert field.best_score_ > np.log(0.5)
    table = np.column_stack([y, 1 - y]).astype(float)
    table[::3, 0] = np.nan
    several = FieldSearchCV(MultiLabelCRF(), **GRID).fit(X, table)
    assert several.best_score_ > np.log(0.5)
    with pytest.raises(ValueError, match="scoring='micro_f1' needs every label"):
        FieldSearchCV(MultiLabelCRF(), **GRID, scoring="micro_f1").fit(X, table)
