"""One class searches every estimator of labels; the searches of single estimators are that class."""

import inspect

import numpy as np
import pytest
from search_sequences import per_token, search_sequences
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_score
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)

from kernelfields import (
    ChainCRF,
    ChainCRFCV,
    FieldSearchCV,
    FrameCRF,
    GraphCRF,
    KernelClassifier,
    MultiLabelCRF,
    SegmentCRF,
    SequenceClassifier,
    SoftTargets,
)
from kernelfields.formats import ModelFileError
from kernelfields.kernels import RBF, Kernel, Linear
from tests.samples import labelled_instances

X, y = search_sequences(24, longest=9)
GRAPHS = [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in X]
IRIS = [each[::3] for each in load_iris(return_X_y=True)]
FOLDS = KFold(3, shuffle=True, random_state=0)
TIGHT = {"tol": 1e-7, "max_iter": 500, "random_state": 0}
GRID = {"kernels": [RBF(0.1), Linear()], "prior_variances": [0.1, 1.0]}
QUICK = {**GRID, "cv": 2, "random_state": 0}

SEARCHES = {
    "chains": (ChainCRF(rank=8), (X, y)),
    "segments": (SegmentCRF(rank=8, max_duration=9), (X, y)),
    "graphs": (GraphCRF(rank=8), (GRAPHS, y)),
    "labels": (MultiLabelCRF(rank=8), labelled_instances(30)),
    "classes": (KernelClassifier(rank=8), IRIS),
}


def test_the_search_of_chains_is_the_search_of_all():
    settings = {**GRID, "factor": 2, "cv": 2, "random_state": 3, "min_items": 4}
    own = ChainCRFCV(ChainCRF(rank=8), **settings).fit(X, y)
    general = FieldSearchCV(ChainCRF(rank=8), **settings).fit(X, y)
    assert len(set(own.cv_results_["iter"])) == 2
    for column, values in own.cv_results_.items():
        if not column.endswith("_time"):
            np.testing.assert_array_equal(values, general.cv_results_[column], err_msg=column)
    assert own.best_params_ == general.best_params_
    assert str(own.table()).splitlines()[0] == str(general.table()).splitlines()[0]
    for one, other in zip(own.predict(X), general.predict(X), strict=True):
        np.testing.assert_array_equal(one, other)
    assert {*inspect.signature(ChainCRFCV).parameters} == {*inspect.signature(FieldSearchCV).parameters}
    assert isinstance(ChainCRFCV(prior_variances=[1.0], cv=2).fit(X, y).best_estimator_, ChainCRF)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_is_loaded_as_its_best_estimator(name, tmp_path):
    estimator, data = SEARCHES[name]
    search = FieldSearchCV(estimator, **{**QUICK, "kernels": Linear()}).fit(*data)
    search.save(tmp_path / "field")
    loaded = FieldSearchCV.load(tmp_path / "field")
    assert type(loaded.best_estimator_) is type(search.best_estimator_)
    assert loaded.score(*data) == search.score(*data)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        loaded.table()
    if name == "chains":
        assert ChainCRFCV.load(tmp_path / "field").score(*data) == search.score(*data)
    else:
        with pytest.raises(ModelFileError, match="expected 'ChainCRF'"):
            ChainCRFCV.load(tmp_path / "field")


@pytest.mark.parametrize("wrong", [None, 3, ChainCRF, FrameCRF()], ids=repr)
def test_what_is_no_estimator_of_labels_is_refused(wrong):
    with pytest.raises(
        TypeError, match=r"estimator must be a field such as ChainCRF\(\), got .* a FrameCRF as its est"
    ):
        FieldSearchCV(wrong).fit(X, y)


@pytest.mark.slow
def test_frames_are_searched():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(np.vstack(X), columns=list("abc"))
    table["sequence"] = np.repeat(np.arange(len(X)), [len(x) for x in X])
    table["label"] = np.concatenate(y)
    plain = FieldSearchCV(SegmentCRF(rank=8, max_duration=9), **QUICK).fit(X, y)
    assert FrameCRF(clone(plain)).fit(table).score(table) == plain.score(X, y)


def test_estimators_without_edges_have_no_variances_of_edges():
    with pytest.raises(ValueError, match="KernelClassifier has no edges: leave out edge_prior_variances"):
        FieldSearchCV(KernelClassifier(), edge_prior_variances=[1.0]).fit(*IRIS)


# ---- segments


def as_segments(labels):
    begins = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    ends = np.append(begins[1:], len(labels))
    return [(int(begin), int(end), int(labels[begin])) for begin, end in zip(begins, ends, strict=True)]


@pytest.mark.slow
def test_segments_are_searched_as_by_a_grid_search():
    crf = SegmentCRF(rank=8, max_duration=9, **TIGHT)
    search = FieldSearchCV(crf, **GRID, cv=FOLDS, halving=False).fit(X, y)
    grid = {"kernel": GRID["kernels"], "prior_variance": GRID["prior_variances"]}
    peer = GridSearchCV(crf, grid, scoring=per_token, cv=FOLDS).fit(X, y)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], peer.cv_results_["mean_test_score"], atol=1e-3, rtol=0
    )
    assert search.predict_segments(X) == peer.best_estimator_.predict_segments(X)


@pytest.mark.slow
def test_labels_may_be_written_as_segments():
    search = FieldSearchCV(SegmentCRF(rank=8, max_duration=9), **QUICK)
    written = clone(search).fit(X, [as_segments(labels) for labels in y])
    np.testing.assert_array_equal(
        written.cv_results_["mean_test_score"], search.fit(X, y).cv_results_["mean_test_score"]
    )
    right = search.set_params(scoring="accuracy").fit(X, [as_segments(labels) for labels in y])
    assert 0.3 < right.best_score_ <= 1.0


# ---- classes of sequences

CLASSES = np.array(["a", "b", "c"])[np.arange(len(X)) % 3]
MOVED = [x + number % 3 for number, x in enumerate(X)]


@pytest.mark.slow
def test_classes_of_sequences_are_searched_as_by_a_grid_search():
    hidden = SequenceClassifier(n_states=2, rank=8, tol=0.01, random_state=0)
    folds = StratifiedKFold(3)
    search = FieldSearchCV(hidden, **GRID, cv=folds, halving=False).fit(MOVED, CLASSES)
    grid = {"kernel": GRID["kernels"], "prior_variance": GRID["prior_variances"]}
    peer = GridSearchCV(hidden, grid, scoring="neg_log_loss", cv=folds).fit(MOVED, CLASSES)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], peer.cv_results_["mean_test_score"], rtol=1e-12)
    np.testing.assert_array_equal(search.predict_proba(MOVED), peer.predict_proba(MOVED))
    np.testing.assert_array_equal(search.classes_, ["a", "b", "c"])
    assert is_classifier(search)
    quick = search.set_params(kernels=Linear(), prior_variances=[1.0], cv=2, refit=True)
    assert np.all(cross_val_score(quick, MOVED, CLASSES, cv=2) > 0.5)


def test_sequences_of_features_rare_classes_and_failures():
    words = [[{f"f{i}": str(round(value)) for i, value in enumerate(row)} for row in x] for x in MOVED]
    classes = CLASSES.astype("<U5")
    classes[5] = "alone"
    search = FieldSearchCV(SequenceClassifier(n_states=1), prior_variances=[0.1, 1.0], random_state=0)
    search.fit(words, classes)
    assert np.all(search.cv_results_["n_dropped"] == 1)
    assert "1 held-out sequence was not scored" in str(search.table())
    assert set(search.cv_results_["param_kernel"]) == {Linear()}

    class Negative(Kernel):
        def _block(self, X, Z):
            return -np.ones((len(X), len(X if Z is None else Z)))

        def _diagonal(self, X):
            return -np.ones(len(X))

    with pytest.warns(FitFailedWarning, match="2 candidates could not be fitted"):
        search.set_params(kernels=[Negative(), RBF(0.1)]).fit(MOVED, CLASSES)
    assert search.best_params_["kernel"] == RBF(0.1)


# ---- targets


@pytest.mark.slow
def test_soft_targets_are_scored_by_the_expected_log_likelihood():
    teacher = ChainCRF("linear", tol=1e-8).fit(X, y)
    nodes, pairs = teacher.predict_marginals(X, cliques="edge")
    targets = SoftTargets(nodes, pairs, classes=teacher.classes_)
    crf = ChainCRF("linear", tol=1e-8)
    search = ChainCRFCV(crf, prior_variances=[0.1, 1.0], cv=2, random_state=0).fit(X, targets)
    expected = []
    for train, test in search.splits_:
        fitted = clone(crf).set_params(prior_variance=search.best_params_["prior_variance"])
        fitted.fit([X[i] for i in train], targets.subset(train))
        draws = teacher.sample([X[i] for i in test], n_samples=3000, random_state=0)
        held_out = [X[i] for i in test]
        by_draw = [fitted.log_likelihood(held_out, [own[draw] for own in draws]) for draw in range(0, 3000, 10)]
        expected.append(np.mean(by_draw) / sum(len(X[i]) for i in test))
    assert search.best_score_ == pytest.approx(np.mean(expected), abs=0.02)
    with pytest.raises(ValueError, match=r"scoring='accuracy' needs every label.*use 'log_likelihood'"):
        search.set_params(scoring="accuracy").fit(X, targets)


def test_soft_targets_of_samples():
    shares = KernelClassifier("linear").fit(*IRIS).predict_proba(IRIS[0])
    for nodes in (shares, shares.tolist()):
        search = FieldSearchCV(KernelClassifier("linear"), prior_variances=[0.1, 1.0], random_state=0)
        search.fit(IRIS[0], SoftTargets(nodes, classes=[0, 1, 2]))
        assert search.best_score_ < -np.mean(-np.sum(shares * np.log(shares), axis=1)) + 1e-9
        assert search.score(*IRIS) > 0.8


# ---- weights


@pytest.mark.slow
@pytest.mark.parametrize(
    "check", [check_sample_weight_equivalence_on_dense_data, check_sample_weight_equivalence_on_sparse_data]
)
def test_weights_are_repetitions(check):
    check("FieldSearchCV", FieldSearchCV(KernelClassifier("rbf"), prior_variances=[0.1, 1.0]))


WEIGHED = [("chains", "log_likelihood"), ("chains", "accuracy"), ("graphs", "accuracy")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scoring"), [*WEIGHED, ("segments", "log_likelihood"), ("labels", "log_likelihood")])
def test_items_of_weight_two_are_two_items(name, scoring):
    estimator, (X, y) = SEARCHES[name]
    twice, train, test = [0, 4, 5], np.arange(12), np.arange(12, 20)
    weights = np.ones(len(y))
    weights[[*twice, 13, 17]] = 2.0
    search = FieldSearchCV(clone(estimator).set_params(basis="all", **TIGHT), **{**QUICK, "scoring": scoring})
    search.set_params(kernels="rbf", prior_variances=[1.0], refit=False, cv=[(train, test)]).fit(X, y, weights)
    order = np.concatenate([np.arange(len(y)), [*twice, 13, 17]])
    X, y = ([each[i] for i in order] if isinstance(each, list) else each[order] for each in (X, y))
    n = len(weights)
    repeated = clone(search).set_params(cv=[([*train, n, n + 1, n + 2], [*test, n + 3, n + 4])]).fit(X, y)
    assert list(search.cv_results_["param_kernel"]) == list(repeated.cv_results_["param_kernel"])
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], repeated.cv_results_["mean_test_score"], atol=1e-5
    )
