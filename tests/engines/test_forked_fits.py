"""Fits in child processes: forked after the parent has fitted, in the midst of a fit, and made by joblib."""

import multiprocessing
import threading
import warnings

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from kernelfields import ChainCRF
from kernelfields.numerics import Workers, blas_threads
from kernelfields.numerics import threads as blas_module
from tests.samples import labelled_sequences

# Long enough for threads to be worth their while.
X, Y = labelled_sequences(60, longest=250)
# Products of BLAS round differently with another number of threads: at the optimum itself that does not matter.
FIELD = ChainCRF("rbf", rank=10, solver="newton", tol=1e-12, n_jobs=2, random_state=0)
PATIENCE = 120

forks = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="nothing forks here")


def in_a_fork(function):
    """Return what a function returns in a forked child, which must not hang."""
    context = multiprocessing.get_context("fork")
    ours, its = context.Pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of forks where there are threads, and that there are is what is tried here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = context.Process(target=lambda: its.send(function()))
        child.start()
    its.close()
    try:
        assert ours.poll(PATIENCE), "the child hangs"
        return ours.recv()
    finally:
        child.join(PATIENCE)
        if child.is_alive():
            child.kill()


def answers_of(crf):
    return np.concatenate(crf.predict_marginals(X))


def fitted_answers():
    return answers_of(clone(FIELD).fit(X, Y))


@pytest.mark.slow
@forks
def test_a_child_fits_and_predicts_as_its_parent_does():
    fitted = clone(FIELD).fit(X, Y)
    expected = answers_of(fitted)
    np.testing.assert_array_equal(in_a_fork(fitted_answers), expected)
    np.testing.assert_array_equal(in_a_fork(lambda: answers_of(fitted)), expected)


@pytest.mark.slow
@forks
def test_a_child_of_a_fit_that_is_under_way_fits_as_well():
    found = []

    def fork_once(_):
        if not found:
            found.append(in_a_fork(fitted_answers))

    fitted = clone(FIELD).set_params(callbacks=[fork_once]).fit(X, Y)
    np.testing.assert_allclose(found[0], answers_of(fitted), rtol=0, atol=1e-9)


@forks
def test_threads_of_a_pool_are_started_anew_in_a_child():
    workers, runs = Workers(2, least_work=1), [(0, 1), (1, 2), (2, 3)]

    def total():
        return float(workers.sum(lambda first, last: np.array(10.0**first), runs))

    assert total() == 111.0
    assert in_a_fork(total) == 111.0
    assert total() == 111.0


@forks
def test_a_child_forgets_the_limits_on_blas_of_threads_that_it_does_not_have():
    held, ended = threading.Event(), threading.Event()

    def hold():
        with blas_threads(1):
            held.set()
            assert ended.wait(PATIENCE)

    def limits():
        before = [number for _, number in blas_module._held]
        with blas_threads(3):
            return before, [library.num_threads for library in blas_module._libraries]

    with threadpool_limits(4, user_api="blas"):
        other = threading.Thread(target=hold)
        other.start()
        assert held.wait(PATIENCE)
        with blas_threads(2):
            before, numbers = in_a_fork(limits)
        ended.set()
        other.join(PATIENCE)
    assert before == [2]
    assert set(numbers) == {2}
    assert not blas_module._held


@pytest.mark.slow
def test_fits_in_processes_of_joblib():
    expected = fitted_answers()
    fits = Parallel(n_jobs=2, backend="loky")(delayed(clone(FIELD).fit)(X, Y) for _ in range(2))
    for fitted in fits:
        np.testing.assert_allclose(answers_of(fitted), expected, rtol=0, atol=1e-9)
