"""Lanczos vectors of I + B, B positive semi-definite, and functions of it within them.

    (I + B) Q = Q T + rest,    f(I + B) q = ||q|| Q f(T) e_1 in the Krylov space of q

T is tridiagonal: ``diagonal`` (k,) and ``beside`` (k - 1,). Q are the rows of (k, size) vectors.
Cost: k products and O(k^2 size) for keeping the vectors orthogonal, O(k size) memory.
Raises LinAlgError where products are not finite.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

Product = Callable[[np.ndarray], np.ndarray]

# Vectors are given up when the next one is this small beside the first.
_BREAKDOWN = 1e-12


def lanczos_vectors(product: Product, start: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Lanczos vectors (k, size) from a start, and their tridiagonal matrix; k is at most ``steps``."""
    vectors = np.empty((steps, len(start)))
    vectors[0] = start / np.linalg.norm(start)
    diagonal: list[float] = []
    beside: list[float] = []
    for k in range(steps):
        image = product(vectors[k])
        diagonal.append(float(image @ vectors[k]))
        # Twice against all before: rounding would let old directions come back.
        for _ in range(2):
            image -= (vectors[: k + 1] @ image) @ vectors[: k + 1]
        length = float(np.linalg.norm(image))
        if k + 1 == steps or not length > _BREAKDOWN * max(1.0, diagonal[0]):
            break
        beside.append(length)
        vectors[k + 1] = image / length
    return vectors[: len(diagonal)], np.array(diagonal), np.array(beside)


def spectrum(diagonal: np.ndarray, beside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues (k,) and eigenvectors (k, k) of I + B in the span of Lanczos vectors."""
    if not np.isfinite(diagonal).all():
        raise np.linalg.LinAlgError("the Hessian is not finite at these coefficients")
    nodes, vectors = scipy.linalg.eigh_tridiagonal(diagonal, beside)
    return np.maximum(nodes, 1.0), vectors  # B has no negative eigenvalues, rounding aside


def first_column(diagonal: np.ndarray, beside: np.ndarray, function: Product) -> np.ndarray:
    """Return f(T) e_1 for a function of eigenvalues, (k,)."""
    nodes, vectors = spectrum(diagonal, beside)
    return vectors @ (vectors[0] * function(nodes))
