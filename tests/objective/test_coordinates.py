"""Coordinates of a metric: spelled out in matrices, and the optimum that no metric changes."""

import numpy as np
import pytest

from benchmarks.fit_parts import posterior_of_fit
from kernelfields import ChainCRF, EdgeCliques, MultiLabelCRF, NodeCliques
from kernelfields.numerics.group import Group
from kernelfields.objective import coordinates
from kernelfields.objective import metric as metrics
from kernelfields.objective.coordinates import (
    Coordinates,
    DenseSet,
    factor_curvature,
    gram_matrix,
    sample_rows,
)
from samples import labelled_sequences

X, y = labelled_sequences(n_sequences=30, n_features=4)


def spelled_out(objective, metric):
    """Return D as a matrix, from the formula."""
    D = np.diag(objective.prior_precision + coordinates.LATE_SHARE * (metric - objective.prior_precision))
    for block, design in zip(objective.blocks, objective.datafit.designs, strict=True):
        if design.table is None:
            continue
        (rank, outputs), factor = block.shape, design.term.label_factor
        squares = outputs if factor is None else np.trace(factor.T @ factor)
        variance = squares / (design.n_configurations * outputs)
        gram = design.features.T @ design.features * variance / design.n_configurations
        own = coordinates.LATE_SHARE * gram + np.eye(rank) / block.prior_variance
        D[block.rows, block.rows] = np.kron(own, np.eye(outputs))
    return D


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_coordinates_make_the_metric_the_identity(monkeypatch, dtype):
    monkeypatch.setattr(coordinates, "SAMPLE_RATIO", 10**6)
    cliques = [NodeCliques("rbf", prior_variance=3.0, rank=6), EdgeCliques("linear", prior_variance=0.5), EdgeCliques()]
    objective = posterior_of_fit(ChainCRF(cliques=cliques, dtype="float64", random_state=0), X, y)
    assert len(objective.metric.dense_sets) == 2
    metric = objective.metric.at_start
    D = spelled_out(objective, metric)
    found = objective.metric.coordinates(metric, np.dtype(dtype))
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, objective.size))
    exact = 1e-10 if dtype == "float64" else 1e-3
    np.testing.assert_allclose(
        found.direction(found.transform_gradient(left)), np.linalg.solve(D, left), rtol=exact, atol=exact
    )
    np.testing.assert_allclose(
        found.transform_step(left) @ found.transform_gradient(right), left @ right, rtol=exact, atol=exact
    )
    assert found.transform_gradient(left).dtype == dtype
    assert found.direction(left).dtype == np.float64


def test_of_many_pivots_the_first_are_measured_together_and_the_others_by_their_mean_square(monkeypatch):
    monkeypatch.setattr(coordinates, "_FEWEST_TOGETHER", 4)
    monkeypatch.setattr(coordinates, "SAMPLE_RATIO", 10**6)
    cliques = [NodeCliques("rbf", prior_variance=3.0, rank=12), EdgeCliques("linear", prior_variance=0.5)]
    objective = posterior_of_fit(ChainCRF(cliques=cliques, dtype="float64", random_state=0), X, y)
    metric, (nodes, edges) = objective.metric.at_start, objective.blocks
    D = spelled_out(objective, metric)
    first = slice(0, 4 * nodes.shape[1])
    others = np.arange(first.stop, nodes.rows.stop)
    mean = np.diagonal(D)[others].mean()
    D[first, others] = 0.0
    D[others, first] = 0.0
    D[np.ix_(others, others)] = 0.0
    D[others, others] = mean
    assert np.count_nonzero(D[edges.rows, edges.rows]) > edges.rows.stop - edges.rows.start  # not from pivots: whole
    found = objective.metric.coordinates(metric, np.dtype(np.float64))
    vector = np.random.default_rng(0).normal(size=objective.size)
    np.testing.assert_allclose(found.direction(found.transform_gradient(vector)), np.linalg.solve(D, vector), rtol=1e-9)


def test_a_gram_matrix_of_some_rows_stands_for_all():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(9000, 3)) * [1.0, 2.0, 3.0]
    whole = Z.T @ Z
    np.testing.assert_allclose(gram_matrix(Z, slice(0, None, 1)), np.tril(whole), rtol=1e-12)
    single = gram_matrix(Z.astype(np.float32), slice(0, None, 1))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, np.tril(whole), rtol=1e-3)
    some = gram_matrix(Z, slice(0, None, 7))
    np.testing.assert_allclose(some.diagonal(), whole.diagonal(), rtol=0.1)
    assert not np.allclose(some, np.tril(whole), rtol=1e-6)


@pytest.mark.parametrize("counts", [[9000], [1, 2, 8997], [4001, 4999]])
def test_processes_sample_the_rows_that_one_would(counts):
    """Their metric, and so the path of a fit, does not depend on how many they are."""

    class Several(Group):
        def gather(self, value):
            return counts

    rows = []
    for rank, count in enumerate(counts):
        group = Several()
        group.rank, begin = rank, sum(counts[:rank])
        rows += range(begin, begin + count)[sample_rows(count, 3, group)]
    np.testing.assert_array_equal(rows, np.arange(0, 9000, 1500))


@pytest.mark.parametrize("gram", [np.array([[1.0, 2.0], [2.0, 1.0]]), np.full((2, 2), np.nan), np.full((2, 2), np.inf)])
def test_a_metric_that_rounding_has_spoilt_is_left_out(gram):
    assert factor_curvature(gram, 1.0, 1e-3) is None


def test_without_factors_the_diagonal_alone_is_the_metric():
    plain = Coordinates(np.array([4.0, 9.0]), [], np.dtype(np.float64))
    np.testing.assert_allclose(plain.transform_gradient(np.array([2.0, 3.0])), [1.0, 1.0])
    np.testing.assert_allclose(plain.transform_step(np.array([2.0, 3.0])), [4.0, 9.0])


@pytest.mark.parametrize("share", [1e-3, 0.2, 5.0])
def test_every_metric_leads_to_the_same_optimum_and_certificate(monkeypatch, share):
    settings = {"kernel": "rbf", "prior_variance": 5.0, "solver": "lbfgs", "tol": 1e-9, "dtype": "float64", "rank": 20}
    monkeypatch.setattr(metrics, "LATE_SHARE", 0.0)
    plain = ChainCRF(**settings, random_state=0).fit(X, y)
    monkeypatch.setattr(metrics, "LATE_SHARE", share)
    measured = ChainCRF(**settings, random_state=0).fit(X, y)
    assert measured.solution_.converged
    assert measured.solution_.value == pytest.approx(plain.solution_.value, rel=1e-8)
    assert measured.solution_.iterations != plain.solution_.iterations
    assert measured.certificate_.relative_gap <= 1e-9


def test_a_metric_that_fails_costs_passes_and_nothing_else(monkeypatch):
    settings = {"kernel": "rbf", "prior_variance": 5.0, "solver": "lbfgs", "tol": 1e-8, "dtype": "float64", "rank": 20}
    measured = ChainCRF(**settings, random_state=0).fit(X, y)
    monkeypatch.setattr(metrics, "factor_curvature", lambda *given: None)
    plain = ChainCRF(**settings, random_state=0).fit(X, y)
    assert plain.solution_.converged
    assert plain.solution_.value == pytest.approx(measured.solution_.value, rel=1e-7)


def test_correlated_columns_are_fitted_without_newton():
    """Raw columns of very different size that all say the same: a metric, not the solver, makes up for it."""
    rng = np.random.default_rng(0)
    wide = [np.hstack([x, x[:, :1] * 1000 + rng.normal(size=(len(x), 1)), x @ np.ones((4, 3))]) for x in X]
    settings = {"prior_variance": 1.0, "scale": False, "tol": 1e-6, "random_state": 0, "dtype": "float64"}
    crf = ChainCRF("linear", solver="lbfgs", **settings).fit(wide, y)
    assert crf.solution_.converged
    assert crf.solution_.iterations < 100
    newton = ChainCRF("linear", solver="newton", **settings).fit(wide, y)
    assert crf.solution_.value == pytest.approx(newton.solution_.value, rel=1e-5)


def test_sets_with_l1_or_without_a_prior_have_no_gram_matrix():
    for prior in ({"l1": 0.1}, {"prior_variance": np.inf}):
        cliques = [NodeCliques("linear", **prior), EdgeCliques(prior_variance=1.0)]
        assert posterior_of_fit(ChainCRF(cliques=cliques, random_state=0), X, y).metric.dense_sets == []
    (dense,) = posterior_of_fit(ChainCRF("linear", prior_variance=1.0, random_state=0), X, y).metric.dense_sets
    assert isinstance(dense, DenseSet)
    assert coordinates.LATE_SHARE == 0.2
    assert dense.precision == 1.0


def test_labels_that_share_their_features_share_one_factor(monkeypatch):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(80, 3)), rng.integers(2, size=(80, 4))
    objective = posterior_of_fit(MultiLabelCRF("rbf", rank=10, prior_variance=1.0, random_state=0), rows, labels)
    made = []
    monkeypatch.setattr(metrics, "factor_curvature", lambda *given: made.append(factor_curvature(*given)) or made[-1])
    found = objective.metric.coordinates(objective.metric.at_start, np.dtype(np.float64))
    assert len(objective.metric.dense_sets) == 4
    assert len(made) == 1
    assert len({id(factor) for _, factor in found._factors}) == 1
