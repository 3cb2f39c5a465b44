"""What "auto" means in a search: the columns that a fit by itself would choose, in every fold and in the best field."""

import numpy as np
import pytest
from sklearn.base import clone

from kernelfields import ChainCRF, ChainCRFCV, FieldSearchCV, GraphCRF, SegmentCRF, load
from kernelfields.kernels import RBF, Columns, Linear

PARTS = Columns(RBF(0.3), "numbers") + Columns(Linear(), "categories")


def spreads(n_sequences, seed=0):
    """Sequences of -1 and 1 whose label says whether they stay for twenty positions or change at random."""
    random = np.random.default_rng(seed)
    y = [np.repeat(random.integers(2, size=5), 20) for _ in range(n_sequences)]
    stays = [np.repeat(random.choice([-1.0, 1.0], 5), 20) for _ in y]
    changes = [random.choice([-1.0, 1.0], 100) for _ in y]
    seen = [np.where(own, two, one) for own, one, two in zip(y, stays, changes, strict=True)]
    return [(x + 0.1 * random.normal(size=100))[:, None] for x in seen], y


def kinds(n_sequences, seed=0):
    """Dicts with a number that tells a little, one of noise, and a category that is often the label."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sequences):
        labels = np.repeat(random.integers(0, 3, 5), 5)
        told = np.where(random.random(25) < 0.6, labels, random.integers(0, 3, 25)).tolist()
        level, noise = (labels + random.normal(size=25)).tolist(), (50.0 * random.normal(size=25)).tolist()
        rows = zip(told, level, noise, strict=True)
        X.append([{"kind": "abc"[kind], "level": one, "noise": two} for kind, one, two in rows])
        y.append(labels.tolist())
    return X, y


def close(one, other, X):
    for ours, theirs in zip(one.predict_marginals(X), other.predict_marginals(X), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("estimator", [ChainCRF, SegmentCRF])
def test_numbers_and_categories_are_told_apart_by_the_kernel_in_clones_and_files(estimator, tmp_path):
    X, y = kinds(6)
    settings = {"prior_variance": 1.0, "scale": True, "random_state": 0}
    crf = estimator(PARTS, **settings).fit(X, y)
    assert set(crf.feature_names_in_.tolist()[:2]) == {"level", "noise"}
    close(crf, clone(crf).fit(X, y), X)
    crf.save(tmp_path / "model.kfm")
    read = load(tmp_path / "model.kfm")
    close(crf, read, X)
    close(crf, clone(read).fit(X, y), X)
    # The same as columns in that order.
    names = crf.feature_names_in_.tolist()
    rows = [[[p[n] if n in p else float(p["kind"] == n[-1]) for n in names] for p in x] for x in X]
    numbers = np.concatenate(rows)[:, :2]
    centre, spread = numbers.mean(axis=0), np.maximum(numbers.std(axis=0), np.ptp(numbers, axis=0) / 8)
    scaled = [(np.array(x) - [*centre, 0, 0, 0]) / [*spread, 1, 1, 1] for x in rows]
    places = Columns(RBF(0.3), 0, 2) + Columns(Linear(), 2)
    beside = estimator(places, **{**settings, "scale": False}).fit(scaled, y)
    for ours, theirs in zip(crf.predict_marginals(X), beside.predict_marginals(scaled), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_kinds_of_columns_that_inputs_do_not_have_are_refused_in_one_line():
    with pytest.raises(ValueError, match="are columns of feature dicts with numbers and categories"):
        ChainCRF(PARTS, prior_variance=1.0).fit([np.zeros((3, 2)), np.ones((3, 2))], [[0, 1, 0], [1, 0, 1]])
    with pytest.raises(ValueError, match="begin must be a whole number, or one of 'numbers', 'categories' alone"):
        Columns(RBF(), "words").check_parameters()
    with pytest.raises(ValueError, match="begin must be a whole number"):
        Columns(RBF(), "numbers", 3).check_parameters()


@pytest.mark.slow
@pytest.mark.parametrize("kernels", [None, "rbf"])
def test_a_search_has_the_windows_that_a_fit_would_have(kernels):
    """At a position itself both labels look alike; a window shows the spread."""
    (X, y), (new, labels) = spreads(10), spreads(5, seed=1)
    alone = ChainCRF(random_state=0).fit(X, y)
    search = ChainCRFCV(ChainCRF(), kernels=kernels, prior_variances=[1.0, 10.0], random_state=0).fit(X, y)
    assert alone.choices_.chosen["window"] == "statistics"
    assert search.best_estimator_.window == "statistics"
    assert min(alone.score(new, labels), search.score(new, labels)) > 0.9
    again = clone(search.best_estimator_).fit(X, y)
    close(again, search.best_estimator_, X)


@pytest.mark.slow
def test_a_search_has_numbers_and_categories_apart_as_a_fit_has():
    (X, y), (new, labels) = kinds(16), kinds(8, seed=1)
    alone = ChainCRF(random_state=0).fit(X, y)
    search = FieldSearchCV(ChainCRF(), random_state=0).fit(X, y)
    assert "'numbers'" in repr(search.best_params_["kernel"])
    assert search.log_likelihood(new, labels) > 1.2 * alone.log_likelihood(new, labels)
    again = ChainCRF(**search.best_estimator_.get_params(deep=False)).fit(X, y)
    close(again, search.best_estimator_, X)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_search_has_the_columns_of_neighbours_that_a_fit_would_have():
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1], 300)
    ends = np.array([(i, random.choice(np.flatnonzero(labels == labels[i]))) for i in range(600) for _ in range(6)])
    ends = np.unique(np.sort(ends, axis=1), axis=0)
    graph = (labels[:, None] + 2.0 * random.normal(size=(600, 1)), ends[ends[:, 0] != ends[:, 1]])
    y = [label if number % 2 else None for number, label in enumerate(labels.tolist())]
    alone = GraphCRF(random_state=0).fit([graph], [y])
    assert alone.choices_.chosen["neighbours"]
    graphs = [graph] * 3
    search = FieldSearchCV(GraphCRF(random_state=0), kernels="linear", prior_variances=[1.0], scoring="accuracy", cv=3)
    assert search.fit(graphs, [y] * 3).best_estimator_.neighbours
