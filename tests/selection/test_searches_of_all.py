"""Searches of graphs, of several labels and of classes find what an exhaustive search finds, on the same body."""

import networkx as nx
import numpy as np
import pytest
from search_sequences import search_sequences
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import f1_score, hamming_loss
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils.estimator_checks import estimator_checks_generator

from kernelfields import (
    ChainCRFCV,
    FieldSearchCV,
    GraphCRF,
    KernelClassifier,
    MultiLabelCRF,
)
from kernelfields.kernels import RBF, Linear
from tests.samples import labelled_instances

SEQUENCES, LABELS = search_sequences(18)
GRAPHS = [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in SEQUENCES]
INSTANCES = labelled_instances(30)
IRIS = [each[::3] for each in load_iris(return_X_y=True)]
TIGHT = {"tol": 1e-7, "max_iter": 500, "random_state": 0}
GRID = {"kernels": [RBF(0.1), Linear()], "prior_variances": [0.1, 1.0]}
QUICK = {**GRID, "kernels": [RBF(0.1)], "random_state": 0}
FOLDS = KFold(3, shuffle=True, random_state=0)


def per_position(estimator, X, y):
    return estimator.log_likelihood(X, y) / sum(map(len, y))


def per_sample(estimator, X, y):
    rows = np.searchsorted(estimator.classes_, y)
    return float(estimator.predict_log_proba(X)[np.arange(len(rows)), rows].mean())


SEARCHES = {
    "graphs": (GraphCRF(rank=8, **TIGHT), (GRAPHS, LABELS), per_position),
    "labels": (MultiLabelCRF(rank=8, label_graph="tree", **TIGHT), INSTANCES, per_position),
    "classes": (KernelClassifier(rank=8, **TIGHT), IRIS, per_sample),
}


def quick(name, **settings):
    estimator, data, _ = SEARCHES[name]
    return FieldSearchCV(clone(estimator).set_params(tol=1e-3), **{**QUICK, **settings}), data


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_without_halving_it_is_a_grid_search(name):
    estimator, (X, y), peer_score = SEARCHES[name]
    search = FieldSearchCV(estimator, **GRID, cv=FOLDS, halving=False).fit(X, y)
    grid = {"kernel": GRID["kernels"], "prior_variance": GRID["prior_variances"]}
    peer = GridSearchCV(estimator, grid, scoring=peer_score, cv=FOLDS).fit(X, y)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], peer.cv_results_["mean_test_score"], atol=1e-3, rtol=0
    )
    assert {each: search.best_params_[each] for each in grid} == {each: peer.best_params_[each] for each in grid}
    for one, other in zip(search.predict(X), peer.predict(X), strict=True):
        np.testing.assert_array_equal(one, other)
    assert search.score(X, y) == peer.best_estimator_.score(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_halving_and_interrupts_are_those_of_chains(name):
    calls = []

    def interrupted(estimator, X, y):
        calls.append(len(X) if isinstance(X, list) else X.shape[0])
        if len(calls) == 14:
            raise KeyboardInterrupt
        return estimator.score(X, y)

    search, (X, y) = quick(name, kernels=[RBF(0.1), RBF(1.0)], scoring=interrupted, factor=2)
    search.set_params(min_items=3)
    with pytest.warns(ConvergenceWarning, match="search was interrupted after 12 of 18 fits"):
        search.fit(X, y)
    # A first rung of four candidates on half of the data; the second was not done.
    assert list(search.cv_results_["iter"]) == [0, 0, 0, 0]
    assert search.cv_results_["n_resources"][0] < 0.4 * (sum(map(len, y)) if name == "graphs" else len(y))
    assert calls[0] < len(y) // 3 + 1
    assert search.interrupted_
    assert len(search.predict(X)) == len(y)


def test_a_search_of_chains_refuses_what_lies_on_a_cluster():
    class Delayed:
        def __dask_graph__(self):
            return {}

    with pytest.raises(TypeError, match=r"collect them in a list first, X.compute\(\)"):
        ChainCRFCV().fit([Delayed(), Delayed()], LABELS)


# ---- graphs


def circle(x):
    """A graph in a circle: no forest."""
    nodes = np.arange(len(x))
    return x, np.column_stack([nodes, np.roll(nodes, 1)])[: len(x) if len(x) > 2 else len(x) - 1]


def test_approximate_inference_is_scored_by_accuracy():
    circles, crf = [circle(x) for x in SEQUENCES], GraphCRF("linear", inference="loopy", max_iter=300)
    search = FieldSearchCV(crf, prior_variances=[0.1, 1.0], random_state=0).fit(circles, LABELS)
    assert "accuracy" in str(search.table())
    peer = GridSearchCV(crf, {"prior_variance": [0.1, 1.0]}, cv=search.splits_).fit(circles, LABELS)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], peer.cv_results_["mean_test_score"], atol=0.03)
    with pytest.raises(ValueError, match=r"needs exact inference, .* inferred by 'loopy'.* use scoring='accuracy'"):
        search.set_params(scoring="log_likelihood").fit(circles, LABELS)


def test_kernels_by_type_of_node_are_candidates():
    graphs = [{"x": x, "edges": edges, "node_types": ["a", "b"] * len(x)} for x, edges in GRAPHS]
    graphs = [{**graph, "node_types": graph["node_types"][: len(graph["x"])]} for graph in graphs]
    kernels = [{"a": "linear", "b": RBF(0.1)}, {"a": Linear(), "b": Linear()}]
    search, _ = quick("graphs", kernels=kernels, ranks=[4, 8])
    search.fit(graphs, LABELS)
    # Without pivots the rank does not count.
    assert [each["rank"] for each in search.cv_results_["params"]] == [4, 4, 8, 8, 4, 4]
    assert set(search.best_params_["kernel"]) == {"a", "b"}


def test_graphs_of_networkx_are_dealt_out():
    graphs = []
    for x in SEQUENCES:
        graph = nx.path_graph(len(x))
        nx.set_node_attributes(graph, dict(enumerate(x)), "x")
        graphs.append(graph)
    search, (X, y) = quick("graphs")
    twin = clone(search).fit(X, y)
    np.testing.assert_allclose(
        search.fit(graphs, y).cv_results_["mean_test_score"], twin.cv_results_["mean_test_score"], rtol=1e-9
    )


# ---- tables


def micro_f1(estimator, X, y):
    return f1_score(y, estimator.predict(X), average="micro")


def right_labels(estimator, X, y):
    return 1.0 - hamming_loss(y, estimator.predict(X))


@pytest.mark.slow
def test_scores_of_several_labels():
    estimator, (X, Y), _ = SEARCHES["labels"]
    peers = {"micro_f1": micro_f1, "hamming": right_labels, "accuracy": "accuracy", "f1_macro": "f1_macro"}
    described = clone(estimator).set_params(kernel=RBF(0.1))
    theirs = GridSearchCV(described, {"prior_variance": [0.1, 1.0]}, scoring=peers, cv=FOLDS, refit=False).fit(X, Y)
    for name in peers:
        search = FieldSearchCV(estimator, **QUICK, cv=FOLDS, scoring=name, refit=False).fit(X, Y)
        np.testing.assert_allclose(
            search.cv_results_["mean_test_score"], theirs.cv_results_[f"mean_test_{name}"], atol=1e-12, err_msg=name
        )


@pytest.mark.slow
def test_a_tree_of_pairs_is_that_of_every_fold():
    search, (X, Y) = quick("labels", cv=2)
    search.set_params(estimator__label_graph="tree").fit(X, Y)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


def test_labels_that_are_inferred_approximately_are_scored_one_by_one():
    search, (X, Y) = quick("labels", kernels="linear", prior_variances=[1.0], cv=2)
    search.set_params(estimator__inference="loopy", estimator__label_graph="full", estimator__max_iter=200)
    assert "hamming" in str(search.fit(X, Y).table())
    with pytest.raises(ValueError, match="use scoring='hamming'"):
        search.set_params(scoring="log_likelihood").fit(X, Y)


def test_folds_of_classes_are_stratified_and_unseen_classes_are_not_scored():
    search, (X, y) = quick("classes")
    y = np.array(["setosa", "versicolor", "virginica"])[y]
    for train, _ in search.fit(X, y).splits_:
        counts = np.unique(y[train], return_counts=True)[1]
        assert max(counts) - min(counts) <= 2
    y[0] = "alone"
    search.fit(X, y)
    assert np.all(search.cv_results_["n_dropped"] == 1)
    assert "1 held-out sample was not scored" in str(search.table())
    assert list(search.classes_) == ["alone", "setosa", "versicolor", "virginica"]


#: A handful of scikit-learn's checks: of the data given, of state, of names and of classes.
CHECKS = {
    "check_fit_score_takes_y",
    "check_estimators_overwrite_params",
    "check_dict_unchanged",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_classifiers_one_label",
    "check_estimators_nan_inf",
    "check_estimator_sparse_array",
    "check_classifier_data_not_an_array",
    "check_supervised_y_2d",
}


@pytest.mark.slow
def test_checks_of_scikit_learn_pass():
    settings = {"kernels": ["linear"], "prior_variances": [1.0], "cv": 2, "random_state": 0}
    ran = set()
    for estimator, check in estimator_checks_generator(FieldSearchCV(KernelClassifier(), **settings)):
        if check.func.__name__ in CHECKS:
            check(estimator)
            ran.add(check.func.__name__)
    assert ran == CHECKS
