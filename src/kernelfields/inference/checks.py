"""Checks of labels against what a field allows: constraints, and lists of allowed labels.

Each kind of families registers its own beside its builder, in a module that is loaded when there are labels to check.
Raises ValueError naming the sequence, the position and the rule, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from kernelfields.data.chains import Packed
from kernelfields.data.reading import ItemNames
from kernelfields.inference.choice import FamilySpec, choose_family
from kernelfields.numerics.lazy import load_module, load_registering
from kernelfields.numerics.wording import inflect

# How many places of contradictions messages list.
_SHOWN = 5


def first_places(names: Iterable[str], noun: str = "sequence") -> str:
    """Return the first places of a mask, and the number of further places."""
    every = list(names)
    more = len(every) - _SHOWN
    return "; ".join([*every[:_SHOWN], f"and {inflect(more, f'more {noun}')}"] if more > 0 else every)


class LabelChecks:
    """Checks of labels against the rules of a kind of families; without rules, all labels pass."""

    def check_labels(self, data: Any, spec: FamilySpec, classes: np.ndarray) -> None:
        """Raise ValueError at the first forbidden label of data."""

    def check_lengths(self, data: Any, spec: FamilySpec) -> None:
        """Raise ValueError at the first sequence whose length, or whose allowed labels, leave it no labelling."""


Checks = TypeVar("Checks", bound=type[LabelChecks])
_CHECKS: dict[str, LabelChecks] = {"single": LabelChecks(), "instances": LabelChecks()}
# The module of the checks of chains; other kinds register theirs with their families.
_HOMES = {"chain": "kernelfields.inference.chain.label_checks"}


def checks_labels(kind: str) -> Callable[[Checks], Checks]:
    """Register the checks of labels of a kind of families."""

    def register(checks: Checks) -> Checks:
        _CHECKS[kind] = checks()
        return checks

    return register


def _find_checks(kind: str) -> LabelChecks:
    """Return the checks of labels of a kind; an unregistered kind accepts all labels."""
    if kind not in _CHECKS and kind in _HOMES:
        load_module(_HOMES[kind])
    if kind not in _CHECKS:  # of an estimator that this process has not used
        load_registering()
    return _CHECKS.get(kind, _CHECKS["single"])


def check_labels(data: Packed, spec: FamilySpec, classes: np.ndarray) -> None:
    """Raise ValueError at the first forbidden label of data."""
    _find_checks(spec.kind).check_labels(data, spec, classes)


def check_lengths(data: Packed, spec: FamilySpec) -> None:
    """Raise ValueError at the first sequence whose length, or whose allowed labels, leave it no labelling.

    Whatever is known of its labels: that may contradict them, and then has a probability of zero.
    """
    _find_checks(spec.kind).check_lengths(data, spec)


def find_contradicted(data: Packed, spec: FamilySpec, log_weights: np.ndarray) -> np.ndarray:
    """Return the mask (S,) of items without a labelling under log-weights (N, L)."""
    return choose_family(data, (), spec).condition(log_weights).impossible()


def check_left(log_weights: np.ndarray, data: Packed, spec: FamilySpec, nouns: ItemNames) -> None:
    """Raise ValueError naming the items without a labelling under log-weights (N, L)."""
    wrong = np.flatnonzero(find_contradicted(data, spec, log_weights)).tolist()
    if wrong:
        raise ValueError(
            f"{first_places(map(nouns.name, wrong), nouns.whole)}: what y says of its labels contradicts the "
            "constraints, or the labels that are allowed: no labelling is left. Correct y or drop the constraint."
        )
