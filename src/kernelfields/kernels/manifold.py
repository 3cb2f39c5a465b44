"""A kernel that has seen inputs without labels: functions that vary little among neighbours get a small norm.

With m inputs C, the Gram matrix K = k(C, C), the Laplacian Lap (m, m) of a graph on C and M = strength Lap^power,

    ||f||^2 = ||f||_k^2 + f(C)^T M f(C)
    k~(x, z) = k(x, z) - k(x, C) (I + M K)^-1 M k(C, z)

is a kernel for all x and z, new ones too (Sindhwani, Niyogi, Belkin 2005). On C it is (K^-1 + M)^-1: with
k(x, z) = [x = z] / eps that is the (Lap + eps I)^-1 of Lafferty, Zhu, Liu (2004). Neighbours are those of the
kernel's own distance, d(x, z)^2 = k(x, x) + k(z, z) - 2 k(x, z), joined when one is among the other's nearest.

    M = R R^T,    I + R^T K R = L L^T,    k~(x, z) = k(x, z) - <q(x), q(z)>,    q(x) = L^-1 R^T k(C, x)

is symmetric as it stands, and rounding is that of k(x, x), however large M is.

Cost: O(m^3) time and O(m^2) memory once; then O(n m) values of k and O(n m min(m, r)) for k~(X, Z), X (n, d), Z (r, d).
Fails: ValueError or TypeError naming the parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.kernels import arrays
from kernelfields.kernels.graph_laplacian import PreparedKernel, adjacency_matrix, laplacian_matrix
from kernelfields.kernels.kernel import Kernel, Towards, checked, register, symmetric, valid_kernel
from kernelfields.kernels.rows import row_blocks
from kernelfields.numerics.parameters import declares_parameters, non_negative, whole
from kernelfields.numerics.sparse_rows import Rows, SparseRows, is_sparse

if TYPE_CHECKING:
    from scipy import sparse

Inputs = ArrayLike | SparseRows | Sequence[Rows]

# Three arrays of this many rows and columns take five gigabytes.
_MOST_INPUTS = 15_000


@register("manifold")
@declares_parameters
class Manifold(PreparedKernel[tuple[Rows, np.ndarray]]):
    """The kernel k bent to inputs that need no labels, so that neighbours among them have similar scores.

    Parameters
    ----------
    kernel : Kernel
    inputs : array (m, d) or sparse matrix, list of such, or None
        Labelled and unlabelled inputs together; of sequences, a list of arrays. None takes the inputs of ``fit``.
    graph : adjacency matrix (m, m), dense or sparse, or None
        Which inputs are alike; None joins each with its ``n_neighbors`` nearest.
    strength : float >= 0
        How much it costs to differ from neighbours; 0 gives ``kernel`` back.
    power : int >= 1
        Power of the normalised Laplacian: higher ones give smoother functions.
    """

    shared = frozenset({"inputs", "graph"})
    not_served = "it keeps a graph of inputs without labels"
    kernel: Kernel = checked(valid_kernel)
    inputs: Inputs | None = None
    _: KW_ONLY
    graph: ArrayLike | SparseRows | None = None
    n_neighbors: int = checked(whole, 10)
    strength: float = checked(non_negative, 1.0)
    power: int = checked(whole, 1)

    @property
    def keeps_rows(self) -> bool:
        """Whether ``resolve`` keeps the rows it is given, so that all of them have to be in one place."""
        return self.inputs is None

    def check_parameters(self) -> None:
        """Check the kernel, the numbers, and that inputs and graph fit."""
        super().check_parameters()
        if self.inputs is None:
            if self.graph is not None:
                raise ValueError("Manifold: a graph needs inputs, one row for each of its nodes, in their order.")
            return
        n_inputs = self._rows().shape[0]
        if self.graph is not None and (shape := adjacency_matrix(self.graph, "Manifold").shape) != (n_inputs,) * 2:
            raise ValueError(f"Manifold: graph has shape {shape}, and there are {n_inputs} inputs.")

    def resolve(self, X: object, weights: np.ndarray | None = None, labels: np.ndarray | None = None) -> Manifold:
        """Return a copy whose inner kernel follows the inputs, which are X where none were given."""
        self.check_parameters()
        inputs = _stacked(arrays.on_host(arrays.as_rows(X))) if self.inputs is None else self._rows()
        return self.__sklearn_clone__().set_params(kernel=self.kernel.resolve(inputs), inputs=inputs)

    def spec(self) -> dict[str, object]:
        """Return the description, with inputs and graph as arrays."""
        inputs = None if self.inputs is None else arrays.described_matrix(self._rows())
        graph = None if self.graph is None else arrays.described_matrix(adjacency_matrix(self.graph, "Manifold"))
        return {**super().spec(), "inputs": inputs, "graph": graph}

    def _towards(self, Z: Rows) -> Towards:
        rows, change = self._state()
        to_rows, to_Z = self.kernel.towards(rows), self.kernel.towards(Z)
        # (m, r): its product with k(X, C) is what seeing the inputs takes off k(X, Z).
        taken = change @ (change.T @ np.asarray(self.kernel(rows, Z), dtype=np.float64))

        def block(X: Rows) -> np.ndarray:
            values = np.empty((X.shape[0], Z.shape[0]), dtype=arrays.block_dtype(X, Z))
            for some in row_blocks(X.shape[0], rows.shape[0]):
                values[some] = to_Z(X[some]) - to_rows(X[some]) @ taken
            return values

        return block

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        if Z is not None:
            return self._towards(Z)(X)
        values = self.kernel(X).astype(np.float64, copy=False) - arrays.inner_products(self._coordinates(X))
        return values.astype(X.dtype, copy=False)

    def _diagonal(self, X: Rows) -> np.ndarray:
        values = self.kernel.diag(X).astype(np.float64, copy=False) - arrays.squared_norms(self._coordinates(X))
        return np.maximum(values, 0.0).astype(X.dtype, copy=False)

    def _coordinates(self, X: Rows) -> np.ndarray:
        """Return q(x) of every row, (n, m)."""
        rows, change = self._state()
        to_rows = self.kernel.towards(rows)
        return arrays.by_blocks(X, change.shape[1], np.float64, lambda some: to_rows(some) @ change)

    def _rows(self) -> Rows:
        return _stacked(self.inputs)

    def _prepared(self) -> tuple[Rows, np.ndarray]:
        """Return the inputs C (m, d) and R L^-T (m, m)."""
        if self.inputs is None:
            raise ValueError("Manifold: call resolve(X) with the inputs of fit first, or give inputs.")
        import scipy.linalg

        rows = self._rows()
        gram = symmetric(self.kernel(rows).astype(np.float64, copy=False), f"the Gram matrix of {self.kernel!r}")
        if self.graph is None:
            adjacency = neighbour_graph(gram, whole(self, "n_neighbors"))
        else:
            adjacency = adjacency_matrix(self.graph, "Manifold")
        eigenvalues, vectors = scipy.linalg.eigh(laplacian_matrix(adjacency).toarray())
        # Zeros come out as rounding of either sign.
        penalties = non_negative(self, "strength") * np.maximum(eigenvalues, 0.0) ** whole(self, "power")
        root = vectors * np.sqrt(penalties)
        inner = root.T @ gram @ root
        inner[np.diag_indices_from(inner)] += 1.0
        factor = scipy.linalg.cholesky(inner, lower=True)
        return rows, scipy.linalg.solve_triangular(factor, root.T, lower=True).T


def neighbour_graph(gram: np.ndarray, n_neighbors: int) -> sparse.csr_array:
    """Return the graph (m, m) that joins i and j when one is among the nearest of the other by k's distance."""
    from scipy import sparse

    n_rows = len(gram)
    n_neighbors = min(n_neighbors, n_rows - 1)
    if n_neighbors == 0:
        return sparse.csr_array((n_rows, n_rows))
    diagonal = gram.diagonal()
    # ||x_i - x_j||^2 without what is the same for all j.
    distances = diagonal - 2.0 * gram
    np.fill_diagonal(distances, np.inf)
    nearest = np.argpartition(distances, n_neighbors - 1, axis=1)[:, :n_neighbors]
    ones, begins = np.ones(nearest.size), np.arange(0, nearest.size + 1, n_neighbors)
    directed = sparse.csr_array((ones, nearest.ravel(), begins), shape=(n_rows, n_rows))
    return sparse.csr_array(directed.maximum(directed.T))


def _stacked(inputs: object) -> Rows:
    """Return inputs as one matrix of rows; a list holds one matrix, or one sequence, after the other."""
    if isinstance(inputs, list | tuple) and inputs and all(getattr(part, "ndim", 0) == 2 for part in inputs):
        parts = [arrays.as_rows(part, "inputs") for part in inputs]
        if len({part.shape[1] for part in parts}) > 1:
            raise ValueError("Manifold: the parts of inputs must have as many columns each.")
        dense = [part for part in parts if not is_sparse(part)]
        if len(dense) == len(parts):
            inputs = np.vstack(dense)
        else:
            from scipy import sparse

            inputs = sparse.vstack(parts, format="csr")
    rows = arrays.as_rows(inputs, "Manifold: inputs")
    if rows.shape[0] == 0 or rows.shape[0] > _MOST_INPUTS:
        raise ValueError(
            f"Manifold: inputs must have between 1 and {_MOST_INPUTS} rows, got {rows.shape[0]}: their Gram matrix "
            "is kept. Give a sample of the rows as inputs."
        )
    if not np.isfinite(rows.data if is_sparse(rows) else rows).all():
        raise ValueError("Manifold: inputs must be finite, but hold NaN or infinity.")
    return rows
