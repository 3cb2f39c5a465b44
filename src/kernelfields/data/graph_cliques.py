"""Clique sets of graphs: labels of nodes, and of nodes that share a factor.

    GraphNodes      (x_v, y_v)             u_v(y)       = f(x_v, y)           at all nodes, or those of a type
    GraphFactors    (y_v, y_w, ..)         w(a, b, ..)  = f(a, b, ..)         without an input kernel
                    (x_e, y_v, y_w, ..)    w_e(a, b, ..) = f(x_e, a, b, ..)   with one, on features of the factor

With ``symmetric``, f(a, b) = f(b, a): the edge has no direction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelfields.data.cliques import CliqueSet, CliquesEverywhere
from kernelfields.data.graphs import Factors, Graphs
from kernelfields.data.reading import Matrix
from kernelfields.numerics.docstrings import complete_docstring
from kernelfields.numerics.registry import SETTINGS


class _Windowless(CliqueSet):
    """Cliques of graphs, without windows: features of neighbours are features of the node or factor."""

    def check_reach(self) -> None:
        """Raise an error for a window.

        Raises
        ------
        ValueError
            If there is one.
        """
        if self.neighbours != (0, 0):
            raise ValueError(
                f"{type(self).__name__} has window={self.window!r}, and windows are for sequences: put the "
                "features of neighbours into those of the node or edge"
            )


@SETTINGS.register("graph nodes")
@complete_docstring
@dataclass(eq=False, repr=False)
class GraphNodes(_Windowless):
    """One label and the features of its node, at all nodes or at the nodes of one type.

    Parameters
    ----------
    kernel : str, Kernel, callable or scikit-learn kernel, default "rbf"
        The kernel on the features of nodes.
    node_type : str or None, default None
        The type of the nodes; None for all.

    See Also
    --------
    kernelfields.GraphFactors : Labels that meet.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import GraphCRF, GraphFactors
    >>> from kernelfields.data import GraphNodes
    >>> X = [(np.array([[1.0], [0.9], [0.0]]), [[0, 1], [1, 2]]), (np.array([[0.1], [1.1]]), [[0, 1]])]
    >>> y = [np.array(["land", "land", "sea"]), np.array(["sea", "land"])]
    >>> crf = GraphCRF(cliques=[GraphNodes("rbf"), GraphFactors()], random_state=0).fit(X, y)
    >>> list(crf.coef_)
    ['node', 'edge']
    """

    kernel: Any = "rbf"
    node_type: str | None = field(default=None, kw_only=True)

    default_name = "node"

    def positions(self, graphs: Graphs) -> np.ndarray | None:  # type: ignore[override]
        """Return the nodes of the type.

        Parameters
        ----------
        graphs : Graphs
            The graphs.

        Returns
        -------
        ndarray (n,) or None
            The rows of the nodes; None for all.

        Raises
        ------
        ValueError
            If the nodes of the graphs have no types.
        """
        if self.node_type is None:
            return None
        if graphs.node_types is None:
            raise ValueError(
                f"GraphNodes scores nodes of the type {self.node_type!r}, and the graphs have no types of nodes: "
                "pass dicts with 'x', 'edges' and 'node_types', or set the attribute 'type' of networkx nodes"
            )
        return graphs.node_types.select_nodes(self.node_type)


@SETTINGS.register("graph factors")
@complete_docstring
@dataclass(eq=False, repr=False, kw_only=True)
class GraphFactors(_Windowless, CliquesEverywhere):
    """The labels of a type of factors, edges or larger, with the features of the factor if a kernel is given.

    Parameters
    ----------
    group : str, default "edge"
        The type of the factors.
    order : int, default 2
        The number of nodes that a factor joins.
    symmetric : bool, default False
        Whether an edge has no direction: f(a, b) = f(b, a).

    See Also
    --------
    kernelfields.data.GraphNodes : Single labels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import GraphCRF, GraphFactors
    >>> X = [(np.array([[1.0], [0.9], [0.0]]), [[0, 1], [1, 2]]), (np.array([[0.1], [1.1]]), [[0, 1]])]
    >>> y = [np.array(["land", "land", "sea"]), np.array(["sea", "land"])]
    >>> crf = GraphCRF("rbf", edges=GraphFactors(symmetric=True), prior_variance=10.0, random_state=0).fit(X, y)
    >>> bool(np.allclose(crf.edge_scores_["edge"], crf.edge_scores_["edge"].T))
    True
    """

    group: str = "edge"  # type: ignore[misc]  # a parameter here
    order: int = 2
    symmetric: bool = False  # type: ignore[misc]

    of_factors = True

    @property
    def labels_per_clique(self) -> int:  # type: ignore[override]
        """Number of nodes of a factor."""
        return self.order

    def tied_columns(self, inputs: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Return the permutations of the columns of features of factors.

        Parameters
        ----------
        inputs : array (m, d)
            Where the columns of nodes go.
        edges : array (m, e)
            Where the columns of factors go.

        Returns
        -------
        ndarray (m, e)
            Where they go.
        """
        return edges

    def factors(self, graphs: Graphs) -> Factors:
        """Return the factors of the group.

        Parameters
        ----------
        graphs : Graphs
            The graphs.

        Returns
        -------
        Factors
            The factors.
        """
        return graphs.group(self.group or "edge")

    def view(self, graphs: Graphs) -> Matrix:  # type: ignore[override]
        """Return the features of the cliques.

        Parameters
        ----------
        graphs : Graphs
            The graphs.

        Returns
        -------
        array (M, d)
            A row for each factor.

        Raises
        ------
        ValueError
            If the factors have no features.
        """
        inputs = self.factors(graphs).inputs
        if inputs is None:
            raise ValueError(
                f"a kernel on factors named {self.group!r} needs features of them, and the graphs have none: pass "
                "(node_features, edges, edge_features), or leave out the kernel for one table of scores"
            )
        return inputs

    def members(self, graphs: Graphs) -> np.ndarray:  # type: ignore[override]
        """Return the nodes of each factor.

        Parameters
        ----------
        graphs : Graphs
            The graphs.

        Returns
        -------
        ndarray (M, k)
            The rows of the nodes.
        """
        return self.factors(graphs).members

    def weights(self, graphs: Graphs) -> np.ndarray | None:  # type: ignore[override]
        """Return the weight of the graph of every factor.

        Parameters
        ----------
        graphs : Graphs
            The graphs.

        Returns
        -------
        ndarray (M,) or None
            The weights; None if all are one.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.data import GraphFactors, Graphs
        >>> graphs = Graphs.from_graphs([(np.zeros((3, 1)), [[0, 1], [1, 2]]), (np.ones((2, 1)), [[0, 1]])])
        >>> GraphFactors().weights(graphs) is None
        True
        """
        return None if np.all(graphs.weights == 1.0) else graphs.factor_weights(self.group or "edge")
