"""Probit corrections against integrals, derivatives and draws; every estimator has all of a Laplace posterior."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF
from kernelfields.kernels import RBF
from kernelfields.posterior.laplace.probit import probit_marginals
from tests.samples import labelled_instances, labelled_sequences


def logistic(values):
    return 1.0 / (1.0 + np.exp(-values))


def mean_logistic(mean, variance):
    """The integral of the logistic function against a Gaussian, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    return logistic(mean + np.sqrt(variance) * nodes) @ weights / np.sqrt(2 * np.pi)


def graphs_of(X):
    return [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in X]


def fitted(kind):
    """An estimator, its data, new inputs and the method that predicts probabilities."""
    X, y = labelled_sequences(12)
    new, _ = labelled_sequences(5, seed=1)
    if kind == "chain":
        return ChainCRF(RBF(0.4), rank=10, random_state=0).fit(X, y), X, y, new, "predict_marginals"
    if kind == "graph":
        crf = GraphCRF(RBF(0.4), rank=10, random_state=0).fit(graphs_of(X), y)
        return crf, graphs_of(X), y, graphs_of(new), "predict_marginals"
    if kind == "multi-label":
        X, Y = labelled_instances()
        new, _ = labelled_instances(20, seed=1)
        return MultiLabelCRF(RBF(0.3), rank=4, random_state=0).fit(X, Y), X, Y, new, "predict_proba"
    X, y = load_iris(return_X_y=True)
    return KernelClassifier(RBF(0.3), rank=10, random_state=0).fit(X, y), X, y, X[::7] + 0.3, "predict_proba"


ESTIMATORS = ["chain", "graph", "multi-label", "classifier"]


@pytest.mark.parametrize("mean", [-3.0, -0.4, 0.0, 1.0, 5.0])
@pytest.mark.parametrize("variance", [0.0, 0.3, 2.0, 20.0])
def test_two_labels_are_close_to_the_integral_over_their_log_odds(mean, variance):
    p = logistic(mean)
    found = probit_marginals(np.array([[1 - p, p]]), np.full((1, 2), variance))
    assert found[0, 1] == pytest.approx(mean_logistic(mean, variance), abs=0.02)
    assert found[0, 1] == pytest.approx(logistic(mean / np.sqrt(1 + np.pi * variance / 8)), rel=1e-12)


def test_a_single_binary_node_is_integrated():
    X, y = make_moons(60, noise=0.3, random_state=0)
    crf = KernelClassifier(RBF(0.5), rank=20, prior_variance=3.0, random_state=0).fit(X, y)
    crf.laplace(X, y, random_state=0)
    new = np.vstack([X[:10], [[5.0, 5.0]]])
    # f(x, 1) = -f(x, 0), half of the log-odds.
    means, variances = crf.decision_function(new), 4.0 * crf.predict_variances(new)[:, 1]
    expected = [mean_logistic(mean, variance) for mean, variance in zip(means, variances, strict=True)]
    found = crf.predict_proba(new, uncertainty=True)
    np.testing.assert_allclose(found[:, 1], expected, atol=0.02)
    np.testing.assert_allclose(found[:, 1], logistic(means / np.sqrt(1 + np.pi * variances / 8)), rtol=1e-9)


def test_several_labels_have_the_temperature_of_the_best_against_the_others():
    X, y = load_iris(return_X_y=True)
    crf = KernelClassifier(RBF(0.3), rank=10, random_state=0).fit(X, y)
    crf.laplace(X, y, n_samples=30, method="lanczos", random_state=0)
    new = X[::9] + 0.2
    drawn = crf.sample_coefficients()
    scores = crf.basis_["node"].features(new) @ drawn["node"] + drawn["bias"]
    p = crf.predict_proba(new)
    best = p.argmax(axis=1)
    odds = np.take_along_axis(scores, np.broadcast_to(best[None, :, None], (30, len(new), 1)), axis=2) - scores
    free = crf.laplace_.outside_deviation(
        0, crf.field_.terms[0], crf.structure.read(new), crf.basis_["node"].features(new)
    )
    # Two labels each have the prior variance, less their covariance: twice it, under a centred label kernel too.
    variances = np.var(odds, axis=0, ddof=1) + 2.0 * np.square(free)[:, None]
    others = np.where(np.arange(3) == best[:, None], 0.0, p)
    doubt = (others * variances).sum(axis=1) / others.sum(axis=1)
    expected = p ** (1 / np.sqrt(1 + np.pi / 8 * doubt))[:, None]
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(crf.predict_proba(new, uncertainty=True), expected, rtol=1e-8)


def test_doubts_of_chains_are_derivatives_of_their_log_marginals():
    X, y = labelled_sequences(10)
    crf = ChainCRF("linear", random_state=0).fit(X, y)
    crf.laplace(X, y, n_samples=6, random_state=0)
    drawn, marginals = crf.sample_coefficients(), np.vstack(crf.predict_marginals(X))
    moved = {name: (each - each.mean(axis=0)) / np.sqrt(5.0) for name, each in drawn.items()}
    best = marginals.argmax(axis=1)[:, None]
    variances, step = 0.0, 1e-4
    for number in range(6):
        ahead, back = (
            np.log(
                np.vstack(
                    [
                        _marginals(
                            x @ (crf.coef_["node"] + sign * step * moved["node"][number]),
                            (crf.coef_["edge"] + sign * step * moved["edge"][number]).reshape(3, 3),
                        )
                        for x in X
                    ]
                )
            )
            for sign in (1, -1)
        )
        slopes = (ahead - back) / (2 * step)
        variances = variances + np.square(slopes - np.take_along_axis(slopes, best, axis=1))
    found = np.vstack(crf.predict_marginals(X, uncertainty=True))
    np.testing.assert_allclose(found, probit_marginals(marginals, variances), rtol=1e-5)


def _marginals(node, edge):
    """Marginals of a chain by sums over all labellings."""
    length = len(node)
    grids = np.indices((3,) * length).reshape(length, -1).T
    scores = node[np.arange(length), grids].sum(axis=1)
    scores += edge[grids[:, :-1], grids[:, 1:]].sum(axis=1)
    p = np.exp(scores - np.logaddexp.reduce(scores))
    return np.array([[p[grids[:, t] == label].sum() for label in range(3)] for t in range(length)])


def test_labels_that_meet_no_others_are_those_of_the_classifier():
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    single = KernelClassifier(RBF(0.3), rank=15, bias=False, random_state=0).fit(X, y)
    chain = ChainCRF(RBF(0.3), rank=15, random_state=0).fit(list(X[:, None]), y[:, None])
    single.laplace(X, y)
    chain.laplace(list(X[:, None]), y[:, None], n_samples=800, random_state=0)
    found = np.vstack(chain.predict_marginals(list(X[:, None]), uncertainty=True))
    np.testing.assert_allclose(found, single.predict_proba(X, uncertainty=True), atol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_doubt_keeps_labels_and_shrinks_odds(kind):
    crf, X, y, new, predict = fitted(kind)
    crf.laplace(X, y, n_samples=400, random_state=0)
    plain, found = (np.vstack(getattr(crf, predict)(new, uncertainty=each)) for each in (False, True))
    if kind == "multi-label":
        plain, found = (np.dstack([1 - p, p]).reshape(-1, 2) for p in (plain, found))
    np.testing.assert_array_equal(plain.argmax(axis=1), found.argmax(axis=1))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    assert (found.max(axis=1) < plain.max(axis=1)).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("method", ["exact", "lanczos"])
def test_every_estimator_has_a_posterior_explicit_when_small_and_by_products_when_large(kind, method, tmp_path):
    crf, X, y, new, predict = fitted(kind)
    settings = {"n_samples": 8, "method": "auto" if method == "exact" else method}
    crf.laplace(X, y, **settings, random_state=0)
    assert crf.laplace_.method == method
    drawn = crf.sample_coefficients()
    assert {len(each) for each in drawn.values()} == {8}
    crf.save(tmp_path / "model")
    loaded = type(crf).load(tmp_path / "model")
    assert loaded.laplace_.rise == crf.laplace_.rise
    for name, each in loaded.sample_coefficients().items():
        np.testing.assert_array_equal(each, drawn[name])
    for ours, theirs in zip(loaded.predict_variances(new), crf.predict_variances(new), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    ours, theirs = (getattr(each, predict)(new, uncertainty=True) for each in (loaded, crf))
    np.testing.assert_allclose(np.vstack(ours), np.vstack(theirs), rtol=1e-12)
    # Another run with the same seed is the same; with another it is not.
    crf.laplace(X, y, **settings, random_state=0)
    np.testing.assert_array_equal(np.vstack(getattr(crf, predict)(new, uncertainty=True)), np.vstack(theirs))
    crf.laplace(X, y, **settings, random_state=1)
    assert any(np.abs(each - drawn[name]).max() > 1e-4 for name, each in crf.sample_coefficients().items())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_variances_by_products_are_those_of_the_explicit_hessian(kind):
    crf, X, y, new, _ = fitted(kind)
    crf.laplace(X, y, n_samples=2)
    exact = np.vstack(crf.predict_variances(new))
    crf.laplace(X, y, n_samples=60, probes=2, method="lanczos", random_state=0)
    # A variance over 60 draws has a standard error of 18 %.
    np.testing.assert_allclose(np.vstack(crf.predict_variances(new)), exact, rtol=0.8)
    assert np.mean(np.vstack(crf.predict_variances(new)) / exact) == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("uncertainty", ["probit", "sampling", None, 1])
def test_other_kinds_of_uncertainty_are_refused(kind, uncertainty):
    crf, _, _, new, predict = fitted(kind)
    with pytest.raises(ValueError, match="uncertainty must be True or False, got"):
        getattr(crf, predict)(new, uncertainty=uncertainty)


def test_what_probit_cannot_do_is_refused():
    crf, X, y, new, _ = fitted("chain")
    with pytest.raises(ValueError, match=r"call laplace\(X, y\) on its data first"):
        crf.predict_marginals(new, uncertainty=True)
    crf.laplace(X, y, n_samples=1, random_state=0)
    with pytest.raises(ValueError, match="variances need 2 samples at least"):
        crf.predict_marginals(new, uncertainty=True)
    with pytest.raises(ValueError, match="is a correction of the marginals of single labels"):
        crf.predict_marginals(new, cliques="edge", uncertainty=True)
    graph, X, y, new, _ = fitted("graph")
    graph.laplace(X, y, n_samples=5, random_state=0)
    with pytest.raises(ValueError, match="is a correction of the marginals of single labels"):
        graph.predict_marginals(new, "edge", uncertainty=True)
    graph.set_params(inference="mean-field")
    with pytest.raises(ValueError, match="uncertainty=True needs exact inference"):
        graph.predict_marginals(new, uncertainty=True)


def test_a_posterior_that_is_no_gaussian_is_warned_of():
    """Labels that never follow each other: their transitions are flat below and steep above, with a wide prior."""
    random = np.random.default_rng(0)
    y = [(np.arange(6) + random.integers(4)) % 4 for _ in range(15)]
    X = [np.eye(4)[each] + 0.3 * random.normal(size=(6, 4)) for each in y]
    wide = ChainCRF("linear", prior_variance=500.0, max_iter=2000, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="the posterior is no Gaussian around its mode: draws lie"):
        wide.laplace(X, y, random_state=0)
    assert wide.laplace_.rise > 2.0
    narrow = ChainCRF("linear", prior_variance=0.5, random_state=0).fit(X, y)
    narrow.laplace(X, y, random_state=0)
    assert narrow.laplace_.rise == pytest.approx(1.0, abs=0.3)


def test_too_few_lanczos_steps_are_warned_of():
    X, y = labelled_sequences(12)
    crf = ChainCRF(RBF(0.4), rank=10, prior_variance=10.0, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="3 Lanczos steps are too few for samples"):
        crf.laplace(X, y, n_samples=2, method="lanczos", steps=3, random_state=0)
