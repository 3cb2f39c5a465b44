"""Fits where the data say little: constant or empty features, fewer samples than pivots, one class."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_iris, make_moons

from kernelfields import ChainCRF, EdgeCliques, KernelClassifier
from kernelfields.kernels import RBF, Polynomial

BALANCED, UNEQUAL = np.repeat([0, 1], 20), np.repeat([0, 1], [10, 30])


@pytest.mark.slow
@pytest.mark.parametrize("y", [BALANCED, UNEQUAL], ids=["balanced", "unequal"])
@pytest.mark.parametrize("optimize", [None, "evidence"])
@pytest.mark.parametrize(
    ("kernel", "X"),
    [
        (RBF(1.0), np.ones((40, 2))),
        ("rbf", np.full((40, 2), 3.0)),
        ("linear", np.zeros((40, 2))),
        ("linear", scipy.sparse.csr_array((40, 2))),
    ],
    ids=["rbf", "rbf by name", "linear", "sparse"],
)
def test_constant_features_leave_the_frequencies_of_the_classes(kernel, X, optimize, y):
    crf = KernelClassifier(kernel, prior_variance=50.0, random_state=0).fit(X, y, optimize=optimize)
    found = crf.predict_proba(X[:1])[0]
    # The mode may be zero itself, and an evidence must be found there as well.
    evidence = crf.laplace(X, y, random_state=0)
    assert np.isfinite(evidence.value)
    if y is BALANCED:
        np.testing.assert_allclose(found, 0.5, atol=1e-9)
        np.testing.assert_allclose(crf.predict_proba(X[:1], uncertainty=True), 0.5, atol=1e-9)
    else:
        # A prior pulls a little towards one half.
        np.testing.assert_allclose(found, [0.25, 0.75], atol=0.05 if optimize else 0.005)
    if optimize:
        path = crf.evidence_path_
        assert path.best.value > path.steps[0].value
        assert evidence.value == pytest.approx(path.best.value, abs=1e-5)


@pytest.mark.parametrize("X", [np.zeros((40, 2)), scipy.sparse.csr_array((40, 2))], ids=["dense", "sparse"])
def test_features_that_are_all_zero_have_the_evidence_of_coins(X):
    crf = KernelClassifier("linear", bias=False, random_state=0).fit(X, UNEQUAL)
    assert crf.laplace(X, UNEQUAL).value == pytest.approx(-40 * np.log(2), abs=1e-12)
    np.testing.assert_array_equal(crf.predict_proba(X[:1], uncertainty=True), 0.5)


def test_a_kernel_that_is_zero_at_all_inputs_says_that_it_takes_no_part():
    X = np.zeros((40, 2))
    with pytest.warns(UserWarning, match="zero at every training input: clique set 'node' has no basis functions"):
        crf = KernelClassifier(Polynomial(2, 1.0, 0.0), prior_variance=1e6, random_state=0).fit(X, UNEQUAL)
    assert crf.basis_["node"].rank == 0
    np.testing.assert_allclose(crf.predict_proba(X[:1]), [[0.25, 0.75]], atol=1e-6)


def test_a_search_without_a_single_coefficient_is_refused():
    X = scipy.sparse.csr_array((40, 2))
    with pytest.raises(ValueError, match="has nothing to choose: all features of all inputs are zero"):
        KernelClassifier("linear", bias=False).fit(X, UNEQUAL, optimize="evidence")


@pytest.mark.parametrize("make", [lambda: np.zeros((5, 2)), lambda: scipy.sparse.csr_array((5, 2))])
def test_chains_of_empty_inputs_choose_the_variance_of_their_transitions(make):
    changes = np.random.default_rng(0).random((30, 5)) < 0.8
    X, y = [make() for _ in changes], list(np.cumsum(changes, axis=1) % 2)
    crf = ChainCRF("linear", edges=EdgeCliques(prior_variance=0.01), random_state=0).fit(X, y, optimize="evidence")
    path = crf.evidence_path_
    assert path.steps[0].gradient["node prior_variance"] == pytest.approx(0.0, abs=1e-12)
    assert path.best.parameters["edge prior_variance"] > 0.3
    assert crf.laplace(X, y).value == pytest.approx(path.best.value, abs=1e-4)


def test_a_rank_above_the_number_of_samples_is_that_number():
    X, y = load_iris(return_X_y=True)
    X, y = X[::5], y[::5]
    few, exact = (
        KernelClassifier(RBF(0.3), random_state=0, dtype="float64", **settings).fit(X, y)
        for settings in ({"rank": 500}, {"rank": None, "basis": "all"})
    )
    assert few.basis_["node"].rank == len(X) == 30
    np.testing.assert_allclose(few.predict_proba(X), exact.predict_proba(X), atol=1e-8)
    assert few.laplace(X, y).value == pytest.approx(exact.laplace(X, y).value, abs=1e-6)
    # Two samples, one of each class, are the fewest, and a search goes on with them.
    two = KernelClassifier(RBF(1.0), random_state=0).fit([[0.0], [1.0]], ["a", "b"], optimize="evidence")
    assert two.basis_["node"].rank == 2
    assert two.predict([[0.0], [1.0]]).tolist() == ["a", "b"]
    assert np.isfinite(two.evidence_path_.best.value)


@pytest.mark.parametrize("optimize", [None, "evidence"])
def test_one_class_is_named(optimize):
    X, _ = make_moons(20, random_state=0)
    with pytest.raises(ValueError, match="y holds the one class 'only': a classifier needs samples of at least 2"):
        KernelClassifier().fit(X, np.full(20, "only"), optimize=optimize)
