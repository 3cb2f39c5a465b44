"""Incomplete Cholesky factorisation, grown by panels of pivots (section 5.3 of the paper).

With Z the (N, k) columns so far, K - Z Z^T is the residual and d its diagonal. Taking pivots P:

    H = K_PP - Z_P Z_P^T = L L^T,      Z <- [Z, (K_:P - Z Z_P^T) L^-T],      d <- d - rowsums(new^2)

A panel costs one kernel block and matrix products: O(N k |P|) time and, beside Z, a temporary of a few
thousand rows. Rank r in all: O(N r^2).

One jitter policy: nothing is added to the diagonal; an input whose residual is below a small multiple of its
own k(x, x), its ``floor``, is numerically in the span of the pivots and is skipped. Duplicates and rank-deficient
Gram matrices therefore just end with fewer columns. The floor follows the input because rounding does: entry
(i, j) of K - Z Z^T is wrong by eps sqrt(K_ii K_jj), so a single input of large norm does not blur the others.

Pivots that do not come in falling order make K_BB far worse conditioned than its smallest pivot says, so float32
columns would leave residual blocks that are rounding only. With them the pivots' own rows R of Z, (r, r), are
kept in float64 beside Z, and the rows of candidates come from R by forward substitution: O(r^3) more in all.

A ``Columns`` object keeps Z: an array unless told otherwise, a file or nothing at all where memory
is short (engines/stored_features.py). Away from memory the pivots' rows are kept in float64 as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.linalg

from kernelfields.basis.proposals import PivotProposals
from kernelfields.basis.subspace import PivotSubspace, row_blocks
from kernelfields.basis.triangular import forward_substitution
from kernelfields.kernels import Kernel

# Rounding in a residual is about eps * k(x, x) * sqrt(rank); the floor keeps pivots well above it.
_FLOOR = {np.dtype(np.float64): 1e-11, np.dtype(np.float32): 2e-6}
# Values of a matrix or a function may be rounded on the scale of the largest of them, whatever k(x, x) is.
_SMALLEST_DIAGONAL = 1e-15
_PANEL_BYTES = 16 * 2**20


class Columns(Protocol):
    """Where the columns of a panel are kept: what :class:`PanelCholesky` asks of it."""

    capacity: int
    dtype: np.dtype
    #: Whether single rows of the features can be read at no cost.
    in_memory: bool

    def row_blocks(self, n_pivots: int) -> list[slice]:
        """Return the runs of rows in which ``n_pivots`` columns are to be computed."""

    def multiplier(self, panel: PanelCholesky, wide_features: np.ndarray) -> Callable[[slice], np.ndarray]:
        """Return the function rows -> Z_rows W^T for the features W (b, rank) of b pivots, in float64 here."""

    def write(self, rows: slice, begin: int, values: np.ndarray) -> None:
        """Take the columns from ``begin`` on of some rows."""

    def features(self, panel: PanelCholesky) -> Any:
        """Return the (N, rank) features so far."""

    def factor(self) -> Any:
        """Return room for the pivots' own rows in float64, (capacity, capacity), zero."""

    def leading(self, factor: Any, rank: int) -> Any:
        """Return the leading (rank, rank) part of what :meth:`factor` gave."""


class MemoryColumns:
    """Columns in one array, allocated once at full width: growing never copies Z."""

    in_memory = True

    def __init__(self, n_rows: int, capacity: int, dtype: np.dtype):
        self.capacity = capacity
        self.dtype = dtype
        self._array = np.empty((n_rows, capacity), dtype=dtype)

    def row_blocks(self, n_pivots: int) -> list[slice]:
        """Return runs of rows whose temporary block stays small."""
        return row_blocks(len(self._array), n_pivots, budget=_PANEL_BYTES)

    def multiplier(self, panel: PanelCholesky, wide_features: np.ndarray) -> Callable[[slice], np.ndarray]:
        """Return the function rows -> Z_rows W^T."""
        narrow = np.ascontiguousarray(wide_features, dtype=self.dtype)
        return lambda rows: self._array[rows, : narrow.shape[1]] @ narrow.T

    def write(self, rows: slice, begin: int, values: np.ndarray) -> None:
        """Fill some columns of some rows."""
        self._array[rows, begin : begin + values.shape[1]] = values

    def features(self, panel: PanelCholesky) -> np.ndarray:
        """Return a view of the first columns."""
        return self._array[:, : panel.rank]

    def factor(self) -> np.ndarray:
        """Return an array of zeros; its upper half is never touched, so that it takes no memory."""
        return np.zeros((self.capacity, self.capacity))

    def leading(self, factor: np.ndarray, rank: int) -> np.ndarray:
        """Return the leading part, shared where it is all: it is a good part of a small problem's memory."""
        return np.ascontiguousarray(factor[:rank, :rank])


class PanelCholesky(PivotProposals):
    """A growing factor Z of the Gram matrix of ``inputs`` (N, d) with room for ``capacity`` columns.

    ``columns`` keeps Z, and then ``capacity`` and ``dtype`` are those of ``columns``; None keeps it in memory.
    """

    def __init__(
        self,
        kernel: Kernel,
        inputs: Any,
        capacity: int,
        dtype: Any = np.float64,
        columns: Columns | None = None,
    ):
        self.kernel = kernel
        self.inputs = inputs
        self.dtype = np.dtype(dtype) if columns is None else columns.dtype
        n_rows = inputs.shape[0]
        self.diagonal = np.asarray(kernel.diag(inputs), dtype=np.float64)
        wrong = ~(np.isfinite(self.diagonal) & (self.diagonal >= 0))
        if np.any(wrong):
            row = int(np.argmax(wrong))
            raise ValueError(
                f"{kernel!r} is not positive semi-definite: k(x, x) is {self.diagonal[row]} for training input "
                f"{row}, where a finite number of at least 0 is needed"
            )
        self.residual = self.diagonal.copy()
        # Kernel values may be coarser than the columns: float32 inputs, say, or a function of the user's.
        values = kernel(inputs[:1], inputs[:1]).dtype
        relative = max(_FLOOR[self.dtype], _FLOOR[np.dtype(values)])
        largest = float(self.diagonal.max(initial=0.0))
        self.floor = np.maximum(relative * self.diagonal, _SMALLEST_DIAGONAL * largest)
        self.pivots = np.empty(0, dtype=np.int64)
        self._columns = columns or MemoryColumns(n_rows, min(capacity, n_rows), self.dtype)
        self._keeps_factor = self.dtype != np.float64 or not self._columns.in_memory
        self._factor: Any = self._columns.factor() if self._keeps_factor else None

    @property
    def capacity(self) -> int:
        """Number of columns there is room for."""
        return self._columns.capacity

    @property
    def features(self) -> Any:
        """The (N, rank) whitened features of the inputs: an array, or what stands for it where Z is elsewhere."""
        return self._columns.features(self)

    @property
    def factor(self) -> Any:
        """The pivots' own rows of Z in float64, lower, at full width, where they are kept beside it."""
        return self._factor

    @property
    def relative_residual(self) -> float:
        """Trace of the residual over the trace of the Gram matrix."""
        total = float(self.diagonal.sum())
        return float(self.residual.sum()) / total if total > 0 else 0.0

    def residual_block(self, rows: np.ndarray) -> np.ndarray:
        """Return the residual K - Z Z^T among some of the inputs, in float64."""
        inputs, features = self._wide_inputs(rows), self._wide_features(rows)
        block = np.array(self.kernel(inputs, inputs), dtype=np.float64)
        block -= features @ features.T
        return block

    def _wide_inputs(self, rows: np.ndarray) -> Any:
        return self.inputs[rows].astype(np.float64, copy=False)

    def _wide_features(self, rows: np.ndarray) -> np.ndarray:
        """Return z(x) of a few inputs in float64, (n, rank)."""
        if not self._keeps_factor:
            return self.features[rows]
        if self.rank == 0:
            return np.empty((len(rows), 0))
        block = self.kernel(self._wide_inputs(self.pivots), self._wide_inputs(rows)).astype(np.float64)
        return forward_substitution(self.factor, block).T

    def set_aside(self, refused: np.ndarray) -> None:
        """Never propose inputs again that lie in the span up to rounding."""
        # Not zero: certificates take the residual as an upper bound on what is left outside the span.
        self.residual[refused] = np.minimum(self.residual[refused], self.floor[refused])

    def append(self, pivots: np.ndarray, local_factor: np.ndarray) -> None:
        """Add pivots whose residual block has the lower Cholesky factor ``local_factor``."""
        if len(pivots) == 0:
            return
        begin, end = self.rank, self.rank + len(pivots)
        wide_features = self._wide_features(pivots)
        self._add_columns(self.inputs[pivots], wide_features, local_factor)
        if self._keeps_factor:
            self._factor[begin:end, :end] = np.hstack([wide_features, local_factor])
        self.pivots = np.concatenate([self.pivots, pivots])
        self._check_residual()
        np.maximum(self.residual, 0.0, out=self.residual)
        self.residual[pivots] = 0.0

    def _add_columns(self, pivot_inputs: Any, wide_features: np.ndarray, local_factor: np.ndarray) -> None:
        """Fill the columns of pivots with the given inputs and features, and lower the residuals."""
        multiplied = self._columns.multiplier(self, wide_features)
        inverse = scipy.linalg.solve_triangular(
            local_factor, np.eye(len(local_factor)), lower=True, check_finite=False
        ).T.astype(self.dtype)
        for rows in self._columns.row_blocks(len(local_factor)):
            block = self.kernel(self.inputs[rows], pivot_inputs).astype(self.dtype, copy=False)
            if not np.all(np.isfinite(block)):
                raise ValueError(f"{self.kernel!r} returned values that are not finite")
            block -= multiplied(rows)
            columns = block @ inverse
            self._columns.write(rows, self.rank, columns)
            self.residual[rows] -= np.einsum("ij,ij->i", columns, columns, dtype=np.float64)

    def _check_residual(self) -> None:
        self.check_lowest(float(self.residual.min()), float(self.floor.max()))

    def subspace(self) -> PivotSubspace:
        """Return the subspace spanned by the pivots, able to score new inputs."""
        if not self._keeps_factor:
            factor = np.tril(self.features[self.pivots])
        else:
            factor = self._columns.leading(self._factor, self.rank)
        return PivotSubspace(self.kernel, self.inputs[self.pivots], factor, self.pivots.copy())
