"""Labelled data of processes that fit together: each places its part, on its threads or its device.

Lists are the same in every process, which takes an equal share of their positions, cut between items. Collections are
in parts already. Where some graphs need approximate inference all are inferred by it, as in one process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar
from zlib import crc32

import numpy as np

from kernelfields.data.fingerprints import marks_of
from kernelfields.engines.engine import Engine, PackedData, SampleSettings
from kernelfields.engines.threads import LocalSample, Threads
from kernelfields.inference.choice import FamilySpec, family_of
from kernelfields.objective.group import ALONE, Group


@dataclass(frozen=True, eq=False)
class DataInParts:
    """Labelled data of which each process has a part, and no process all."""

    part: PackedData
    n_positions: int
    #: Data like these without items, which have their types of nodes and of edges.
    nothing: PackedData

    #: The engine that data like these need, and what data of this process would have here.
    lie_with: ClassVar[str] = "dask"
    inputs: ClassVar[None] = None
    certain_labels: ClassVar[None] = None
    position_weights: ClassVar[None] = None


def place_part(
    engine: Engine, data: PackedData | DataInParts, spec: FamilySpec, settings: SampleSettings, group: Group
) -> LocalSample:
    """Return the part of labelled data that this process of a group has, placed by its engine."""
    part = data.part if isinstance(data, DataInParts) else share_of(data, group)
    own = replace(settings, group=group)
    if group.size > 1 and not part.n_positions:
        engine = Threads()  # nothing to compute, and no device needs to know
    sample: Any = engine.place(part, _agreed(spec, part, group), own)
    if group.size > 1 and not isinstance(data, DataInParts):
        sample.everywhere = LocalSample(data, sample.spec, replace(settings, group=ALONE))
    return sample


def share_of(data: PackedData, group: Group) -> PackedData:
    """Return the items of this process among those that all have; ValueError if they have others."""
    if group.size == 1:
        return data
    _check_same(data, group)
    ends = np.searchsorted(data.offsets, np.arange(group.size + 1) / group.size * data.n_positions)
    return data.subset(slice(int(ends[group.rank]), int(ends[group.rank + 1])))


def _check_same(data: PackedData, group: Group) -> None:
    """Raise unless all processes were given the same data."""
    marks = marks_of(data) if data.n_positions else np.zeros(0)
    sizes = group.gathered((data.n_positions, len(data.offsets), crc32(np.ascontiguousarray(marks).tobytes())))
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
    family = family_of(part, (), spec) if part.n_positions else None
    methods = group.gathered(None if family is None or family.exact else family.method)
    return replace(spec, method=next((method for method in methods if method is not None), "auto"))
