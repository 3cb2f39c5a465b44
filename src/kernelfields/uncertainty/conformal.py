"""Thresholds with a guarantee, from scores of calibration items that are exchangeable with new items.

The unit is an item, a sequence, graph, instance or input, never a position. For n items and a risk alpha:

    quantile      the ceil((n + 1)(1 - alpha))-th smallest score: a new score is no larger with probability >= 1 - alpha
    risk control  the largest lambda with  (sum_i loss_i(lambda) + 1) / (n + 1) <= alpha,  for losses within [0, 1] that
                  never fall as lambda rises: the expected loss of a new item is then at most alpha

(conformal risk control: Angelopoulos, Bates, Fisch, Lei, Schuster 2024). With fewer than 1 / alpha - 1
items the threshold is infinite, and only the set of everything has the guarantee.

Scores are compared after rounding to nine decimals, because different computations of a score, such as batches of
different sizes, differ in the last digits.

Arrays: scores and increments (M,), one for each event at which the loss of an item rises. Cost: O(M log M).
"""

from __future__ import annotations

import math

import numpy as np

#: How far rounding may carry a sum of losses beyond its bound.
_ROUNDING = 1e-9
_DECIMALS = 9


def round_scores(scores: np.ndarray | float) -> np.ndarray:
    """Round scores or thresholds for comparison."""
    return np.round(scores, _DECIMALS)


def least_items(risk: float) -> int:
    """Return the minimal number of calibration items for a finite threshold at a risk."""
    return max(1, math.ceil(1.0 / risk - 1.0 - _ROUNDING))


def score_quantile(scores: np.ndarray, risk: float) -> float:
    """Return the threshold that a new score exceeds with probability at most ``risk``; infinite for few scores."""
    rank = math.ceil((len(scores) + 1) * (1.0 - risk) - _ROUNDING)
    return math.inf if rank > len(scores) else float(np.sort(scores)[max(rank, 1) - 1])


def event_threshold(scores: np.ndarray, increments: np.ndarray, n_items: int, risk: float) -> float:
    """Return the largest threshold of controlled risk, for losses that increase as scores decrease.

    Minus infinity for too few items.
    """
    budget = risk * (n_items + 1) - 1.0 + _ROUNDING
    if budget < 0.0:
        return -math.inf
    order = np.argsort(scores, kind="stable")
    over = np.flatnonzero(np.cumsum(increments[order]) > budget)
    return float(scores[order[over[0]]]) if over.size else math.inf
