from kernelfields.data.chains import Chains as Chains
from kernelfields.data.border_cliques import EndCliques as EndCliques, StartCliques as StartCliques
from kernelfields.data.cliques import (
    CliqueSet as CliqueSet,
    EdgeCliques as EdgeCliques,
    NodeCliques as NodeCliques,
)
from kernelfields.data.far_cliques import (
    LabelNgrams as LabelNgrams,
    OrderCliques as OrderCliques,
    SkipCliques as SkipCliques,
)
from kernelfields.data.graph_cliques import GraphFactors as GraphFactors, GraphNodes as GraphNodes
from kernelfields.data.constraints import Constraints as Constraints, resolve_constraints as resolve_constraints
from kernelfields.data.graphs import Graphs as Graphs, grid_edges as grid_edges
from kernelfields.data.label_dictionary import LabelDictionary as LabelDictionary
from kernelfields.data.partial_labels import SoftTargets as SoftTargets
from kernelfields.data.segments import DurationCliques as DurationCliques
from kernelfields.data.ties import LabelSymmetry as LabelSymmetry, repeated_columns as repeated_columns
