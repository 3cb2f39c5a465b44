"""How ChainCRF fits: random states, progress, callbacks."""

import io

import numpy as np
import pytest
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
    assert "% of the best fit" in err
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
