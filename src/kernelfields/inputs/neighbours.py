"""Columns of graph nodes with the means of their neighbours' columns.

    x_v  ->  ( x_v,  (1 / |N(v)|) sum of x_w over w in N(v),  log(1 + |N(v)|) )

N(v) are the nodes that meet v in a factor of any type, each once, whatever its direction. A node without neighbours has
its own columns for the means. Edges score pairs of labels; these columns let what is seen at the neighbours count for
the label of a node, whatever their labels are.

Arrays: inputs (N, d) dense and factors with members (M, k) -> (N, 2 d + 1); no means of a kernel's own columns.
Cost: O(d M k^2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, ClassVar, Self

import numpy as np

from kernelfields.inputs.step import InputStep, Layout, Rows, described_columns
from kernelfields.numerics.sparse_rows import is_sparse


@dataclass(frozen=True, eq=False)
class Neighbours(InputStep):
    """Join the columns of nodes with the means of their neighbours and log(1 + degree).

    Parameters
    ----------
    own : tuple of int, default ()
        Places of columns that kernels read as they come; no step changes their values.
    categories : int, default 0
        The number of columns, the last ones, that are there or not; no step changes their values.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inputs import Layout, Neighbours
    >>> layout = Layout(np.array([0, 3]), {"edge": np.array([[0, 1], [1, 2]])})
    >>> Neighbours()(np.array([[1.0], [2.0], [3.0]]), layout)[:, 1].tolist()  # means of neighbours
    [2.0, 2.0, 2.0]
    """

    entry = "neighbours"
    setting: ClassVar[Mapping[str, object]] = {"neighbours": True}

    def __call__(self, rows: Rows, layout: Layout) -> np.ndarray:
        """Concatenate the rows of nodes with the means of their neighbours."""
        import scipy.sparse as sp

        if is_sparse(rows):
            raise TypeError(
                "node_features are sparse: means over neighbours are for dense arrays; use toarray(), or multiply by "
                "the adjacency matrix before"
            )
        pairs = [
            members[:, pair]
            for members in layout.members.values()
            for pair in map(list, permutations(range(members.shape[1]), 2))
        ]
        first, second = np.concatenate([np.empty((0, 2), np.int64), *pairs]).T
        adjacency = sp.csr_array((np.ones(len(first)), (first, second)), shape=(len(rows), len(rows)))
        adjacency.sum_duplicates()
        adjacency.data[:] = 1.0
        degrees = np.diff(adjacency.indptr)[:, None]
        seen = np.delete(rows, self.own, axis=1)
        means = np.where(degrees > 0, (adjacency @ seen) / np.maximum(degrees, 1), seen)
        return np.hstack([rows, means, np.log1p(degrees)]).astype(rows.dtype, copy=False)

    def names(self, names: Sequence[str]) -> list[str]:
        """Return the names of columns, with new names such as "neighbours' age".

        Parameters
        ----------
        names : sequence of str
            The names before the step.

        Returns
        -------
        sequence of str
            The names after it.
        """
        others = (f"neighbours' {name}" for place, name in enumerate(names) if place not in self.own)
        return [*names, *others, "log(1 + degree)"]

    def columns(self, chosen: np.ndarray, n_columns: int) -> np.ndarray:
        """Return the indices of the nodes' own columns.

        Parameters
        ----------
        chosen : array (m,)
            Places of columns.
        n_columns : int
            The number of columns before the step.

        Returns
        -------
        array (m,)
            Their places after the step.
        """
        return chosen

    def describe(self) -> dict[str, object]:
        """Describe the step by plain values, for a model file.

        Returns
        -------
        dict
            The description.
        """
        return {self.entry: True, **self.kept_columns()}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any], n_columns: int) -> Self:
        """Rebuild the step from its description.

        Parameters
        ----------
        described : dict
            The inputs of a model, as its file describes them.
        n_columns : int
            The number of columns before the step.

        Returns
        -------
        InputStep
            The step.

        Raises
        ------
        ValueError
            If the description is not sound.
        """
        return cls(**described_columns(described, n_columns))
