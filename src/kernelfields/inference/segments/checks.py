"""Checks of segmented labels against what a field allows: constraints, steps between segments, longest segments.

Raises ValueError naming the sequence, the position and the rule, and what to do about it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import numpy as np

from kernelfields.data.chains import Chains
from kernelfields.data.given_labels import GivenLabels, KnownLabels
from kernelfields.data.partial_rows import PartialRows
from kernelfields.data.reading import SEQUENCES
from kernelfields.data.segments import SegmentedChains
from kernelfields.inference.checks import LabelChecks, checks_labels, find_contradicted, first_places
from kernelfields.inference.choice import FamilySpec, choose_family
from kernelfields.inference.segments.family import check_possible


@checks_labels("segments")
class SegmentChecks(LabelChecks):
    """Checks of labels and segments against constraints and the longest segment."""

    def check_labels(self, data: SegmentedChains, spec: FamilySpec, classes: np.ndarray) -> None:
        """Raise ValueError at the first forbidden label, or the first segment that is too long."""
        _check_segments(data.given, data, spec, classes)

    def check_lengths(self, data: Chains, spec: FamilySpec) -> None:
        """Raise ValueError at the first sequence that cannot be cut into segments."""
        family = choose_family(data, (), spec)
        if family.impossible().any():
            check_possible(family.log_labellings(), data.offsets, spec.max_duration)


@singledispatch
def _check_segments(given: GivenLabels, chains: SegmentedChains, spec: FamilySpec, classes: np.ndarray) -> None:
    """Raise ValueError at the first forbidden label, or the first segment that is too long."""
    raise TypeError(f"no checks of {type(given).__name__}")


@_check_segments.register
def _of_known_segments(given: KnownLabels, chains: SegmentedChains, spec: FamilySpec, classes: np.ndarray) -> None:
    begins, ends, labels = chains.segments
    masks, step = spec.masks, spec.base_measure(chains).step
    sequences = np.searchsorted(chains.offsets, begins, side="right") - 1
    if masks is not None:
        within = masks.edge.copy()
        np.fill_diagonal(within, 0.0)
        replace(masks, edge=within).check_labels(given.numbers, chains.offsets, classes)
    places = begins - chains.offsets[sequences]
    if (long := np.flatnonzero(ends - begins > spec.max_duration)).size:
        segment, longest = int(long[0]), int((ends - begins).max())
        raise ValueError(
            f"sequence {sequences[segment]}: the segment of {classes[labels[segment]].item()!r} from position "
            f"{places[segment]} on has {ends[segment] - begins[segment]} positions, more than "
            f"max_duration={spec.max_duration}: no segmentation of the field could have it. The longest "
            f"segment of y has {longest}: use max_duration={longest} or more, or repeats=True, which cuts it."
        )
    if spec.shortest is not None:
        least = np.array(spec.shortest)[labels]
        if (short := np.flatnonzero(ends - begins < least)).size:
            segment = int(short[0])
            raise ValueError(
                f"sequence {sequences[segment]}: the segment of {classes[labels[segment]].item()!r} from position "
                f"{places[segment]} on has {ends[segment] - begins[segment]} positions, fewer than its min_duration of "
                f"{least[segment]}: no segmentation of the field could have it. Lower min_duration, or let the labels "
                "of such positions be unknown, None, with partial_labels=PartialLabels()."
            )
    after = np.flatnonzero(~chains.is_start[begins])
    if step is not None and (wrong := after[step[labels[after - 1], labels[after]] != 0]).size:
        segment = int(wrong[0])
        raise ValueError(
            f"sequence {sequences[segment]}, position {places[segment]}: a segment of "
            f"{classes[labels[segment]].item()!r} follows one of the same label, which is forbidden. Join them, or "
            "use repeats=True without a constraint on that step."
        )


@_check_segments.register
def _of_partial_segments(given: PartialRows, chains: SegmentedChains, spec: FamilySpec, classes: np.ndarray) -> None:
    wrong = np.flatnonzero(find_contradicted(chains, spec, given.weights)).tolist()
    if wrong:
        raise ValueError(
            f"{first_places(map(SEQUENCES.name, wrong))}: the labels that are known of it leave no segmentation with "
            f"segments of at most {spec.max_duration} positions and steps that are allowed. Raise max_duration, lower "
            "min_duration, or drop a constraint."
        )
