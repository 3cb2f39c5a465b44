"""The quadratic form of a Gram matrix that is never held: tr R^T K R, streamed in square blocks.

Cost: O(N^2 (d + q)) time for inputs (N, d) and rows R (N, q), memory for one block of K.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.basis.subspace import row_blocks
from kernelfields.kernels import Kernel


def kernel_quadratic_form(kernel: Kernel, inputs: Any, residuals: np.ndarray) -> float:
    """Return tr R^T K R for residuals R (N, q), streaming square blocks of the symmetric K."""
    n_rows = inputs.shape[0]
    active = np.flatnonzero(np.any(residuals != 0.0, axis=1))
    if len(active) == 0:
        return 0.0
    if len(active) < n_rows:
        inputs, residuals = inputs[active], residuals[active]
    blocks = row_blocks(len(active), min(len(active), 4096))
    total = 0.0
    for i, rows in enumerate(blocks):
        for columns in blocks[i:]:
            product = kernel(inputs[rows], inputs[columns]).astype(np.float64, copy=False)
            part = float(np.einsum("iq,iq->", residuals[rows], product @ residuals[columns]))
            total += part if rows == columns else 2.0 * part
    return max(total, 0.0)
