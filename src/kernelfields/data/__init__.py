"""What X and y may be: tables, feature dicts, graphs, labels; the cliques of labels that meet, and constraints.

Names load on first use: the reader of served models needs the rules of feature names, and NumPy alone.
"""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
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
    from kernelfields.data.constraints import Constraints
    from kernelfields.data.graphs import grid_edges
    from kernelfields.data.label_dictionary import LabelDictionary
    from kernelfields.data.partial_labels import SoftTargets
    from kernelfields.data.segments import DurationCliques
    from kernelfields.data.ties import LabelSymmetry, repeated_columns

__all__ = [
    "CliqueSet",
    "Constraints",
    "DurationCliques",
    "EdgeCliques",
    "EndCliques",
    "GraphFactors",
    "GraphNodes",
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
        "constraints": ["Constraints"],
        "partial_labels": ["SoftTargets"],
        "graphs": ["grid_edges"],
        "label_dictionary": ["LabelDictionary"],
        "segments": ["DurationCliques"],
        "ties": ["LabelSymmetry", "repeated_columns"],
    },
)
