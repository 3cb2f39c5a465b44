"""Cuts into runs, threads that run them, and the meaning of n_jobs."""

import pickle
import threading
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from kernelfields.numerics import Workers, available_cores, resolve_n_jobs


def test_n_jobs_as_in_scikit_learn():
    cores = available_cores()
    assert cores >= 1
    assert resolve_n_jobs(None) == resolve_n_jobs(-1) == cores
    assert resolve_n_jobs(3) == resolve_n_jobs(np.int64(3)) == 3
    assert resolve_n_jobs(-2) == max(1, cores - 1)
    assert resolve_n_jobs(-1000) == 1


def test_all_cores_are_those_that_joblib_leaves_to_a_process(monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert resolve_n_jobs(None) == resolve_n_jobs(-1) == 1
    assert resolve_n_jobs(3) == 3
    for meaningless in ("", "many", "100000"):
        monkeypatch.setenv("NUMBA_NUM_THREADS", meaningless)
        assert resolve_n_jobs(None) >= 1


@pytest.mark.parametrize("n_jobs", [0, True, 2.0, "all"])
def test_other_n_jobs_are_refused(n_jobs):
    with pytest.raises(ValueError, match=f"n_jobs must be None, a positive or a negative .* got {n_jobs!r}"):
        Workers(n_jobs)


@pytest.mark.parametrize("n_threads", [2, 3, 7])
def test_runs_cover_every_sequence_once_and_share_the_work(n_threads):
    rng = np.random.default_rng(n_threads)
    for lengths in (rng.integers(1, 40, size=3000), [90_000], [1, 1, 90_000, 1], [50_000] * 2):
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        runs = Workers(n_threads).runs(offsets, 3)
        assert runs[0][0] == 0
        assert runs[-1][1] == len(lengths)
        assert all(first < last for first, last in runs)
        assert all(before[1] == after[0] for before, after in pairwise(runs))
        share = offsets[-1] / (4 * n_threads)
        assert all(offsets[last] - offsets[first] <= share + max(lengths) for first, last in runs)


def test_small_work_stays_in_one_run():
    assert Workers(8).runs(np.array([0, 10, 20]), 3) == [(0, 2)]
    assert Workers(1).runs(np.arange(0, 10**6 + 1, 10), 9) == [(0, 10**5)]


def test_each_calls_every_run_in_threads_of_its_own():
    workers, seen, threads = Workers(3), [], set()

    def note(first, last):
        seen.append((first, last))
        threads.add(threading.current_thread().name)

    runs = [(i, i + 1) for i in range(20)]
    workers.each(note, runs)
    assert sorted(seen) == runs
    assert all(name.startswith("kernelfields") for name in threads)
    workers.each(note, [(0, 1)])
    assert threading.current_thread().name in threads, "a single run needs no thread"


def test_an_error_in_a_run_is_raised_after_the_others_have_ended():
    ended = []

    def fail_first(first, last):
        if first == 0:
            raise ZeroDivisionError("run 0")
        ended.append(first)

    with pytest.raises(ZeroDivisionError, match="run 0"):
        Workers(2).each(fail_first, [(i, i + 1) for i in range(8)])
    assert sorted(ended) == list(range(1, 8))


def test_workers_travel_without_their_threads():
    workers = Workers(2)
    workers.each(lambda first, last: None, [(0, 1), (1, 2)])
    assert workers._pool is not None
    copy = pickle.loads(pickle.dumps(workers))
    assert copy.n_threads == 2
    assert copy._pool is None


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_results_come_in_order_and_calls_after_an_error_never_begin(n_threads):
    assert list(Workers(n_threads).in_order([lambda value=value: value for value in range(20)])) == list(range(20))
    assert list(Workers(n_threads).in_order([])) == []
    begun, failed = [], threading.Event()

    def call(value):
        begun.append(value)
        if value == 1:
            failed.set()
            raise ValueError("one")
        if value > n_threads:  # those before it do not wait for an error
            assert failed.wait(5.0)
        return value

    results = Workers(n_threads).in_order([partial(call, value) for value in range(1000)])
    assert next(results) == 0
    with pytest.raises(ValueError, match="one"):
        next(results)
    assert len(begun) < 1000


def test_with_one_thread_a_call_begins_when_its_result_is_asked_for():
    begun = []
    results = Workers(1).in_order([partial(begun.append, value) for value in range(3)])
    next(results)
    assert begun == [0]
