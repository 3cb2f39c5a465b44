"""Pivots closed under permutations of columns: with b also every g.b, so that the span is moved into itself.

With K_BB = R R^T and R = S Q (polar decomposition, S symmetric and Q orthogonal), S commutes with the permutation of
the pivots, and the features Q z(x) = S^-1 k(B, x) are permuted as the pivots are when x is moved: R^-1 k(B, x) are not.

Orbits whose kernel functions depend on those before, up to rounding, are left out as a whole.
Cost: O(r^3) time, r^2 numbers, r the number of pivots after closing. Fails: ValueError if the kernel is not invariant.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse

from kernelfields.basis.subspace import PivotSubspace
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.sparse_rows import Rows, is_sparse

# What is left of a squared norm, as a share, below which a function depends on others.
_DEPENDENT = 1e-9
# How far kernel values may move with both inputs, as a share of the largest; and on how many pivots that is checked.
_ROUNDING = 1e-6
_CHECKED = 50


def moved_rows(rows: Rows, columns: np.ndarray) -> Rows:
    """Return rows (n, d) whose column j is now column ``columns[j]``."""
    places = np.argsort(columns)
    if not is_sparse(rows):
        return rows[:, places]
    return scipy.sparse.csr_array(rows)[:, places]


def check_invariant(kernel: Kernel, rows: Rows, columns: np.ndarray) -> None:
    """Raise ValueError unless k(g.x, g.x') = k(x, x') on some rows for permutations (m, d) of columns."""
    some = rows[:_CHECKED].astype(np.float64)
    values = np.asarray(kernel(some), dtype=np.float64)
    for each in columns:
        moved = np.asarray(kernel(moved_rows(some, each)), dtype=np.float64)
        if not np.allclose(moved, values, rtol=0.0, atol=_ROUNDING * np.abs(values).max(initial=0.0)):
            raise ValueError(f"{kernel!r} changes when ties move the columns of both inputs: use one that does not")


def pivot_permutations(pivots: Rows, columns: np.ndarray) -> np.ndarray:
    """Return where the pivots go, (m, r), by permutations (m, d) of columns; ValueError if they are not closed."""
    places = {key: place for place, key in enumerate(_keys(pivots))}
    try:
        return np.array([[places[key] for key in _keys(moved_rows(pivots, each))] for each in columns])
    except KeyError:
        raise ValueError("the pivots of a set with ties are not those that its ties move") from None


def symmetric_frame(subspace: PivotSubspace) -> np.ndarray:
    """Return Q^T (r, r): coefficients V = Q^T W belong to the features S^-1 k(B, x)."""
    return scipy.linalg.polar(np.asarray(subspace.factor, dtype=np.float64), side="left")[0].T


def closed_subspace(subspace: PivotSubspace, elements: np.ndarray, most: int | None) -> PivotSubspace:
    """Return the span of pivots moved by all elements (|G|, d) of a group, at most ``most`` but one orbit at least.

    Those of an orbit have the number of the input that they come from, which is the first of them.
    """
    kernel, rows = subspace.kernel, _plain(subspace.pivots)
    check_invariant(kernel, rows, elements)
    images = [_plain(moved_rows(rows, each)) for each in elements]
    keys = [list(_keys(image)) for image in images]
    chosen: list[Rows] = []
    indices: list[int] = []
    factor = np.empty((0, 0))
    known: set[bytes] = set()
    for pivot in range(rows.shape[0]):
        if keys[0][pivot] in known:
            continue
        own = {key: number for number, key in reversed([*enumerate(each[pivot] for each in keys)])}
        known.update(own)
        orbit = _stacked([images[number][pivot : pivot + 1] for number in sorted(own.values())])
        if most is not None and chosen and len(factor) + orbit.shape[0] > most:
            break
        grown = _extended(kernel, chosen, factor, orbit)
        if grown is not None:
            chosen.append(orbit)
            indices += [subspace.indices[pivot]] * orbit.shape[0]
            factor = grown
    return PivotSubspace(kernel, _stacked(chosen), factor, np.array(indices, dtype=np.int64))


def _extended(kernel: Kernel, chosen: list[Rows], factor: np.ndarray, orbit: Rows) -> np.ndarray | None:
    """Return the factor with the rows of one more orbit; None if its functions depend on those before."""
    corner = np.asarray(kernel(orbit), dtype=np.float64)
    largest = corner.diagonal().max()
    below = np.empty((orbit.shape[0], 0))
    if chosen:
        block = np.asarray(kernel(_stacked(chosen), orbit), dtype=np.float64)
        below = scipy.linalg.solve_triangular(factor, block, lower=True, check_finite=False).T
        corner = corner - below @ below.T
    if not np.linalg.eigvalsh(corner)[0] > _DEPENDENT * largest:
        return None
    own = scipy.linalg.cholesky(corner, lower=True)
    return np.block([[factor, np.zeros((len(factor), len(own)))], [below, own]])


def _plain(rows: Rows) -> Rows:
    """Return rows in float64 without negative zeros, so that equal rows have equal bytes; CSR in order."""
    if not is_sparse(rows):
        return np.ascontiguousarray(rows, dtype=np.float64) + 0.0
    plain = scipy.sparse.csr_array(rows).astype(np.float64)
    plain.eliminate_zeros()
    plain.sort_indices()
    return plain


def _keys(rows: Rows) -> list[bytes]:
    plain = _plain(rows)
    if not is_sparse(plain):
        return [row.tobytes() for row in plain]
    parts = zip(plain.indptr[:-1], plain.indptr[1:], strict=True)
    return [plain.indices[a:b].astype(np.int64).tobytes() + plain.data[a:b].tobytes() for a, b in parts]


def _stacked(parts: list[Rows]) -> Rows:
    if is_sparse(parts[0]):
        return scipy.sparse.csr_array(scipy.sparse.vstack(parts))
    return np.concatenate([np.asarray(part) for part in parts])
