"""Labelled data of processes that fit together: each places its part, on its threads or its device.

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

from kernelfields.data.fingerprints import marks_of
from kernelfields.data.given_labels import LabelsElsewhere
from kernelfields.engines.engine import Engine, PackedData, SampleSettings
from kernelfields.engines.threads import LocalSample
from kernelfields.inference.choice import FamilySpec, family_of
from kernelfields.numerics.group import ALONE, Group


@dataclass(frozen=True, eq=False)
class DataInParts:
    """Labelled data of which each process has a part, and no process all."""

    part: PackedData
    n_positions: int
    group: Group
    #: Reads some items, given by their numbers among those of all processes, as a reader of all reads them.
    read: Callable[[Any, np.ndarray], PackedData]

    #: The engine that data like these need, and what data of this process would have here.
    lie_with: ClassVar[str] = "dask"
    inputs: ClassVar[None] = None
    certain_labels: ClassVar[None] = None
    given: ClassVar[LabelsElsewhere] = LabelsElsewhere()
    position_weights: ClassVar[None] = None

    @property
    def nothing(self) -> PackedData:
        """Data like these without items, which have their types of nodes and of edges."""
        return self.part.subset(slice(0, 0))

    def changed(self, part: PackedData) -> DataInParts:
        """Return the same items with other columns."""
        return replace(self, part=part)

    def some(self, reader: Any, most: int) -> PackedData:
        """Return items of about so many positions, the same in every process, which are those that lists would give."""
        lengths = self.group.joined(self.part.lengths)
        return self.read(reader, some_items(lengths, most))


def some_items(lengths: np.ndarray, most: int) -> np.ndarray:
    """Return the numbers of items of about so many positions, drawn the same way each time; all where they are few."""
    if lengths.sum() <= most:
        return np.arange(len(lengths))
    order = np.random.default_rng(0).permutation(len(lengths))
    return np.sort(order[: int(np.searchsorted(np.cumsum(lengths[order]), most)) + 1])


def place_part(
    engine: Engine, data: PackedData | DataInParts, spec: FamilySpec, settings: SampleSettings, group: Group
) -> LocalSample:
    """Return the part of labelled data that this process of a group has, placed by its engine."""
    alone = replace(settings, group=ALONE)
    if isinstance(data, DataInParts):
        return engine.place(data.part, _agreed(spec, data.part, group), replace(settings, group=group))  # type: ignore[return-value]
    if group.size > 1:
        _check_same(data, group)
    n_items = len(data.offsets) - 1
    if n_items < group.size or group.size == 1:
        return engine.place(data, spec, alone)  # type: ignore[return-value]
    part = data.subset(share_of(data.offsets, group))
    sample: Any = engine.place(part, _agreed(spec, part, group), replace(settings, group=group))
    sample.everywhere = LocalSample(data, sample.spec, alone)
    return sample


def share_of(offsets: np.ndarray, group: Group) -> slice:
    """Return which items this process has, at least one, given where the positions of all items begin."""
    n_items, cuts = len(offsets) - 1, np.arange(group.size + 1)
    ends = np.searchsorted(offsets, cuts / group.size * offsets[-1])
    ends = np.maximum.accumulate(np.maximum(ends, cuts))
    ends = np.minimum(ends, n_items - cuts[::-1])
    return slice(int(ends[group.rank]), int(ends[group.rank + 1]))


def _check_same(data: PackedData, group: Group) -> None:
    """Raise unless all processes were given the same data."""
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
