"""Checks of the labels of chains: constraints, and lists of allowed labels.

Raises ValueError naming the sequence, the position and the rule, and what to do about it.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from kernelfields.data.chains import Chains
from kernelfields.data.given_labels import GivenLabels, KnownLabels
from kernelfields.data.partial_rows import PartialRows, TargetRows
from kernelfields.data.reading import SEQUENCES
from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.checks import LabelChecks, checks_labels, first_places
from kernelfields.inference.choice import FamilySpec


@checks_labels("chain")
class ChainChecks(LabelChecks):
    """Labels against constraints and lists of allowed labels."""

    def check_labels(self, data: Chains, spec: FamilySpec, classes: np.ndarray) -> None:
        """Raise ValueError at the first sequence whose labels are forbidden, or leave it no labelling."""
        if spec.has_forbidden_labellings(data):
            _check_chain_labels(data.given, data, spec, classes)

    def check_lengths(self, data: Chains, spec: FamilySpec) -> None:
        """Raise ValueError at the first sequence whose length, or whose allowed labels, leave it no labelling."""
        _check_allowed(data, spec)
        if spec.masks is not None:
            spec.masks.check_lengths(data.lengths)


@singledispatch
def _check_chain_labels(given: GivenLabels, chains: Chains, spec: FamilySpec, classes: np.ndarray) -> None:
    """Raise ValueError at the first sequence whose labels are forbidden, or leave it no labelling."""
    raise TypeError(f"no checks of {type(given).__name__}")


@_check_chain_labels.register
def _of_known_chains(given: KnownLabels, chains: Chains, spec: FamilySpec, classes: np.ndarray) -> None:
    _check_allowed(chains, spec)
    if (outside := np.flatnonzero(chains.find_forbidden(given.numbers))).size:
        label = classes[given.numbers[outside[0]]].item()
        place = SEQUENCES.place(chains.offsets, int(outside[0]))
        raise ValueError(f"{place}: label {label!r} is not among those that are allowed there.")
    if spec.is_constrained:
        assert spec.masks is not None
        before = np.full(chains.n_positions, -1)
        before[chains.find_followers()] = chains.find_predecessors(chains.find_followers(), 1)
        spec.masks.check_labels(given.numbers, chains.offsets, classes, before)


@_check_chain_labels.register
def _of_partial_chains(given: PartialRows, chains: Chains, spec: FamilySpec, classes: np.ndarray) -> None:
    _check_allowed(chains, spec, given.weights, "and what y fixes ")
    if spec.is_constrained:
        lost = BaseMeasure(chains.offsets, spec.n_labels, spec.masks, log_weights=given.weights).dead_rows()
        if places := _dead_places(lost, chains.offsets):
            raise ValueError(
                f"{places}: what y allows up to here contradicts the constraints. Correct y or drop the constraint."
            )


@_check_chain_labels.register
def _of_targets_of_chains(given: TargetRows, chains: Chains, spec: FamilySpec, classes: np.ndarray) -> None:
    """Raise ValueError if targets give forbidden labels some probability."""
    _check_allowed(chains, spec, what="and what y fixes ")
    if spec.is_constrained:
        assert spec.masks is not None
        spec.masks.check_targets(given.targets, chains.offsets)


def _check_allowed(chains: Chains, spec: FamilySpec, log_weights: np.ndarray | None = None, what: str = "") -> None:
    """Raise ValueError naming the positions up to which allowed labels and log-weights (N, L) exclude all labels."""
    chains.allowed.check_labels(spec.n_labels)
    if not chains.allowed.restrict:
        return
    base = spec.base_measure(chains)
    rows = (base if log_weights is None else base.multiply(log_weights)).dead_rows()
    if places := _dead_places(rows, chains.offsets):
        raise ValueError(
            f"{places}: the labels that are allowed {what}up to here leave no labelling. Allow more labels there or "
            "drop a constraint."
        )


def _dead_places(rows: np.ndarray, offsets: np.ndarray) -> str:
    """Return the rows (S,) of contradictions between labels, -1 for none, as messages list them."""
    return first_places(SEQUENCES.place(offsets, row) for row in rows[rows >= 0].tolist())
