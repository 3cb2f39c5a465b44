"""A kernel given by its values on a fixed list of objects.

    k(i, j) = matrix[i, j]

Inputs are one-column arrays of row numbers: X (n, 1), Z (m, 1), matrix (N, N). This is how objects
that are not vectors (strings, graphs, molecules) enter. Cost O(n m); the matrix is not copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from kernelfields.kernels.arrays import block_dtype
from kernelfields.kernels.kernel import Kernel, symmetric


class Precomputed(Kernel):
    """k(i, j) = matrix[i, j] for a symmetric matrix; inputs are one column of row numbers."""

    kind = "precomputed"

    def __init__(self, matrix: Any):
        self.matrix = matrix

    def __sklearn_clone__(self) -> Precomputed:
        # The matrix is never written to and may fill the memory: clones share it.
        return Precomputed(self.matrix)

    def check_parameters(self) -> None:
        """Check that the matrix is square, finite and symmetric up to rounding."""
        symmetric(self._values(), "Precomputed: matrix")

    def spec(self) -> dict[str, Any]:
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

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        values = self._values()
        rows = row_numbers(X, len(values), "Precomputed")
        columns = rows if Z is None else row_numbers(Z, len(values), "Precomputed")
        block = values[np.ix_(rows, columns)].astype(block_dtype(X, Z), copy=False)
        return symmetric(block, "Precomputed: matrix") if Z is None else block

    def _diagonal(self, X: Any) -> np.ndarray:
        values = self._values()
        return values.diagonal()[row_numbers(X, len(values), "Precomputed")].astype(X.dtype)


def row_numbers(X: Any, n_rows: int, owner: str) -> np.ndarray:
    """Return one column of row numbers below n_rows as whole numbers (n,); ValueError, naming the owner, otherwise."""
    if X.shape[1] != 1:
        raise ValueError(
            f"{owner}: inputs are one column of row numbers into the matrix, got {X.shape[1]} columns. "
            "Use np.arange(n).reshape(-1, 1) for the first n objects."
        )
    numbers = (X.toarray() if sparse.issparse(X) else X).ravel()
    wrong = ~((numbers >= 0) & (numbers < n_rows) & (numbers == np.floor(numbers)))
    if wrong.any():
        raise ValueError(
            f"{owner}: row numbers must be whole and from 0 to {n_rows - 1}, "
            f"got {numbers[np.argmax(wrong)]:g} in row {int(np.argmax(wrong))} of the input."
        )
    return numbers.astype(np.intp)
