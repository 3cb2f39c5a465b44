"""How far the stored features are from the kernel they stand for.

A fit sees the features Z as they are stored; the fitted field answers with the kernel. Float32 features of a
smooth kernel are rounded on the scale of its smallest pivots, and a weak prior makes the most of those. To first
order the value of the field itself differs from the one reported by

    sum_t <R_t, (z(x_t) - Z_t)^T V>        R = marginals - labels, z(x) = R_B^-1 k(B, x) in float64

estimated on at most 2,000 positions spread evenly over the data: O(2000 r (d + q)) time.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kernelfields.estimators.spaces import CliqueSpace

_SAMPLE = 2000


def rounding_of_features(space: CliqueSpace, coefficients: np.ndarray, residuals: np.ndarray) -> float:
    """Return the change of the value if the features (n, r) of one set were exact; residuals (n, q)."""
    n_rows = len(space.features)
    rows = np.linspace(0, n_rows - 1, min(n_rows, _SAMPLE)).astype(np.int64)
    exact = space.subspace.apply(space.inputs[rows], coefficients)
    stored = space.features[rows].astype(np.float64) @ coefficients
    return n_rows / len(rows) * float(np.vdot(residuals[rows], exact - stored))


def warn_if_rounding_shows(roundings: Sequence[float], value: float, tol: float, stacklevel: int = 2) -> None:
    """Warn when rounding moves the value by more than the tolerance, so that the gap means less than it says."""
    share = abs(sum(roundings)) / max(abs(value), np.finfo(float).tiny)
    if share <= tol:
        return
    warnings.warn(
        f"float32 features are too coarse for this prior: rounding moves the value by about {share:.1g} of "
        f"itself, more than tol={tol:g}, and certificate_ does not know. Fit with dtype='float64' or a smaller "
        "prior variance; certify(X, y) computes the gap of the fitted field itself.",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )
