"""Windows of inputs: the neighbours of every position within its sequence.

    x'_t = (x_{t-b}, ..., x_t, ..., x_{t+a}),    rows beyond the ends of the sequence are zero

Arrays: inputs (N, d) dense or CSR, result (N, (b + 1 + a) d) of the same kind and dtype; block j of the
columns holds neighbour t - b + j. Cost: O(N w d) dense, O(w (N + nnz)) sparse, w = b + 1 + a; no Python
loop over positions. Raises ValueError for a window that is none.
"""

from __future__ import annotations

import numpy as np

from kernelfields.numerics.parameters import check_window
from kernelfields.numerics.sparse_rows import Rows, SparseRows, gather_entries, is_sparse


def window_view(inputs: Rows, offsets: np.ndarray, window: object) -> Rows:
    """Concatenate every row with its neighbours.

    Parameters
    ----------
    inputs : array or CSR matrix (N, d)
        The rows of all sequences, end to end.
    offsets : array (S + 1,)
        Where each sequence begins.
    window : odd int or (before, after)
        The positions that are joined.

    Returns
    -------
    array or CSR matrix (N, d * window)
        The joined rows, with zeros beyond the ends; ``inputs`` itself for one position.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.features import window_view
    >>> window_view(np.array([[1.0], [2.0], [3.0]]), np.array([0, 3]), (1, 0))
    array([[0., 1.],
           [1., 2.],
           [2., 3.]])
    """
    before, after = check_window(window)
    if before == after == 0:
        return inputs
    shifts = np.arange(-before, after + 1)
    return _sparse(inputs, offsets, shifts) if is_sparse(inputs) else _dense(inputs, offsets, shifts)


def _find_inner_rows(offsets: np.ndarray, shift: int) -> np.ndarray:
    """Return the rows t for which row t + shift is in the same sequence."""
    rows = np.arange(offsets[-1])
    lengths = np.diff(offsets)
    bound = np.repeat(offsets[1:] if shift > 0 else offsets[:-1], lengths)
    return rows[rows + shift < bound] if shift > 0 else rows[rows + shift >= bound]


def _dense(inputs: np.ndarray, offsets: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    n_positions, width = inputs.shape
    joined = np.zeros((n_positions, len(shifts), width), dtype=inputs.dtype)
    for block, shift in enumerate(shifts):
        rows = _find_inner_rows(offsets, shift)
        joined[rows, block] = inputs[rows + shift]
    return joined.reshape(n_positions, -1)


def _sparse(inputs: SparseRows, offsets: np.ndarray, shifts: np.ndarray) -> SparseRows:
    """Copy runs of entries: run (t, j) is row t + shifts[j], empty beyond the sequence."""
    n_positions, width = inputs.shape
    begins = inputs.indptr.astype(np.int64)
    sources = np.full((n_positions, len(shifts)), n_positions)  # the number of an empty row after the last
    for block, shift in enumerate(shifts):
        rows = _find_inner_rows(offsets, shift)
        sources[rows, block] = rows + shift
    entries, ends = gather_entries(np.append(begins, begins[-1]), sources.ravel())
    columns = np.repeat(np.tile(np.arange(len(shifts)) * width, n_positions), np.diff(ends)) + inputs.indices[entries]
    indptr = ends[:: len(shifts)]
    shape = (n_positions, len(shifts) * width)
    index = np.int32 if max(indptr[-1], *shape) <= np.iinfo(np.int32).max else np.int64
    # The kind of the input stays: csr_array gives csr_array, csr_matrix gives csr_matrix.
    return type(inputs)((inputs.data[entries], columns.astype(index), indptr.astype(index)), shape=shape)
