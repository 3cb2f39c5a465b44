"""Thresholds with a guarantee, from scores of calibration items that are exchangeable with the items to come.

The unit is an item, a sequence, graph, instance or input, never a position. For n items and a risk alpha:

    quantile      the ceil((n + 1)(1 - alpha))-th smallest score: a new score is no larger with probability >= 1 - alpha
    risk control  the largest lambda with  (sum_i loss_i(lambda) + 1) / (n + 1) <= alpha,  for losses within [0, 1] that
                  never fall as lambda rises: the expected loss of a new item is then at most alpha

(conformal risk control: Angelopoulos, Bates, Fisch, Lei, Schuster 2024). Neither is clamped: with fewer than
1 / alpha - 1 items the threshold is infinite, and the only set with the guarantee is everything.

A test of exchangeability bets against it: with p-values that are uniform and independent if all items are exchangeable,
the wealth of a gambler who starts with 1 reaches c with probability at most 1 / c (Ville). The bets are those of the
simple jumper (Vovk, Petej, Nouretdinov, Ahlberg, Carlsson, Gammerman 2021).

Arrays: scores and increments (M,), one for each event at which the loss of an item rises. Cost: O(M log M).
Fails: ValueError for losses that fall somewhere, or lie outside [0, 1].
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

#: How far rounding may carry a sum of losses beyond its bound.
_ROUNDING = 1e-9
#: The share of its wealth that the gambler moves between the three bets before each item.
_JUMPS = 0.01


def least_items(risk: float) -> int:
    """Return the least number of calibration items that a threshold for a risk needs."""
    return max(1, math.ceil(1.0 / risk - 1.0 - _ROUNDING))


def score_quantile(scores: np.ndarray, risk: float) -> float:
    """Return the threshold that a new score exceeds with probability at most ``risk``; infinite for too few scores."""
    rank = math.ceil((len(scores) + 1) * (1.0 - risk) - _ROUNDING)
    return math.inf if rank > len(scores) else float(np.sort(scores)[max(rank, 1) - 1])


def event_threshold(scores: np.ndarray, increments: np.ndarray, n_items: int, risk: float) -> float:
    """Return the largest lambda whose risk is controlled, where an item loses its increments with score < lambda.

    Minus infinity for too few items.
    """
    budget = risk * (n_items + 1) - 1.0 + _ROUNDING
    if budget < 0.0:
        return -math.inf
    order = np.argsort(scores, kind="stable")
    over = np.flatnonzero(np.cumsum(increments[order]) > budget)
    return float(scores[order[over[0]]]) if over.size else math.inf


def control_risk(thresholds: ArrayLike, losses: ArrayLike, risk: float) -> float:
    """Return the largest of some thresholds whose risk is controlled, for losses of one's own.

    Parameters
    ----------
    thresholds : (K,) numbers in rising order
    losses : (n, K) the loss of each calibration item at each threshold, within [0, 1]; it must not fall along a row
    risk : the expected loss that a new item may have

    Minus infinity if no threshold will do. ValueError for losses that fall as the threshold rises: their risk would
    not be controlled.
    """
    levels, table = np.asarray(thresholds, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    if levels.ndim != 1 or table.shape != (len(table), len(levels)) or not (np.diff(levels) > 0).all():
        raise ValueError("thresholds must rise, and losses must have a row for each item and a column for each of them")
    if not 0.0 < risk < 1.0:
        raise ValueError(f"risk must lie between 0 and 1, got {risk!r}")
    if not ((table >= 0.0) & (table <= 1.0)).all():
        raise ValueError("losses must lie within [0, 1]: divide them by the largest that is possible")
    falls = np.argwhere(np.diff(table, axis=1) < -_ROUNDING)
    if falls.size:
        item, column = falls[0].tolist()
        raise ValueError(
            f"the loss of item {item} falls between the thresholds {levels[column]:g} and {levels[column + 1]:g}: only "
            "losses that never fall can be controlled; take its largest value up to each threshold, "
            "np.maximum.accumulate(losses, axis=1)"
        )
    risks = (table.sum(axis=0) + 1.0) / (len(table) + 1.0)
    fine = np.flatnonzero(risks <= risk + _ROUNDING)
    return float(levels[fine[-1]]) if fine.size else -math.inf


def wealth_against_exchangeability(
    known: np.ndarray, scores: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return p-values of scores in their order, after ``known`` ones, and the wealth after each, (m,) both."""
    values, before = np.empty(len(scores)), np.sort(known)
    bets, wealth = np.full(3, 1.0 / 3.0), np.empty(len(scores))
    stakes = np.array([-1.0, 0.0, 1.0])
    for number, score in enumerate(scores.tolist()):
        low, high = np.searchsorted(before, score, side="left"), np.searchsorted(before, score, side="right")
        larger, equal = len(before) - high, high - low + 1
        values[number] = (larger + random.random() * equal) / (len(before) + 1)
        bets = (1.0 - _JUMPS) * bets + _JUMPS * bets.sum() / 3.0
        bets *= 1.0 + stakes * (values[number] - 0.5)
        wealth[number] = bets.sum()
        before = np.insert(before, low, score)
    return values, wealth
