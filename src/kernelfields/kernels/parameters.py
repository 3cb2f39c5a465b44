"""Parameters of kernels: numbers, or the rules of scikit-learn's support vector machines.

For n x d inputs X with overall variance v:

    "scale"  1 / (d v)   (1 when X is constant)
    "auto"   1 / d

A rule is a string until ``Kernel.resolve`` has seen training inputs. Cost of a rule: O(n d), or O(non-zeros).
Raises ValueError naming the kernel, the parameter, its value and what is allowed.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse

#: A dense array or CSR matrix.
Matrix: TypeAlias = "np.ndarray | scipy.sparse.csr_array"
#: Rules by which a parameter follows from the training inputs.
RULES = ("scale", "auto")


def is_number(value: object) -> TypeGuard[float]:
    """Whether value is a real number, fractions included: parameters of kernels are converted to floats."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_rule(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value in RULES


def _read_number(owner: object, name: str, allowed: Callable[[float], bool], expected: str, advice: str = ".") -> float:
    """Return a parameter if it is an allowed number that a float can hold; else raise ValueError."""
    value = getattr(owner, name)
    try:
        usable = is_number(value) and math.isfinite(value) and allowed(value)
    except OverflowError:  # whole numbers and fractions may be larger than a float
        usable = False
    if not usable:
        raise ValueError(f"{type(owner).__name__}: {name} must be {expected}, got {value!r}{advice}")
    return float(value)


def positive(owner: object, name: str) -> float:
    """Return the parameter as a float > 0; an unresolved rule is an error."""
    value = getattr(owner, name)
    if _is_rule(value):
        raise ValueError(
            f"{type(owner).__name__}: {name}={value!r} depends on the training inputs. "
            f"Call kernel.resolve(X) with them first, or give {name} as a number."
        )
    return _read_number(owner, name, lambda number: number > 0, "a positive finite number, 'scale' or 'auto'")


def positive_or_rule(owner: object, name: str) -> None:
    """Check that the parameter is a number > 0, "scale" or "auto"."""
    if not _is_rule(getattr(owner, name)):
        positive(owner, name)


def non_negative(owner: object, name: str) -> float:
    """Return the parameter as a finite float >= 0."""
    advice = "; a negative one would not give a positive semi-definite kernel."
    return _read_number(owner, name, lambda number: number >= 0, "a finite number >= 0", advice)


def whole(owner: object, name: str) -> int:
    """Return the parameter as an integer >= 1."""
    _read_number(owner, name, lambda number: number == int(number) and number >= 1, "a whole number >= 1")
    return int(getattr(owner, name))


def resolve_rule(rule: str, X: Matrix, weights: np.ndarray | None = None) -> float:
    """Resolve the rule "scale" or "auto" as 1 / (d v) or 1 / d."""
    if rule == "auto":
        return 1.0 / X.shape[1]
    variance = overall_variance(X, weights)
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


def overall_variance(X: Matrix, weights: np.ndarray | None = None) -> float:
    """Return the variance of all entries of X, implicit zeros included; exactly 0 for constant X.

    A row of weight 2 counts as if it were there twice.
    """
    n_entries = X.shape[0] * X.shape[1]
    if n_entries == 0:
        raise ValueError(f"the rule 'scale' needs at least one row and one column, X has shape {X.shape}.")
    low, high = float(X.min()), float(X.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError("the rule 'scale' needs finite inputs, but X contains NaN or infinity.")
    if low == high:
        return 0.0  # the rounding of the mean would leave a tiny variance instead
    with np.errstate(over="ignore", invalid="ignore"):
        variance = _variance(X, n_entries) if weights is None else _weighted_variance(X, weights)
    if not 0 < variance < np.inf:
        raise ValueError(
            f"the rule 'scale' needs the variance of the inputs, which lie between {low:.3g} and {high:.3g}: "
            "it leaves the range of floating-point numbers. Rescale the inputs."
        )
    return variance


def _variance(X: Matrix, n_entries: int) -> float:
    if isinstance(X, np.ndarray):
        return float(X.var(dtype=np.float64))
    stored = X.data.astype(np.float64)
    mean = stored.sum() / n_entries
    return float((np.square(stored - mean).sum() + (n_entries - stored.size) * mean**2) / n_entries)


def _weighted_variance(X: Matrix, weights: np.ndarray) -> float:
    total = float(weights.sum()) * X.shape[1]
    if isinstance(X, np.ndarray):
        mean = float(weights @ X.sum(axis=1, dtype=np.float64)) / total
        return float(weights @ np.square(X - mean).sum(axis=1, dtype=np.float64)) / total
    stored, counts = X.data.astype(np.float64), np.diff(X.indptr)
    of_entries = np.repeat(weights, counts)
    mean = float(of_entries @ stored) / total
    return (float(of_entries @ np.square(stored - mean)) + (total - float(of_entries.sum())) * mean**2) / total
