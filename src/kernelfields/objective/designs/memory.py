"""Precision of features, and the way they are kept under a budget of memory: in memory if they fit, else in a file.

| way    | in memory  | on disk    | what a product costs more                       |
|--------|------------|------------|-------------------------------------------------|
| memory | n r values | 0          | nothing                                         |
| file   | 0          | n r values | a read of the file; from the disk if not cached |

To each way come the pivots' factor R, 4 r^2 bytes, and what the caller counts beside the features, such as
:func:`potential_bytes` and :func:`solver_bytes` of a fit. The budget is for what a fit adds to the memory of the
process; inputs are not in it, nor pages of the file, which the system takes back when memory is short. What cannot fit
raises MemoryError before any work and names what would fit. benchmarks/out_of_core.py measures both ways.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from kernelfields.basis.subspace import BLOCK_BYTES, PivotSubspace, row_blocks
from kernelfields.inference.family import LabelFamily
from kernelfields.numerics.parameters import is_real
from kernelfields.numerics.sparse_rows import Rows
from kernelfields.objective.designs.files import Folder, mapped_array

# Tables of labels that meet, at a point, in a direction and at a trial, their residual, and three of inference.
_TABLE_ARRAYS = 7
# Features this small are kept in float64 whatever the tolerance: precision is free there.
_SMALL_FEATURES = 16 * 2**20
# Rounding of float32 products keeps relative gaps down to about 1e-6 meaningful; see docs/numerics.md.
_FLOAT32_TOLERANCE = 1e-5


def feature_dtype(dtype: np.dtype | None, n_values: int, tol: float) -> np.dtype:
    """Return ``dtype``; where it is None, float32 for large features unless the tolerance needs more."""
    if dtype is not None:
        return dtype
    small = 8 * n_values <= _SMALL_FEATURES
    return np.dtype(np.float64 if small or tol < _FLOAT32_TOLERANCE else np.float32)


def check_features_fit(name: str, n_rows: int, rank: int, dtype: np.dtype) -> None:
    """Raise MemoryError before the work starts if the feature matrix cannot fit in memory."""
    needed = n_rows * rank * dtype.itemsize
    available = available_memory()
    if available is not None and needed > available:
        fitting = max(1, int(0.7 * available / (n_rows * dtype.itemsize)))
        raise MemoryError(
            f"clique set {name!r}: features of {n_rows:,} positions at rank {rank:,} need "
            f"{needed / 2**30:,.1f} GiB in {dtype}, but {available / 2**30:,.1f} GiB are free. "
            f"Use rank={fitting:,} or less, or dtype='float32'."
        )


def check_tables_fit(family: LabelFamily) -> None:
    """Raise MemoryError before the work starts if a table of scores for every clique cannot fit in memory."""
    groups = [group for group in family.groups if len(group.row) > 1 and not group.tied]
    needed, available = _TABLE_ARRAYS * 8 * sum(group.n_rows * group.size for group in groups), available_memory()
    if available is not None and needed > available:
        raise MemoryError(
            "labels that meet and depend on the inputs need a table for every clique, of neighbours (L, L) scores at "
            f"every position: {needed / 2**30:,.1f} GiB for {sum(group.n_rows for group in groups):,} cliques and "
            f"{family.n_labels:,} labels, but {available / 2**30:,.1f} GiB are free. Leave out the edge kernel, or use "
            "fewer sequences or edges."
        )


def available_memory() -> int | None:
    """Return the bytes of free physical memory; None where the system does not report it."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") + _reclaimable()
    except (AttributeError, ValueError, OSError):
        return None


def _reclaimable() -> int:
    """Return the bytes of file cache that Linux would give back; 0 where it cannot be read."""
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return 1024 * int(fields["Cached"].split()[0])
    except (OSError, KeyError, ValueError, IndexError):
        return 0


_UNITS = {"": 1, "B": 1} | {
    f"{letter}{i}B": (1024 if i else 1000) ** power for power, letter in enumerate("KMGT", 1) for i in ("", "I")
}
# Pivots that a basis adds at once, and how many (rank, pivots) arrays in float64 it holds while it does.
_PANEL_PIVOTS = 256
_PANEL_ARRAYS = 4
# Bytes of the rows whose features in a known subspace are computed at once for a file.
_FILLED_BYTES = 4 * 2**20
# Bytes of the temporaries of a panel for one of its runs of rows.
_PANEL_BLOCKS = 4 * 4 * 2**20
# Arrays of the potentials' shape that live at once in a fit, and those of transition scores if there are any. Chains
# that are inferred in blocks keep half as many.
_POTENTIALS = 10
_TRANSITIONS = 7
# Vectors of coefficients: of the lower bound and of the solver's present step; pairs of L-BFGS come to it, a hundred.
_VECTORS = 20
_PAIRS = 2 * 100
_PAIR_BYTES = 256 * 2**20
# A file system is slow and fragile when it is full to the last byte.
_DISK_MARGIN = 1.05
_PAGE = 4096


def parse_memory(memory: object) -> int | None:
    """Return bytes for a number of them or text such as "8GB", "500 MB", "1.5GiB"; None stays None."""
    if memory is None:
        return None
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zA-Z]*)\s*", memory)
        unit = found[2].upper() if found else None
        size = float(found[1]) * _UNITS[unit] if found and unit in _UNITS else None
    else:
        size = float(memory) if is_real(memory) and np.isfinite(memory) else None
    if size is None or not np.isfinite(size):
        raise ValueError(f"memory must be a number of bytes or text such as '8GB', '500MB' or '1.5GiB', got {memory!r}")
    if size < 1:
        raise ValueError(f"memory must be at least one byte, got {memory!r}")
    return int(size)


def potential_bytes(n_positions: int, n_labels: int, *, tied: bool = True, solved: bool = True) -> int:
    """Return about how many bytes potentials and inference take; those that are not ``solved`` are at a point only."""
    arrays = _POTENTIALS + (0 if tied else _TRANSITIONS * n_labels)
    return 8 * n_positions * n_labels * arrays // (1 if solved else 2)


def solver_bytes(rank: int, outputs: int, *, itemsize: int = 4, n_threads: int = 1) -> int:
    """Return about how many bytes a solver takes for coefficients (rank, outputs).

    Vectors of them, steps that it remembers, and the metric of the features.
    """
    n_coefficients = rank * outputs
    pairs = min(_PAIRS * n_coefficients * itemsize, _PAIR_BYTES)
    return pairs + rank * rank * itemsize + 8 * n_coefficients * (_VECTORS + 2 * n_threads)


@dataclass(frozen=True)
class FeaturePlan:
    """How features (n_rows, capacity) are kept; ``memory_bytes`` is the peak of a fit with them."""

    keep: str
    n_rows: int
    capacity: int
    dtype: np.dtype
    memory_bytes: int
    disk_bytes: int = 0
    folder: str | None = None

    def room(self) -> np.ndarray | None:
        """Return an array for the columns of a panel; None to leave it to the panel."""
        return None if self.keep == "memory" else mapped_array((self.n_rows, self.capacity), self.dtype, self.folder)

    def features_of(self, subspace: PivotSubspace, inputs: Rows) -> np.ndarray:
        """Return the features of inputs in a subspace that is there already, kept in this way."""
        room = self.room()
        if room is None:
            return subspace.features(inputs, self.dtype)
        for rows in row_blocks(self.n_rows, self.capacity, budget=_FILLED_BYTES):
            room[rows] = subspace.features(inputs[rows], self.dtype)
        return room


def plan_features(
    name: str,
    n_rows: int,
    rank: int,
    dtype: DTypeLike,
    *,
    budget: int | None,
    share: Callable[[int], int] = int,
    other_bytes: int = 0,
    known: bool = False,
    folder: Folder = None,
) -> FeaturePlan:
    """Return how to keep the features of a clique set; MemoryError if there is no way within ``budget`` bytes.

    ``share`` gives the part of a budget that is for this clique set, by default all of it. ``other_bytes`` are what a
    fit holds beside these features while it passes over them. Where the basis is ``known`` already, its factor and what
    it takes to grow one are not counted. Files go to ``folder``, by default that of temporary files. No budget means
    memory.
    """
    capacity = min(rank, n_rows)
    where = os.fspath(tempfile.gettempdir() if folder is None else folder)
    plans = _plans(FeaturePlan("memory", n_rows, capacity, np.dtype(dtype), 0, folder=where), other_bytes, known)
    if budget is None:
        return plans[0]
    free, problem = room_on_disk(where)
    for plan in plans:
        if plan.memory_bytes <= share(budget) and _DISK_MARGIN * plan.disk_bytes <= free:
            return plan
    disk = problem or f"{_text(free)} are free in {where}"
    raise MemoryError(_refusal(name, plans, budget, share, other_bytes, free, disk))


def _plans(blank: FeaturePlan, other: int, known: bool = False) -> list[FeaturePlan]:
    """Return both ways to keep features, the faster first, with what they need.

    If ``known``, the subspace is fixed and only its features are computed; otherwise count the pivots' factor and what
    it takes to grow a basis as well.
    """
    n_rows, rank, itemsize = blank.n_rows, blank.capacity, blank.dtype.itemsize
    values = n_rows * rank
    if known:
        # Kernel values and features of the rows that are computed at once; for a file a rounded copy, too.
        factor, making, filling = 0, 2 * min(BLOCK_BYTES, 8 * values), 3 * min(_FILLED_BYTES, 8 * values)
    else:
        factor = factor_bytes(rank) if itemsize < 8 else 8 * rank**2
        making = 8 * _PANEL_ARRAYS * _PANEL_PIVOTS * rank + min(_PANEL_BLOCKS, 32 * n_rows * _PANEL_PIVOTS)
        filling = making
    size = values * itemsize
    return [
        # A sum, not the larger of two: what the basis gives back does not always go back to the system.
        replace(blank, memory_bytes=size + factor + making + other),
        replace(blank, keep="file", memory_bytes=factor + max(filling, other), disk_bytes=size),
    ]


def factor_bytes(rank: int) -> int:
    """Return the memory of a lower factor in float64: the pages of the upper half of its array stay untouched."""
    return min(8 * rank**2, 4 * rank**2 + _PAGE * rank)


def room_on_disk(folder: str) -> tuple[int, str | None]:
    """Return the bytes that files in a folder may take, and what is wrong where that is none."""
    if not os.path.isdir(folder):
        return 0, f"{folder} is not a folder"
    if not os.access(folder, os.W_OK):
        return 0, f"{folder} cannot be written to"
    if _in_memory(folder):
        return 0, f"{folder} is not on a disk but in memory"
    return shutil.disk_usage(folder).free, None


def _in_memory(folder: str) -> bool:
    """Whether files of a folder take memory, where the system reports it: those of tmpfs and ramfs do."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return False
    path = Path(folder).resolve()
    holding = [mount for mount in mounts if path.is_relative_to(mount[1])]
    return bool(holding) and max(holding, key=lambda mount: len(mount[1]))[2] in ("tmpfs", "ramfs")


def _refusal(
    name: str, plans: list[FeaturePlan], budget: int, share: Callable[[int], int], other: int, free: int, disk: str
) -> str:
    """Return why features do not fit, and what would."""
    own = max(0, share(budget))
    named = {"memory": "in memory", "file": "in a file"}
    needs = {
        named[plan.keep]: _text(plan.memory_bytes)
        + (f" and {_text(plan.disk_bytes)} of disk" if plan.disk_bytes else "")
        for plan in plans
    }
    least = min(plan.memory_bytes for plan in plans if _DISK_MARGIN * plan.disk_bytes <= free)
    ways = [f"memory='{bisect_left(range(2**62), least, key=lambda megabytes: share(10**6 * megabytes))}MB' or more"]
    if short := [plan.disk_bytes for plan in plans if plan.memory_bytes <= own]:
        ways.append(f"a folder on a disk with {_text(_DISK_MARGIN * min(short))} free")
    ways.append("fewer sequences or a smaller rank" if other > own else "a smaller rank")
    return (
        f"clique set {name!r}: features of {plans[0].n_rows:,} positions at rank {plans[0].capacity:,} do not fit "
        f"into memory of {_text(budget)}{f', of which {_text(own)} are theirs' if own != budget else ''}. A fit needs "
        f"{', '.join(f'{size} {way}' for way, size in needs.items())}, where potentials and the solver take "
        f"{_text(other)} of the memory; {disk}. Use {', or '.join(ways)}."
    )


def _text(size: float) -> str:
    """Return a size for people."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"
