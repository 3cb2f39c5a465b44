"""The log-loss of positions, by which settings are judged on held-out data, and its best temperature.

    loss(T) = - (1 / W) sum_n w_n log ( sum_y q_n(y) p_n(y)^(1/T) / sum_y p_n(y)^(1/T) )

p_n are the marginals of position n and q_n what is known of its label: 1 for the right one, 0 for others. Settings are
judged by loss(1), that of the probabilities as they are predicted. Evidence of neighbouring positions is correlated and
a field adds it up, so that marginals of new items are often too certain; the T of the least loss says how much so, and
``calibrate`` mends it. Judged by that least loss, settings of larger variances are chosen: worse probabilities, and
labels that are no better (docs/results/first_try.md).
The joint likelihood of a labelling, in which each label is predicted with the true one before it at hand, hardly
notices what single positions are predicted by: on sleep stages it has the same value for fields that differ by four
points of accuracy. Whether labels meet at all is its question (structure.py).

Probabilities below the rounding of doubles count as that, as in scikit-learn's log_loss: forests predict zeros. Labels
that are said not to be possible have no part in the sums.
Arrays: marginals (N, L), q as log-weights (N, L) or labels (N,), weights (N,). Cost: some thirty sums over (N, L).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.optimize

#: Temperatures are looked for between 1 / WIDEST and WIDEST.
WIDEST = 100.0


class PositionLoss(NamedTuple):
    """The log-loss per position, the temperature that minimizes it, and the share of right labels."""

    loss: float
    temperature: float
    accuracy: float


def position_loss(
    marginals: np.ndarray,
    known: np.ndarray,
    weights: np.ndarray | None = None,
    possible: np.ndarray | None = None,
) -> PositionLoss:
    """Return the loss of marginals (N, L) for true labels ``known``, (N,) or as log-weights (N, L).

    ``possible`` (N, L): which labels there can be, None for all.
    """
    logs = _shifted_logs(marginals, possible)
    likeliest = logs.argmax(axis=1)

    def loss(log_temperature: float) -> float:
        return float(np.average(_losses(logs * np.exp(-log_temperature), known), weights=weights))

    reach = float(np.log(WIDEST))
    found = scipy.optimize.minimize_scalar(loss, bounds=(-reach, reach), method="bounded", options={"xatol": 1e-6})
    right = likeliest == known if known.ndim == 1 else known[np.arange(len(logs)), likeliest] > -np.inf
    return PositionLoss(loss(0.0), float(np.exp(found.x)), float(np.average(right, weights=weights)))


def compute_losses(marginals: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the log-loss of each position, (N,), of marginals (N, L); ``known`` as in :func:`position_loss`."""
    return _losses(_shifted_logs(marginals), known)


def _shifted_logs(marginals: np.ndarray, possible: np.ndarray | None = None) -> np.ndarray:
    """Return the logarithms of marginals; the largest of each position is zero."""
    logs = np.log(np.maximum(marginals, np.finfo(np.float64).eps))
    if possible is not None:
        logs[~possible] = -np.inf
    return logs - logs.max(axis=1, keepdims=True)


def _losses(logs: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the losses (N,) of unnormalized log-probabilities of which the largest is zero."""
    right = logs[np.arange(len(logs)), known] if known.ndim == 1 else np.logaddexp.reduce(logs + known, axis=1)
    return np.log(np.exp(logs).sum(axis=1)) - right
