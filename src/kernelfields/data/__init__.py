"""What X and y may be: tables, feature dicts, graphs, labels; the cliques of labels that meet, and constraints.

Names load on first use: the reader of served models needs the rules of feature names, and NumPy alone.
"""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
    from kernelfields.data.chains import Chains
    from kernelfields.data.cliques import (
        CliqueSet,
        EdgeCliques,
        EndCliques,
        GraphFactors,
        GraphNodes,
        LabelNgrams,
        NodeCliques,
        OrderCliques,
        SkipCliques,
        StartCliques,
    )
    from kernelfields.data.constraints import Constraints, resolve_constraints
    from kernelfields.data.graphs import Graphs, grid_edges
    from kernelfields.data.label_dictionary import LabelDictionary
    from kernelfields.data.partial_labels import SoftTargets
    from kernelfields.data.segments import DurationCliques
    from kernelfields.data.ties import LabelSymmetry, repeated_columns

__all__ = [
    "Chains",
    "CliqueSet",
    "Constraints",
    "DurationCliques",
    "EdgeCliques",
    "EndCliques",
    "GraphFactors",
    "GraphNodes",
    "Graphs",
    "LabelDictionary",
    "LabelNgrams",
    "LabelSymmetry",
    "NodeCliques",
    "OrderCliques",
    "SkipCliques",
    "SoftTargets",
    "StartCliques",
    "grid_edges",
    "repeated_columns",
    "resolve_constraints",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "cliques": [
            "CliqueSet",
            "EdgeCliques",
            "EndCliques",
            "GraphFactors",
            "GraphNodes",
            "LabelNgrams",
            "NodeCliques",
            "OrderCliques",
            "SkipCliques",
            "StartCliques",
        ],
        "chains": ["Chains"],
        "constraints": ["Constraints", "resolve_constraints"],
        "partial_labels": ["SoftTargets"],
        "graphs": ["Graphs", "grid_edges"],
        "label_dictionary": ["LabelDictionary"],
        "segments": ["DurationCliques"],
        "ties": ["LabelSymmetry", "repeated_columns"],
    },
)
