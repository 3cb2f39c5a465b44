"""Checks of Gram matrices: symmetry up to rounding, and no negative eigenvalues on a sample.

    symmetric(K)                    |K - K^T| <= tolerance max |K|, then (K + K^T) / 2
    check_positive_semidefinite     smallest eigenvalue >= -tolerance max |eigenvalue|

The tolerance is 1e-8 in float64 and 1e-4 in float32. The second costs O(s^3) for s <= 200 rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.kernels.inputs import as_rows, on_host
from kernelfields.kernels.kernel import Kernel

_SAMPLE = 200


def rounding_tolerance(dtype: np.dtype) -> float:
    """Return the relative error that is put down to rounding."""
    return 1e-4 if dtype == np.float32 else 1e-8


def symmetric(block: np.ndarray, name: str) -> np.ndarray:
    """Return the square block made exactly symmetric; ValueError if it is not so up to rounding."""
    if not np.isfinite(block).all():
        i, j = np.argwhere(~np.isfinite(block))[0]
        raise ValueError(
            f"{name} has the value {block[i, j]} at ({i}, {j}). "
            "Kernel values must be finite: check the inputs for NaN and infinity, and rescale large ones."
        )
    if np.array_equal(block, block.T):
        return block
    difference = np.abs(block - block.T)
    if difference.max() > rounding_tolerance(block.dtype) * np.abs(block).max():
        i, j = np.unravel_index(np.argmax(difference), block.shape)
        raise ValueError(
            f"{name} is not symmetric: the value at ({i}, {j}) is {block[i, j]:.6g} "
            f"but at ({j}, {i}) it is {block[j, i]:.6g}. A kernel needs k(x, z) = k(z, x)."
        )
    return (block + block.T) / 2


def check_positive_semidefinite(kernel: Kernel, X: Any, random_state: Any = None) -> None:
    """Raise ValueError if the Gram matrix of at most 200 random rows shows that k is no kernel.

    Passing is no proof: a negative eigenvalue may need more or other rows to appear.
    """
    X = on_host(as_rows(X))
    n_rows = X.shape[0]
    if n_rows == 0:
        return
    resolved = kernel.resolve(X)
    rows = np.sort(np.random.default_rng(random_state).permutation(n_rows)[:_SAMPLE])
    name = " ".join(repr(resolved).split())
    gram = symmetric(resolved(X[rows]), f"the Gram matrix of {name}")
    eigenvalues = np.linalg.eigvalsh(gram.astype(np.float64))
    largest = np.abs(eigenvalues).max()
    if eigenvalues[0] < -rounding_tolerance(gram.dtype) * largest:
        raise ValueError(
            f"{name} is not positive semi-definite: on {len(rows)} rows the Gram matrix has the "
            f"eigenvalue {eigenvalues[0]:.3g} (largest absolute one {largest:.3g}). Use another kernel or "
            "other parameters; for a similarity that is not a kernel, take Linear() on its rows as features."
        )
