"""Freed memory that a fit reuses for its next vectors, also on workers of Dask.

Dask's nannies start workers with MALLOC_TRIM_THRESHOLD_, so that they give memory back. With it glibc maps every vector
of more than 128 KB anew, page by page: numpy's work on 100,000 coefficients takes about five times as long. While a fit
runs, glibc keeps what is freed; afterwards it gives back as the environment says. Other libraries are left alone.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLE = "MALLOC_TRIM_THRESHOLD_"
# Options of mallopt(3), the largest threshold of mapping that glibc takes, and its usual one.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST, _USUAL = 32 * 2**20, 128 * 2**10


@contextmanager
def keep_memory() -> Iterator[None]:
    """Make glibc keep freed memory, in spite of the environment."""
    libc = ctypes.CDLL(None) if _VARIABLE in os.environ and os.name == "posix" else None
    if libc is None or not hasattr(libc, "mallopt") or not hasattr(libc, "malloc_trim"):
        yield
        return
    libc.mallopt(_MMAP_THRESHOLD, _LARGEST)
    libc.mallopt(_TRIM_THRESHOLD, 2**30)
    try:
        yield
    finally:
        libc.mallopt(_MMAP_THRESHOLD, int(os.environ.get("MALLOC_MMAP_THRESHOLD_", _USUAL)))
        libc.mallopt(_TRIM_THRESHOLD, int(os.environ[_VARIABLE]))
        libc.malloc_trim(0)
