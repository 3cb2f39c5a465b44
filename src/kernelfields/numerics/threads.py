"""Threads: a pool that divides runs of packed sequences, and the number of threads of BLAS.

Sequences are cut into runs of about equal work. numba functions compiled with ``nogil=True`` run side by side in
the threads of a pool; every run writes to its own rows, so no locks are needed.

The limit on BLAS belongs to the process, not to the thread that sets it. Fits that overlap in time, in several
Python threads, must therefore agree: while any of them holds a limit the smallest one is in force, and the number
from before the first comes back after the last, in whatever order they end. To look for the libraries of the
process takes milliseconds, as long as a small fit. They come with Python modules, so they are looked for again
only when the number of modules has changed.

A process may fork at any time: pools are made anew in the child, and limits of threads that are not there are dropped.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import reduce
from itertools import pairwise
from typing import TypeVar

import numpy as np
from threadpoolctl import LibController, ThreadpoolController

# Below this many positions times labels squared, handing work to a thread costs more than the work.
_SMALL = 50_000
_SMALL_PRODUCT = 1_000_000
_RUNS_PER_THREAD = 4
# Matrix products want long runs: a product packs its other operand once per run.
_PIECES_PER_THREAD = 2

Result = TypeVar("Result")


def available_cores() -> int:
    """Count the available cores of this process, at most NUMBA_NUM_THREADS if that is set.

    joblib sets it in its processes, so that fits running side by side share the cores out.

    Returns
    -------
    int
        The number of cores.

    Examples
    --------
    >>> from kernelfields.numerics import available_cores
    >>> available_cores() >= 1
    True
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = os.environ.get("NUMBA_NUM_THREADS", "")
    return min(cores, max(1, int(allowed))) if allowed.isdecimal() else cores


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Turn ``n_jobs`` into a number of threads.

    Parameters
    ----------
    n_jobs : int or None
        The number; None and -1 mean all cores, -2 all but one.

    Returns
    -------
    int
        The number of threads.

    Raises
    ------
    ValueError
        If ``n_jobs`` is zero or no whole number.

    Examples
    --------
    >>> from kernelfields.numerics import resolve_n_jobs
    >>> resolve_n_jobs(2)
    2
    """
    if n_jobs is None:
        return available_cores()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None, a positive or a negative whole number, got {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, available_cores() + 1 + int(n_jobs))


def even_runs(ends: np.ndarray, most: int) -> list[tuple[int, int]]:
    """Split items, item i of weight ends[i + 1] - ends[i], into ``most`` runs [first, last) of about equal weight."""
    inner = np.searchsorted(ends, np.linspace(0, ends[-1], most + 1)[1:-1])
    return list(pairwise(np.unique(np.concatenate([[0], inner, [len(ends) - 1]])).tolist()))


class Workers:
    """Divide work among threads.

    Parameters
    ----------
    n_jobs : int, optional
        The number of threads, as in scikit-learn; by default all cores.
    least_work : int, optional
        The operations that are worth a thread; by default the usual numbers.

    Examples
    --------
    >>> from kernelfields.numerics import Workers
    >>> Workers(2).each(lambda first, last: last - first, [(0, 3), (3, 5)])
    [3, 2]
    """

    def __init__(self, n_jobs: int | None = None, least_work: int | None = None):
        self.n_threads = resolve_n_jobs(n_jobs)
        self.least_steps, self.least_product = (_SMALL, _SMALL_PRODUCT) if least_work is None else (least_work,) * 2
        self._pool: ThreadPoolExecutor | None = None
        self._process = os.getpid()

    def runs(self, offsets: np.ndarray, n_labels: int) -> list[tuple[int, int]]:
        """Split sequences into runs with about equal numbers of positions.

        Parameters
        ----------
        offsets : array (S + 1,)
            The position at which each sequence begins, and N.
        n_labels : int
            The number of labels.

        Returns
        -------
        list of (int, int)
            The first of each run, and the one after its last.
        """
        n_sequences = len(offsets) - 1
        if self.n_threads == 1 or offsets[-1] * n_labels * n_labels < self.least_steps:
            return [(0, n_sequences)]
        return even_runs(offsets, min(n_sequences, self.n_threads * _RUNS_PER_THREAD))

    def pieces(self, n_rows: int, work: int) -> list[tuple[int, int]]:
        """Split rows into equal runs; one run if there is too little work for threads.

        Parameters
        ----------
        n_rows : int
            The number of rows.
        work : int
            The number of multiplications.

        Returns
        -------
        list of (int, int)
            The first of each run, and the one after its last.
        """
        if self.n_threads == 1 or work < self.least_product:
            return [(0, n_rows)]
        cuts = np.linspace(0, n_rows, min(n_rows, self.n_threads * _PIECES_PER_THREAD) + 1)
        return list(pairwise(cuts.astype(int).tolist()))

    def weighted_pieces(self, ends: np.ndarray, work_per_item: int) -> list[tuple[int, int]]:
        """Split rows into runs of about equal weight.

        Parameters
        ----------
        ends : array (n + 1,)
            Row i holds items ends[i] to ends[i + 1].
        work_per_item : int
            The multiplications for an item.

        Returns
        -------
        list of (int, int)
            The first of each run, and the one after its last.
        """
        n_rows = len(ends) - 1
        if self.n_threads == 1 or ends[-1] * work_per_item < self.least_product:
            return [(0, n_rows)]
        return even_runs(ends, min(n_rows, self.n_threads * _RUNS_PER_THREAD))

    def each(self, function: Callable[[int, int], Result], runs: list[tuple[int, int]]) -> list[Result]:
        """Call a function for every run.

        Parameters
        ----------
        function : callable
            It is called as ``function(first, last)``.
        runs : list of (int, int)
            The runs.

        Returns
        -------
        list
            What it returns for each, when all are done.
        """
        if len(runs) == 1 or self.n_threads == 1:
            return [function(first, last) for first, last in runs]
        if self._pool is None or self._process != os.getpid():  # a fork has the pool, but none of its threads
            self._process = os.getpid()
            self._pool = ThreadPoolExecutor(self.n_threads, thread_name_prefix="kernelfields")
        futures = [self._pool.submit(function, first, last) for first, last in runs]
        try:
            return [future.result() for future in futures]
        finally:
            # After an interrupt the threads still write to shared arrays: let them end first.
            wait(futures)

    def in_order(self, calls: Sequence[Callable[[], Result]]) -> Generator[Result, None, None]:
        """Yield the results of calls in order, while threads work ahead.

        With one thread, a call begins when its result is asked for. Where the results are left early, by an error or an
        interrupt, calls that have not begun never do, and the others are waited for.

        Parameters
        ----------
        calls : sequence of callables
            The calls, without arguments.

        Yields
        ------
        object
            What each returns.

        Examples
        --------
        >>> from kernelfields.numerics import Workers
        >>> list(Workers(2).in_order([lambda: "first", lambda: "second"]))
        ['first', 'second']
        """
        if len(calls) == 1 or self.n_threads == 1:
            yield from (call() for call in calls)
            return
        with ThreadPoolExecutor(self.n_threads, thread_name_prefix="kernelfields") as pool:
            futures = [pool.submit(call) for call in calls]
            try:
                for future in futures:
                    yield future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def sum(self, part: Callable[[int, int], np.ndarray], runs: list[tuple[int, int]]) -> np.ndarray:
        """Sum the results of a function for all runs, in order, so that digits do not depend on threads.

        Parameters
        ----------
        part : callable
            It is called as ``part(first, last)``, and returns an array.
        runs : list of (int, int)
            The runs.

        Returns
        -------
        array
            The sum.
        """
        return reduce(np.add, self.each(part, runs))

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_pool": None}


_lock = threading.Lock()
# Limits in force, each with the thread that set it.
_held: list[tuple[int, int]] = []
_libraries: list[LibController] | None = None
_modules_seen = 0
# Numbers of the libraries, by file, from before any limit.
_before: dict[str, int] = {}


@contextmanager
def blas_threads(n_threads: int | None) -> Iterator[None]:
    """Limit BLAS to a number of threads, in a ``with`` statement.

    Parameters
    ----------
    n_threads : int or None
        The number; None sets no limit.

    Yields
    ------
    None
        The limit holds meanwhile.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.numerics import blas_threads
    >>> with blas_threads(1):
    ...     product = np.eye(2) @ np.eye(2)
    """
    if n_threads is None:
        yield
        return
    limit = threading.get_ident(), n_threads
    with _lock:
        _held.append(limit)
        _set_numbers()
    try:
        yield
    finally:
        with _lock:
            _held.remove(limit)
            _set_numbers()


def _after_fork() -> None:
    """Reset, in a forked process, the limits of threads of the parent."""
    _held[:] = [limit for limit in _held if limit[0] == threading.get_ident()]
    _lock.release()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_after_fork)


def _set_numbers() -> None:
    """Apply the smallest requested thread limit; restore defaults when none is active."""
    global _libraries, _modules_seen
    if _libraries is None or _modules_seen != len(sys.modules):
        _libraries, _modules_seen = ThreadpoolController().select(user_api="blas").lib_controllers, len(sys.modules)
    for library in _libraries:
        own = _before.setdefault(library.filepath, library.num_threads)
        # threadpoolctl 3.8 lets one Python thread set the numbers of a process and silently ignores all others.
        # Ours agree behind a lock of their own, so each takes the right to set them, and gives it back at once.
        free = getattr(library, "clear_controlling_thread", lambda force: None)
        free(force=True)
        library.set_num_threads(min([own, *(n_threads for _, n_threads in _held)]))
        free(force=True)
    if not _held:
        _before.clear()
