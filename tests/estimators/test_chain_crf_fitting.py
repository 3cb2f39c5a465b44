"""How ChainCRF fits: random states, threads, weights, progress, callbacks."""

import io

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from kernelfields import ChainCRF
from kernelfields.kernels import RBF
from kernelfields.solvers import Iteration
from tests.samples import labelled_sequences

X, y = labelled_sequences()


def marginals(crf, X=X):
    return np.concatenate(crf.predict_marginals(X))


@pytest.mark.parametrize("basis", ["random-cholesky", "uniform", "gradient"])
def test_the_same_random_state_gives_the_same_field(basis):
    settings = {"kernel": RBF(gamma=0.3), "basis": basis, "rank": 8, "n_jobs": 1}
    one, same, other = (ChainCRF(random_state=seed, **settings).fit(X, y) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.basis_["node"].indices, same.basis_["node"].indices)
    np.testing.assert_array_equal(marginals(one), marginals(same))
    assert not np.array_equal(one.basis_["node"].indices, other.basis_["node"].indices)


def test_random_states_of_every_kind():
    for state in (None, 7, np.random.default_rng(7), np.random.RandomState(7)):
        crf = ChainCRF(rank=5, random_state=state).fit(X, y)
        assert crf.basis_["node"].rank == 5
    legacy = [ChainCRF(rank=5, random_state=np.random.RandomState(7)).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(*(crf.basis_["node"].indices for crf in legacy))


def test_fitting_leaves_the_global_generator_alone():
    np.random.seed(5)  # noqa: NPY002  the global state is what this test watches
    expected = np.random.get_state()[1].copy()  # noqa: NPY002
    ChainCRF(rank=5).fit(X, y).sample(X)
    np.testing.assert_array_equal(np.random.get_state()[1], expected)  # noqa: NPY002


@pytest.mark.slow
def test_the_number_of_threads_does_not_change_the_field():
    many, labels = labelled_sequences(n_sequences=500, n_features=2, n_labels=5, longest=9, seed=1)
    crf = ChainCRF(RBF(gamma=0.5), rank=15, random_state=0, max_iter=500)
    # Exact steps end at the optimum, however sums are rounded on the way.
    exact, fits = (
        [clone(crf).set_params(n_jobs=n_jobs, **settings).fit(many, labels) for n_jobs in (1, 3, None)]
        for settings in ({"solver": "newton", "tol": 1e-12}, {"tol": 1e-8})
    )
    for other in exact[1:]:
        np.testing.assert_allclose(marginals(other, many), marginals(exact[0], many), rtol=0, atol=1e-9)
        np.testing.assert_array_equal(np.concatenate(other.predict(many)), np.concatenate(exact[0].predict(many)))
    for other in fits[1:]:
        # Both values are within tol of the least one.
        assert other.solution_.value == pytest.approx(fits[0].solution_.value, rel=1e-8)
        other.n_jobs = 1
        before = marginals(other, many)
        other.n_jobs = 4
        np.testing.assert_allclose(marginals(other, many), before, atol=1e-12)


@pytest.mark.parametrize("kernel", ["linear", RBF(gamma=0.3)])
def test_weight_two_is_a_duplicated_sequence(kernel):
    settings = {"kernel": kernel, "basis": "all", "solver": "newton", "tol": 1e-11, "n_jobs": 1}
    weights = np.ones(len(X))
    weights[[2, 5]] = 2.0
    weighted = ChainCRF(**settings).fit(X, y, sample_weight=weights)
    repeated = ChainCRF(**settings).fit([*X, X[2], X[5]], [*y, y[2], y[5]])
    assert weighted.solution_.value == pytest.approx(repeated.solution_.value, rel=1e-9)
    np.testing.assert_allclose(marginals(weighted), marginals(repeated), atol=1e-8)
    np.testing.assert_allclose(weighted.transitions_, repeated.transitions_, atol=1e-8)
    certificate = weighted.certify(X, y, sample_weight=weights)
    assert certificate.value == pytest.approx(weighted.solution_.value, rel=1e-9)
    assert certificate.relative_gap < 1e-8


@pytest.mark.parametrize("kernel", ["linear", RBF(gamma=0.3)])
def test_weight_zero_is_a_dropped_sequence(kernel):
    settings = {"kernel": kernel, "basis": "all", "solver": "newton", "tol": 1e-11, "n_jobs": 1}
    weights = np.ones(len(X))
    weights[[0, 7]] = 0.0
    weighted = ChainCRF(**settings).fit(X, y, sample_weight=weights)
    kept = [i for i in range(len(X)) if weights[i]]
    dropped = ChainCRF(**settings).fit([X[i] for i in kept], [y[i] for i in kept])
    assert weighted.solution_.value == pytest.approx(dropped.solution_.value, rel=1e-9)
    np.testing.assert_allclose(marginals(weighted), marginals(dropped), atol=1e-7)


def test_scoring_weighs_sequences():
    crf = ChainCRF(random_state=0, prior_variance=0.05).fit(X, y)
    right = [predicted == truth for predicted, truth in zip(crf.predict(X), y, strict=True)]
    assert crf.score(X, y) == pytest.approx(np.concatenate(right).mean(), abs=1e-15)
    weights = np.arange(len(X), dtype=float)
    expected = sum(w * r.sum() for w, r in zip(weights, right, strict=True)) / (weights @ [len(r) for r in right])
    assert crf.score(X, y, sample_weight=weights) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("solver", ["newton", "newton-cg", "block-jacobi", "subspace", "lbfgs", "auto"])
def test_every_solver_reaches_the_same_field(solver):
    reference = ChainCRF(basis="all", tol=1e-11, solver="newton").fit(X, y)
    crf = ChainCRF(basis="all", tol=1e-9, max_iter=1000, solver=solver).fit(X, y)
    assert crf.solution_.converged
    assert crf.solution_.value == pytest.approx(reference.solution_.value, rel=2e-9)
    np.testing.assert_allclose(marginals(crf), marginals(reference), atol=1e-4)


def test_too_few_iterations_warn_and_leave_a_usable_field():
    with pytest.warns(ConvergenceWarning, match=r"tol=1e-08.*raise max_iter or tol"):
        crf = ChainCRF(max_iter=2, tol=1e-8, random_state=0).fit(X, y)
    assert crf.solution_.iterations == 2
    assert not crf.solution_.converged
    assert crf.score(X, y) > 0.5


def test_silent_by_default(capfd):
    ChainCRF(random_state=0).fit(X, y).predict(X)
    assert capfd.readouterr() == ("", "")


def test_verbose_writes_to_standard_error_only(capfd):
    ChainCRF(random_state=0, verbose=1).fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert "choosing a basis for node cliques" in err
    assert "lower bound" in err
    assert "iteration" in err


def test_callbacks_see_every_iteration_and_may_stop():
    seen: list[Iteration] = []
    crf = ChainCRF(random_state=0, tol=1e-6, callbacks=[seen.append]).fit(X, y)
    assert [each.iteration for each in seen] == list(range(crf.solution_.iterations + 1))
    assert seen == crf.solution_.history
    assert np.all(np.diff([each.value for each in seen]) <= 0)
    assert np.all(np.diff([each.lower_bound for each in seen]) >= 0)

    text = io.StringIO()
    watchers = [lambda each: each.iteration == 2, lambda each: print(each.iteration, file=text)]
    stopped = ChainCRF(random_state=0, tol=1e-6, callbacks=watchers).fit(X, y)
    assert stopped.solution_.iterations == 2
    assert stopped.solution_.reason == "callback"
    assert text.getvalue().split() == ["0", "1", "2"]
    assert len(stopped.predict(X)) == len(X)
