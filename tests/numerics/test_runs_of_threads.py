"""Work cut into runs for threads: nothing is left out or done twice, and what is small stays whole."""

import os

import numpy as np
import pytest

from kernelfields.numerics import Workers, available_cores, resolve_n_jobs, threads


def covers(runs, n):
    """Whether runs [first, last) cover 0..n-1 in order, each with something in it."""
    return [first for first, _ in runs] == [0, *(last for _, last in runs[:-1])] and runs[-1][1] == n


@pytest.mark.parametrize("n_threads", [2, 3, 5])
def test_rows_with_items_are_cut_by_their_items(n_threads):
    workers, random = Workers(n_threads, least_work=1), np.random.default_rng(0)
    ends = np.concatenate([[0], np.cumsum(random.integers(0, 9, size=200))])
    pieces = workers.weighted_pieces(ends, 1)
    assert covers(pieces, 200)
    assert len(pieces) == 4 * n_threads
    items = [ends[last] - ends[first] for first, last in pieces]
    assert max(items) - min(items) <= 16
    assert covers(workers.weighted_pieces(np.array([0, 0, 5, 5]), 1), 3), "rows without items are somebody's, too"


def test_work_below_the_least_is_done_in_one_run():
    workers = Workers(2, least_work=900)
    assert len(workers.runs(np.arange(0, 100), 3)) == 1  # 99 positions of 9 steps
    assert len(workers.runs(np.arange(0, 101), 3)) > 1
    assert len(workers.pieces(50, 899)) == 1
    assert len(workers.pieces(50, 900)) > 1
    ends = np.arange(0, 91, 3)
    assert len(workers.weighted_pieces(ends, 9)) == 1
    assert len(workers.weighted_pieces(ends, 10)) > 1
    alone = Workers(1, least_work=1)
    assert alone.runs(np.arange(101), 3) == alone.pieces(100, 10**9) == [(0, 100)]
    assert alone.weighted_pieces(np.arange(101), 10**9) == [(0, 100)]


def test_runs_of_several_threads_are_done_by_threads_and_one_run_is_not():
    import threading

    def names(n_threads, runs):
        seen = []
        Workers(n_threads).each(lambda first, last: seen.append(threading.current_thread().name), runs)
        return seen

    assert all(name.startswith("kernelfields") for name in names(2, [(0, 1), (1, 2)]))
    assert names(2, [(0, 2)]) == [threading.current_thread().name]
    assert names(1, [(0, 1), (1, 2)]) == [threading.current_thread().name] * 2


def test_cores_are_those_the_process_may_use(monkeypatch):
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert available_cores() == resolve_n_jobs(None) == resolve_n_jobs(-1) == 3
    assert [resolve_n_jobs(-2), resolve_n_jobs(-3), resolve_n_jobs(-9)] == [2, 1, 1]
    for allowed, cores in (("2", 2), ("8", 3), ("0", 1), ("many", 3)):
        monkeypatch.setenv("NUMBA_NUM_THREADS", allowed)
        assert available_cores() == cores
    monkeypatch.delenv("NUMBA_NUM_THREADS")
    monkeypatch.delattr(os, "sched_getaffinity")
    assert available_cores() == 64


@pytest.mark.parametrize("wrong", [0, True, 1.5, "2"])
def test_other_numbers_of_jobs_are_refused(wrong):
    with pytest.raises(ValueError, match="n_jobs must be None, a positive or a negative whole number"):
        threads.resolve_n_jobs(wrong)
