"""Labels that are partly known, in everything beside fits: scores, certificates, posteriors, structure."""

import numpy as np
import pytest

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF, SkipCliques
from kernelfields.models.label_graph import mutual_information
from kernelfields.selection import StructureSearch
from tests.samples import as_words, labelled_sequences


@pytest.fixture(scope="module")
def tagged():
    """A field fitted to labels of which a third is unknown."""
    X, y = labelled_sequences(10, longest=5, seed=1)
    y = [each.tolist() for each in as_words(y)]
    known = [[None if (i + t) % 3 == 0 else label for t, label in enumerate(labels)] for i, labels in enumerate(y)]
    crf = ChainCRF("linear", prior_variance=1.0, tol=1e-6, random_state=0).fit(X, known)
    return crf, X, y, known


def test_scores_count_what_is_known(tagged):
    crf, X, _, known = tagged
    pairs = [
        (label, predicted)
        for entries, labels in zip(known, crf.predict(X), strict=True)
        for label, predicted in zip(entries, labels, strict=True)
        if label is not None
    ]
    assert crf.score(X, known) == pytest.approx(np.mean([one == other for one, other in pairs]))
    never_seen = [["pronoun", *[None] * (len(labels) - 1)] for labels in known]
    assert crf.score(X, never_seen) == 0.0
    allowed = [[{"adj", "noun"}, *labels[1:]] for labels in known]
    blank = [[None, *labels[1:]] for labels in known]
    assert crf.score(X, allowed) == crf.score(X, blank)
    with pytest.raises(ValueError, match="no label of y is known: there is no position to compare"):
        crf.score(X, [None] * len(X))
    with pytest.raises(ValueError, match="no position whose label is known has a positive weight"):
        crf.score(X[:2], [known[0], None], [0.0, 1.0])


def test_scores_of_graphs_instances_and_samples_count_what_is_known():
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 2))
    y = (X[:, 0] + 0.3 * random.normal(size=40) > 0).astype(int)
    partly = [None if i % 3 else int(label) for i, label in enumerate(y)]
    seen = np.array([entry is not None for entry in partly])
    classifier = KernelClassifier("linear", prior_variance=1.0, random_state=0).fit(X, y)
    assert classifier.score(X, partly) == pytest.approx(classifier.score(X[seen], y[seen]))
    weights = random.uniform(size=40)
    weighted = classifier.score(X[seen], y[seen], weights[seen])
    assert classifier.score(X, partly, weights) == pytest.approx(weighted)
    graphs = [(X[i : i + 4], [(0, 1), (1, 2), (2, 3)]) for i in range(0, 40, 4)]
    labels = [y[i : i + 4].tolist() for i in range(0, 40, 4)]
    field = GraphCRF("linear", prior_variance=1.0, random_state=0).fit(graphs, labels)
    right = np.concatenate(field.predict(graphs)) == y
    assert field.score(graphs, [partly[i : i + 4] for i in range(0, 40, 4)]) == pytest.approx(right[seen].mean())
    table = np.column_stack([y, 1 - y]).astype(float)
    several = MultiLabelCRF("linear", prior_variance=1.0, random_state=0).fit(X, table)
    some = table.copy()
    some[::2, 1] = np.nan
    some[:3] = np.nan
    agreed = (several.predict(X) == table) | np.isnan(some)
    assert several.score(X, some) == pytest.approx(agreed.all(axis=1)[3:].mean())
    with pytest.raises(ValueError, match="no label of y is known"):
        several.score(X, np.full(table.shape, np.nan))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_certificates_are_those_of_the_completed_labels(kernel):
    X, y = labelled_sequences(10, longest=5, seed=1)
    known = [[None if t % 2 else int(label) for t, label in enumerate(labels)] for labels in y]
    crf = ChainCRF(kernel, prior_variance=1.0, tol=1e-6, rank=None, basis="all", random_state=0).fit(X, known)
    for scope in ("span", "rkhs"):
        certificate = crf.certify(X, known, scope=scope)
        assert certificate.completed
        assert certificate.value == pytest.approx(crf.certificate_.value, rel=1e-6)
        assert 0.0 <= certificate.relative_gap < 1e-3
        assert "for the labels as it completes them" in str(certificate)
    assert not crf.certify(X, y, scope="span").completed


def test_what_needs_every_label_says_so(tagged):
    crf, X, _, known = tagged
    with pytest.raises(ValueError, match="need a label at every position"):
        crf.laplace(X, known)
    with pytest.raises(ValueError, match="need a label at every position"):
        ChainCRF("linear", prior_variance=1.0).fit(X, known, optimize="evidence")
    with pytest.raises(ValueError, match="a search for structure needs labels that are all known"):
        StructureSearch(ChainCRF("linear", prior_variance=1.0), [SkipCliques()]).fit(X, known)
    table = np.array([[0.0, 1.0], [1.0, np.nan], [1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match="a search for structure needs labels that are all known"):
        StructureSearch(MultiLabelCRF("linear", prior_variance=1.0)).fit(np.eye(4), table)


def test_the_tree_of_labels_is_counted_where_both_are_known():
    random = np.random.default_rng(0)
    Y = (random.random((50, 3)) < 0.5).astype(int)
    Y[:, 2] = Y[:, 0]
    known = random.random(Y.shape) < 0.7
    found = mutual_information(Y, np.ones(50), known)
    for j, k in ((0, 1), (0, 2), (1, 2)):
        rows = known[:, j] & known[:, k]
        expected = mutual_information(Y[rows][:, [j, k]], np.ones(rows.sum()))[0, 1]
        assert found[j, k] == pytest.approx(expected) == found[k, j]
    assert found[0, 2] > found[0, 1]


@pytest.mark.parametrize("solver", ["auto", "newton", "lbfgs"])
def test_without_edges_a_missing_label_drops_out(solver):
    """A field of labels that do not meet is one field for each label, fitted to the instances that have it."""
    random = np.random.default_rng(0)
    X, Y = random.normal(size=(50, 3)), (random.random((50, 2)) < 0.5).astype(float)
    Y[random.random(Y.shape) < 0.3] = np.nan
    settings = {"prior_variance": 1.0, "scale": False, "tol": 1e-9, "random_state": 0, "label_graph": "none"}
    crf = MultiLabelCRF("linear", solver=solver, **settings).fit(X, Y)
    assert crf.solution_.reason == "gap"
    assert not crf.certificate_.completed
    assert not crf.certify(X, Y).completed
    alone = [
        MultiLabelCRF("linear", **settings).fit(X[known], Y[known, k, None]) for k, known in enumerate(~np.isnan(Y).T)
    ]
    assert crf.solution_.value == pytest.approx(sum(each.solution_.value for each in alone), rel=1e-7)
    np.testing.assert_allclose(crf.predict_proba(X), np.hstack([each.predict_proba(X) for each in alone]), atol=1e-4)
    evidence = [
        each.laplace(X[known], Y[known, k, None]).value
        for each, (k, known) in zip(alone, enumerate(~np.isnan(Y).T), strict=True)
    ]
    assert crf.laplace(X, Y).value == pytest.approx(sum(evidence), rel=1e-6)


def test_samples_without_a_label_drop_out_of_a_classifier():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(40, 2)), random.integers(3, size=40)
    gaps = [None if number % 4 == 0 else int(label) for number, label in enumerate(y)]
    known = np.arange(40) % 4 != 0
    settings = {"prior_variance": 1.0, "scale": False, "random_state": 0}
    crf = KernelClassifier("linear", solver="newton", **settings).fit(X, gaps)
    assert crf.solution_.reason == "gap"
    np.testing.assert_allclose(
        crf.predict_proba(X), KernelClassifier("linear", **settings).fit(X[known], y[known]).predict_proba(X), atol=1e-6
    )
