"""Incomplete Cholesky factorisation, grown by panels of pivots (section 5.3 of the paper).

With Z the (N, k) columns so far, K - Z Z^T is the residual and d its diagonal. Taking pivots P:

    H = K_PP - Z_P Z_P^T = L L^T,      Z <- [Z, (K_:P - Z Z_P^T) L^-T],      d <- d - rowsums(new^2)

A panel costs one kernel block and matrix products: O(N k |P|) time and, beside Z, a temporary of a few thousand
rows. Rank r in all: O(N r^2). The pivots among b candidates are found on their residual block H (b, b), in
float64, at O(b^3).

One jitter policy: nothing is added to the diagonal; an input whose residual is below a small multiple of its
own k(x, x), its ``floor``, is numerically in the span of the pivots and is skipped. Duplicates and rank-deficient
Gram matrices therefore just end with fewer columns. The floor follows the input because rounding does: entry
(i, j) of K - Z Z^T is wrong by eps sqrt(K_ii K_jj), so a single input of large norm does not blur the others.

    outside = {j : d_j > floor_j}

A basis refers to inputs by number and never reads all residuals at once: they may be on a device. Cost: O(N) each.

Pivots that do not come in falling order make K_BB far worse conditioned than its smallest pivot suggests, so float32
columns would leave residual blocks that are rounding only. With them the pivots' own rows R of Z, (r, r), are
kept in float64 beside Z, and the rows of candidates come from R by forward substitution: O(r^3) more in all.

Z is one array, allocated once at full width: growing never copies it. Where memory is short, the array is mapped to a
file (objective/designs/budget.py).

Raises ValueError where the kernel is not positive semi-definite on the inputs, or returns what is not finite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike

from kernelfields.basis.subspace import PivotSubspace
from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.rows import row_blocks
from kernelfields.numerics.sparse_rows import Rows
from kernelfields.numerics.threads import Workers, blas_threads
from kernelfields.numerics.triangular import forward_substitution, room_for_factor

# Rounding in a residual is about eps * k(x, x) * sqrt(rank); the floor keeps pivots well above it.
_FLOOR = {np.dtype(np.float64): 1e-11, np.dtype(np.float32): 2e-6}
# Values of a matrix or a function may be rounded on the scale of the largest of them, whatever k(x, x) is.
SMALLEST_DIAGONAL = 1e-15
_PANEL_BYTES = 4 * 2**20


def independent_rows(block: np.ndarray, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factor a PSD block by pivoted Cholesky, the largest residual above its ``floor`` first.

    Returns the positions in the order taken and the lower factor of the block restricted to them. Taken as they
    come, rows barely above the floor would leave a factor too ill-conditioned to divide by. Cost O(b^3).
    """
    if not np.any(np.diagonal(block) > floor):
        return np.empty(0, dtype=np.int64), np.empty((0, 0))
    highest = np.max(floor)
    scale = np.sqrt(floor / highest)  # ones, and no rounding, where all k(x, x) are alike
    factor, order, rank, _ = scipy.linalg.lapack.dpstrf(block / np.outer(scale, scale), tol=highest, lower=1)
    accepted = order[:rank].astype(np.int64) - 1
    return accepted, scale[accepted, None] * np.tril(factor[:rank, :rank])


def select_rows(block: np.ndarray, accept: Callable[[int, float], bool]) -> tuple[np.ndarray, np.ndarray]:
    """Select rows of a PSD block one by one: row i if ``accept(i, residual_i)`` is true.

    The residual is taken with respect to the rows kept before it. Returns positions and lower factor.
    """
    size = len(block)
    columns = np.zeros((size, size))
    residual = np.diagonal(block).copy()
    kept: list[int] = []
    for i in range(size):
        if not accept(i, residual[i]):
            continue
        k = len(kept)
        column = (block[:, i] - columns[:, :k] @ columns[i, :k]) / np.sqrt(residual[i])
        columns[:, k] = column
        residual -= column**2
        kept.append(i)
    positions = np.array(kept, dtype=np.int64)
    return positions, np.tril(columns[positions, : len(kept)])


class PanelCholesky:
    """A growing factor Z of a Gram matrix, by incomplete Cholesky factorisation.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    inputs : array or CSR matrix (N, d)
        The inputs.
    capacity : int
        The most columns.
    dtype : dtype, default float64
        The type of Z.
    room : array (N, capacity), optional
        What holds Z; by default an array in memory.
    workers : Workers, optional
        The threads that compute columns, blocks of rows side by side; by default one.

    See Also
    --------
    RandomCholesky : Chooses the pivots.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.basis import PanelCholesky
    >>> from kernelfields.kernels import RBF
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> panel = PanelCholesky(RBF(1.0), X, capacity=3)
    >>> panel.extend(np.array([0, 1, 2]))
    3
    >>> bool(np.allclose(panel.features @ panel.features.T, RBF(1.0)(X)))
    True
    """

    #: The numbers of the inputs among more of them; None where these are all.
    numbers: np.ndarray | None = None

    def __init__(
        self,
        kernel: Kernel,
        inputs: Rows,
        capacity: int,
        dtype: DTypeLike = np.float64,
        room: np.ndarray | None = None,
        workers: Workers | None = None,
    ):
        self.kernel = kernel
        self.inputs = inputs
        self.workers = Workers(1) if workers is None else workers
        self.dtype = np.dtype(dtype)
        n_rows = inputs.shape[0]
        self._begin(np.asarray(kernel.diag(inputs), dtype=np.float64))
        self._columns = np.empty((n_rows, min(capacity, n_rows)), dtype=self.dtype) if room is None else room
        #: The pivots' own rows of Z in float64, lower, at full width; None where Z itself is in float64.
        self._factor = None if self.dtype == np.float64 else room_for_factor(self.capacity)

    def _begin(self, diagonal: np.ndarray) -> None:
        """Set residual and floor of each input from k(x, x) and the precision of kernel values."""
        wrong = ~(np.isfinite(diagonal) & (diagonal >= 0))
        if np.any(wrong):
            row = int(np.argmax(wrong))
            raise ValueError(
                f"{self.kernel!r} is not positive semi-definite: k(x, x) is {diagonal[row]} for training input "
                f"{row}, where a finite number of at least 0 is needed"
            )
        self.diagonal, self.residual = diagonal, diagonal.copy()
        # Kernel values may be coarser than the columns: those of float32 inputs, or of a function of the user's.
        relative = max(_FLOOR[self.dtype], _FLOOR[self._value_dtype()])
        largest = float(diagonal.max(initial=0.0))
        self.floor = np.maximum(relative * diagonal, SMALLEST_DIAGONAL * largest)
        self.pivots = np.empty(0, dtype=np.int64)

    def _value_dtype(self) -> np.dtype:
        """Return the precision of kernel values."""
        return self.kernel(self.inputs[:1], self.inputs[:1]).dtype

    @property
    def capacity(self) -> int:
        """Largest number of columns."""
        return self._columns.shape[1]

    @property
    def pivot_inputs(self) -> Rows:
        """The inputs of all pivots, (rank, d)."""
        return self.inputs[self.pivots]

    @property
    def features(self) -> Any:
        """The (N, rank) whitened features of the inputs: a view of the array, or of a tensor on a device."""
        return self._columns[:, : self.rank]

    @property
    def relative_residual(self) -> float:
        """Trace of the residual over the trace of the Gram matrix."""
        total = float(self.diagonal.sum())
        return float(self.residual.sum()) / total if total > 0 else 0.0

    @property
    def candidates(self) -> np.ndarray:
        """The inputs with a residual above their floor: candidates for pivots."""
        return np.flatnonzero(self.residual > self.floor)

    @property
    def n_candidates(self) -> int:
        """Number of inputs that can become pivots."""
        return int(np.count_nonzero(self.residual > self.floor))

    def select_candidates(self, places: np.ndarray) -> np.ndarray:
        """Return inputs by their indices in ``outside``.

        Parameters
        ----------
        places : array
            Places, 0 to ``n_candidates`` - 1.

        Returns
        -------
        array
            Numbers of inputs.
        """
        return self.candidates[places]

    def largest_candidate(self) -> np.ndarray:
        """Return the input with the largest residual.

        Returns
        -------
        array (1,)
            Its number.
        """
        outside = self.candidates
        return outside[[np.argmax(self.residual[outside])]]

    def draw_candidates(self, uniforms: np.ndarray) -> np.ndarray:
        """Draw inputs in proportion to their residuals.

        Parameters
        ----------
        uniforms : array (n,)
            A number in [0, 1) for each draw.

        Returns
        -------
        array (n,)
            Numbers of inputs.
        """
        outside = self.candidates
        cumulative = np.cumsum(self.residual[outside])
        return outside[np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")]

    def take_residuals(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return residual and floor of some inputs.

        Parameters
        ----------
        rows : array (n,)
            Numbers of inputs.

        Returns
        -------
        tuple of array (n,)
            Residuals and floors.
        """
        return self.residual[rows], self.floor[rows]

    def residual_block(self, rows: np.ndarray) -> np.ndarray:
        """Return the residual K - Z Z^T among some of the inputs, in float64.

        Parameters
        ----------
        rows : array (n,)
            Numbers of inputs.

        Returns
        -------
        array (n, n)
            The block.
        """
        inputs, features = self._wide_inputs(rows), self._wide_features(rows)
        block = np.array(self.kernel(inputs, inputs), dtype=np.float64)
        block -= features @ features.T
        return block

    def _wide_inputs(self, rows: np.ndarray) -> Rows:
        return self.inputs[rows].astype(np.float64, copy=False)

    def _wide_features(self, rows: np.ndarray) -> np.ndarray:
        """Return z(x) of a few inputs in float64, (n, rank)."""
        if self._factor is None:
            return self.features[rows]
        if self.rank == 0:
            return np.empty((len(rows), 0))
        block = self.kernel(self._wide_inputs(self.pivots), self._wide_inputs(rows)).astype(np.float64)
        return forward_substitution(self._factor, block).T

    def exclude_inputs(self, refused: np.ndarray) -> None:
        """Exclude inputs that are in the span up to rounding.

        Parameters
        ----------
        refused : array (n,)
            Numbers of inputs.
        """
        # Not zero: certificates take the residual as an upper bound on what is left outside the span.
        self.residual[refused] = np.minimum(self.residual[refused], self.floor[refused])

    def append(self, pivots: np.ndarray, local_factor: np.ndarray) -> None:
        """Add pivots by the factor of their residual block.

        Parameters
        ----------
        pivots : array (n,)
            Numbers of inputs.
        local_factor : array (n, n)
            The lower Cholesky factor of their residual block.
        """
        if len(pivots) == 0:
            return
        begin = self.rank
        wide_features = self._wide_features(pivots)
        self._add_columns(self.inputs[pivots], wide_features, local_factor)
        if self._factor is not None:
            for row, values in enumerate(np.hstack([wide_features, local_factor]), begin):
                # One by one, so that pages behind the diagonal stay untouched.
                self._factor[row : row + 1, : row + 1] = values[: row + 1]
        self._add(pivots)

    def _add(self, pivots: np.ndarray) -> None:
        """Add pivots with computed columns, and raise negative residuals to zero."""
        self.pivots = np.concatenate([self.pivots, pivots])
        self.check_lowest(float(self.residual.min()), float(self.floor.max()))
        np.maximum(self.residual, 0.0, out=self.residual)
        self.residual[pivots] = 0.0

    def _add_columns(self, pivot_inputs: Rows, wide_features: np.ndarray, local_factor: np.ndarray) -> None:
        """Compute the columns of pivots from their inputs and features, and lower the residuals."""
        features, narrow = self.features, np.ascontiguousarray(wide_features, dtype=self.dtype)
        inverse = scipy.linalg.solve_triangular(
            local_factor, np.eye(len(local_factor)), lower=True, check_finite=False
        ).T.astype(self.dtype)
        blocks = list(row_blocks(len(self.residual), len(local_factor), budget=_PANEL_BYTES))

        def fill(number: int, _: int) -> None:
            rows = blocks[number]
            block = self.kernel(self.inputs[rows], pivot_inputs).astype(self.dtype, copy=False)
            if not np.all(np.isfinite(block)):
                raise ValueError(f"{self.kernel!r} returned values that are not finite")
            block -= features[rows] @ narrow.T
            columns = block @ inverse
            self._columns[rows, self.rank : self.rank + columns.shape[1]] = columns
            self.residual[rows] -= np.einsum("ij,ij->i", columns, columns, dtype=np.float64)

        # Products of blocks are small: threads of BLAS would wait for each other most of the time.
        with blas_threads(1 if self.workers.n_threads > 1 and len(blocks) > 1 else None):
            self.workers.each(fill, [(number, number + 1) for number in range(len(blocks))])

    @property
    def rank(self) -> int:
        """Number of columns so far."""
        return len(self.pivots)

    @property
    def is_exhausted(self) -> bool:
        """Whether no input has a residual above its floor."""
        return self.n_candidates == 0

    def extend(self, candidates: np.ndarray) -> int:
        """Add the candidates outside the span, the largest ratio of residual to floor first.

        Parameters
        ----------
        candidates : array (n,)
            Numbers of inputs.

        Returns
        -------
        int
            How many were added.
        """
        candidates = np.asarray(candidates, dtype=np.int64)[: self.capacity - self.rank]
        if len(candidates) == 0:
            return 0
        accepted, local = independent_rows(self.residual_block(candidates), self.take_residuals(candidates)[1])
        self.append(candidates[accepted], local)
        self.exclude_inputs(np.setdiff1d(candidates, self.pivots))
        return len(accepted)

    def check_lowest(self, lowest: float, highest_floor: float) -> None:
        """Raise ValueError if a residual is too negative for a positive semi-definite kernel.

        Parameters
        ----------
        lowest : float
            The least residual.
        highest_floor : float
            The largest floor.
        """
        if lowest < -1e3 * highest_floor * np.sqrt(self.rank):
            raise ValueError(
                f"{self.kernel!r} is not positive semi-definite on the training inputs: after {self.rank} pivots a "
                f"residual variance is {lowest:.3g} and should not be negative. Check the kernel function or matrix."
            )

    def candidate_scores(self, candidates: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """Return ||(K - Z Z^T)_j R||^2 / d_j for each candidate j.

        Parameters
        ----------
        candidates : array (n,)
            Numbers of inputs.
        residuals : array (N, q)
            The residuals R of a fit.

        Returns
        -------
        array (n,)
            The scores.
        """
        features = self.features
        projected = np.zeros((len(candidates), residuals.shape[1]))
        inside = np.zeros((self.rank, residuals.shape[1]))
        for rows in row_blocks(self.inputs.shape[0], max(len(candidates), self.rank)):
            projected += self.kernel(self.inputs[candidates], self.inputs[rows]) @ residuals[rows]
            inside += features[rows].T @ residuals[rows].astype(self.dtype)
        projected -= features[candidates] @ inside
        left = np.maximum(self.residual[candidates], self.floor[candidates])
        return np.einsum("ij,ij->i", projected, projected) / left

    def subspace(self) -> PivotSubspace:
        """Return the span of the pivots, which scores new inputs.

        Returns
        -------
        PivotSubspace
            The span.
        """
        if self._factor is None:
            factor = np.tril(self.features[self.pivots])
        else:
            # Shared where it is all: it can be most of the memory.
            factor = np.ascontiguousarray(self._factor[: self.rank, : self.rank])
        return PivotSubspace(self.kernel, self.pivot_inputs, factor, self.number_rows(self.pivots))

    def number_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the numbers of rows among all inputs.

        Parameters
        ----------
        rows : array (n,)
            Rows of this process.

        Returns
        -------
        array (n,)
            Their numbers.
        """
        return rows.copy() if self.numbers is None else self.numbers[rows]
