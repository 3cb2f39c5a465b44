"""The posterior around fits: against Gaussian process classification, dense references, enumeration; files."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_moons
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF as GaussianRBF
from sklearn.gaussian_process.kernels import ConstantKernel

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, NodeCliques
from kernelfields.data import OrderCliques
from kernelfields.kernels import RBF, Columns
from tests.samples import labelled_sequences

EXACT = {"rank": None, "basis": "all", "random_state": 0, "dtype": "float64"}


def scaled(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def two_classes(name):
    if name == "moons":
        return make_moons(120, noise=0.2, random_state=0)
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        kept = np.flatnonzero((y == 3) | (y == 8))[:150]
        return X[kept] / 16.0, y[kept]
    X, y = (load_breast_cancer if name == "breast cancer" else load_iris)(return_X_y=True)
    # The last two classes of the irises overlap.
    kept = y > 0 if name == "iris" else y < 2
    return scaled(X[kept][:150]), y[kept][:150]


def pair(name, variance, length):
    """Our classifier and scikit-learn's with one and the same prior on the log-odds."""
    X, y = two_classes(name)
    theirs = GaussianProcessClassifier(ConstantKernel(variance) * GaussianRBF(length), optimizer=None).fit(X, y)
    ours = KernelClassifier(RBF(0.5 / length**2), prior_variance=0.5 * variance, bias=False, **EXACT).fit(X, y)
    return X, y, ours, theirs


CASES = [("breast cancer", 4.0, 5.0), ("iris", 2.0, 1.5), ("digits", 6.0, 2.0), ("moons", 9.0, 0.7)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variance", "length"), CASES)
def test_mode_and_evidence_are_those_of_gaussian_process_classification(name, variance, length):
    X, y, ours, theirs = pair(name, variance, length)
    base = theirs.base_estimator_
    np.testing.assert_allclose(ours.decision_function(X), base.kernel_(X) @ (base.y_train_ - base.pi_), atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X)[:, 1], base.pi_, atol=1e-6)
    found = ours.laplace(X, y)
    assert found.value == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-4)
    assert ours.laplace_.method == "exact"
    probed = ours.laplace(X, y, method="lanczos", probes=10, random_state=0)
    assert probed.value == pytest.approx(found.value, abs=4 * probed.standard_error)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variance", "length"), CASES)
def test_probabilities_and_variances_are_those_of_gaussian_process_classification(name, variance, length):
    X, y, ours, theirs = pair(name, variance, length)
    random = np.random.default_rng(0)
    new = np.vstack([X[:20] + 0.5 * random.normal(size=(20, X.shape[1])), 10 + random.normal(size=(5, X.shape[1]))])
    ours.laplace(X, y, n_samples=3000, random_state=0)
    # f(x, 1) = -f(x, 0), half of the log-odds; their latent function is the log-odds.
    base = theirs.base_estimator_
    cross = base.kernel_(X, new)
    weights = base.pi_ * (1 - base.pi_)
    inner = np.linalg.solve(np.diag(1 / weights) + base.kernel_(X), cross)
    latent = base.kernel_.diag(new) - np.einsum("ij,ij->j", cross, inner)
    np.testing.assert_allclose(4 * ours.predict_variances(new)[:, 1], latent, rtol=1e-4)
    # Their integral over the logistic function is itself an approximation.
    np.testing.assert_allclose(ours.predict_proba(new, uncertainty=True), theirs.predict_proba(new), atol=0.035)


def test_far_from_the_data_uncertain_probabilities_know_nothing_but_the_prior():
    X, y = two_classes("moons")
    crf = KernelClassifier(RBF(1.0), prior_variance=5.0, bias=False, **EXACT).fit(X, y)
    crf.laplace(X, y, random_state=0)
    far = np.full((1, 2), 50.0)
    # Prior variance 5 of each class, in contrasts: half of it.
    np.testing.assert_allclose(crf.predict_variances(far), 2.5, rtol=1e-6)
    np.testing.assert_allclose(crf.predict_proba(far, uncertainty=True), 0.5, atol=1e-9)
    assert crf.predict_variances(X).max() < 2.5
    # Doubt takes probabilities towards one half.
    plain, uncertain = crf.predict_proba(X), crf.predict_proba(X, uncertainty=True)
    assert (np.abs(uncertain - 0.5) < np.abs(plain - 0.5)).all()


def test_softmax_evidence_against_a_dense_reference():
    """Williams and Barber's f (n, L) with covariance s K kron (I - 11'/L): log det (I + cov W) over all n L."""
    X, y = load_iris(return_X_y=True)
    X, y = scaled(X)[::4], y[::4]
    # The reference takes the scores of the fit for the mode, to which laplace(X, y) goes on: end the fit there.
    crf = KernelClassifier(RBF(0.3), prior_variance=2.0, bias=False, tol=1e-10, **EXACT).fit(X, y)
    found = crf.laplace(X, y)
    scores = crf.decision_function(X)
    p = np.exp(scores - np.logaddexp.reduce(scores, axis=1)[:, None])
    n = len(X)
    covariance = 2.0 * np.kron(np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=-1)), np.eye(3) - 1 / 3)
    curvature = np.zeros((3 * n, 3 * n))
    for t in range(n):
        curvature[3 * t : 3 * t + 3, 3 * t : 3 * t + 3] = np.diag(p[t]) - np.outer(p[t], p[t])
    # Where all labels go up together the covariance is zero, and rounding must not be taken for more.
    inverse = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True)
    value = -np.log(p[np.arange(n), y]).sum() + 0.5 * scores.ravel() @ inverse @ scores.ravel()
    log_determinant = np.linalg.slogdet(np.eye(3 * n) + covariance @ curvature)[1]
    assert found.value == pytest.approx(-value - 0.5 * log_determinant, abs=1e-6)
    root = np.linalg.inv(np.eye(3 * n) + covariance @ curvature) @ covariance
    np.testing.assert_allclose(crf.predict_variances(X).ravel(), np.diag(root), rtol=1e-4)


def graphs_of(X):
    return [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in X]


def test_a_chain_given_as_a_graph_has_its_evidence_and_its_doubts():
    X, y = labelled_sequences(12)
    chain = ChainCRF(RBF(0.4), rank=10, random_state=0).fit(X, y)
    graph = GraphCRF(RBF(0.4), rank=10, random_state=0).fit(graphs_of(X), y)
    assert graph.laplace(graphs_of(X), y, n_samples=400, random_state=0).value == pytest.approx(
        chain.laplace(X, y, n_samples=400, random_state=0).value, abs=1e-6
    )
    for ours, theirs in zip(graph.predict_variances(graphs_of(X)), chain.predict_variances(X), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    nodes, expected = (
        graph.predict_marginals(graphs_of(X), uncertainty=True),
        chain.predict_marginals(X, uncertainty=True),
    )
    for ours, theirs in zip(nodes, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.08)
        np.testing.assert_allclose(ours.sum(axis=1), 1.0, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "n_samples", "error"), [("exact", 1500, 0.2), ("lanczos", 40, 1e-8)])
def test_variances_are_those_of_samples_and_of_what_the_basis_leaves_out(method, n_samples, error):
    X, y = labelled_sequences(12)
    crf = ChainCRF(RBF(0.4), rank=10, random_state=0).fit(X, y)
    crf.laplace(X, y, n_samples=n_samples, method=method, random_state=0)
    drawn = crf.sample_coefficients()["node"]
    features = crf.basis_["node"].features(np.vstack(X))
    spread = np.var(features @ drawn, axis=0, ddof=1)
    free = np.maximum(1.0 - np.einsum("ij,ij->i", features, features), 0.0)
    # What is left out beyond the most of any training input counts: nothing here, more elsewhere.
    np.testing.assert_allclose(np.vstack(crf.predict_variances(X)), spread, rtol=error, atol=1e-3 * error)
    np.testing.assert_allclose(crf.laplace_.left_out, [free.max(), 0.0], rtol=1e-6)
    far = crf.predict_variances([np.full((1, 3), 50.0)])[0]
    np.testing.assert_allclose(far, (1.0 - free.max()) * 2 / 3, rtol=1e-6)


def test_features_unseen_in_training_keep_their_prior():
    random = np.random.default_rng(0)
    X, y = scipy.sparse.csr_array(np.hstack([random.normal(size=(40, 3)), np.zeros((40, 2))])), np.arange(40) % 2
    crf = KernelClassifier("linear", prior_variance=3.0, bias=False).fit(X, y)
    crf.laplace(X, y, n_samples=2000, random_state=0)
    new = scipy.sparse.csr_array(np.array([[0.0, 0.0, 0.0, 2.0, 0.0]]))
    np.testing.assert_allclose(crf.predict_variances(new), 3.0 * 4.0 / 2.0, rtol=1e-9)
    assert np.var(crf.sample_coefficients()["node"][:, 3, 0]) == pytest.approx(1.5, rel=0.15)
    probed = KernelClassifier("linear", prior_variance=3.0, bias=False).fit(X, y)
    probed.laplace(X, y, n_samples=500, method="lanczos", random_state=0)
    np.testing.assert_allclose(probed.predict_variances(new), 6.0, rtol=0.25)


def test_longer_cliques_constraints_and_supports_have_posteriors_too():
    X, y = labelled_sequences(10)
    far = ChainCRF(cliques=[NodeCliques("linear"), OrderCliques()], random_state=0).fit(X, y)
    far.laplace(X, y, n_samples=5, random_state=0)
    seen = ChainCRF("linear", support="observed", constraints=[(0, 2)] if not _has(y, 0, 2) else None, random_state=0)
    seen.fit(X, y).laplace(X, y, n_samples=5, random_state=0)
    for crf in (far, seen):
        for rows in crf.predict_marginals(X, uncertainty=True):
            np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-9)
        assert all(np.all(rows > 0) for rows in crf.predict_variances(X))


def _has(y, before, after):
    return any(np.any((labels[:-1] == before) & (labels[1:] == after)) for labels in y)


def test_a_fit_short_of_the_mode_is_taken_there():
    X, y = labelled_sequences(12)
    rough = ChainCRF(RBF(0.4), rank=10, tol=1e-1, random_state=0).fit(X, y)
    fine = ChainCRF(RBF(0.4), rank=10, tol=1e-10, max_iter=1000, random_state=0).fit(X, y)
    assert rough.laplace(X, y).value == pytest.approx(fine.laplace(X, y).value, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "lanczos"])
def test_files_keep_the_posterior(tmp_path, method):
    X, y = labelled_sequences(10)
    rows, labels = np.vstack(X), np.concatenate(y)
    kernel = Columns(RBF(0.5), 0, 2) + Columns(RBF(0.5), 2, 3)
    single = KernelClassifier(kernel, rank=8, prior_variance=(2.0, 1.0), random_state=0).fit(rows, labels)
    chain, graph = (cls(RBF(0.4), rank=8, random_state=0) for cls in (ChainCRF, GraphCRF))
    for crf, inputs, truth, predict in (
        (single, rows, labels, "predict_proba"),
        (chain.fit(X, y), X, y, "predict_marginals"),
        (graph.fit(graphs_of(X), y), graphs_of(X), y, "predict_marginals"),
    ):
        crf.laplace(inputs, truth, n_samples=5, method=method, random_state=0)
        crf.save(tmp_path / "model")
        loaded = type(crf).load(tmp_path / "model")
        assert loaded.laplace_.evidence == crf.laplace_.evidence
        for ours, theirs in zip(
            getattr(loaded, predict)(inputs, uncertainty=True),
            getattr(crf, predict)(inputs, uncertainty=True),
            strict=True,
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        for ours, theirs in zip(loaded.predict_variances(inputs), crf.predict_variances(inputs), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        crf.fit(inputs, truth)
        with pytest.raises(ValueError, match=r"call laplace\(X, y\) on its data first"):
            getattr(crf, predict)(inputs, uncertainty=True)


def test_what_cannot_be_is_refused():
    X, y = labelled_sequences(10)
    crf = ChainCRF("linear", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"call laplace\(X, y\) on its data first"):
        crf.predict_marginals(X, uncertainty=True)
    with pytest.raises(ValueError, match="n_samples must be a whole number"):
        crf.laplace(X, y, n_samples=0)
    crf.laplace(X, y, n_samples=1, method="lanczos", random_state=0)
    with pytest.raises(ValueError, match="variances need 2 samples at least"):
        crf.predict_variances(X)
    with pytest.raises(ValueError, match="no l1"):
        ChainCRF("linear", l1=0.1, random_state=0).fit(X, y).laplace(X, y)
    square = [(x[:4], np.array([[0, 1], [1, 2], [2, 3], [3, 0]])) for x in X if len(x) >= 4]
    truth = [labels[:4] for labels in y if len(labels) >= 4]
    loopy = GraphCRF("linear", inference="trw", solver="lbfgs", random_state=0).fit(square, truth)
    with pytest.raises(ValueError, match="needs the exact Hessian, and inference='trw' is approximate"):
        loopy.laplace(square, truth)


def wide_rows(n_samples=15, n_columns=60, sparse=False, seed=0):
    """Fewer samples than columns, of which the last ten are zero in all of them."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_samples, n_columns)) * (random.random((n_samples, n_columns)) < 0.5)
    X[:, -10:] = 0.0
    y = np.arange(n_samples) % 3
    X[:, 0] += y
    return scipy.sparse.csr_array(X) if sparse else X, y


def test_posteriors_of_a_retired_setting_are_refused():
    X, y = labelled_sequences(n_sequences=8, seed=2)
    crf = ChainCRF("rbf", prior_variance=0.5, rank=10, random_state=0).fit(X, y)
    crf.laplace(X, y, random_state=0)
    document = crf._to_document()
    for kept in ({}, {"beyond_basis": True}):
        loaded = ChainCRF._from_document({**document, "laplace": {**document["laplace"], **kept}})
        np.testing.assert_array_equal(loaded.predict_variances(X)[0], crf.predict_variances(X)[0])
    with pytest.raises(ValueError, match=r"beyond_basis=False, which is gone: fit, and call laplace\(X, y\) again"):
        ChainCRF._from_document({**document, "laplace": {**document["laplace"], "beyond_basis": False}})


def test_other_data_than_those_of_the_fit_are_refused():
    X, y = labelled_sequences(n_sequences=8, seed=2)
    crf = ChainCRF("rbf", prior_variance=0.5, rank=10, random_state=0).fit(X[:-1], y[:-1])
    for others in ((X, y), (X[:-1], [*y[1:-1], y[0]]) if len(y[0]) == len(y[-2]) else (X[1:], y[1:])):
        with pytest.raises(ValueError, match=r"laplace needs the data of the fit.*the objective is .* and it was"):
            crf.laplace(*others)
    with pytest.raises(ValueError, match="laplace needs the data of the fit, labels and weights included"):
        crf.laplace(X[:-1], y[:-1], 2.0 * np.ones(7))
    assert crf.laplace_ is None
    crf.laplace(X[:-1][::-1], y[:-1][::-1])


def test_gaps_are_not_to_be_filled_with_guesses():
    X, y = labelled_sequences(n_sequences=8, seed=2)
    gaps = [[None, *labels[1:]] for labels in y]
    crf = ChainCRF("rbf", prior_variance=0.5, rank=10, random_state=0).fit(X, gaps)
    with pytest.raises(
        ValueError, match=r"need a label at every position.*guesses and would count as if they were seen"
    ):
        crf.laplace(X, gaps)


def test_progress_of_a_posterior_is_shown(capfd):
    X, y = labelled_sequences(n_sequences=8, seed=2)
    crf = ChainCRF("rbf", prior_variance=0.5, rank=10, random_state=0, verbose=1).fit(X, y)
    capfd.readouterr()
    crf.laplace(X, y, method="lanczos", n_samples=2, probes=2, steps=5)
    shown = capfd.readouterr().err
    for words in ("the mode of the posterior, 29 coefficients", "probe 2 of 2", "sample 2 of 2, 5 Lanczos steps each"):
        assert words in shown
