"""Limits on BLAS threads belong to the process: overlapping ones must leave no trace."""

import sys
import threading
from contextlib import nullcontext

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kernelfields import ChainCRF
from kernelfields.numerics import blas_threads
from kernelfields.numerics import threads as blas_module


def threads_now():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_a_limit_holds_inside_and_ends_outside():
    with threadpool_limits(2, user_api="blas"):
        with blas_threads(1):
            assert threads_now() == {1}
        assert threads_now() == {2}
        with blas_threads(None):
            assert threads_now() == {2}


def test_the_smallest_limit_wins_and_the_first_number_comes_back_in_any_order_of_ending():
    with threadpool_limits(3, user_api="blas"):
        wide, narrow = blas_threads(2), blas_threads(1)
        wide.__enter__()
        narrow.__enter__()
        assert threads_now() == {1}
        wide.__exit__(None, None, None)
        assert threads_now() == {1}
        narrow.__exit__(None, None, None)
        assert threads_now() == {3}


def test_fits_that_overlap_in_two_threads_leave_blas_as_it_was():
    random = np.random.default_rng(0)
    X = [random.normal(size=(5, 3)) for _ in range(10)]
    y = [(x[:, 0] > 0).astype(int) for x in X]
    first_runs, second_runs, first_ended = threading.Event(), threading.Event(), threading.Event()

    def wait_for_the_second(_):
        first_runs.set()
        assert second_runs.wait(60)

    def wait_for_the_end_of_the_first(_):
        second_runs.set()
        assert first_ended.wait(60)

    def first():
        ChainCRF(callbacks=[wait_for_the_second]).fit(X, y)
        first_ended.set()

    def second():
        assert first_runs.wait(60)
        ChainCRF(callbacks=[wait_for_the_end_of_the_first]).fit(X, y)

    before = threads_now()
    threads = [threading.Thread(target=each) for each in (first, second)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not blas_module._held
    assert threads_now() == before


def test_only_solvers_that_factor_matrices_have_the_threads_of_blas(monkeypatch):
    limits = []
    monkeypatch.setattr("kernelfields.solvers.choice.blas_threads", lambda limit: limits.append(limit) or nullcontext())
    X = np.random.default_rng(0).normal(size=(8, 5, 3))
    for solver in ("lbfgs", "newton"):
        ChainCRF(solver=solver).fit(list(X), list((X[..., 0] > 0).astype(int)))
    assert limits == [1, None]


def test_a_limit_holds_in_whatever_thread_asks_for_it():
    """threadpoolctl lets the thread that came first set the numbers, and ignores the others without a word."""
    seen = []

    def elsewhere():
        with blas_threads(1):
            seen.append(threads_now())
        seen.append(threads_now())

    with threadpool_limits(2, user_api="blas"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert seen == [{1}, {2}]
        with blas_threads(1):
            assert threads_now() == {1}
        assert threads_now() == {2}


@pytest.mark.slow
def test_limits_that_come_and_go_in_many_threads_leave_blas_as_it_was():
    before, wrong = threads_now(), []

    def come_and_go(seed):
        random = np.random.default_rng(seed)
        for limit in random.integers(1, 3, size=50).tolist():
            with blas_threads(limit):
                wrong.extend([limit] if max(threads_now()) > limit else [])

    threads = [threading.Thread(target=come_and_go, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong
    assert threads_now() == before


def test_libraries_are_looked_for_once_and_again_when_modules_have_come(monkeypatch):
    looks = []

    class Counted(blas_module.ThreadpoolController):
        def __init__(self):
            looks.append(1)
            super().__init__()

    monkeypatch.setattr(blas_module, "ThreadpoolController", Counted)
    monkeypatch.setattr(blas_module, "_libraries", None)
    with threadpool_limits(2, user_api="blas"):
        for _ in range(3):
            with blas_threads(1):
                assert threads_now() == {1}
        assert len(looks) == 1
        with blas_threads(1):
            monkeypatch.setitem(sys.modules, "a_module_that_came_later", sys)
            with blas_threads(1):
                assert threads_now() == {1}
            assert len(looks) == 2
        assert threads_now() == {2}
