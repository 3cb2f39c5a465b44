"""Temperature scaling: one number, fitted on held-out sequences, that makes marginals more or less confident.

    p_T(y_t = b | x) = p(y_t = b | x)^(1/T) / sum_b' p(y_t = b' | x)^(1/T)
    T = argmin  - mean_t log p_T(y_t | x)

T > 1 softens, T < 1 sharpens; the most probable label stays the same. The mean is convex in 1/T; it is minimised
by Brent's method in log T. Marginals are (T, L) arrays, one per sequence, columns as in ``classes``.
Cost: O(N L) for each of some thirty temperatures tried.
Fails: ValueError for marginals that are no probabilities, and for true labels that are not among the classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from kernelfields.evaluation.calibration import true_columns
from kernelfields.evaluation.packed_labels import pack_labels

#: Temperatures are looked for between 1 / WIDEST and WIDEST.
WIDEST = 100.0
# A probability of zero counts as this small one: the logarithm must exist.
_SMALLEST = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class Temperature:
    """A temperature, the log-loss it has on the sequences it was fitted to, and the log-loss without it."""

    value: float
    log_loss: float
    log_loss_before: float

    def __call__(self, marginals: Iterable[object]) -> list[np.ndarray]:
        """Return marginals at this temperature, one (T, L) array per sequence."""
        return [_softened(np.asarray(rows, dtype=np.float64), self.value) for rows in marginals]


def fit_temperature(y_true: object, marginals: object, classes: object) -> Temperature:
    """Return the temperature of least log-loss on held-out sequences: not those that the field was fitted to."""
    logs, rows, true = _true_logs(y_true, marginals, classes)

    def loss(log_temperature: float) -> float:
        scaled = logs * np.exp(-log_temperature)
        return float(np.mean(np.logaddexp.reduce(scaled, axis=1) - scaled[rows, true]))

    reach = float(np.log(WIDEST))
    found = scipy.optimize.minimize_scalar(loss, bounds=(-reach, reach), method="bounded", options={"xatol": 1e-6})
    return Temperature(float(np.exp(found.x)), loss(found.x), loss(0.0))


def marginal_log_loss(
    y_true: object, marginals: object, classes: object, *, per_sequence: bool = False
) -> float | np.ndarray:
    """Return the mean of -log p(y_t | x) over positions, or for each sequence its sum, (S,)."""
    logs, rows, true = _true_logs(y_true, marginals, classes)
    losses = -logs[rows, true]
    if not per_sequence:
        return float(losses.mean())
    return np.add.reduceat(losses, pack_labels(y_true=y_true).offsets[:-1])


def _true_logs(y_true: object, marginals: object, classes: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log-marginals (N, L), the numbers of their rows, and the column of the true label in each."""
    packed = pack_labels(y_true=y_true)
    table, true, _ = true_columns(packed, marginals, classes)
    if (true < 0).any():
        unknown = packed.labels[packed.codes["y_true"][int((true < 0).argmax())]]
        raise ValueError(f"y_true holds the label {unknown!r}, which the classes do not know: its log-loss is infinite")
    return np.log(np.maximum(table, _SMALLEST)), np.arange(len(table)), true


def _softened(rows: np.ndarray, temperature: float) -> np.ndarray:
    logs = np.log(np.maximum(rows, _SMALLEST)) / temperature
    powers = np.where(rows > 0.0, np.exp(logs - logs.max(axis=1, keepdims=True)), 0.0)
    return powers / powers.sum(axis=1, keepdims=True)
