"""Threads: a pool that shares out runs of packed sequences, and the number of threads that BLAS may use.

Sequences are cut into runs of about equal work. numba functions compiled with ``nogil=True`` run side by side in
the threads of a pool; every run writes to its own rows, so no locks are needed.

The limit on BLAS belongs to the process, not to the thread that asks for it. Fits that overlap in time, in several
Python threads, must therefore agree: while any of them holds a limit the smallest one is in force, and the number
from before the first comes back after the last, in whatever order they end. To look for the libraries of the
process takes milliseconds, as long as a small fit. They come with Python modules, so they are looked for again
only when the number of modules has changed.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

# Below this many positions times labels squared, handing work to a thread costs more than the work.
_SMALL = 50_000
_SMALL_PRODUCT = 1_000_000
_RUNS_PER_THREAD = 4
# Matrix products want long runs: a product packs its other operand once per run.
_PIECES_PER_THREAD = 2


def available_cores() -> int:
    """Return the number of cores this process may use, at most NUMBA_NUM_THREADS where that is set.

    joblib sets it in its processes, so that fits running side by side share the cores out.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = os.environ.get("NUMBA_NUM_THREADS", "")
    return min(cores, max(1, int(allowed))) if allowed.isdecimal() else cores


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Turn ``n_jobs`` into a number of threads: None and -1 mean all cores, -2 all but one."""
    if n_jobs is None:
        return available_cores()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None, a positive or a negative whole number, got {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, available_cores() + 1 + int(n_jobs))


class Workers:
    """Threads that share out runs of sequences; ``n_jobs`` as in scikit-learn, None for all cores."""

    def __init__(self, n_jobs: int | None = None):
        self.n_threads = resolve_n_jobs(n_jobs)
        self._pool: ThreadPoolExecutor | None = None

    def runs(self, offsets: np.ndarray, n_labels: int) -> list[tuple[int, int]]:
        """Cut sequences 0..S-1 into runs [first, last) that hold about as many positions each."""
        n_sequences = len(offsets) - 1
        if self.n_threads == 1 or offsets[-1] * n_labels * n_labels < _SMALL:
            return [(0, n_sequences)]
        wanted = min(n_sequences, self.n_threads * _RUNS_PER_THREAD)
        targets = np.linspace(0, offsets[-1], wanted + 1)
        cuts = np.unique(np.searchsorted(offsets, targets))
        return [(int(a), int(b)) for a, b in pairwise(cuts)]

    def pieces(self, n_rows: int, work: int) -> list[tuple[int, int]]:
        """Cut rows 0..n-1 into equal runs; one run if ``work`` multiplications are not worth a thread."""
        if self.n_threads == 1 or work < _SMALL_PRODUCT:
            return [(0, n_rows)]
        cuts = np.linspace(0, n_rows, min(n_rows, self.n_threads * _PIECES_PER_THREAD) + 1).astype(int)
        return [(int(a), int(b)) for a, b in pairwise(cuts)]

    def weighted_pieces(self, ends: np.ndarray, work_per_item: int) -> list[tuple[int, int]]:
        """Cut rows into runs of about equal weight; row i holds items ends[i]..ends[i + 1]."""
        n_rows = len(ends) - 1
        if self.n_threads == 1 or ends[-1] * work_per_item < _SMALL_PRODUCT:
            return [(0, n_rows)]
        targets = np.linspace(0, ends[-1], min(n_rows, self.n_threads * _RUNS_PER_THREAD) + 1)
        cuts = np.unique(np.concatenate([[0], np.searchsorted(ends, targets[1:-1]), [n_rows]]))
        return [(int(a), int(b)) for a, b in pairwise(cuts)]

    def each(self, function: Callable[[int, int], None], runs: list[tuple[int, int]]) -> None:
        """Call ``function(first, last)`` for every run; return when all are done."""
        if len(runs) == 1 or self.n_threads == 1:
            for first, last in runs:
                function(first, last)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_threads, thread_name_prefix="kernelfields")
        futures = [self._pool.submit(function, first, last) for first, last in runs]
        try:
            for future in futures:
                future.result()
        finally:
            # After an interrupt the threads still write to shared arrays: let them end first.
            wait(futures)

    def __getstate__(self) -> dict:
        return {"n_threads": self.n_threads, "_pool": None}


_lock = threading.Lock()
_held: list[int] = []
_libraries: ThreadpoolController | None = None
_modules_seen = 0
# What to undo: the limiter that saw the numbers from before any limit, and one for every later set of libraries.
_undo: list[Any] = []
# Libraries and their numbers when the first limit came.
_before: list[tuple[Any, int]] = []


@contextmanager
def blas_threads(n_threads: int | None) -> Iterator[None]:
    """Hold BLAS to ``n_threads`` threads; None asks for nothing."""
    if n_threads is None:
        yield
        return
    _hold(n_threads)
    try:
        yield
    finally:
        _release(n_threads)


def _hold(n_threads: int) -> None:
    with _lock:
        _held.append(n_threads)
        _limit()


def _release(n_threads: int) -> None:
    with _lock:
        _held.remove(n_threads)
        if _held:
            _limit()
        while not _held and _undo:
            _undo.pop().restore_original_limits()
        if not _held:
            _insist()


def _insist() -> None:
    """See to it that the numbers from before any limit are back.

    With fits in two threads a library was seen not to listen to what found it first, now and then, but to one that
    looked again (OpenBLAS 0.3.31, threadpoolctl 3.8).
    """
    if any(library.num_threads != n_threads for library, n_threads in _before):
        wanted = {library.filepath: n_threads for library, n_threads in _before}
        for library in ThreadpoolController().select(user_api="blas").lib_controllers:
            if library.filepath in wanted:
                library.set_num_threads(wanted[library.filepath])
    _before.clear()


def _limit() -> None:
    """Hold all libraries to the smallest number that is asked for."""
    global _libraries, _modules_seen
    looks = _libraries is None or _modules_seen != len(sys.modules)
    libraries = ThreadpoolController().select(user_api="blas") if looks or _libraries is None else _libraries
    if not _undo:
        _before[:] = [(each, each.num_threads) for each in libraries.lib_controllers]
    limiter = libraries.limit(limits=min(_held))
    if looks or not _undo:
        _undo.append(limiter)
    _libraries, _modules_seen = libraries, len(sys.modules)
