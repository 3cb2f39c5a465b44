"""A warning where stored features are too coarse; engines/feature_origin.py estimates what rounding does."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning


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
