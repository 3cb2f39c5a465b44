"""Columns that repeat the labels: probabilities of a classifier for data that it was fitted to.

A classifier is nearly certain of its training labels. A field fitted to such probabilities finds that they are always
right, relies on them as much for new data, and no finite prior variance is best, because held-out parts of the same
data repeat their labels, too. ``OutOfFold`` makes probabilities that do not repeat labels.

    P(t, .) >= 0, sum_y P(t, y) = 1, or the logarithms of such columns, clipped or not
    share of positions at which the largest column goes with one label >= 0.98
    doubt: the mean of 1 - max_y P(t, y)

If the task is easy, probabilities out of fold are certain and right as well. The training data cannot show the
difference, but new data can: in an easy task, their probabilities are as certain as those of the fit; if the classifier
had learnt the labels of the fit, they are less certain.

Cost: O(N' d) for N' examined positions. Inputs are dense; sparse ones contain no probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse

from kernelfields.data.reading import Matrix
from kernelfields.numerics.user_warnings import warn_user

_ROWS_LOOKED_AT = 5000
_NEARLY_ALL = 0.98
# Sums of probabilities may differ from one by the rounding of float32, and by so much for each that was clipped.
_ROUNDING, _CLIPPED = 1e-4, 0.01
# New probabilities are less certain if their doubt increases by _MORE_DOUBT and by _ERRORS standard errors.
_MORE_DOUBT, _ERRORS, _FEWEST = 0.02, 3.0, 10


@dataclass(frozen=True)
class RepeatedLabels:
    """Probability columns ``first`` to ``last`` - 1 that repeat the training labels, with their mean doubt."""

    first: int
    last: int
    logarithms: bool
    doubt: float

    def increased_doubt(self, inputs: np.ndarray) -> float | None:
        """Return the mean doubt of these columns for new inputs (n, d) if it is clearly larger, else None."""
        largest = np.asarray(inputs[:, self.first : self.last], dtype=np.float64).max(axis=1)
        doubts = 1.0 - (np.exp(largest) if self.logarithms else largest)
        if len(doubts) < _FEWEST:
            return None
        found, error = float(doubts.mean()), float(doubts.std()) / len(doubts) ** 0.5
        return found if found > self.doubt + max(_MORE_DOUBT, _ERRORS * error) else None

    def warn(self, inputs: np.ndarray) -> None:
        """Warn if the columns are less certain for new inputs (n, d) than in the fit."""
        doubt = self.increased_doubt(inputs)
        if doubt is not None:
            warn_user(
                f"columns {self.first} to {self.last - 1} are probabilities that repeat the labels of the fit, with a "
                f"mean of {1.0 - self.doubt:.3f} for the likeliest, and {1.0 - doubt:.3f} in these data: if a "
                "classifier made them for data that it was fitted to, the field trusts it far too much; "
                "OutOfFold(classifier) makes them from the other folds",
            )


def find_repeated_labels(inputs: Matrix, labels: np.ndarray, n_classes: int) -> RepeatedLabels | None:
    """Find the first probability columns that repeat the labels; None without any."""
    if issparse(inputs) or not 2 <= n_classes <= inputs.shape[1]:
        return None
    rows = np.linspace(0, len(labels) - 1, min(len(labels), _ROWS_LOOKED_AT)).astype(np.int64)
    values, labels = np.asarray(inputs[rows], dtype=np.float64), labels[rows]
    with np.errstate(over="ignore"):
        forms = ((values, values >= 0.0, _ROUNDING), (np.exp(values), values <= 0.0, _CLIPPED * n_classes))
    for logarithms, (chances, possible, excess) in enumerate(forms):
        sums = np.lib.stride_tricks.sliding_window_view(chances, n_classes, axis=1).sum(axis=2)
        inside = np.lib.stride_tricks.sliding_window_view(possible.all(axis=0), n_classes).all(axis=1)
        whole = inside & (sums >= 1.0 - _ROUNDING).all(axis=0) & (sums <= 1.0 + excess).all(axis=0)
        for first in np.flatnonzero(whole).tolist():
            own = chances[:, first : first + n_classes]
            counts = np.bincount(own.argmax(axis=1) * n_classes + labels, minlength=n_classes**2)
            together = counts.reshape(n_classes, n_classes)
            if together.max(axis=1).sum() >= _NEARLY_ALL * len(labels) and (together.sum(axis=0) > 0).sum() > 1:
                doubt = 1.0 - float(own.max(axis=1).mean())
                return RepeatedLabels(first, first + n_classes, bool(logarithms), doubt)
    return None
