"""Storage of features within a budget of memory: in memory if they fit, else in a file.

| way    | in memory  | on disk    | what a product costs more                       |
|--------|------------|------------|-------------------------------------------------|
| memory | n r values | 0          | nothing                                         |
| file   | 0          | n r values | a read of the file; from the disk if not cached |

To each way come the pivots' factor R, 4 r^2 bytes, and what the caller counts beside the features, such as
:func:`potential_bytes` and :func:`solver_bytes` of a fit. The budget is for what a fit adds to the memory of the
process; inputs are not in it, nor pages of the file, which the system takes back when memory is short. What cannot fit
raises MemoryError before any work and names what would fit. benchmarks/out_of_core.py measures both ways.

The file has no name and is mapped into memory. The system reads its pages when they are used and keeps them in its
cache while memory is free. The disk space is given back with the array, or when the process ends, however it ends. A
full disk raises OSError when the file is made, before any work.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from kernelfields.basis.subspace import PivotSubspace
from kernelfields.data.cliques import CliqueSet
from kernelfields.kernels.rows import BLOCK_BYTES, row_blocks
from kernelfields.numerics.parameters import is_real
from kernelfields.numerics.sparse_rows import Rows

Folder: TypeAlias = str | os.PathLike[str] | None

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


class LabelledSample(Protocol):
    """The properties of labelled data that decide the memory of features."""

    data: Any
    spec: Any
    settings: Any


class PivotTerm(Protocol):
    """A term with features of pivots."""

    name: str
    clique: CliqueSet
    subspace: Any


def parse_memory(memory: object) -> int | None:
    """Return bytes from a number or a text such as "8GB", "500 MB", "1.5GiB"; None stays None."""
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
    """Estimate the bytes of potentials and inference; terms that are not ``solved`` have one point only."""
    arrays = _POTENTIALS + (0 if tied else _TRANSITIONS * n_labels)
    return 8 * n_positions * n_labels * arrays // (1 if solved else 2)


def solver_bytes(rank: int, outputs: int, *, itemsize: int = 4, n_threads: int = 1) -> int:
    """Estimate the bytes of a solver for coefficients (rank, outputs).

    Vectors of them, steps that it remembers, and the metric of the features.
    """
    n_coefficients = rank * outputs
    pairs = min(_PAIRS * n_coefficients * itemsize, _PAIR_BYTES)
    return pairs + rank * rank * itemsize + 8 * n_coefficients * (_VECTORS + 2 * n_threads)


def mapped_array(shape: tuple[int, int], dtype: np.dtype, folder: Folder = None) -> np.ndarray:
    """Return an array of zeros in a file of ``folder``; None means the folder of temporary files."""
    size = max(1, shape[0] * shape[1] * dtype.itemsize)
    with tempfile.TemporaryFile(dir=folder, prefix="kernelfields-", buffering=0) as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
        except OSError as error:
            where = tempfile.gettempdir() if folder is None else folder
            raise OSError(
                error.errno, f"no room for {size / 2**30:,.1f} GiB of features in {where}: {error.strerror}"
            ) from error
        pages = mmap.mmap(file.fileno(), size)  # which holds the file open
    return np.frombuffer(pages, dtype=dtype, count=shape[0] * shape[1]).reshape(shape)


@dataclass(frozen=True)
class FeaturePlan:
    """The storage of features (n_rows, capacity); ``memory_bytes`` is the peak of a fit with them."""

    keep: str
    n_rows: int
    capacity: int
    dtype: np.dtype
    memory_bytes: int
    disk_bytes: int = 0
    folder: str | None = None

    def room(self) -> np.ndarray | None:
        """Return an array for the columns of a panel; None if the panel allocates it."""
        return None if self.keep == "memory" else mapped_array((self.n_rows, self.capacity), self.dtype, self.folder)

    def compute_features(self, subspace: PivotSubspace, inputs: Rows) -> np.ndarray:
        """Return the features of inputs in an existing subspace, in this storage."""
        room = self.room()
        if room is None:
            return subspace.features(inputs, self.dtype)
        for rows in row_blocks(self.n_rows, self.capacity, budget=_FILLED_BYTES):
            room[rows] = subspace.features(inputs[rows], self.dtype)
        return room


class MemoryBudget:
    """A limit in bytes on the memory of a fit, and the folder of files for larger arrays."""

    def __init__(self, limit: int, folder: Folder = None):
        self.limit = limit
        self.folder = folder

    def room(
        self, sample: LabelledSample, name: str, clique: CliqueSet, n_rows: int, rank: int, precision: np.dtype
    ) -> np.ndarray | None:
        """Return an array for the columns of a panel; None if the panel allocates it."""
        return self.plan(sample, name, clique, n_rows, rank, precision).room()

    def compute_features(
        self, sample: LabelledSample, term: PivotTerm, inputs: Rows, precision: np.dtype
    ) -> np.ndarray:
        """Return the features of inputs in an existing subspace."""
        n_rows, rank = inputs.shape[0], term.subspace.rank
        plan = self.plan(sample, term.name, term.clique, n_rows, rank, precision, known=True)
        return plan.compute_features(term.subspace, inputs)

    def plan(
        self,
        sample: LabelledSample,
        name: str,
        clique: CliqueSet,
        n_rows: int,
        rank: int,
        precision: np.dtype,
        known: bool = False,
    ) -> FeaturePlan:
        """Return the plan for the features of a clique set of a sample, in a ``known`` basis or a new one."""
        settings, n_labels, n_positions = sample.settings, sample.spec.n_labels, sample.data.n_positions
        outputs = clique.n_configurations(n_labels)
        solver = solver_bytes(rank, outputs, itemsize=precision.itemsize, n_threads=settings.workers.n_threads)
        working = potential_bytes(n_positions, n_labels, tied=clique.labels_per_clique == 1, solved=settings.solved)
        held = solver if settings.solved else 0

        def share(budget: int) -> int:
            # There is one solver, whatever the number of samples: they share what it leaves.
            left = budget // settings.n_terms - solver
            return left * n_positions // (n_positions + settings.beside) + held

        return plan_features(
            name,
            n_rows,
            rank,
            precision,
            budget=self.limit,
            share=share,
            other_bytes=working + held,
            known=known,
            folder=self.folder,
        )


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
    """Return the storage of the features of a clique set; MemoryError if none fits within ``budget`` bytes.

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
    """Return both kinds of storage, the faster first, with their memory.

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
    """Return the memory of a lower factor in float64, whose upper half is never written."""
    return min(8 * rank**2, 4 * rank**2 + _PAGE * rank)


def room_on_disk(folder: str) -> tuple[int, str | None]:
    """Return the available bytes for files in a folder, or 0 with the reason."""
    if not os.path.isdir(folder):
        return 0, f"{folder} is not a folder"
    if not os.access(folder, os.W_OK):
        return 0, f"{folder} cannot be written to"
    if _is_in_memory(folder):
        return 0, f"{folder} is not on a disk but in memory"
    return shutil.disk_usage(folder).free, None


def _is_in_memory(folder: str) -> bool:
    """Whether files of a folder are in memory, as in tmpfs and ramfs."""
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
    """Return the reason why features do not fit, and advice."""
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
    """Return a size as text."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"
