"""How many threads BLAS may use while fields are being fitted.

The limit belongs to the process, not to the thread that asks for it. Fits that overlap in time, in several Python
threads, must therefore agree: while any of them holds a limit the smallest one is in force, and the number from
before the first comes back after the last, in whatever order they end.

To look for the libraries of the process takes milliseconds, as long as a small fit. They come with Python modules,
so they are looked for again only when the number of modules has changed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

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
