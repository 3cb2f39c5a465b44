"""Labelled data of a joint fit: each process places its part on its threads or its device.

Lists are the same in every process, which takes about an equal share of their positions, cut between items. Where there
are fewer items than processes, each fits all of them. Collections are in parts already, none of them empty. Where some
graphs need approximate inference all are inferred by it, as in one process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from zlib import crc32

import numpy as np

from kernelfields.data.chains import Fit, some_items
from kernelfields.data.fingerprints import marks_of
from kernelfields.data.given_labels import LabelsElsewhere
from kernelfields.engines.engine import Engine, PackedData, SampleSettings
from kernelfields.engines.threads import LocalSample
from kernelfields.inference.choice import FamilySpec, family_of
from kernelfields.numerics.group import ALONE, Group


@dataclass(frozen=True, eq=False)
class DataInParts:
    """Labelled data that are divided among processes."""

    own: PackedData
    n_positions: int
    processes: Group
    #: Reads some items, given by their numbers among those of all processes, as a reader of all reads them.
    read: Callable[[Any, np.ndarray], PackedData]

    #: What data of this process would have here.
    inputs: ClassVar[None] = None
    certain_labels: ClassVar[None] = None
    given: ClassVar[LabelsElsewhere] = LabelsElsewhere()
    position_weights: ClassVar[None] = None

    def changed(self, change: Callable[[PackedData], PackedData]) -> DataInParts:
        """Return the same items with other columns."""
        return replace(self, own=change(self.own))

    def engine(self, asked: object) -> object:
        """Return the requested engine, which must be that of the workers, as "auto" is."""
        name = getattr(asked, "name", asked)
        if name not in ("auto", "dask"):
            raise ValueError(f"X is a Dask collection: use engine='dask' or 'auto', got engine={asked!r}")
        return "dask" if name == "auto" else asked

    def weighty(self) -> DataInParts:
        """Return the same items: those of weight zero were dropped by the reader."""
        return self

    def some(self, reader: Any, most: int) -> tuple[PackedData, np.ndarray]:
        """Return items of about a number of positions, the same in every process."""
        numbers = some_items(self.processes.joined(self.own.lengths), most)
        return self.read(reader, numbers), numbers

    def engine_of_some(self, engine: Engine) -> Engine:
        """Return the engine of this process, which has all of these items."""
        return engine.alone

    def check_groups(self, groups: np.ndarray, noun: str) -> None:
        """Raise ValueError: each process numbers its own items."""
        raise ValueError(f"groups are for {noun}s of this process, and X is a Dask collection: leave them out")

    def seen(self, everything: Fit, some: Fit) -> Fit:
        """Return the items that a fit sees."""
        return some

    def advice_against(self, kernel: object) -> str:
        """Return the reason why a kernel that learns from all inputs is not available."""
        if kernel != "forest":
            return ""
        return (
            "the kernel 'forest' predicts held-out data best, and it learns from all inputs, which the workers have in "
            "parts: the best of the others takes its place. Lists can have a forest"
        )


def place_part(
    engine: Engine, data: PackedData | DataInParts, spec: FamilySpec, settings: SampleSettings, group: Group
) -> LocalSample:
    """Return this process's part of the labelled data, placed by its engine."""
    alone = replace(settings, group=ALONE)
    if isinstance(data, DataInParts):
        return engine.place(data.own, _agreed(spec, data.own, group), replace(settings, group=group))  # type: ignore[return-value]
    if group.size > 1:
        _check_same(data, group)
    n_items = len(data.offsets) - 1
    if n_items < group.size or group.size == 1:
        return engine.place(data, spec, alone)  # type: ignore[return-value]
    part = data.subset(find_share(data.offsets, group))
    sample: Any = engine.place(part, _agreed(spec, part, group), replace(settings, group=group))
    sample.everywhere = LocalSample(data, sample.spec, alone)
    return sample


def find_share(offsets: np.ndarray, group: Group) -> slice:
    """Return the numbers of this process's items, at least one, from the first positions of all items."""
    n_items, cuts = len(offsets) - 1, np.arange(group.size + 1)
    ends = np.searchsorted(offsets, cuts / group.size * offsets[-1])
    ends = np.maximum.accumulate(np.maximum(ends, cuts))
    ends = np.minimum(ends, n_items - cuts[::-1])
    return slice(int(ends[group.rank]), int(ends[group.rank + 1]))


def _check_same(data: PackedData, group: Group) -> None:
    """Raise unless all processes have the same data."""
    mark = crc32(np.ascontiguousarray(marks_of(data)).tobytes())
    sizes = group.gathered((data.n_positions, len(data.offsets), mark))
    for rank, size in enumerate(sizes):
        if size != sizes[0]:
            raise ValueError(
                f"process {rank} was given other data than process 0, {size[0]:,} positions and {sizes[0][0]:,}: give "
                "all of them the same, they cut them up themselves"
            )


def _agreed(spec: FamilySpec, part: PackedData, group: Group) -> FamilySpec:
    """Return the family with the approximate method that graphs of some process need."""
    if spec.kind != "graph" or spec.method != "auto" or group.size == 1:
        return spec
    family = family_of(part, (), spec)
    methods = group.gathered(None if family.exact else family.method)
    return replace(spec, method=next((method for method in methods if method is not None), "auto"))
