"""Chains as graphs: sequences whose probabilities leave the range of doubles, and the k best labellings.

Passes over chains scale probabilities and have one best labelling; junction trees work in logarithms and rank.
"""

from __future__ import annotations

import numpy as np

from kernelfields.inference.family import LabelFamily, Member, RankedLabellings
from kernelfields.inference.graphs import GraphPotentials
from kernelfields.inference.junction.family import JunctionFamily, RescuedItems
from kernelfields.inference.packed_graphs import InfeasibleGraph
from kernelfields.inference.packing import InfeasibleSequence
from kernelfields.inference.potentials import EDGE, Potentials
from kernelfields.numerics.threads import Workers


def rescue(member: Member, sequences: np.ndarray, workers: Workers) -> RescuedItems:
    """Infer some sequences of a member in logarithms; its potentials include the base measure."""
    potentials, steps = member.potentials, member.family.clique_members(EDGE)
    tied = len(potentials.edge) == 1
    checked = GraphPotentials(potentials.node, [potentials.edge], (tied,), member.weights)
    try:
        return RescuedItems(sequences, member.family, [steps], checked, workers, table_rows=[steps[:, 1]])
    except InfeasibleGraph as error:
        raise InfeasibleSequence(error.graph) from None


def rank_labellings(family: LabelFamily, potentials: Potentials, k: int, workers: Workers) -> RankedLabellings:
    """Return the k best labellings of chains and their scores; potentials include the base measure."""
    steps, edge = family.step_pairs(), potentials.edge
    junction = JunctionFamily(family.offsets, [steps], family.n_labels, memory=np.inf)
    own = Potentials(potentials.node, {"0": edge if len(edge) == 1 else edge[steps[:, 1]]})
    try:
        return junction.labellings(own, workers).n_best(k)
    except InfeasibleGraph as error:
        raise InfeasibleSequence(error.graph) from None
