"""Checks of what a user may pass as parameters, made before any work starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.solvers.choice import SOLVERS


def is_whole(value: Any) -> bool:
    """Whether value is a whole number; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_real(value: Any) -> bool:
    """Whether value is a real number; True and False are not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def check_prior_variance(value: Any, name: str) -> None:
    """Raise unless ``value`` is a positive number; infinity stands for no Gaussian prior."""
    if not is_real(value) or not value > 0:
        raise ValueError(f"{name} must be a positive number (inf for no Gaussian prior), got {value!r}")


def check_penalty(value: Any, name: str) -> None:
    """Raise unless ``value`` is a finite number that is not negative."""
    if not is_real(value) or not 0 <= value < np.inf:
        raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")


def check_support(value: Any, name: str) -> None:
    """Raise unless ``value`` names a support."""
    if value not in ("all", "observed"):
        raise ValueError(f"{name} must be 'all' or 'observed', got {value!r}")


def check_count(value: Any, name: str, otherwise: str = "") -> None:
    """Raise unless ``value`` is a whole number of at least 1; ``otherwise`` names what else is allowed."""
    if not is_whole(value) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1{otherwise}, got {value!r}")


def check_tolerance(tol: Any) -> None:
    """Raise unless ``tol`` can be a relative gap."""
    if not is_real(tol) or not 0 < tol < np.inf:
        raise ValueError(f"tol must be a positive relative gap, such as 1e-3, got {tol!r}")


def check_solver(solver: Any) -> None:
    """Raise if ``solver`` is a name that no solver has; objects are checked where they are used."""
    if isinstance(solver, str) and solver != "auto" and solver not in SOLVERS:
        raise ValueError(f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {solver!r}")


def check_callbacks(callbacks: Any) -> list:
    """Return the callbacks as a list; None means none."""
    if callbacks is None:
        return []
    listed = list(callbacks) if isinstance(callbacks, list | tuple) else [None]
    if not all(map(callable, listed)):
        raise TypeError(f"callbacks must be a list of functions of one Iteration, got {callbacks!r}")
    return listed


def resolve_dtype(dtype: Any) -> np.dtype | None:
    """Return float32 or float64 as a dtype, None for "auto"."""
    if isinstance(dtype, str) and dtype == "auto":
        return None
    try:
        name = "" if dtype is None else np.dtype(dtype).name  # numpy reads None as float64
    except TypeError:
        name = ""
    if name not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'auto', 'float32' or 'float64', got {dtype!r}")
    return np.dtype(name)
