from kernelfields.data.chains import Chains as Chains
from kernelfields.data.cliques import (
    CliqueSet as CliqueSet,
)
from kernelfields.data.cliques import (
    EdgeCliques as EdgeCliques,
)
from kernelfields.data.cliques import (
    EndCliques as EndCliques,
)
from kernelfields.data.cliques import (
    GraphFactors as GraphFactors,
)
from kernelfields.data.cliques import (
    GraphNodes as GraphNodes,
)
from kernelfields.data.cliques import (
    LabelNgrams as LabelNgrams,
)
from kernelfields.data.cliques import (
    NodeCliques as NodeCliques,
)
from kernelfields.data.cliques import (
    OrderCliques as OrderCliques,
)
from kernelfields.data.cliques import (
    SkipCliques as SkipCliques,
)
from kernelfields.data.cliques import (
    StartCliques as StartCliques,
)
from kernelfields.data.constraints import Constraints as Constraints
from kernelfields.data.constraints import resolve_constraints as resolve_constraints
from kernelfields.data.graphs import Graphs as Graphs
from kernelfields.data.graphs import grid_edges as grid_edges
from kernelfields.data.label_dictionary import LabelDictionary as LabelDictionary
from kernelfields.data.partial_labels import SoftTargets as SoftTargets
from kernelfields.data.segments import DurationCliques as DurationCliques
from kernelfields.data.ties import LabelSymmetry as LabelSymmetry
from kernelfields.data.ties import repeated_columns as repeated_columns
