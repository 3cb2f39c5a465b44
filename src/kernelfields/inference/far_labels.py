"""Families of chains whose distant labels meet: automata of n-grams that see no inputs, else junction trees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelfields.data.chains import Chains
from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.family import LabelFamily, is_group_constant
from kernelfields.inference.graph_plans import junction_of_chains
from kernelfields.inference.ngrams.family import NgramFamily
from kernelfields.inference.potentials import EDGE, Grouped, Placed


def build_far_family(chains: Chains, placed: Sequence[Placed], base: BaseMeasure) -> LabelFamily:
    """Return the family of chains with the cliques of some sets, some of which join labels that are not neighbours."""
    if not has_only_ngrams(placed):
        return junction_of_chains(chains, placed, base)
    orders = sorted({term.labels_per_clique for term in placed if term.labels_per_clique > 2})
    ngrams = [(length, _listed_labellings(length, placed)) for length in orders]
    return NgramFamily(chains.offsets, base.n_labels, ngrams, tied=is_group_constant(placed, EDGE), base=base)


def has_only_ngrams(placed: Sequence[Grouped]) -> bool:
    """Whether distant labels meet in n-grams alone, without inputs."""
    far = [term for term in placed if term.reach > 1]
    return bool(far) and all(term.labels_per_clique > 2 and term.is_constant for term in far)


def table_reach(placed: Sequence[Grouped]) -> int:
    """Return the reach of the largest tables of every position, zero without such tables.

    Beside n-grams, edges that see inputs have the largest tables; else the cliques of the junction tree have.
    """
    if not has_only_ngrams(placed):
        return max(term.reach for term in placed)
    return max((term.reach for term in placed if not term.is_constant), default=0)


def _listed_labellings(length: int, placed: Sequence[Placed]) -> np.ndarray | None:
    """Return the sorted labellings of the n-grams of a length; None if one set has weights for all."""
    lists = [term.outcomes for term in placed if term.labels_per_clique == length]
    known = [outcomes for outcomes in lists if outcomes is not None]
    if len(known) < len(lists):
        return None
    return known[0] if len(known) == 1 else np.unique(np.concatenate(known))
