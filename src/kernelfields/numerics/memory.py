"""Free memory, and checks that tables of labels fit into it.

A field has tables of pairs of labels whatever its kind: coordinates of labels, scores of transitions, constraints.
Raises MemoryError before any work starts, where they cannot fit.
"""

from __future__ import annotations

import os

# Tables of pairs of labels that are there at once while coordinates of labels are made, and what is small anyhow.
_TABLES, _SMALL = 3, 64 * 2**20


def check_labels_fit(n_labels: int, n_rows: int | None = None) -> None:
    """Raise MemoryError unless tables of pairs of labels, or of a number of rows, fit in memory."""
    needed = 8 * n_labels * (_TABLES * n_labels if n_rows is None else n_rows)
    if needed <= _SMALL:
        return
    available = available_memory()
    if available is not None and needed > available:
        what = "pairs of labels" if n_rows is None else f"what is known of labels at {n_rows:,} positions"
        raise MemoryError(
            f"{n_labels:,} labels: tables of {what} need {needed / 2**30:,.1f} GiB, but {available / 2**30:,.1f} GiB "
            "are free. Use fewer labels, such as one for all rare ones; are these ids, or numbers to be predicted?"
        )


def available_memory() -> int | None:
    """Return the bytes of free physical memory; None if the system does not report it."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") + _reclaimable()
    except (AttributeError, ValueError, OSError):
        return None


def _reclaimable() -> int:
    """Return the bytes of file cache that Linux can reclaim; 0 if unknown."""
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return 1024 * int(fields["Cached"].split()[0])
    except (OSError, KeyError, ValueError, IndexError):
        return 0
