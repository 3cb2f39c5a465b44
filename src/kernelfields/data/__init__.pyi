from kernelfields.data.chains import Chains as Chains
from kernelfields.data.cliques import (
    CliqueSet as CliqueSet,
    EdgeCliques as EdgeCliques,
    EndCliques as EndCliques,
    GraphFactors as GraphFactors,
    GraphNodes as GraphNodes,
    LabelNgrams as LabelNgrams,
    NodeCliques as NodeCliques,
    OrderCliques as OrderCliques,
    SkipCliques as SkipCliques,
    StartCliques as StartCliques,
)
from kernelfields.data.constraints import Constraints as Constraints, resolve_constraints as resolve_constraints
from kernelfields.data.graphs import Graphs as Graphs, grid_edges as grid_edges
from kernelfields.data.label_dictionary import LabelDictionary as LabelDictionary
from kernelfields.data.partial_labels import SoftTargets as SoftTargets
from kernelfields.data.segments import DurationCliques as DurationCliques
from kernelfields.data.ties import LabelSymmetry as LabelSymmetry, repeated_columns as repeated_columns
