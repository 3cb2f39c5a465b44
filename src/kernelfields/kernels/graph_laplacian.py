"""Kernels on the nodes of one graph, by its Laplacian.

With a symmetric adjacency W >= 0 (N, N), degrees D = diag(W 1) and

    Lap = I - D^-1/2 W D^-1/2        normalised, its eigenvalues in [0, 2];  D - W  otherwise

    GraphLaplacian   K = (Lap + eps I)^-power       functions that vary little along edges have a small norm
    GraphDiffusion   K = exp(-time Lap)             heat that has flowed for a time

(Smola, Kondor 2003; Lafferty, Zhu, Liu 2004). A node without edges has a zero row in Lap. At power 1 and
eps = a / (1 - a), eps K of the normalised Laplacian is personalised PageRank with restart probability a.
Labels of some nodes reach the others through K: at power 1, K_UL K_LL^-1 y_L is the harmonic solution as eps -> 0.

Inputs are one column of node numbers: X (n, 1). Columns of K are computed when they are needed and K is never held:
O(fill) once for a sparse factor and O(N n power) for n columns. Fails: ValueError or TypeError naming the parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.kernels.arrays import block_dtype, described_matrix, row_numbers
from kernelfields.kernels.kernel import Kernel, Towards, checked, register, rounding_tolerance
from kernelfields.numerics.parameters import declares_parameters, positive_number, whole
from kernelfields.numerics.sparse_rows import Rows, SparseRows, is_sparse

if TYPE_CHECKING:
    from scipy import sparse

State = TypeVar("State")

# Columns of K that are computed together where the diagonal alone is wanted.
_TOGETHER = 256


def adjacency_matrix(graph: ArrayLike | SparseRows, owner: str) -> sparse.csr_array:
    """Return a graph as a CSR matrix of float64; ValueError unless it is square, symmetric, finite and >= 0."""
    from scipy import sparse

    try:
        matrix = sparse.csr_array(graph if is_sparse(graph) else np.asarray(graph), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{owner}: graph must be a matrix of real numbers, dense or sparse: {error}.") from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(f"{owner}: graph must be a square adjacency matrix with a node or more, got {matrix.shape}.")
    if not np.isfinite(matrix.data).all() or (matrix.data < 0).any():
        raise ValueError(f"{owner}: the weights of the edges in graph must be finite and >= 0.")
    difference = abs(matrix - matrix.T)
    if difference.nnz and difference.max() > rounding_tolerance(matrix.dtype) * matrix.max():
        raise ValueError(f"{owner}: graph must be symmetric; for links with a direction give graph + graph.T.")
    return (matrix + matrix.T) / 2


def laplacian_matrix(adjacency: sparse.csr_array, normalized: bool = True) -> sparse.csr_array:
    """Return Lap (N, N), exactly symmetric; a loop adds to the degree of its node."""
    from scipy import sparse

    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    if not normalized:
        return sparse.csr_array(sparse.diags_array(degrees) - adjacency)
    inverse = np.divide(1.0, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    scaling = sparse.diags_array(inverse)
    # The product from both sides rounds alike above and below the diagonal only when averaged.
    scaled = scaling @ adjacency @ scaling
    return sparse.csr_array(sparse.diags_array((degrees > 0).astype(np.float64)) - (scaled + scaled.T) / 2)


class PreparedKernel(Kernel, Generic[State]):
    """A kernel with something that is computed once for its parameters; subclasses write ``_prepared()``."""

    _kept: tuple[list[object], State] | None = None

    def __getstate__(self) -> dict[str, object]:
        # What was computed is not pickled: it is computed again where it is needed.
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}

    def _prepared(self) -> State:
        raise NotImplementedError

    def _state(self) -> State:
        """Return what was prepared for the parameters; anew where one of them has changed."""
        parameters = list(self.get_params(deep=False).values())
        if self._kept is None or not all(map(_unchanged, self._kept[0], parameters)):
            self.check_parameters()
            copies = [value.__sklearn_clone__() if isinstance(value, Kernel) else value for value in parameters]
            self._kept = copies, self._prepared()
        return self._kept[1]


def _unchanged(old: object, new: object) -> bool:
    return old == new if isinstance(new, Kernel) else old is new


class _OnNodes(PreparedKernel["_NodeColumns"]):
    """A function of the Laplacian of a graph; subclasses write ``_function_of(laplacian)``."""

    graph: ArrayLike | SparseRows
    normalized: bool
    shared = frozenset({"graph"})
    not_served = "prediction with NumPy alone does not have it"

    def check_parameters(self) -> None:
        """Check the numbers, and that the graph is symmetric with weights >= 0."""
        super().check_parameters()
        if not isinstance(self.normalized, bool | np.bool_):
            raise TypeError(f"{type(self).__name__}: normalized must be True or False, got {self.normalized!r}.")
        adjacency_matrix(self.graph, type(self).__name__)

    def spec(self) -> dict[str, object]:
        """Return the description, with the graph in the form it has once it is checked."""
        return {**super().spec(), "graph": described_matrix(adjacency_matrix(self.graph, type(self).__name__))}

    def smooth(self, values: ArrayLike | SparseRows) -> np.ndarray:
        """Return values (N,) or (N, q), one row a node, averaged over the graph; a zero of Lap keeps its values.

        That is eps^power K values, or K values for heat: words of documents mixed with those of their neighbours.
        """
        state = self._state()
        dense = np.asarray(values.toarray() if is_sparse(values) else values, dtype=np.float64)
        if dense.ndim not in (1, 2) or len(dense) != state.n_nodes:
            raise ValueError(
                f"{type(self).__name__}: values must have a row for each of the {state.n_nodes} nodes, got shape "
                f"{dense.shape}."
            )
        smoothed = self._scale() * state.function(dense.reshape(len(dense), -1))
        return smoothed.reshape(dense.shape)

    def _scale(self) -> float:
        """Return what makes K the identity on zeros of the Laplacian."""
        return 1.0

    def _function_of(self, laplacian: sparse.csr_array) -> Callable[[np.ndarray], np.ndarray]:
        """Return V -> K V for V (N, q)."""
        raise NotImplementedError

    def _prepared(self) -> _NodeColumns:
        laplacian = laplacian_matrix(adjacency_matrix(self.graph, type(self).__name__), bool(self.normalized))
        return _NodeColumns(laplacian.shape[0], self._function_of(laplacian))

    def _numbers(self, X: Rows) -> np.ndarray:
        return row_numbers(X, self._state().n_nodes, type(self).__name__)

    def _towards(self, Z: Rows) -> Towards:
        columns = self._state().columns(self._numbers(Z))
        return lambda X: columns[self._numbers(X)].astype(block_dtype(X, Z), copy=False)

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        if Z is not None:
            return self._towards(Z)(X)
        rows = self._numbers(X)
        block = self._state().columns(rows)[rows]
        return ((block + block.T) / 2).astype(X.dtype, copy=False)

    def _diagonal(self, X: Rows) -> np.ndarray:
        return self._state().diagonal(self._numbers(X)).astype(X.dtype, copy=False)


class _NodeColumns:
    """Columns of K (N, N) by products V -> K V, and those entries of its diagonal that were needed."""

    def __init__(self, n_nodes: int, function: Callable[[np.ndarray], np.ndarray]):
        self.n_nodes = n_nodes
        self.function = function
        self._diagonal = np.full(n_nodes, np.nan)

    def columns(self, nodes: np.ndarray) -> np.ndarray:
        """Return the columns of nodes, (N, n); each node is computed once, however often it is named."""
        unique, columns = np.unique(nodes, return_inverse=True)
        units = np.zeros((self.n_nodes, len(unique)))
        units[unique, np.arange(len(unique))] = 1.0
        return self.function(units)[:, columns] if len(unique) else units

    def diagonal(self, nodes: np.ndarray) -> np.ndarray:
        """Return the entries of the diagonal, (n,)."""
        missing = np.unique(nodes[np.isnan(self._diagonal[nodes])])
        for first in range(0, len(missing), _TOGETHER):
            some = missing[first : first + _TOGETHER]
            self._diagonal[some] = self.columns(some)[some].diagonal()
        return self._diagonal[nodes]


@register("graph laplacian")
@declares_parameters
class GraphLaplacian(_OnNodes):
    """K = (Lap + eps I)^-power on the nodes of a graph; inputs are one column of node numbers.

    ``graph`` is the adjacency matrix (N, N), dense or sparse. ``eps`` is how little a function may follow the graph:
    small ones reach far. ``normalized=False`` takes D - W.
    """

    graph: ArrayLike | SparseRows
    eps: float = checked(positive_number, 0.1)
    power: int = checked(whole, 1)
    normalized: bool = True

    def _scale(self) -> float:
        return positive_number(self, "eps") ** whole(self, "power")

    def _function_of(self, laplacian: sparse.csr_array) -> Callable[[np.ndarray], np.ndarray]:
        from scipy import sparse
        from scipy.sparse import linalg

        eps, power = positive_number(self, "eps"), whole(self, "power")
        solve = linalg.splu(sparse.csc_array(laplacian + eps * sparse.eye_array(laplacian.shape[0]))).solve

        def function(values: np.ndarray) -> np.ndarray:
            for _ in range(power):
                values = solve(values)
            return values

        return function


@register("graph diffusion")
@declares_parameters
class GraphDiffusion(_OnNodes):
    """K = exp(-time Lap) on the nodes of a graph; inputs are one column of node numbers."""

    graph: ArrayLike | SparseRows
    time: float = checked(positive_number, 1.0)
    normalized: bool = True

    def _function_of(self, laplacian: sparse.csr_array) -> Callable[[np.ndarray], np.ndarray]:
        from scipy import sparse
        from scipy.sparse import linalg

        generator = sparse.csr_array(-positive_number(self, "time") * laplacian)
        trace = float(generator.diagonal().sum())
        return lambda values: linalg.expm_multiply(generator, values, traceA=trace)
