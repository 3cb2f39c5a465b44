"""Columns that repeat the labels: probabilities of a classifier for data that it was fitted to.

A classifier is nearly certain of what it was fitted to. A field on such probabilities finds that they are always right,
believes them as much for data that the classifier has not seen, and its prior variance has no limit: held-out parts of
the same data repeat their labels too. ``OutOfFold`` makes probabilities that do not.

    P(t, .) >= 0, sum_y P(t, y) = 1, or the logarithms of such columns, clipped or not
    share of positions at which the largest column goes with one label >= 0.98

Cost: O(N' d) for N' positions that are looked at. Inputs are dense; sparse ones hold no probabilities.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import issparse

from kernelfields.numerics.parameters import Matrix

_ROWS_LOOKED_AT = 5000
_NEARLY_ALL = 0.98
# Sums of probabilities may differ from one by the rounding of float32, and by so much for each that was clipped.
_ROUNDING, _CLIPPED = 1e-4, 0.01


def columns_that_repeat(inputs: Matrix, labels: np.ndarray, n_classes: int) -> tuple[int, int] | None:
    """Return the first of columns that are probabilities and repeat the labels, and the one after them; or None."""
    if issparse(inputs) or not 2 <= n_classes <= inputs.shape[1]:
        return None
    rows = np.linspace(0, len(labels) - 1, min(len(labels), _ROWS_LOOKED_AT)).astype(np.int64)
    values, labels = np.asarray(inputs[rows], dtype=np.float64), labels[rows]
    with np.errstate(over="ignore"):
        forms = ((values, values >= 0.0, _ROUNDING), (np.exp(values), values <= 0.0, _CLIPPED * n_classes))
    for chances, possible, excess in forms:
        sums = np.lib.stride_tricks.sliding_window_view(chances, n_classes, axis=1).sum(axis=2)
        inside = np.lib.stride_tricks.sliding_window_view(possible.all(axis=0), n_classes).all(axis=1)
        whole = inside & (sums >= 1.0 - _ROUNDING).all(axis=0) & (sums <= 1.0 + excess).all(axis=0)
        for first in np.flatnonzero(whole).tolist():
            largest = chances[:, first : first + n_classes].argmax(axis=1)
            together = np.bincount(largest * n_classes + labels, minlength=n_classes**2).reshape(n_classes, n_classes)
            if together.max(axis=1).sum() >= _NEARLY_ALL * len(labels) and (together.sum(axis=0) > 0).sum() > 1:
                return first, first + n_classes
    return None
