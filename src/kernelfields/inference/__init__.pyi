from kernelfields.inference.answers import Answers as Answers
from kernelfields.inference.approximate.base import LoopyBelief as LoopyBelief
from kernelfields.inference.approximate.base import TreeReweighted as TreeReweighted
from kernelfields.inference.base_measure import BaseMeasure as BaseMeasure
from kernelfields.inference.chain.family import ChainFamily as ChainFamily
from kernelfields.inference.chain.family import ListFamily as ListFamily
from kernelfields.inference.choice import (
    FamilySpec as FamilySpec,
)
from kernelfields.inference.choice import (
    family_of as family_of,
)
from kernelfields.inference.choice import (
    plan_inference as plan_inference,
)
from kernelfields.inference.family import (
    EDGE as EDGE,
)
from kernelfields.inference.family import (
    LabelFamily as LabelFamily,
)
from kernelfields.inference.family import (
    Member as Member,
)
from kernelfields.inference.family import (
    Placement as Placement,
)
from kernelfields.inference.family import (
    Potentials as Potentials,
)
from kernelfields.inference.ngrams.family import NgramFamily as NgramFamily
from kernelfields.inference.packing import InfeasibleGraph as InfeasibleGraph
from kernelfields.inference.packing import InfeasibleSequence as InfeasibleSequence
from kernelfields.inference.segments.family import SegmentFamily as SegmentFamily
from kernelfields.inference.single import SingleFamily as SingleFamily
from kernelfields.inference.table import TableFamily as TableFamily
