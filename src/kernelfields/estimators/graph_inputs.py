"""What a user passes to a graph estimator, remembered from fitting so that prediction sees inputs the same way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.estimators.spaces import same_kind
from kernelfields.fields import Factors, Graphs


class GraphInputs:
    """Widths and kinds of the inputs of nodes and of each type of factors, learnt by ``fit_graphs``.

    ``factors`` maps the name of a type to (nodes, number of features or None, whether they are sparse).
    ``node_types`` are the names of the types of nodes, None where nodes had none.
    """

    def __init__(
        self,
        n_features: int = 0,
        sparse: bool = False,
        factors: dict[str, tuple[int, int | None, bool]] | None = None,
        node_types: tuple[str, ...] | None = None,
    ):
        self.n_features = n_features
        self.sparse = sparse
        self.factors = factors or {}
        self.node_types = node_types

    def fit_graphs(self, X: Any, y: Any, sample_weight: Any) -> tuple[Graphs, np.ndarray]:
        """Learn the kind of X; return labelled graphs and the sorted classes."""
        graphs, classes = Graphs.from_graphs(X, y, sample_weight)
        assert classes is not None
        self.n_features = graphs.inputs.shape[1]
        self.sparse = scipy.sparse.issparse(graphs.inputs)
        self.node_types = None if graphs.node_types is None else graphs.node_types.names
        self.factors = {
            each.name: (
                each.labels_per_clique,
                None if each.inputs is None else each.inputs.shape[1],
                scipy.sparse.issparse(each.inputs),
            )
            for each in graphs.factors
        }
        return graphs, classes

    def graphs(
        self, X: Any, y: Any = None, sample_weight: Any = None, classes: np.ndarray | None = None
    ) -> Graphs:
        """Return graphs of new inputs; labelled ones if y is given, with labels among ``classes``."""
        types = {name: order for name, (order, _, _) in self.factors.items()}
        graphs, _ = Graphs.from_graphs(X, y, sample_weight, classes, types=types, node_types=self.node_types)
        if (graphs.node_types is None) != (self.node_types is None):
            came, before = ("no types", "them") if graphs.node_types is None else ("types", "none")
            raise ValueError(f"the nodes of X have {came}, but this model was fitted to graphs with {before}")
        if graphs.inputs.shape[1] != self.n_features:
            raise ValueError(
                f"X has {graphs.inputs.shape[1]} features per node, but this model was fitted with "
                f"{self.n_features}; pass the same features in the same order"
            )
        return replace(
            graphs,
            inputs=same_kind(graphs.inputs, self.sparse),
            factors=tuple(self._checked(each) for each in graphs.factors),
        )

    def _checked(self, factors: Factors) -> Factors:
        _, width, sparse = self.factors[factors.name]
        given = None if factors.inputs is None else factors.inputs.shape[1]
        if given != width and factors.n_factors == 0:
            # No factor, no row: nothing that could be wrong.
            return replace(factors, inputs=None if width is None else same_kind(np.zeros((0, width)), sparse))
        if given == width:
            return factors if width is None else replace(factors, inputs=same_kind(factors.inputs, sparse))
        came, expected = ("no features" if each is None else f"{each} features" for each in (given, width))
        raise ValueError(
            f"factors named {factors.name!r} have {came}, but this model was fitted with {expected}; pass the "
            "same features in the same order"
        )
