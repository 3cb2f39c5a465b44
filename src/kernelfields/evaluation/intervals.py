"""Wilson intervals for proportions of clustered observations.

    p = h / n,   h = sum_i h_i hits,   n = sum_i n_i cases,   of sequences i = 1 .. m that have cases
    var(p) = m / (m - 1) sum_i (h_i - p n_i)^2 / n^2            variance between sequences
    e = p (1 - p) / var(p) n / (n - 1) (z / t)^2                effective number of independent cases
    (p + z^2 / 2e  -+  z sqrt(p (1 - p) / e + z^2 / 4e^2)) / (1 + z^2 / e)            Wilson's interval

Resamples of 1 of 1, or of 20 of 20, are all equal, so a bootstrap interval has length zero. Wilson's interval for 1 of
1 is [0.207, 1.000], for 20 of 20 [0.839, 1.000]. It assumes independent cases, and positions of
a sequence are not independent. Therefore n is replaced by e, the number of independent cases with the observed variance
between sequences, as Korn and Graubard (1998) do for surveys. Student's quantile t with m - 1 degrees of freedom
replaces z, because this variance is itself estimated. e lies between n^2 / sum_i n_i^2, if all cases of a sequence
are right or wrong together, and n. If all are right, or none, the variance between sequences is unknown, and e is the
former: a sequence counts as one case, whatever its length.

F1 = 2 J / (1 + J) increases with J = hits / (predicted + true - hits), which is a proportion: its interval is that
of J, transformed.

Arrays: hits, cases (S, K) by sequence; ends (K,), NaN where there are no cases. Cost: O(S K).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.special

from kernelfields.reports.tables import Estimate


def wilson_intervals(hits: np.ndarray, cases: np.ndarray, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Compute the interval ends (K,) of proportions, from hits and cases (S, K) by sequence."""
    total = cases.sum(axis=0)
    defined = total > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        proportion = hits.sum(axis=0) / total
        effective = _effective_cases(hits, cases, proportion, confidence)
        squared = _normal_quantile(confidence) ** 2 / effective
        reach = np.sqrt(squared * (proportion * (1 - proportion) + squared / 4))
        low, high = ((proportion + squared / 2 + side * reach) / (1 + squared) for side in (-1, 1))
    # At 0 and 1 the ends are exact but for rounding.
    low, high = np.where(proportion == 0, 0.0, low), np.where(proportion == 1, 1.0, high)
    return np.where(defined, low, np.nan), np.where(defined, high, np.nan)


def f1_intervals(
    hits: np.ndarray, predicted: np.ndarray, true: np.ndarray, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the interval ends (K,) of F1, from counts (S, K) by sequence."""
    low, high = wilson_intervals(hits, predicted + true - hits, confidence)
    return 2 * low / (1 + low), 2 * high / (1 + high)


def mean_interval(estimates: Sequence[Estimate], weights: np.ndarray) -> tuple[float, float]:
    """Compute the interval of a weighted mean of independent estimates.

    The squared distances from the mean to its ends are the weighted sums of theirs (Zou and Donner, 2008). Estimates
    without an interval add nothing; NaN where none has one.
    """
    parts = [(estimate.value, estimate.low, estimate.high) for estimate in estimates]
    values, *ends = np.array(parts, dtype=float).reshape(-1, 3).T
    known = np.isfinite(ends[0]) & (weights > 0)
    if not known.any():
        return np.nan, np.nan
    shares = weights / weights.sum()
    mean = float(np.sum((shares * values)[weights > 0]))
    below, above = (np.sqrt(np.sum(((values - end) * shares)[known] ** 2)) for end in ends)
    return mean - float(below), mean + float(above)


def _effective_cases(hits: np.ndarray, cases: np.ndarray, proportion: np.ndarray, confidence: float) -> np.ndarray:
    """Compute effective numbers of independent cases, (K,), from cases clustered by sequence."""
    total, holders = cases.sum(axis=0), np.sum(cases > 0, axis=0)
    least = total**2 / np.sum(cases.astype(float) ** 2, axis=0)
    freedom = np.maximum(holders - 1, 1)
    variance = holders / freedom * np.sum((hits - proportion * cases) ** 2, axis=0) / total**2
    quantile = scipy.special.stdtrit(freedom, (1 + confidence) / 2)
    per_degree = (_normal_quantile(confidence) / quantile) ** 2
    seen = proportion * (1 - proportion) / variance * total / np.maximum(total - 1, 1) * per_degree
    certain = (proportion == 0) | (proportion == 1)
    return np.where(certain, least, np.clip(seen, least, total))


def _normal_quantile(confidence: float) -> float:
    return float(scipy.special.ndtri((1 + confidence) / 2))
