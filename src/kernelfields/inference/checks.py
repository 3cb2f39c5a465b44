"""Checks of labels against what a field allows: constraints, lists of allowed labels, longest segments.

Fails: ValueError naming the sequence, the position and the rule, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatch

import numpy as np

from kernelfields.data.chains import Chains, Packed
from kernelfields.data.given_labels import GivenLabels, KnownLabels, PartialRows, TargetRows
from kernelfields.data.graph_reading import GRAPHS
from kernelfields.data.graphs import Graphs
from kernelfields.data.reading import SEQUENCES, ItemNames, locate
from kernelfields.data.segments import SegmentedChains
from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.choice import FamilySpec, family_of
from kernelfields.inference.potentials import EDGE
from kernelfields.inference.segments.family import check_possible
from kernelfields.numerics.wording import counted

# How many places of contradictions messages list.
_SHOWN = 5


def _places(names: Iterable[str], noun: str = "sequence") -> str:
    """Return the first of some places and how many more there are."""
    every = list(names)
    more = len(every) - _SHOWN
    return "; ".join([*every[:_SHOWN], f"and {counted(more, f'more {noun}')}"] if more > 0 else every)


def _dead_places(rows: np.ndarray, offsets: np.ndarray) -> str:
    """Return the rows (S,) up to which labels contradict each other, -1 for none, as messages list them."""
    return _places(SEQUENCES.place(offsets, row) for row in rows[rows >= 0].tolist())


def check_labels(data: Packed, spec: FamilySpec, classes: np.ndarray) -> None:
    """Raise ValueError at the first label of data that is forbidden where it stands."""
    if spec.kind == "segments":
        assert isinstance(data, SegmentedChains)
        _check_segments(data.given, data, spec, classes)
    elif isinstance(data, Graphs):
        if spec.constrained:
            _check_graph_labels(data.given, data, spec, classes)
    elif isinstance(data, Chains) and (spec.constrained or data.allowed.restrict):
        _check_chain_labels(data.given, data, spec, classes)


def check_lengths(data: Packed, spec: FamilySpec) -> None:
    """Raise ValueError at the first sequence whose length, or whose allowed labels, leave it no labelling.

    Whatever is known of its labels: that may contradict them, and then has a probability of zero.
    """
    if spec.kind == "segments":
        assert isinstance(data, Chains)
        family = family_of(data, (), spec)
        if family.impossible().any():
            check_possible(family.log_labellings(), data.offsets, spec.max_duration)
    elif isinstance(data, Chains):
        _check_allowed(data, spec)
        if spec.masks is not None:
            spec.masks.check_lengths(data.lengths)
        if _closed(spec):
            _check_rings(data, spec)


def _check_rings(rings: Chains, spec: FamilySpec) -> None:
    """Raise ValueError at the first ring that has no labelling once it is closed."""
    every = rings.allowed.alike(rings.lengths)
    wrong = every[family_of(rings.subset(every), (), spec).impossible()]
    if wrong.size:
        first = int(wrong.min())
        raise ValueError(
            f"{SEQUENCES.name(first)}: the constraints leave no labelling of a ring of its length, "
            f"{rings.lengths[first]}, with the labels that are allowed there. Drop the sequence or a constraint."
        )


def contradicted(data: Packed, spec: FamilySpec, log_weights: np.ndarray) -> np.ndarray:
    """Return a mask of the items of which log-weights (N, L) leave no labelling, (S,)."""
    return family_of(data, (), spec).given(log_weights).impossible()


@singledispatch
def _check_chain_labels(given: GivenLabels, chains: Chains, spec: FamilySpec, classes: np.ndarray) -> None:
    """Raise ValueError at the first sequence whose labels are forbidden, or leave it no labelling."""
    raise TypeError(f"no checks of {type(given).__name__}")


@_check_chain_labels.register
def _of_known_chains(given: KnownLabels, chains: Chains, spec: FamilySpec, classes: np.ndarray) -> None:
    _check_allowed(chains, spec)
    if (outside := np.flatnonzero(chains.barred(given.numbers))).size:
        label = classes[given.numbers[outside[0]]].item()
        place = SEQUENCES.place(chains.offsets, int(outside[0]))
        raise ValueError(f"{place}: label {label!r} is not among those that are allowed there.")
    if spec.constrained:
        assert spec.masks is not None
        before = np.full(chains.n_positions, -1)
        before[chains.following()] = chains.before(chains.following(), 1)
        spec.masks.check_labels(given.numbers, chains.offsets, classes, before)


@_check_chain_labels.register
def _of_partial_chains(given: PartialRows, chains: Chains, spec: FamilySpec, classes: np.ndarray) -> None:
    _check_allowed(chains, spec, given.weights, "and what y fixes ")
    if spec.constrained:
        lost = BaseMeasure(chains.offsets, spec.n_labels, spec.masks, log_weights=given.weights).dead_rows()
        if places := _dead_places(lost, chains.offsets):
            raise ValueError(
                f"{places}: what y allows up to here contradicts the constraints. Correct y or drop the constraint."
            )
    if _closed(spec):
        _check_left(given, chains, spec, SEQUENCES)


@_check_chain_labels.register
def _of_targets_of_chains(given: TargetRows, chains: Chains, spec: FamilySpec, classes: np.ndarray) -> None:
    """Raise ValueError where targets have something of what is forbidden."""
    _check_allowed(chains, spec, what="and what y fixes ")
    if spec.constrained:
        assert spec.masks is not None
        spec.masks.check_targets(given.targets, chains.offsets)
    if _closed(spec):
        _check_left(given, chains, spec, SEQUENCES)


def _closed(spec: FamilySpec) -> bool:
    """Whether constraints reach around a ring, beyond what the checks of a chain see."""
    return spec.kind == "ring" and spec.constrained


@singledispatch
def _check_graph_labels(given: GivenLabels, graphs: Graphs, spec: FamilySpec, classes: np.ndarray) -> None:
    """Raise ValueError at the first label or edge of graphs that is forbidden, or the graphs without a labelling."""
    raise TypeError(f"no checks of {type(given).__name__}")


@_check_graph_labels.register
def _of_partial_graphs(given: PartialRows, graphs: Graphs, spec: FamilySpec, classes: np.ndarray) -> None:
    _check_left(given, graphs, spec, GRAPHS)


@_check_graph_labels.register
def _of_known_graphs(given: KnownLabels, graphs: Graphs, spec: FamilySpec, classes: np.ndarray) -> None:
    assert spec.masks is not None
    labels, advice = given.numbers, "Correct y or drop the constraint."
    if (barred := np.flatnonzero(spec.masks.label[labels])).size:
        place, name = GRAPHS.place(graphs.offsets, int(barred[0])), classes[labels[barred[0]]].item()
        raise ValueError(f"{place}: label {name!r} is forbidden everywhere by the constraints. {advice}")
    pairs = [own.members for own in graphs.factors if own.name == EDGE and own.labels_per_clique == 2]
    for members in pairs:
        if (broken := np.flatnonzero(spec.masks.edge[tuple(labels[members].T)])).size:
            nodes = members[broken[0]]
            (graph, first), (_, second) = (locate(graphs.offsets, int(node)) for node in nodes)
            names = classes[labels[nodes]].tolist()
            raise ValueError(
                f"{GRAPHS.name(graph)}: an edge joins node {first}, labelled {names[0]!r}, to node {second}, labelled "
                f"{names[1]!r}, which the constraints forbid. {advice}"
            )


def _check_left(given: PartialRows, data: Chains | Graphs, spec: FamilySpec, nouns: ItemNames) -> None:
    """Raise ValueError naming the items of which what is known of their labels leaves no labelling."""
    wrong = np.flatnonzero(contradicted(data, spec, given.weights)).tolist()
    if wrong:
        raise ValueError(
            f"{_places(map(nouns.name, wrong), nouns.whole)}: what y says of its labels contradicts the constraints, "
            "or the labels that are allowed: no labelling is left. Correct y or drop the constraint."
        )


def _check_allowed(chains: Chains, spec: FamilySpec, log_weights: np.ndarray | None = None, what: str = "") -> None:
    """Raise ValueError naming the positions up to which allowed labels, and log-weights (N, L), leave no labelling."""
    chains.allowed.check_labels(spec.n_labels)
    if not chains.allowed.restrict:
        return
    base = spec.base_measure(chains)
    rows = (base if log_weights is None else base.times(log_weights)).dead_rows()
    if places := _dead_places(rows, chains.offsets):
        raise ValueError(
            f"{places}: the labels that are allowed {what}up to here leave no labelling. Allow more labels there or "
            "drop a constraint."
        )


@singledispatch
def _check_segments(given: GivenLabels, chains: SegmentedChains, spec: FamilySpec, classes: np.ndarray) -> None:
    """Raise ValueError at the first label that is forbidden where it stands, or the first segment too long."""
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
    wrong = np.flatnonzero(contradicted(chains, spec, given.weights)).tolist()
    if wrong:
        raise ValueError(
            f"{_places(map(SEQUENCES.name, wrong))}: the labels that are known of it leave no segmentation with "
            f"segments of at most {spec.max_duration} positions and steps that are allowed. Raise max_duration, or "
            "drop a constraint."
        )
