"""The pairs of features and labellings that a term of a model file has coefficients for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelfields.numerics.stored_arrays import whole_array
from kernelfields.objective.designs.pairs import EVERY_PAIR, EveryPair
from kernelfields.objective.designs.supports import ListedSupport, Support


def rebuild_pairs(entry: Mapping[str, Any], n_outcomes: int, listed: bool) -> EveryPair | Support:
    """Return the described pairs of a term, all pairs without a description; ValueError if it is not sound."""
    if "pairs" not in entry:
        return EVERY_PAIR
    kind = ListedSupport if listed else Support
    support = kind(entry["pairs"]["begin"], entry["pairs"]["outcomes"], n_outcomes)
    whole_array(support.begin, "the pairs of features and labels", (None,))
    whole_array(support.outcomes, "the pairs of features and labels", (None,))
    support.check()
    return support
