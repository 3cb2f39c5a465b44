"""Intervals of shares that know small counts: 1 of 1 right is not certain to be right again.

    p = h / n,   h = sum_i h_i hits,   n = sum_i n_i cases,   of sequences i = 1 .. m that have cases
    var(p) = m / (m - 1) sum_i (h_i - p n_i)^2 / n^2            what sequences differ by
    e = p (1 - p) / var(p) n / (n - 1) (z / t)^2                effective number of independent cases
    (p + z^2 / 2e  -+  z sqrt(p (1 - p) / e + z^2 / 4e^2)) / (1 + z^2 / e)            Wilson's interval

Resamples of 1 of 1, or of 20 of 20, are all alike, so the bootstrap would call such a share certain. Wilson's interval
does not: 1 of 1 is [0.207, 1.000], 20 of 20 is [0.839, 1.000]. It takes cases for independent, and positions of a
sequence are not; so it is asked about e cases in place of n, as Korn and Graubard (1998) do for surveys: those that
would have the variance seen between sequences. t, Student's quantile with m - 1 degrees of freedom, in the place of z
says that this variance is itself estimated. e lies between n^2 / sum_i n_i^2, where all cases of a sequence are right
or wrong together, and n. Where all are right, or none, nothing is seen of how sequences differ, and e is the former:
a sequence counts as one case, whatever its length.

F1 = 2 J / (1 + J) rises with J = hits / (predicted + true - hits), which is a share: its interval is that of J.

Arrays: hits, cases (S, K) by sequence; ends (K,), NaN where there are no cases. Cost: O(S K).
"""

from __future__ import annotations

import numpy as np
import scipy.special


def share_interval(hits: np.ndarray, cases: np.ndarray, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends (K,) of the intervals of shares, from hits and cases (S, K) of each sequence."""
    total = cases.sum(axis=0)
    defined = total > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        share = hits.sum(axis=0) / total
        effective = _effective_cases(hits, cases, share, confidence)
        squared = _normal_quantile(confidence) ** 2 / effective
        reach = np.sqrt(squared * (share * (1 - share) + squared / 4))
        low, high = ((share + squared / 2 + side * reach) / (1 + squared) for side in (-1, 1))
    # At 0 and 1 the ends are exact but for rounding.
    low, high = np.where(share == 0, 0.0, low), np.where(share == 1, 1.0, high)
    return np.where(defined, low, np.nan), np.where(defined, high, np.nan)


def f1_interval(
    hits: np.ndarray, predicted: np.ndarray, true: np.ndarray, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends (K,) of the intervals of F1, from counts (S, K) of each sequence."""
    low, high = share_interval(hits, predicted + true - hits, confidence)
    return 2 * low / (1 + low), 2 * high / (1 + high)


def mean_interval(values: np.ndarray, ends: tuple[np.ndarray, np.ndarray], weights: np.ndarray) -> tuple[float, float]:
    """Return the interval of a weighted mean of figures (K,) whose intervals are known, as if they were independent.

    The squared distances from the mean to its ends are the weighted sums of theirs (Zou and Donner, 2008). Figures
    without an interval add nothing; NaN where none has one.
    """
    known = np.isfinite(ends[0]) & (weights > 0)
    if not known.any():
        return np.nan, np.nan
    shares = weights / weights.sum()
    mean = float(np.sum((shares * values)[weights > 0]))
    below, above = (np.sqrt(np.sum(((values - end) * shares)[known] ** 2)) for end in ends)
    return mean - float(below), mean + float(above)


def _effective_cases(hits: np.ndarray, cases: np.ndarray, share: np.ndarray, confidence: float) -> np.ndarray:
    """Return how many independent cases the cases of sequences are worth, (K,)."""
    total, holders = cases.sum(axis=0), np.sum(cases > 0, axis=0)
    least = total**2 / np.sum(cases.astype(float) ** 2, axis=0)
    freedom = np.maximum(holders - 1, 1)
    variance = holders / freedom * np.sum((hits - share * cases) ** 2, axis=0) / total**2
    quantile = scipy.special.stdtrit(freedom, (1 + confidence) / 2)
    per_degree = (_normal_quantile(confidence) / quantile) ** 2
    seen = share * (1 - share) / variance * total / np.maximum(total - 1, 1) * per_degree
    certain = (share == 0) | (share == 1)
    return np.where(certain, least, np.clip(seen, least, total))


def _normal_quantile(confidence: float) -> float:
    return float(scipy.special.ndtri((1 + confidence) / 2))
