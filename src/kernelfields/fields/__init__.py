"""Fields over labels: packed sequences and graphs, the cliques of labels that meet, and allowed labellings."""

from kernelfields.fields.chains import Chains
from kernelfields.fields.cliques import (
    CliqueSet,
    EdgeCliques,
    EndCliques,
    NodeCliques,
    OrderCliques,
    SkipCliques,
    StartCliques,
)
from kernelfields.fields.constraints import ConstraintMasks, Constraints, resolve_constraints
from kernelfields.fields.graph_cliques import GraphFactors, GraphNodes
from kernelfields.fields.graphs import Factors, Graphs
from kernelfields.fields.grids import grid_edges
from kernelfields.fields.reading import check_sample_weight, encode_labels, pack_inputs

__all__ = [
    "Chains",
    "CliqueSet",
    "ConstraintMasks",
    "Constraints",
    "EdgeCliques",
    "EndCliques",
    "Factors",
    "GraphFactors",
    "GraphNodes",
    "Graphs",
    "NodeCliques",
    "OrderCliques",
    "SkipCliques",
    "StartCliques",
    "check_sample_weight",
    "encode_labels",
    "grid_edges",
    "pack_inputs",
    "resolve_constraints",
]
