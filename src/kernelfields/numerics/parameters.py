"""Parameters of users: checks made before any work starts, and rules that read the data.

Parameters of kernels may be numbers or the rules of scikit-learn's support vector machines, for n x d inputs X with
overall variance v:

    "scale"  1 / (d v)   (1 when X is constant)
    "auto"   1 / d

A rule is a string until ``Kernel.resolve`` has seen training inputs. Cost of a rule: O(n d), or O(non-zeros).
Fails: ValueError or TypeError naming the parameter, its value and what is allowed.

Parameters of estimators, declared once: name, type, default and check stand in one line of the class.

    @declares_parameters
    class KernelCRF(FieldEstimator):
        kernel: KernelLike = parameter("auto", first=True)
        rank: int | None = parameter(1000, count_or_none)

``declares_parameters`` writes ``__init__``, keyword-only but for the ``first`` ones, which stores values untouched.
``check_declared`` runs the checks before a fit.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar, dataclass_transform

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse

#: A dense array or CSR matrix.
Matrix: TypeAlias = "np.ndarray | scipy.sparse.csr_array"

#: Rules by which a parameter of a kernel follows from the training inputs.
RULES = ("scale", "auto")
# Below, 1 / variance is infinite.
_LEAST_VARIANCE = float(np.finfo(np.float64).tiny)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether value is a whole number; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_sequence(values: object) -> TypeGuard[Any]:
    """Whether values have a length and items by number; text and mappings do not count."""
    text_or_table = isinstance(values, str | bytes | Mapping)
    return hasattr(values, "__len__") and hasattr(values, "__getitem__") and not text_or_table


def is_real(value: object) -> TypeGuard[float]:
    """Whether value is a real number; True and False are not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_auto(value: object) -> bool:
    """Whether a parameter is left to the data."""
    return isinstance(value, str) and value == "auto"


def check_choice(value: object, name: str, choices: Sequence[object]) -> None:
    """Raise unless ``value`` is one of the choices."""
    if not any(value is each or (isinstance(value, str) and value == each) for each in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def check_prior_variance(value: object, name: str, *, auto: bool = False) -> None:
    """Raise unless ``value`` is a positive number; infinity stands for no Gaussian prior, "auto" may be allowed."""
    if auto and is_auto(value):
        return
    if not is_real(value) or not value >= _LEAST_VARIANCE:
        raise ValueError(f"{name} must be a positive number (inf for no Gaussian prior), got {value!r}")


def check_prior_variances(values: object, name: str, *, auto: bool = False) -> None:
    """Raise unless ``values`` is a prior variance, or a list or tuple with one for each part of a sum of kernels."""
    if not isinstance(values, list | tuple):
        check_prior_variance(values, name, auto=auto)
    elif not values:
        raise ValueError(f"{name} holds no number: give one, or one for each part of a sum of kernels")
    else:
        for value in values:
            check_prior_variance(value, name)


def check_penalty(value: object, name: str) -> None:
    """Raise unless ``value`` is a finite number that is not negative."""
    if not is_real(value) or not 0 <= value < np.inf:
        raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")


def check_support(value: object, name: str) -> None:
    """Raise unless ``value`` names a support, or is the least total weight of observed pairs."""
    if is_real(value) and 0 < value < np.inf:
        return
    if not isinstance(value, str) or value not in ("all", "observed"):
        raise ValueError(
            f"{name} must be 'all', 'observed', or a number above zero, the least total weight of a pair in training, "
            f"got {value!r}"
        )


def check_window(window: object, name: str = "window") -> tuple[int, int]:
    """Return the numbers of neighbours (before, after) that a window of inputs names; ValueError if it is none."""
    expected = f"{name} must be an odd positive whole number or a pair (before, after)"
    if is_whole(window):
        if window < 1 or window % 2 == 0:
            advice = f"; for {window} positions use ({window // 2}, {window // 2 - 1})" if window > 0 else ""
            raise ValueError(f"{expected}, got {window}{advice}")
        return int(window) // 2, int(window) // 2
    if not isinstance(window, tuple | list) or len(window) != 2 or not all(map(is_whole, window)):
        raise ValueError(f"{expected}, got {window!r}")
    before, after = window
    if before < 0 or after < 0:
        raise ValueError(f"{expected} of counts that are not negative, got {window!r}")
    return int(before), int(after)


def check_count(value: object, name: str, otherwise: str = "", *, least: int = 1) -> None:
    """Raise unless ``value`` is a whole number of at least ``least``; ``otherwise`` names what else is allowed."""
    if not is_whole(value) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}{otherwise}, got {value!r}")


def check_tolerance(tol: object) -> None:
    """Raise unless ``tol`` can be a relative gap."""
    if not is_real(tol) or not 0 < tol < np.inf:
        raise ValueError(f"tol must be a positive relative gap, such as 1e-3, got {tol!r}")


def check_callbacks(callbacks: object) -> list[Callable]:
    """Return the callbacks as a list; None means none."""
    if callbacks is None:
        return []
    if not isinstance(callbacks, list | tuple) or not all(map(callable, callbacks)):
        raise TypeError(f"callbacks must be a list of functions of one Iteration, got {callbacks!r}")
    return list(callbacks)


def resolve_dtype(dtype: object) -> np.dtype | None:
    """Return float32 or float64 as a dtype, None for "auto"."""
    if isinstance(dtype, str) and dtype == "auto":
        return None
    try:
        name = "" if dtype is None else np.dtype(dtype).name  # type: ignore[call-overload]  # numpy reads None as float64
    except TypeError:
        name = ""
    if name not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'auto', 'float32' or 'float64', got {dtype!r}")
    return np.dtype(name)


def is_number(value: object) -> TypeGuard[float]:
    """Whether value is a real number of any kind, fractions too: parameters of kernels are turned into floats."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_rule(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value in RULES


def _checked(owner: object, name: str, allowed: Callable[[float], bool], expected: str, advice: str = ".") -> float:
    """Return a parameter that is a number of any size that a float can hold, and allowed; else raise ValueError."""
    value = getattr(owner, name)
    try:
        usable = is_number(value) and math.isfinite(value) and allowed(value)
    except OverflowError:  # whole numbers and fractions may be larger than a float
        usable = False
    if not usable:
        raise ValueError(f"{type(owner).__name__}: {name} must be {expected}, got {value!r}{advice}")
    return float(value)


def positive(owner: object, name: str) -> float:
    """Return the parameter as a float > 0; a rule that has not seen data is an error."""
    value = getattr(owner, name)
    if _is_rule(value):
        raise ValueError(
            f"{type(owner).__name__}: {name}={value!r} depends on the training inputs. "
            f"Call kernel.resolve(X) with them first, or give {name} as a number."
        )
    return _checked(owner, name, lambda number: number > 0, "a positive finite number, 'scale' or 'auto'")


def positive_or_rule(owner: object, name: str) -> None:
    """Check that the parameter is a number > 0, "scale" or "auto"."""
    if not _is_rule(getattr(owner, name)):
        positive(owner, name)


def non_negative(owner: object, name: str) -> float:
    """Return the parameter as a finite float >= 0."""
    advice = "; a negative one would not give a positive semi-definite kernel."
    return _checked(owner, name, lambda number: number >= 0, "a finite number >= 0", advice)


def whole(owner: object, name: str) -> int:
    """Return the parameter as a whole number >= 1."""
    _checked(owner, name, lambda number: number == int(number) and number >= 1, "a whole number >= 1")
    return int(getattr(owner, name))


def scale_or_auto(rule: str, X: Matrix, weights: np.ndarray | None = None) -> float:
    """Turn the rule "scale" or "auto" into 1 / (d v) or 1 / d."""
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


#: Raises for a value, called by the name of its parameter.
Check = Callable[[Any, str], object]
Class = TypeVar("Class", bound=type)


def parameter(default: object, check: Check | None = None, *, first: bool = False) -> Any:
    """Declare a parameter of an estimator; ``first`` ones may be passed by position."""
    return dataclasses.field(default=default, kw_only=not first, metadata={"check": check})


def attribute(default: Any = dataclasses.MISSING) -> Any:
    """Declare an attribute that a fit sets, or that derived classes may have as a parameter.

    ``default`` is its value where neither has set it.
    """
    return dataclasses.field(init=False, default=default)


@dataclass_transform(eq_default=False, field_specifiers=(parameter, attribute))
def declares_parameters(cls: Class) -> Class:
    """Write ``__init__`` of an estimator from its declared parameters, those of its bases first.

    A class that has ``_parameters_declared`` is notified by a call of it.
    """
    dataclasses.dataclass(eq=False, repr=False)(cls)
    getattr(cls, "_parameters_declared", lambda: None)()
    return cls


def check_declared(instance: object, prefix: str = "") -> None:
    """Raise if a declared parameter of an estimator cannot be used; messages have ``prefix`` before its name."""
    for declared in dataclasses.fields(instance):  # type: ignore[arg-type]  # the decorator makes it a dataclass
        check = declared.metadata.get("check")
        if check is not None:
            check(getattr(instance, declared.name), prefix + declared.name)


def one_of(*choices: object) -> Check:
    """Return a check for one of some values."""
    return lambda value, name: check_choice(value, name, choices)


def or_none(check: Check) -> Check:
    """Return a check that passes None."""
    return lambda value, name: None if value is None else check(value, name)


def or_auto(check: Check) -> Check:
    """Return a check that passes "auto"."""
    return lambda value, name: None if is_auto(value) else check(value, name)


#: A whole number of at least one, or None for no limit.
count_or_none: Check = or_none(partial(check_count, otherwise=" (or None for no limit)"))
#: One prior variance, or "auto".
variance_or_auto: Check = partial(check_prior_variance, auto=True)
#: A prior variance, a tuple of them, or "auto".
variances_or_auto: Check = partial(check_prior_variances, auto=True)
