"""How many threads BLAS may use while fields are being fitted.

The limit belongs to the process, not to the thread that asks for it. Fits that overlap in time, in several Python
threads, must therefore agree: while any of them holds a limit the smallest one is in force, and the number from
before the first comes back after the last, in whatever order they end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

_lock = threading.Lock()
_held: list[int] = []
_before: threadpool_limits | None = None


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
    global _before
    with _lock:
        _held.append(n_threads)
        limits = threadpool_limits(min(_held), user_api="blas")
        # Only the first one has seen the numbers from before any limit.
        _before = _before or limits


def _release(n_threads: int) -> None:
    global _before
    with _lock:
        _held.remove(n_threads)
        if _held:
            threadpool_limits(min(_held), user_api="blas")
        elif _before is not None:
            _before.restore_original_limits()
            _before = None
