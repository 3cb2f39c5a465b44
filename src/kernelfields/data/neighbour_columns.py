"""Columns of the nodes of graphs beside the means of their neighbours' columns.

    x_v  ->  ( x_v,  (1 / |N(v)|) sum of x_w over w in N(v),  log(1 + |N(v)|) )

N(v) are the nodes that meet v in a factor of any type, each once, whatever its direction. A node without neighbours has
its own columns for the means. Edges score pairs of labels; these columns let what is seen at the neighbours count for
the label of a node, whatever their labels are.

Arrays: inputs (N, d) dense and factors with members (M, k) -> (N, 2 d + 1). Cost: O(d M k^2).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import scipy.sparse as sp

from kernelfields.data.graphs import Graphs
from kernelfields.data.reading import Matrix


def with_neighbour_columns(graphs: Graphs) -> np.ndarray:
    """Return the inputs of nodes joined with the means of their neighbours and log(1 + degree), (N, 2 d + 1)."""
    rows = dense_columns(graphs.inputs)
    pairs = [
        factors.members[:, pair]
        for factors in graphs.factors
        for pair in map(list, permutations(range(factors.labels_per_clique), 2))
    ]
    first, second = np.concatenate([np.empty((0, 2), np.int64), *pairs]).T
    adjacency = sp.csr_array((np.ones(len(first)), (first, second)), shape=(len(rows), len(rows)))
    adjacency.sum_duplicates()
    adjacency.data[:] = 1.0
    degrees = np.diff(adjacency.indptr)[:, None]
    means = np.where(degrees > 0, (adjacency @ rows) / np.maximum(degrees, 1), rows)
    return np.hstack([rows, means, np.log1p(degrees)]).astype(rows.dtype, copy=False)


def neighbour_names(names: Sequence[str]) -> list[str]:
    """Return names of the joined columns, such as "neighbours' age"."""
    return [*names, *(f"neighbours' {name}" for name in names), "log(1 + degree)"]


def dense_columns(inputs: Matrix) -> np.ndarray:
    """Return inputs that are dense; TypeError for others."""
    if sp.issparse(inputs):
        raise TypeError(
            "node_features are sparse: means over neighbours are for dense arrays; use toarray(), or multiply by the "
            "adjacency matrix before"
        )
    return inputs
