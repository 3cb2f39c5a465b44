"""Kernels of model files in NumPy: blocks k(X, Z) towards pivots that stay, diagonals, explicit features.

    towards(spec, Z)(X)              k(x, z) for all rows, (n, r)
    diagonal(spec, X)                k(x, x), (n,)
    explicit_scores(spec, X, V)      phi(x) V for kernels with an explicit feature map phi

A spec is what Kernel.spec() writes: {"kind": "rbf", "gamma": 0.5}. The formulas are those of the room kernels, with
the same shifts against cancellation, and blocks are float32 where both sides are, so that digits agree.
Fails: ServingError naming the kernel where it needs more than NumPy, or code that no file holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .sparse_rows import SparseRows, columns_of, meetings, scattered, squared_norms, times
from .tensor_file import ServingError

Spec = Mapping[str, Any]
Block = Callable[[Any], np.ndarray]

_MEDIAN_SAMPLE = 256
# Differences of rows that are held at a time by the Laplacian kernel: 32 MB of doubles.
_AT_ONCE = 2**22
_PLAIN = ("linear", "polynomial", "rbf", "laplacian", "matern", "cosine", "constant", "precomputed")
_OF_TWO, _OF_ONE = ("sum", "product"), ("power", "scaled", "normalized", "columns")
_REASONS = {
    "callable": "a function is code, which a model file does not hold",
    "scikit-learn": "it needs scikit-learn; RBF, Matern, Polynomial and others of kernelfields.kernels do not",
    "manifold": "it keeps a graph of inputs without labels",
}


def check_kernel(spec: Spec, *, explicit: bool = False) -> None:
    """Raise ServingError, naming it, if a kernel is not one of these."""
    kind = spec["kind"]
    if explicit and kind not in ("linear", "constant", "sum", "scaled", "columns"):
        raise ServingError(f"a kernel of the kind {kind!r} has no explicit features that can be served")
    if kind in _OF_TWO:
        check_kernel(spec["left"], explicit=explicit)
        check_kernel(spec["right"], explicit=explicit)
    elif kind in _OF_ONE:
        check_kernel(spec["kernel"], explicit=explicit)
    elif kind not in _PLAIN:
        name = f" {spec['name']!r}" if "name" in spec else ""
        reason = _REASONS.get(kind, "it is not among those that prediction with NumPy alone knows")
        raise ServingError(f"the kernel {kind!r}{name} cannot be served: {reason}")
    elif kind == "matern":
        matern_order(spec)


def matern_order(spec: Spec) -> float:
    """Return nu of a Matern kernel, infinity or a half-integer; ServingError for those that need Bessel functions."""
    nu = float(spec["nu"])
    if nu != math.inf and (2 * nu) % 2 != 1:
        raise ServingError(
            f"the kernel 'matern' with nu={nu:g} cannot be served: it needs Bessel functions. Use nu of 0.5, 1.5, 2.5 "
            "and so on, or infinity"
        )
    return nu


def matern_polynomial(nu: float) -> list[float]:
    """Return the coefficients c_i of the Matern kernel e^-t sum_i c_i t^i, nu = p + 1/2 and i = 0 .. p."""
    p = round(nu - 0.5)
    whole = math.factorial(p) / math.factorial(2 * p)
    return [
        whole * math.factorial(2 * p - i) / (math.factorial(p - i) * math.factorial(i)) * 2.0**i for i in range(p + 1)
    ]


def towards(spec: Spec, Z: Any) -> Block:
    """Return the function X -> k(X, Z)."""
    return _TOWARDS[spec["kind"]](spec, Z)


def diagonal(spec: Spec, X: Any) -> np.ndarray:
    """Return k(x, x) of every row, (n,)."""
    kind = spec["kind"]
    if kind in ("linear", "polynomial", "cosine"):
        norms = squared_norms(X)
        if kind == "cosine":
            return (norms > 0).astype(np.float64)
        return norms if kind == "linear" else (spec["gamma"] * norms + spec["coef0"]) ** spec["degree"]
    if kind in _OF_TWO:
        left, right = diagonal(spec["left"], X), diagonal(spec["right"], X)
        return left + right if kind == "sum" else left * right
    if kind == "precomputed":
        numbers = _row_numbers(X, spec["matrix"])
        return spec["matrix"][numbers, numbers]
    if kind == "constant":
        return np.full(X.shape[0], float(spec["value"]))
    if kind in _OF_ONE:
        inner = diagonal(spec["kernel"], _seen(spec, X) if kind == "columns" else X)
        if kind == "power":
            return inner ** spec["exponent"]
        if kind == "normalized":
            return (inner > 0).astype(np.float64)
        return spec["factor"] * inner if kind == "scaled" else inner
    return np.ones(X.shape[0])  # a function of the distance


def explicit_scores(spec: Spec, X: Any, V: Any) -> np.ndarray:
    """Return the explicit features of every row times coefficients V (features, m), dense or sparse."""
    kind = spec["kind"]
    if kind == "linear":
        return times(X, V)
    if kind == "constant":
        row = V.toarray() if isinstance(V, SparseRows) else V
        return np.repeat(math.sqrt(spec["value"]) * row, X.shape[0], axis=0)
    if kind == "scaled":
        return math.sqrt(spec["factor"]) * explicit_scores(spec["kernel"], X, V)
    if kind == "columns":
        return explicit_scores(spec["kernel"], _seen(spec, X), V)
    cut = n_features(spec["left"], X.shape[1])
    return explicit_scores(spec["left"], X, first_rows(V, 0, cut)) + explicit_scores(
        spec["right"], X, first_rows(V, cut, V.shape[0])
    )


def n_features(spec: Spec, width: int) -> int:
    """Return how many explicit features inputs of so many columns have."""
    kind = spec["kind"]
    if kind == "sum":
        return n_features(spec["left"], width) + n_features(spec["right"], width)
    if kind == "columns":
        begin, end = column_range(spec, width)
        return n_features(spec["kernel"], end - begin)
    return width if kind == "linear" else 1 if kind == "constant" else n_features(spec["kernel"], width)


def first_rows(V: Any, begin: int, end: int) -> Any:
    """Return the rows begin .. end - 1 of coefficients, dense or sparse."""
    if not isinstance(V, SparseRows):
        return V[begin:end]
    entries = slice(int(V.indptr[begin]), int(V.indptr[end]))
    indptr = V.indptr[begin : end + 1] - V.indptr[begin]
    return SparseRows(V.data[entries], V.indices[entries], indptr, (end - begin, V.shape[1]))


def column_range(spec: Spec, width: int) -> tuple[int, int]:
    """Return the first of the columns that a kernel of the kind "columns" sees, and where they end."""
    return spec["begin"], width if spec["end"] is None else spec["end"]


def centre_of(Z: Any) -> np.ndarray:
    """Return what is taken off dense rows before distances to Z are computed, (d,)."""
    return np.median(Z[:: -(-len(Z) // _MEDIAN_SAMPLE)], axis=0).astype(np.float64)


def _seen(spec: Spec, X: Any) -> Any:
    return columns_of(X, *column_range(spec, X.shape[1]))


def _dtype(X: Any, Z: Any) -> np.dtype:
    """Return the type of a block: float32 where both sides are."""
    kinds = [each.data.dtype if isinstance(each, SparseRows) else each.dtype for each in (X, Z)]
    return np.result_type(*kinds)


def _products(Z: Any) -> Block:
    across = Z.transposed if isinstance(Z, SparseRows) else Z.T.astype(np.float64)
    return lambda X: times(X, across).astype(_dtype(X, Z), copy=False)


def _linear(spec: Spec, Z: Any) -> Block:
    return _products(Z)


def _polynomial(spec: Spec, Z: Any) -> Block:
    products = _products(Z)

    def block(X: Any) -> np.ndarray:
        values = products(X)
        values *= spec["gamma"]
        values += spec["coef0"]
        return _whole_power(values, spec["degree"])

    return block


def _whole_power(base: np.ndarray, exponent: int) -> np.ndarray:
    if exponent == 1:
        return base
    half = _whole_power(base * base, exponent // 2)
    return half * base if exponent % 2 else half


def _distances(Z: Any) -> Block:
    """Return X -> ||x - z||^2; what lies below the rounding of the norms is zero."""
    shift = None if isinstance(Z, SparseRows) else centre_of(Z)
    rows = Z if shift is None else Z - shift
    across = rows.transposed if isinstance(rows, SparseRows) else rows.T
    norms = squared_norms(rows)

    def distances(X: Any) -> np.ndarray:
        moved = X if shift is None else X - shift
        sums = np.add.outer(squared_norms(moved), norms)
        values = times(moved, across)
        values *= -2.0
        values += sums
        sums *= 32 * np.finfo(np.float64).eps
        values[values <= sums] = 0.0
        return values.astype(_dtype(X, Z), copy=False)

    return distances


def _rbf(spec: Spec, Z: Any) -> Block:
    distances = _distances(Z)
    return lambda X: _decay(distances(X), -spec["gamma"])


def _decay(values: np.ndarray, factor: float) -> np.ndarray:
    values *= factor
    return np.exp(values, out=values)


def _matern(spec: Spec, Z: Any) -> Block:
    nu, length, distances = matern_order(spec), spec["length_scale"], _distances(Z)
    if nu == math.inf:
        return lambda X: _decay(distances(X), -0.5 / length**2)
    factors = matern_polynomial(nu)

    def block(X: Any) -> np.ndarray:
        t = np.sqrt(distances(X))
        t *= math.sqrt(2.0 * nu) / length
        total = np.full_like(t, factors[-1])
        for factor in factors[-2::-1]:
            total *= t
            total += factor
        return total * np.exp(-t)

    return block


def _laplacian(spec: Spec, Z: Any) -> Block:
    if isinstance(Z, SparseRows):
        across, sums = Z.transposed, _absolute_sums(Z)
        return lambda X: _decay(_sparse_manhattan(X, across, sums).astype(_dtype(X, Z), copy=False), -spec["gamma"])

    def block(X: np.ndarray) -> np.ndarray:
        distances = np.empty((len(X), len(Z)))
        step = max(1, _AT_ONCE // max(1, Z.size))
        for row in range(0, len(X), step):
            distances[row : row + step] = np.abs(X[row : row + step, None] - Z.astype(np.float64)).sum(axis=2)
        return _decay(distances.astype(_dtype(X, Z), copy=False), -spec["gamma"])

    return block


def _absolute_sums(X: SparseRows) -> np.ndarray:
    return np.bincount(X.entry_rows, np.abs(X.data), minlength=X.shape[0])


def _sparse_manhattan(X: SparseRows, across: SparseRows, sums: np.ndarray) -> np.ndarray:
    """Return sum_j |x_j - z_j|: |x| + |z| but for the columns in which both have entries."""
    distances = np.add.outer(_absolute_sums(X), sums)
    for rows, entries, places in meetings(X, across):
        x, z = X.data[entries].astype(np.float64), across.data[places].astype(np.float64)
        met = np.abs(x - z) - np.abs(x) - np.abs(z)
        distances[rows] += scattered(X, across, rows, entries, places, met)
    return np.maximum(distances, 0.0)


def _cosine(spec: Spec, Z: Any) -> Block:
    products, other = _products(Z), inverse_or_zero(np.sqrt(squared_norms(Z)))

    def block(X: Any) -> np.ndarray:
        return products(X) * (inverse_or_zero(np.sqrt(squared_norms(X)))[:, None] * other)

    return block


def inverse_or_zero(values: np.ndarray) -> np.ndarray:
    """Return 1 / values where they are positive, and 0 elsewhere."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


def _normalized(spec: Spec, Z: Any) -> Block:
    inner = spec["kernel"]
    values, other = towards(inner, Z), inverse_or_zero(np.sqrt(diagonal(inner, Z)))
    return lambda X: values(X) * (inverse_or_zero(np.sqrt(diagonal(inner, X)))[:, None] * other)


def _constant(spec: Spec, Z: Any) -> Block:
    return lambda X: np.full((X.shape[0], Z.shape[0]), float(spec["value"]))


def _sum(spec: Spec, Z: Any) -> Block:
    left, right = towards(spec["left"], Z), towards(spec["right"], Z)
    return lambda X: left(X) + right(X)


def _product(spec: Spec, Z: Any) -> Block:
    left, right = towards(spec["left"], Z), towards(spec["right"], Z)
    return lambda X: left(X) * right(X)


def _power(spec: Spec, Z: Any) -> Block:
    values = towards(spec["kernel"], Z)
    return lambda X: _whole_power(values(X), spec["exponent"])


def _scaled(spec: Spec, Z: Any) -> Block:
    values = towards(spec["kernel"], Z)
    return lambda X: spec["factor"] * values(X)


def _columns(spec: Spec, Z: Any) -> Block:
    values = towards(spec["kernel"], _seen(spec, Z))
    return lambda X: values(_seen(spec, X))


def _precomputed(spec: Spec, Z: Any) -> Block:
    matrix = spec["matrix"]
    columns = _row_numbers(Z, matrix)
    return lambda X: matrix[np.ix_(_row_numbers(X, matrix), columns)]


def _row_numbers(X: Any, matrix: np.ndarray) -> np.ndarray:
    numbers = (X.toarray() if isinstance(X, SparseRows) else X)[:, 0]
    if not ((numbers >= 0) & (numbers < len(matrix)) & (numbers == np.floor(numbers))).all():
        raise ValueError(f"inputs of a precomputed kernel are row numbers from 0 to {len(matrix) - 1}")
    return numbers.astype(np.intp)


_TOWARDS: dict[str, Callable[[Spec, Any], Block]] = {
    "linear": _linear,
    "polynomial": _polynomial,
    "rbf": _rbf,
    "laplacian": _laplacian,
    "matern": _matern,
    "cosine": _cosine,
    "constant": _constant,
    "precomputed": _precomputed,
    "sum": _sum,
    "product": _product,
    "power": _power,
    "scaled": _scaled,
    "normalized": _normalized,
    "columns": _columns,
}
