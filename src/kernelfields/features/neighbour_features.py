"""NeighbourFeatures: the columns of the nodes of graphs joined with those of their neighbours, before any field.

    (x, edges, ...)  ->  ((x | means of x over neighbours | log(1 + degree)), edges, ...)

The columns are those of data/neighbour_columns.py. GraphCRF joins them by itself where ``neighbours`` is True; this
transformer is for pipelines of several steps, for two rounds of neighbours, and for other estimators. Tuples stay
tuples, dicts stay dicts, and networkx graphs become dicts. Cost: O(d) for each edge. Fails: ValueError or TypeError
that names the graph or the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.graph_reading import GRAPHS, given_tables, is_networkx, read_networkx
from kernelfields.data.graphs import Graphs
from kernelfields.data.neighbour_columns import dense_columns, neighbour_names, with_neighbour_columns
from kernelfields.data.readers import check_columns, shared_columns
from kernelfields.data.reading import is_empty
from kernelfields.features.sequencewise import SequenceTransformer
from kernelfields.features.text import TRANSFORMERS


@TRANSFORMERS.register("neighbours")
class NeighbourFeatures(SequenceTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Add the means of the neighbours' columns, and log(1 + degree), to the columns of the nodes of graphs.

    A node without neighbours has its own columns for the means. Edges of all types count, whatever their direction.
    Attributes after fit: ``n_features_in_``, and ``feature_names_in_`` for data frames.
    """

    def fit(self, X: Any, y: object = None) -> Self:
        """Learn the number and the names of columns; labels are not read."""
        columns = dense_columns(Graphs.from_graphs(X)[0].inputs)
        self._learn_columns(columns.shape[1], shared_columns(given_tables(X).get(None, ()), "graph"))
        return self

    def transform(self, X: Any) -> list:
        """Return the graphs with the columns of neighbours."""
        check_is_fitted(self, "n_features_in_")
        if is_empty(X):
            return []
        graphs = Graphs.from_graphs(X)[0]
        if graphs.inputs.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {graphs.inputs.shape[1]} columns, but NeighbourFeatures was fitted with {self.n_features_in_}"
            )
        check_columns(given_tables(X).get(None, ()), self._columns, "graph")
        made = graphs.split(with_neighbour_columns(graphs))
        return [
            _with_nodes(item, rows, GRAPHS.name(index)) for index, (item, rows) in enumerate(zip(X, made, strict=True))
        ]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each column, such as "neighbours' age"."""
        check_is_fitted(self, "n_features_in_")
        given = self._columns if input_features is None else list(input_features)
        names = [f"x{column}" for column in range(self.n_features_in_)] if given is None else [*map(str, given)]
        return np.array(neighbour_names(names), dtype=object)

    def describe(self) -> dict[str, object]:
        """Return the number and the names of columns."""
        check_is_fitted(self, "n_features_in_")
        return {"n_features": self.n_features_in_, "names": None if self._columns is None else list(self._columns)}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any]) -> Self:
        """Return the transformer that was described."""
        made = cls()
        made._learn_columns(int(described["n_features"]), described["names"])
        return made


def _with_nodes(item: Any, rows: np.ndarray, name: str) -> object:
    """Return a graph in its own form with other features of nodes; one of networkx as a dict."""
    if isinstance(item, Mapping):
        return {**item, "x": rows}
    if is_networkx(item):
        _, edges, features, kinds = read_networkx(item, name)
        parts = {"edges": edges, "edge_features": features or None, "node_types": kinds}
        return {"x": rows, **{part: value for part, value in parts.items() if value is not None}}
    return (rows, *item[1:])
