"""A kernel given by its values on a fixed list of objects.

    k(i, j) = matrix[i, j]

Inputs are one-column arrays of row numbers: X (n, 1), Z (m, 1), matrix (N, N). This is how objects
that are not vectors (strings, graphs, molecules) enter. Cost O(n m); the matrix is not copied.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.kernels import arrays
from kernelfields.kernels.kernel import Kernel, register, symmetric
from kernelfields.numerics.sparse_rows import Rows


@register("precomputed")
class Precomputed(Kernel):
    """k(i, j) = matrix[i, j] for a symmetric matrix; inputs are one column of row numbers."""

    shared = frozenset({"matrix"})

    def __init__(self, matrix: ArrayLike):
        self.matrix = matrix

    def check_parameters(self) -> None:
        """Check that the matrix is square, finite and symmetric up to rounding."""
        symmetric(self._values(), "Precomputed: matrix")

    def spec(self) -> dict[str, object]:
        """Return the description with the matrix as a numpy array."""
        return {"kind": self.kind, "matrix": self._values()}

    def _values(self) -> np.ndarray:
        try:
            values = np.asarray(self.matrix)
            values = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"Precomputed: matrix must hold real numbers: {error}.") from error
        if values.ndim != 2 or values.shape[0] != values.shape[1]:
            raise ValueError(f"Precomputed: matrix must be square, got shape {values.shape}.")
        return values

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        values = self._values()
        columns = arrays.row_numbers(X if Z is None else Z, len(values), "Precomputed")
        block = arrays.converted(arrays.looked_up(X, values, columns, "Precomputed"), arrays.block_dtype(X, Z))
        return symmetric(block, "Precomputed: matrix") if Z is None else block

    def _diagonal(self, X: Rows) -> np.ndarray:
        return arrays.converted(arrays.looked_up(X, self._values(), None, "Precomputed"), X.dtype)
