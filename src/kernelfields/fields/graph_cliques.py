"""Clique sets of graphs: which labels meet, which inputs they see, one potential for all of a type.

    GraphNodes      (x_v, y_v)             u_v(y)       = f(x_v, y)           at all nodes, or those of a type
    GraphFactors    (y_v, y_w, ..)         w(a, b, ..)  = f(a, b, ..)         without an input kernel
                    (x_e, y_v, y_w, ..)    w_e(a, b, ..) = f(x_e, a, b, ..)   with one, on features of the factor

With ``symmetric``, f(a, b) = f(b, a): the edge has no direction. Everything else is as for chains (cliques.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.fields.cliques import CliqueSet, CliquesEverywhere
from kernelfields.fields.graphs import Factors, Graphs
from kernelfields.numerics.registry import SETTINGS


class _Windowless(CliqueSet):
    """Cliques of graphs: what is near a node or a factor, its features must say."""

    def check_reach(self) -> None:
        """Raise ValueError for a window."""
        if self.neighbours != (0, 0):
            raise ValueError(
                f"{type(self).__name__} has window={self.window!r}, and windows are for sequences: put the "
                "features of neighbours into those of the node or edge"
            )


@SETTINGS.register("graph nodes")
class GraphNodes(_Windowless):
    """One label and the features of its node, at all nodes or at those of one type."""

    default_name = "node"

    def __init__(self, kernel: Any = "rbf", *, node_type: str | None = None, **shared: Any):
        super().__init__(kernel, **shared)
        self.node_type = node_type

    def positions(self, graphs: Graphs) -> np.ndarray | None:
        """Return the nodes of the type, None for every node."""
        if self.node_type is None:
            return None
        if graphs.node_types is None:
            raise ValueError(
                f"GraphNodes scores nodes of the type {self.node_type!r}, and the graphs have no types of nodes: "
                "pass dicts with 'x', 'edges' and 'node_types', or set the attribute 'type' of networkx nodes"
            )
        return graphs.node_types.nodes_of(self.node_type)


@SETTINGS.register("graph factors")
class GraphFactors(_Windowless, CliquesEverywhere):
    """The labels of a type of factors, edges or larger, with the features of the factor if a kernel is given."""

    def __init__(
        self, kernel: Any = None, *, group: str = "edge", order: int = 2, symmetric: bool = False, **shared: Any
    ):
        super().__init__(kernel, **shared)
        self.group = group
        self.order = order
        self.symmetric = symmetric

    @property
    def labels_per_clique(self) -> int:  # type: ignore[override]
        """How many nodes a factor has."""
        return self.order

    def factors(self, graphs: Graphs) -> Factors:
        """Return the factors of the group."""
        return graphs.group(self.group or "edge")

    def view(self, graphs: Graphs) -> Any:
        """Return the inputs that the cliques see, (M, d)."""
        inputs = self.factors(graphs).inputs
        if inputs is None:
            raise ValueError(
                f"a kernel on factors named {self.group!r} needs features of them, and the graphs have none: pass "
                "(node_features, edges, edge_features), or leave out the kernel for one table of scores"
            )
        return inputs

    def members(self, graphs: Graphs) -> np.ndarray:
        """Return the nodes of each factor, (M, k)."""
        return self.factors(graphs).members
