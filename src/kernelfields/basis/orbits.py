"""Pivots closed under permutations of columns: with b also every g.b, so that the span is moved into itself.

With K_BB = R R^T and R = S Q (polar decomposition, S symmetric and Q orthogonal), S commutes with the permutation of
the pivots, and the features Q z(x) = S^-1 k(B, x) are permuted as the pivots are when x is moved: R^-1 k(B, x) are not.

The functions of an orbit are sums over it and differences within it, and a kernel of finite rank has only so many of
each. An orbit is a whole as long as any of its functions is new. Along functions that are not, K_BB is singular: R R^T
has a small number there, which commutes with the permutations too, and features are zero.
Cost: O(r^3) time, r^2 numbers, r the number of pivots after closing. Raises ValueError if the kernel is not invariant.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse

from kernelfields.basis.subspace import PivotSubspace
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.sparse_rows import Rows, is_sparse

# What is left of a squared norm, as a share, below which a function depends on others, up to rounding.
_DEPENDENT = 1e-9
# How far kernel values may move with both inputs, as a share of the largest; and on how many pivots that is checked.
_ROUNDING = 1e-6
_CHECKED = 50


def permute_columns(rows: Rows, columns: np.ndarray) -> Rows:
    """Permute the columns of rows (n, d): column j becomes column ``columns[j]``."""
    places = np.argsort(columns)
    if not is_sparse(rows):
        return rows[:, places]
    return scipy.sparse.csr_array(rows)[:, places]


def check_invariant(kernel: Kernel, rows: Rows, columns: np.ndarray) -> None:
    """Raise ValueError unless k(g.x, g.x') = k(x, x') on some rows for permutations (m, d) of columns."""
    some = rows[:_CHECKED].astype(np.float64)
    values = np.asarray(kernel(some), dtype=np.float64)
    for each in columns:
        moved = np.asarray(kernel(permute_columns(some, each)), dtype=np.float64)
        if not np.allclose(moved, values, rtol=0.0, atol=_ROUNDING * np.abs(values).max(initial=0.0)):
            raise ValueError(f"{kernel!r} changes when ties move the columns of both inputs: use one that does not")


def pivot_permutations(pivots: Rows, columns: np.ndarray) -> np.ndarray:
    """Return the permutations (m, r) of pivots by permutations (m, d) of columns; ValueError without any."""
    places = {key: place for place, key in enumerate(_keys(pivots))}
    try:
        return np.array([[places[key] for key in _keys(permute_columns(pivots, each))] for each in columns])
    except KeyError:
        raise ValueError("the pivots of a set with ties are not those that its ties move") from None


def symmetric_frame(subspace: PivotSubspace) -> np.ndarray:
    """Return Q^T (r, r): coefficients V = Q^T W belong to the features S^-1 k(B, x)."""
    return scipy.linalg.polar(np.asarray(subspace.factor, dtype=np.float64), side="left")[0].T


def close_subspace(subspace: PivotSubspace, elements: np.ndarray, most: int | None) -> PivotSubspace:
    """Return the span of pivots closed under a group (|G|, d): at most ``most`` pivots, but one orbit at least.

    Those of an orbit have the number of the input that they come from, which is the first of them.
    """
    kernel, rows = subspace.kernel, _without_negative_zeros(subspace.pivots)
    check_invariant(kernel, rows, elements)
    images = [_without_negative_zeros(permute_columns(rows, each)) for each in elements]
    keys = [list(_keys(image)) for image in images]
    orbits: list[Rows] = []
    sources: list[int] = []
    known: set[bytes] = set()
    for pivot in range(rows.shape[0]):
        if keys[0][pivot] in known:
            continue
        own = {key: number for number, key in reversed([*enumerate(each[pivot] for each in keys)])}
        known.update(own)
        orbits.append(_stack([images[number][pivot : pivot + 1] for number in sorted(own.values())]))
        sources.append(subspace.indices[pivot])
    chosen = _choose_orbits(kernel, orbits, most)
    pivots = _stack([orbits[number] for number in chosen])
    indices = [sources[number] for number in chosen for _ in range(orbits[number].shape[0])]
    return PivotSubspace(kernel, pivots, _commuting_factor(kernel, pivots), np.array(indices, dtype=np.int64))


def _choose_orbits(kernel: Kernel, orbits: list[Rows], most: int | None) -> list[int]:
    """Choose orbits that enlarge the span, the largest residual first."""
    rows, owners = _stack(orbits), np.repeat(np.arange(len(orbits)), [orbit.shape[0] for orbit in orbits])
    heights = _heights(kernel, rows)
    features, rank, left = np.empty((len(heights), len(heights))), 0, np.ones(len(heights))
    taken = np.zeros(len(heights), dtype=bool)
    chosen: list[int] = []
    while left.max() > _DEPENDENT:
        number = int(owners[left.argmax()])
        own = owners == number
        if chosen and most is not None and taken.sum() + own.sum() > most:
            break
        columns = np.asarray(kernel(rows, orbits[number]), dtype=np.float64) / np.outer(heights, heights[own])
        columns -= features[:, :rank] @ features[own, :rank].T
        shares, directions = np.linalg.eigh(columns[own])
        new = shares > _DEPENDENT
        added = columns @ directions[:, new] / np.sqrt(shares[new])
        features[:, rank : rank + new.sum()] = added
        rank += new.sum()
        left -= (added**2).sum(axis=1)
        left[own], taken[own] = 0.0, True
        chosen.append(number)
    return chosen


def _commuting_factor(kernel: Kernel, pivots: Rows) -> np.ndarray:
    """Return R (r, r) of closed pivots with R R^T = K_BB, its diagonal raised to a least share of k(b, b)."""
    heights = _heights(kernel, pivots)
    shares, directions = np.linalg.eigh(np.asarray(kernel(pivots), dtype=np.float64) / np.outer(heights, heights))
    raised = (directions * np.maximum(shares, _DEPENDENT)) @ directions.T
    return heights[:, None] * scipy.linalg.cholesky(raised, lower=True)


def _heights(kernel: Kernel, rows: Rows) -> np.ndarray:
    """Return sqrt k(x, x) of rows."""
    return np.sqrt(np.asarray(kernel.diag(rows), dtype=np.float64))


def _without_negative_zeros(rows: Rows) -> Rows:
    """Return rows in float64 without negative zeros, so that equal rows have equal bytes; CSR in order."""
    if not is_sparse(rows):
        return np.ascontiguousarray(rows, dtype=np.float64) + 0.0
    plain = scipy.sparse.csr_array(rows).astype(np.float64)
    plain.eliminate_zeros()
    plain.sort_indices()
    return plain


def _keys(rows: Rows) -> list[bytes]:
    plain = _without_negative_zeros(rows)
    if not is_sparse(plain):
        return [row.tobytes() for row in plain]
    parts = zip(plain.indptr[:-1], plain.indptr[1:], strict=True)
    return [plain.indices[a:b].astype(np.int64).tobytes() + plain.data[a:b].tobytes() for a, b in parts]


def _stack(parts: list[Rows]) -> Rows:
    if is_sparse(parts[0]):
        return scipy.sparse.csr_array(scipy.sparse.vstack(parts))
    return np.concatenate([np.asarray(part) for part in parts])
