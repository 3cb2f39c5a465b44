from kernelfields.inference.answers import Answers as Answers
from kernelfields.inference.approximate.base import (
    LoopyBelief as LoopyBelief,
    MeanField as MeanField,
    TreeReweighted as TreeReweighted,
)
from kernelfields.inference.base_measure import BaseMeasure as BaseMeasure
from kernelfields.inference.chain.family import ChainFamily as ChainFamily
from kernelfields.inference.chain.list_family import ListFamily as ListFamily
from kernelfields.inference.choice import (
    FamilySpec as FamilySpec,
    choose_family as choose_family,
)
from kernelfields.inference.family import Labellings as Labellings, LabelFamily as LabelFamily, Member as Member
from kernelfields.inference.potentials import EDGE as EDGE, Placement as Placement, Potentials as Potentials
from kernelfields.inference.graph_plans import plan_inference as plan_inference
from kernelfields.inference.ngrams.family import NgramFamily as NgramFamily
from kernelfields.inference.packed_graphs import InfeasibleGraph as InfeasibleGraph
from kernelfields.inference.packing import InfeasibleSequence as InfeasibleSequence
from kernelfields.inference.segments.family import SegmentFamily as SegmentFamily
from kernelfields.inference.single import SingleFamily as SingleFamily
from kernelfields.inference.table import TableFamily as TableFamily
