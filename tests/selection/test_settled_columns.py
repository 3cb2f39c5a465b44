"""What "auto" means in a search: the columns that a fit by itself would choose, in every fold and in the best field."""

import numpy as np
import pytest
from sklearn.base import clone

from kernelfields import ChainCRF, ChainCRFCV, FieldSearchCV, GraphCRF, SegmentCRF, load
from kernelfields.kernels import RBF, Columns, Linear

PARTS = Columns(RBF(0.3), "numbers") + Columns(Linear(), "categories")


def spreads(n_sequences, seed=0):
    """Sequences whose label says how far a column spreads around zero for twenty positions."""
    random = np.random.default_rng(seed)
    y = [np.repeat(random.integers(2, size=5), 20) for _ in range(n_sequences)]
    return [(np.where(own, 1.5, 1.0) * random.choice([-1.0, 1.0], 100))[:, None] * 1.0 for own in y], y


def kinds(n_sequences, seed=0):
    """Dicts with a number whose square tells the label, and a category that often is it."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sequences):
        labels = np.repeat(random.integers(0, 2, 5), 5)
        told = np.where(random.random(25) < 0.8, labels, random.integers(0, 2, 25))
        numbers = random.choice([-1.0, 1.0], 25) * (1.0 + labels + 0.3 * random.normal(size=25))
        X.append([{"kind": "ab"[k], "level": 30.0 * v} for k, v in zip(told.tolist(), numbers.tolist(), strict=True)])
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
    assert crf.feature_names_in_.tolist()[0] == "level"
    close(crf, clone(crf).fit(X, y), X)
    crf.save(tmp_path / "model.kfm")
    read = load(tmp_path / "model.kfm")
    close(crf, read, X)
    close(crf, clone(read).fit(X, y), X)
    # The same as columns in that order.
    arrays = [np.array([[p["level"], p["kind"] == "b", p["kind"] == "a"] for p in x], dtype=float) for x in X]
    names = crf.feature_names_in_.tolist()[1:]
    arrays = arrays if names == ["kind:b", "kind:a"] else [x[:, [0, 2, 1]] for x in arrays]
    level = np.concatenate(arrays)[:, 0]
    spread = max(level.std(), np.ptp(level) / 8)
    scaled = [np.column_stack([(x[:, 0] - level.mean()) / spread, x[:, 1:]]) for x in arrays]
    places = Columns(RBF(0.3), 0, 1) + Columns(Linear(), 1)
    beside = estimator(places, **{**settings, "scale": False}).fit(scaled, y)
    for ours, theirs in zip(crf.predict_marginals(X), beside.predict_marginals(scaled), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_kinds_of_columns_that_inputs_do_not_have_are_refused_in_one_line():
    with pytest.raises(ValueError, match="'numbers' are columns of feature dicts with numbers and categories"):
        ChainCRF(PARTS, prior_variance=1.0).fit([np.zeros((3, 2)), np.ones((3, 2))], [[0, 1, 0], [1, 0, 1]])
    with pytest.raises(ValueError, match="begin must be a whole number, or one of 'numbers', 'categories' alone"):
        Columns(RBF(), "words").check_parameters()
    with pytest.raises(ValueError, match="begin must be a whole number"):
        Columns(RBF(), "numbers", 3).check_parameters()


@pytest.mark.slow
@pytest.mark.parametrize("kernels", [None, "rbf"])
def test_a_search_has_the_windows_that_a_fit_would_have(kernels):
    """At a position itself both labels look alike but for a little; a window shows the spread."""
    X, y = spreads(14)
    X = [x + 2.0 * np.random.default_rng(n).normal(size=x.shape) * (1 + own[:, None]) for n, (x, own) in enumerate(zip(X, y, strict=True))]
    alone = ChainCRF(random_state=0).fit(X, y)
    search = ChainCRFCV(ChainCRF(), kernels=kernels, prior_variances=[0.1, 1.0], random_state=0).fit(X, y)
    assert alone.choices_.chosen["window"] == "statistics"
    assert search.best_estimator_.window == "statistics"
    assert search.score(X, y) > ChainCRF(window=1, random_state=0).fit(X, y).score(X, y) + 0.05
    again = clone(search.best_estimator_).fit(X, y)
    close(again, search.best_estimator_, X)


@pytest.mark.slow
def test_a_search_has_numbers_and_categories_apart_as_a_fit_has():
    (X, y), (new, labels) = kinds(16), kinds(8, seed=1)
    alone = ChainCRF(random_state=0).fit(X, y)
    search = FieldSearchCV(ChainCRF(), random_state=0).fit(X, y)
    assert "'numbers'" in repr(search.best_params_["kernel"])
    assert search.log_likelihood(new, labels) > 1.05 * alone.log_likelihood(new, labels)
    again = ChainCRF(**search.best_estimator_.get_params(deep=False)).fit(X, y)
    close(again, search.best_estimator_, X)


@pytest.mark.slow
def test_a_search_has_the_columns_of_neighbours_that_a_fit_would_have():
    random = np.random.default_rng(0)
    n = 600
    labels = np.repeat([0, 1], n // 2)
    edges = np.array([(i, random.choice(np.flatnonzero(labels == labels[i]))) for i in range(n) for _ in range(6)])
    graph = (labels[:, None] + 2.0 * random.normal(size=(n, 1)), edges)
    alone = GraphCRF(random_state=0).fit([graph], [labels])
    if not alone.choices_.chosen.get("neighbours"):
        pytest.skip("the fit by itself has no columns of neighbours here")
