"""Fields over labels: packed sequences and graphs, the cliques of labels that meet, and allowed labellings."""

from kernelfields.fields.cliques import (
    CliqueSet,
    EdgeCliques,
    EndCliques,
    GraphFactors,
    GraphNodes,
    NgramCliques,
    NodeCliques,
    OrderCliques,
    SkipCliques,
    StartCliques,
)
from kernelfields.fields.constraints import Constraints
from kernelfields.fields.graphs import grid_edges
from kernelfields.fields.segments import DurationCliques, SegmentCliques
from kernelfields.fields.ties import LabelSymmetry, repeated_columns

__all__ = [
    "CliqueSet",
    "Constraints",
    "DurationCliques",
    "EdgeCliques",
    "EndCliques",
    "GraphFactors",
    "GraphNodes",
    "LabelSymmetry",
    "NgramCliques",
    "NodeCliques",
    "OrderCliques",
    "SegmentCliques",
    "SkipCliques",
    "StartCliques",
    "grid_edges",
    "repeated_columns",
]
