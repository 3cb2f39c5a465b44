"""Targets in the place of labels: shares of all labels at each position, and of pairs of neighbours.

A likelihood of targets is that of the statistics that they expect.
Cost: O(n L) for positions alone, O(n L^2) for pairs, and an inference where labels meet in other ways.
"""

from __future__ import annotations

import numpy as np

from kernelfields.data.partial_labels import SoftRows
from kernelfields.inference.family import LabelFamily
from kernelfields.inference.potentials import EDGE, Potentials

# Targets whose logarithm of allowed mass is this far from zero have more than rounding of what is forbidden.
_LOST = 1e-6


def weighted_targets(family: LabelFamily, soft: SoftRows, weights: np.ndarray) -> Potentials:
    """Return weighted targets of the labels of all cliques, summed if potentials are tied.

    Labels that meet farther apart than neighbours are those of the Markov chain that targets of pairs describe, or
    independent: the mean of the member of the family that is this distribution.
    """
    weigh = weights[family.position_items]
    node = soft.node * weigh[:, None]
    if len(family.groups) == 1:
        return family.arrangement.place_potentials(Potentials(node))
    if family.method == "chain":
        edge = soft.pairs(family.offsets) * weigh[:, None, None]
        edge = edge.sum(axis=0, keepdims=True) if family.arrangement.group(EDGE).tied else edge
        return family.arrangement.place_potentials(Potentials(node, {EDGE: edge}))
    repeats = family.base is None or family.base.step_penalties is None
    if family.method == "segments" and (repeats or soft.edge is not None):
        raise ValueError(
            "SoftTargets are for labels of positions, and do not describe where segments are cut: use repeats=False, "
            "so that a segment ends where its label does, and leave out pairs"
        )
    potentials, logs = family.zeros(), soft.logs
    if soft.edge is not None:
        before, after = family.clique_members(EDGE).T
        if not np.array_equal(after - before, np.ones(len(after))):
            raise ValueError("pairs of SoftTargets do not describe how a ring closes: leave them out")
        logs = np.where(np.isin(np.arange(len(logs)), after)[:, None], 0.0, logs)
        pairs, single = soft.edge[after], soft.node[before][:, :, None]
        shares = np.divide(pairs, single, out=np.ones_like(pairs), where=single > 0)
        with np.errstate(divide="ignore"):
            potentials.tables[EDGE] = np.log(shares)
    member = family.condition(logs).distribution(potentials, family.arrangement.place_array(weights))
    if (lost := np.flatnonzero(np.abs(family.arrangement.read_back(member.log_partition)) > _LOST)).size:
        raise ValueError(f"sequence or graph {lost[0]}: targets give mass to labellings that are forbidden")
    mean = member.mean()
    if soft.edge is not None and family.arrangement.group(EDGE).tied:
        mean.tables[EDGE] = mean.tables[EDGE].sum(axis=0, keepdims=True)
    return mean
