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

from kernelfields.data.chains import Fit, draw_item_numbers
from kernelfields.data.fingerprints import mark_items
from kernelfields.data.given_labels import LabelsElsewhere
from kernelfields.engines.engine import Engine, PackedData, Sample, SampleSettings
from kernelfields.engines.threads import LocalSample
from kernelfields.engines.together.sample import JoinedSample, SharedSample
from kernelfields.inference.choice import FamilySpec, choose_family
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

    def apply(self, change: Callable[[PackedData], PackedData]) -> DataInParts:
        """Return the same items with other columns."""
        return replace(self, own=change(self.own))

    def engine(self, asked: object) -> object:
        """Return the requested engine; the engine of the workers for "auto"."""
        return "dask" if asked == "auto" else asked

    def drop_weightless(self) -> DataInParts:
        """Return the same items: the reader has dropped items of weight zero."""
        return self

    def draw_items(self, reader: Any, most: int) -> tuple[PackedData, np.ndarray]:
        """Return items of about a number of positions, the same in every process."""
        numbers = draw_item_numbers(self.processes.concatenate(self.own.lengths), most)
        return self.read(reader, numbers), numbers

    def check_groups(self, groups: np.ndarray, noun: str) -> None:
        """Raise ValueError: each process numbers its own items."""
        raise ValueError(f"groups are for {noun}s of this process, and X is a Dask collection: leave them out")

    def select_fit(self, everything: Fit, some: Fit) -> Fit:
        """Return the fit to items of this process."""
        return some

    def kernel_refusal(self, kernel: object) -> str:
        """Return the reason why a kernel with parameters from all inputs is not available."""
        if kernel != "forest":
            return ""
        return (
            "the kernel 'forest' predicts held-out data best, and it learns from all inputs, which the workers have in "
            "parts: the best of the others takes its place. Lists can have a forest"
        )


def place_part(
    engine: Engine, data: PackedData | DataInParts, spec: FamilySpec, settings: SampleSettings, group: Group
) -> Sample:
    """Return this process's part of the labelled data, placed by its engine."""
    alone = replace(settings, group=ALONE)
    if isinstance(data, DataInParts):
        own: Any = engine.place(data.own, _agree_on_family(spec, data.own, group), replace(settings, group=group))
        return JoinedSample(own, group) if group.size == 1 else SharedSample(own, group)
    if group.size > 1:
        _check_same(data, group)
    n_items = len(data.offsets) - 1
    if n_items < group.size or group.size == 1:
        return engine.place(data, spec, alone)
    part = data.subset(find_share(data.offsets, group))
    sample: Any = engine.place(part, _agree_on_family(spec, part, group), replace(settings, group=group))
    return SharedSample(sample, group, LocalSample(data, sample.spec, alone))


def find_share(offsets: np.ndarray, group: Group) -> slice:
    """Return the numbers of this process's items, at least one, from the first positions of all items."""
    n_items, cuts = len(offsets) - 1, np.arange(group.size + 1)
    ends = np.searchsorted(offsets, cuts / group.size * offsets[-1])
    ends = np.maximum.accumulate(np.maximum(ends, cuts))
    ends = np.minimum(ends, n_items - cuts[::-1])
    return slice(int(ends[group.rank]), int(ends[group.rank + 1]))


def _check_same(data: PackedData, group: Group) -> None:
    """Raise unless all processes have the same data."""
    mark = crc32(np.ascontiguousarray(mark_items(data)).tobytes())
    sizes = group.gather((data.n_positions, len(data.offsets), mark))
    for rank, size in enumerate(sizes):
        if size != sizes[0]:
            raise ValueError(
                f"process {rank} was given other data than process 0, {size[0]:,} positions and {sizes[0][0]:,}: give "
                "all of them the same, they cut them up themselves"
            )


def _agree_on_family(spec: FamilySpec, part: PackedData, group: Group) -> FamilySpec:
    """Return the family with the approximate method that graphs of some process need."""
    if spec.kind != "graph" or spec.method != "auto" or group.size == 1:
        return spec
    family = choose_family(part, (), spec)
    methods = group.gather(None if family.exact else family.method)
    return replace(spec, method=next((method for method in methods if method is not None), "auto"))
