"""Inference on arrays of potentials: log partition, marginals, Hessian products, decoding, sampling.

Names load on first use, so that numba loads with the first family that needs it.
"""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
    from kernelfields.inference.answers import Answers
    from kernelfields.inference.approximate.base import LoopyBelief, TreeReweighted
    from kernelfields.inference.base_measure import BaseMeasure
    from kernelfields.inference.chain.family import ChainFamily, ListFamily
    from kernelfields.inference.choice import FamilySpec, family_of, plan_inference
    from kernelfields.inference.family import EDGE, LabelFamily, Member, Placement, Potentials
    from kernelfields.inference.ngrams.family import NgramFamily
    from kernelfields.inference.packing import InfeasibleGraph, InfeasibleSequence
    from kernelfields.inference.segments.family import SegmentFamily
    from kernelfields.inference.single import SingleFamily
    from kernelfields.inference.table import TableFamily

__all__ = [
    "EDGE",
    "Answers",
    "BaseMeasure",
    "ChainFamily",
    "FamilySpec",
    "InfeasibleGraph",
    "InfeasibleSequence",
    "LabelFamily",
    "ListFamily",
    "LoopyBelief",
    "Member",
    "NgramFamily",
    "Placement",
    "Potentials",
    "SegmentFamily",
    "SingleFamily",
    "TableFamily",
    "TreeReweighted",
    "family_of",
    "plan_inference",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "answers": ["Answers"],
        "approximate.base": ["LoopyBelief", "TreeReweighted"],
        "base_measure": ["BaseMeasure"],
        "chain.family": ["ChainFamily", "ListFamily"],
        "choice": ["FamilySpec", "family_of", "plan_inference"],
        "family": ["EDGE", "LabelFamily", "Member", "Placement", "Potentials"],
        "ngrams.family": ["NgramFamily"],
        "packing": ["InfeasibleGraph", "InfeasibleSequence"],
        "segments.family": ["SegmentFamily"],
        "single": ["SingleFamily"],
        "table": ["TableFamily"],
    },
)
