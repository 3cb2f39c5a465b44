"""One suite for all engines: what a posterior asks for must not depend on where it is computed.

The reference is the threads engine with features in memory, in float64. Engines that are not installed, or have no
device here, are skipped. Tolerances: 1e-10 relative for float64 features; for float32 and for half precision on a
CUDA device the features themselves are rounded, to 1e-6 and 5e-4 of their size, and the tolerance follows.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from conforming_engines import DEVICES, ENGINES, ESTIMATORS, EXACT, engine_named, problem, problem_of, sequences
from sklearn.base import clone

from kernelfields import AnnotatedCRF, ChainCRF, EdgeCliques, NodeCliques, PartialLabels, SequenceClassifier
from kernelfields.estimators import LabelShares
from kernelfields.kernels import RBF, Linear, Polynomial
from kernelfields.objective import Direction

FIELDS = {
    "kernel": [NodeCliques(RBF(0.3), rank=12), EdgeCliques()],
    "greedy": [NodeCliques(Polynomial(3, gamma=0.2), rank=9, basis="greedy-cholesky"), EdgeCliques()],
    "uniform": [NodeCliques(RBF(0.3), rank=10, basis="uniform"), EdgeCliques()],
    "linear": [NodeCliques(Linear()), EdgeCliques()],
    "edges that see": [NodeCliques(RBF(0.3), rank=8), EdgeCliques(RBF(0.2), rank=6)],
    "sum": [NodeCliques(Linear() + RBF(0.5), rank=7, window=3), EdgeCliques(prior_variance=0.5)],
    "centred": [NodeCliques(RBF(0.3), rank=8, label_kernel="centred"), EdgeCliques()],
}


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    return engine_named(request.param)


@pytest.fixture(params=FIELDS)
def pair(request, engine):
    """The same field on threads and on the engine."""
    cliques = FIELDS[request.param]
    return problem(engine_named("threads"), cliques), problem(engine, cliques)


def theta_of(posterior, seed):
    return np.random.default_rng(seed).normal(size=posterior.size) * 0.5


def test_the_pivots_are_the_same(pair):
    (_, reference), (_, designs) = pair
    for ours, theirs in zip(reference, designs, strict=True):
        ours, theirs = ours.term, theirs.term
        if hasattr(ours.subspace, "indices"):
            np.testing.assert_array_equal(ours.subspace.indices, theirs.subspace.indices)
            np.testing.assert_allclose(ours.subspace.factor, theirs.subspace.factor, rtol=1e-8, atol=1e-9)


def test_values_and_gradients_agree(pair):
    (reference, _), (posterior, _) = pair
    for seed in range(3):
        theta = theta_of(reference, seed)
        ours, theirs = reference.make_point(theta), posterior.make_point(theta)
        assert theirs.value == pytest.approx(ours.value, rel=EXACT)
        scale = np.abs(ours.gradient).max()
        np.testing.assert_allclose(theirs.gradient, ours.gradient, rtol=0, atol=EXACT * scale)


def test_hessian_products_agree(pair):
    (reference, _), (posterior, _) = pair
    ours, theirs = (each.make_point(theta_of(reference, 0)) for each in (reference, posterior))
    vector = theta_of(reference, 1)
    expected, _ = reference.hessian_product(ours, vector)
    product, _ = posterior.hessian_product(theirs, vector)
    np.testing.assert_allclose(product, expected, rtol=0, atol=EXACT * np.abs(expected).max())


def test_curvature_blocks_agree(pair):
    (reference, _), (posterior, _) = pair
    ours, theirs = (each.make_point(theta_of(reference, 2)) for each in (reference, posterior))
    for index in range(len(reference.blocks)):
        expected = reference.curvature_block(ours, index)
        block = posterior.curvature_block(theirs, index)
        np.testing.assert_allclose(block, expected, rtol=0, atol=EXACT * np.abs(expected).max())
        assert posterior.datafit.curvature.at_start(index) == pytest.approx(
            reference.datafit.curvature.at_start(index), rel=1e-9
        )


def test_lines_agree(pair):
    (reference, _), (posterior, _) = pair
    values = []
    for each in (reference, posterior):
        point = each.make_point(theta_of(reference, 3))
        line = each.make_line(point, Direction(-point.gradient / np.linalg.norm(point.gradient)))
        values.append([*line(0.3), *line(0.01), line.reach, line.point(0.3).value])
    np.testing.assert_allclose(values[1], values[0], rtol=10 * EXACT)


def test_what_lies_outside_the_span_agrees(pair):
    (reference, _), (posterior, _) = pair
    residuals = [each.make_point(theta_of(reference, 4)).evaluation.residual for each in (reference, posterior)]
    for index, each in enumerate(reference.datafit.designs):
        bounds = [
            datafit.outside_span.bound(residual, index)
            for datafit, residual in zip((reference.datafit, posterior.datafit), residuals, strict=True)
        ]
        assert bounds[1] == pytest.approx(bounds[0], rel=1e-8, abs=1e-10)
        assert (bounds[0] == 0.0) == (each.origin is None)


def test_marginals_of_one_field_agree(engine):
    X, y = sequences()
    crf = ChainCRF(RBF(0.3), rank=15, random_state=0, engine="threads").fit(X, y)
    ours = crf.predict_marginals(X)
    theirs = crf.set_params(engine=engine).predict_marginals(X)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(b, a, rtol=0, atol=EXACT)


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cg", "block-jacobi"])
def test_fits_end_in_the_same_place(engine, solver):
    X, y = sequences()
    settings = {
        "kernel": RBF(0.3),
        "rank": 15,
        "solver": solver,
        "tol": 1e-9,
        "max_iter": 2000,
        "random_state": 0,
    }
    ours = ChainCRF(engine="threads", **settings).fit(X, y)
    theirs = ChainCRF(engine=engine, **settings).fit(X, y)
    assert theirs.solution_.value == pytest.approx(ours.solution_.value, rel=1e-8)
    assert theirs.rkhs_certificate_.lower_bound == pytest.approx(ours.rkhs_certificate_.lower_bound, rel=1e-4)
    for a, b in zip(ours.predict_marginals(X), theirs.predict_marginals(X), strict=True):
        np.testing.assert_allclose(b, a, atol=1e-4)


#: Relative agreement of every estimator on every engine.
CLOSE = 1e-8


@pytest.fixture(scope="module", params=DEVICES)
def device(request):
    return engine_named(request.param)


@pytest.fixture(scope="module")
def reference():
    """Posteriors on threads, each made once."""
    return cache(lambda name, partly: problem_of(engine_named("threads"), name, partly=partly))


@pytest.mark.parametrize("partly", [False, True], ids=["all labels known", "labels partly known"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_objective_of_every_estimator_agrees(device, reference, name, partly):
    ours, theirs = reference(name, partly), problem_of(device, name, partly=partly)
    assert (theirs.convex, theirs.approximation) == (ours.convex, ours.approximation)
    vector = theta_of(ours, 0)
    for seed in (1, 2):
        a, b = ours.make_point(theta_of(ours, seed)), theirs.make_point(theta_of(ours, seed))
        assert b.value == pytest.approx(a.value, rel=CLOSE)
        np.testing.assert_allclose(b.gradient, a.gradient, rtol=0, atol=CLOSE * np.abs(a.gradient).max())
    assert theirs.datafit.likelihood.value_at_zero == pytest.approx(ours.datafit.likelihood.value_at_zero, rel=CLOSE)
    if ours.approximation is not None:
        return
    expected, product = ours.hessian_product(a, vector)[0], theirs.hessian_product(b, vector)[0]
    np.testing.assert_allclose(product, expected, rtol=0, atol=CLOSE * np.abs(expected).max())
    for index in range(len(ours.blocks)):
        expected, block = (each.curvature_block(point, index) for each, point in ((ours, a), (theirs, b)))
        np.testing.assert_allclose(block, expected, rtol=0, atol=CLOSE * np.abs(expected).max())


@pytest.fixture(scope="module")
def fitted():
    """Estimators fitted by threads, each once."""

    @cache
    def fit(name):
        estimator, X, y, _ = ESTIMATORS[name]()
        return estimator.set_params(engine="threads").fit(X, y)

    return fit


def probabilities(model, X):
    """Return the probabilities of all labels of X, and of their labellings, in one array."""
    tables = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict_marginals(X)
    return np.concatenate([np.ravel(table) for table in tables])


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_fits_and_answers_of_every_estimator_agree(device, fitted, name):
    ours, (estimator, X, y, _) = fitted(name), ESTIMATORS[name]()
    theirs = estimator.set_params(engine=device).fit(X, y)
    assert theirs.solution_.value == pytest.approx(ours.solution_.value, rel=CLOSE)
    np.testing.assert_allclose(probabilities(theirs, X), probabilities(ours, X), rtol=0, atol=1e-4)
    np.testing.assert_array_equal(
        np.concatenate(theirs.predict(X), axis=None), np.concatenate(ours.predict(X), axis=None)
    )
    # One field answers alike from everywhere.
    there, here = probabilities(theirs, X), probabilities(theirs.set_params(engine="threads"), X)
    np.testing.assert_allclose(there, here, rtol=0, atol=CLOSE)
    if not ours.inference_.exact:
        return
    here, there = (theirs.set_params(engine=engine).log_likelihood(X, y) for engine in ("threads", device))
    assert there == pytest.approx(here, rel=CLOSE)
    assert theirs.certificate_.lower_bound == pytest.approx(ours.certificate_.lower_bound, rel=1e-6)
    assert theirs.certify(X, y).lower_bound == pytest.approx(ours.certify(X, y).lower_bound, rel=1e-6)
    evidences = [each.laplace(X, y, n_samples=2, method="exact", random_state=0).value for each in (ours, theirs)]
    assert evidences[1] == pytest.approx(evidences[0], rel=1e-6)


@pytest.mark.slow
def test_expected_shares_agree(device):
    models = []
    for engine in ("threads", device):
        for name in ("chains", "single labels"):
            estimator, X, _, some = ESTIMATORS[name]()
            if name == "chains":
                some = [None, *some[1:]]
            estimator.set_params(
                engine=engine, partial_labels=PartialLabels(expectations=[LabelShares({0: 0.4})]), tol=1e-8
            )
            models.append((estimator.fit(X, some), X))
    for (ours, X), (theirs, _) in zip(models[:2], models[2:], strict=True):
        assert theirs.solution_.value == pytest.approx(ours.solution_.value, rel=1e-6)
        np.testing.assert_allclose(probabilities(theirs, X), probabilities(ours, X), atol=1e-3)


@pytest.mark.slow
def test_annotators_agree(device):
    estimator, X, y, _ = ESTIMATORS["chains"]()
    said = [np.column_stack([labels, np.where(np.arange(len(labels)) % 4, labels, 0)]) for labels in y]
    ours, theirs = (
        AnnotatedCRF(clone(estimator).set_params(engine=engine, tol=1e-7), cv=2).fit(X, said)
        for engine in ("threads", device)
    )
    np.testing.assert_allclose(probabilities(theirs, X), probabilities(ours, X), atol=1e-3)
    for a, b in zip(ours.confusions_.values(), theirs.confusions_.values(), strict=True):
        np.testing.assert_allclose(b, a, atol=1e-3)


@pytest.mark.slow
def test_classes_of_sequences_and_evidence_agree(device):
    X, y = sequences()
    classes = [int(labels[0] > 0) for labels in y]
    settings = {"kernel": RBF(0.3), "rank": 8, "prior_variance": 1.0, "tol": 1e-8, "random_state": 0}
    ours, theirs = (SequenceClassifier(engine=engine, **settings).fit(X, classes) for engine in ("threads", device))
    np.testing.assert_allclose(theirs.predict_proba(X), ours.predict_proba(X), atol=1e-4)
    chosen = [
        ChainCRF(engine=engine, dtype="float64", **settings).fit(X, y, optimize="evidence")
        for engine in ("threads", device)
    ]
    variances = [[term.prior_variance for term in model.field_.terms] for model in chosen]
    np.testing.assert_allclose(variances[1], variances[0], rtol=1e-6)
    np.testing.assert_allclose(probabilities(chosen[1], X), probabilities(chosen[0], X), atol=1e-4)
