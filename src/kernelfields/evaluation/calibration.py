"""Calibration: agreement of marginal probabilities with the share of right labels.

    confidence_t = max_b p(y_t = b | x),   correct_t = [the label with that probability is true]
    expected calibration error = sum_bins (n_bin / N) |mean correct - mean confidence|
    Brier score = mean_t sum_b (p(y_t = b | x) - [y_t = b])^2,   from 0 to 2

Bins are intervals (low, high] of confidence, of equal width or with equally many positions. A true label that is not
among the classes has probability 0: it is wrong, and its Brier score has 1 for it.

Temperature scaling makes marginals more or less confident by one number, fitted on held-out sequences:

    p_T(y_t = b | x) = p(y_t = b | x)^(1/T) / sum_b' p(y_t = b' | x)^(1/T)
    T = argmin  - mean_t log p_T(y_t | x)

T > 1 softens, T < 1 sharpens; the most probable label stays the same. The mean is convex in 1/T; it is minimised
by Brent's method in log T, at a cost of O(N L) for each of some thirty temperatures tried.

Arrays: marginals, one (T, L) per sequence, or (n, L) of n single labels, columns in the order of ``classes`` (L,);
lists of dicts from labels to probabilities are read as well. Positions whose true label is not known (None, a set, a
dict of weights) do not count. Cost: O(N L).
Fails: ValueError naming the sequence whose marginals have another shape or are no probabilities; for temperatures, also
for true labels that are not among the classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize

from kernelfields.data.partial_labels import is_partial, single_labels
from kernelfields.data.reading import is_sequence, locate
from kernelfields.evaluation.packed_labels import PackedLabels, known_only, known_places, pack_labels
from kernelfields.evaluation.resampling import Resampling
from kernelfields.reports.tables import Estimate, Result

#: Temperatures are looked for between 1 / WIDEST and WIDEST.
WIDEST = 100.0
_SUM_TOLERANCE = 1e-3
# A probability of zero counts as this small one: the logarithm must exist.
_SMALLEST = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class ReliabilityCurve(Result):
    """Per bin of confidence: edges (n + 1,), number of positions, mean confidence, share of right labels (n,).

    Where a bin is empty, confidence and accuracy are NaN. ``accuracy_low`` and ``accuracy_high`` are the ends of
    the intervals, None where none were computed.
    """

    edges: np.ndarray
    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    accuracy_low: np.ndarray | None = None
    accuracy_high: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Calibration(Result):
    """Expected calibration error, Brier score and reliability curve of marginals."""

    expected_error: Estimate
    brier: Estimate
    curve: ReliabilityCurve


@dataclass(frozen=True, eq=False)
class Confidences:
    """Of every position (N,): probability of the most probable label, whether it is true, squared error, the label."""

    confidence: np.ndarray
    correct: np.ndarray
    squared_error: np.ndarray
    labels: list

    def edges(self, n_bins: int, strategy: str) -> np.ndarray:
        """Return the edges of bins; quantiles that fall together leave fewer bins."""
        if not isinstance(n_bins, int | np.integer) or isinstance(n_bins, bool) or n_bins < 1:
            raise ValueError(f"n_bins must be a whole number of at least 1, got {n_bins!r}")
        if strategy == "uniform":
            return np.linspace(0.0, 1.0, n_bins + 1)
        if strategy != "quantile":
            raise ValueError(f"strategy must be 'uniform' or 'quantile', got {strategy!r}")
        inner = np.quantile(self.confidence, np.linspace(0.0, 1.0, n_bins + 1)[1:-1])
        return np.unique(np.concatenate([[0.0], inner, [1.0]]))

    def statistics(self, packed: PackedLabels, edges: np.ndarray) -> np.ndarray:
        """Sums by sequence, (S, 3 n_bins + 1): positions, confidences, right labels per bin; squared errors."""
        n_bins = len(edges) - 1
        cells = packed.sequence * n_bins + np.searchsorted(edges[1:-1], self.confidence)
        size = packed.n_sequences * n_bins
        columns = [
            np.bincount(cells, weights, size).reshape(-1, n_bins) for weights in (None, self.confidence, self.correct)
        ]
        return np.column_stack([*columns, np.add.reduceat(self.squared_error, packed.offsets[:-1])])


def read_confidences(packed: PackedLabels, marginals: object, classes: object) -> Confidences:
    """Compare marginals with the true labels."""
    table, true, known = true_columns(packed, marginals, classes)
    best = table.argmax(axis=1)
    rows = np.arange(len(table))
    of_truth = np.where(true >= 0, table[rows, true], 0.0)
    # sum_b (p_b - [b true])^2 without a table of zeros and ones.
    squared = np.einsum("nl,nl->n", table, table) - 2 * of_truth + 1
    return Confidences(table[rows, best], best == true, squared, [known[column] for column in best.tolist()])


def true_columns(packed: PackedLabels, marginals: object, classes: object) -> tuple[np.ndarray, np.ndarray, list]:
    """Return marginals as one table (N, L), the column of every true label, -1 for unknown ones, and the classes."""
    table, known = _pack_marginals(packed, marginals, classes)
    column_of = {label: column for column, label in enumerate(known)}
    return table, np.array([column_of.get(label, -1) for label in packed.labels])[packed.codes["y_true"]], known


def calibrate(sums: np.ndarray, by_sequence: np.ndarray, edges: np.ndarray, resampling: Resampling) -> Calibration:
    """Turn statistics (S, 3 n_bins + 1), and their sums (1 + n_resamples, 3 n_bins + 1), into figures."""
    counts, confidence, correct = np.split(sums[:, :-1], 3, axis=1)
    own_counts, _, own_correct = np.split(by_sequence[:, :-1], 3, axis=1)
    n_positions, n_sequences = counts.sum(axis=1), len(by_sequence)
    accuracy = resampling.proportions(own_correct, own_counts)
    ends = [
        None if resampling.n_resamples == 0 else np.array([getattr(estimate, side) for estimate in accuracy])
        for side in ("low", "high")
    ]
    means = (
        np.divide(total[0], counts[0], out=np.full(len(edges) - 1, np.nan), where=counts[0] > 0)
        for total in (confidence, correct)
    )
    errors = np.abs(correct - confidence).sum(axis=1) / n_positions
    # Resamples are further from their bins' confidence than the data are, by the error of binning once more.
    if len(errors) > 1:
        errors[1:] = np.maximum(errors[1:] - max(errors[1:].mean() - errors[0], 0.0), 0.0)
    return Calibration(
        resampling.estimate(errors, n_sequences),
        resampling.estimate(sums[:, -1] / n_positions, n_sequences),
        ReliabilityCurve(edges, counts[0].astype(np.int64), *means, *ends),
    )


def expected_calibration_error(
    y_true: object, marginals: object, classes: object = None, *, n_bins: int = 10, strategy: str = "uniform"
) -> float:
    """Return the mean distance between confidence and accuracy, over bins of confidence."""
    return _calibration(y_true, marginals, classes, n_bins, strategy).expected_error.value


def event_calibration_error(probabilities: np.ndarray, happened: np.ndarray, n_bins: int = 10) -> float:
    """Return the mean distance between probabilities of events and how often they happen, over bins of equal width."""
    cells = np.minimum((np.asarray(probabilities) * n_bins).astype(np.int64), n_bins - 1)
    excess = np.bincount(cells, np.asarray(probabilities) - np.asarray(happened, dtype=np.float64), minlength=n_bins)
    return float(np.abs(excess).sum() / max(len(cells), 1))


def brier_score(y_true: object, marginals: object, classes: object = None) -> float:
    """Return the mean squared distance between marginals and the true labels, from 0 to 2.

    With two labels it is twice scikit-learn's ``brier_score_loss`` of one of them.
    """
    return _calibration(y_true, marginals, classes, 1, "uniform").brier.value


def reliability_curve(
    y_true: object, marginals: object, classes: object = None, *, n_bins: int = 10, strategy: str = "uniform"
) -> ReliabilityCurve:
    """Return confidence and accuracy per bin, bins of equal width ("uniform") or equal numbers ("quantile")."""
    return _calibration(y_true, marginals, classes, n_bins, strategy).curve


def _calibration(y_true: object, marginals: object, classes: object, n_bins: int, strategy: str) -> Calibration:
    packed, rows = _packed_where_known(y_true, marginals)
    confidences = read_confidences(packed, rows, classes)
    edges = confidences.edges(n_bins, strategy)
    statistics = confidences.statistics(packed, edges)
    return calibrate(statistics.sum(axis=0, keepdims=True), statistics, edges, Resampling(n_resamples=0))


@dataclass(frozen=True)
class Temperature:
    """A temperature, the log-loss it has on the sequences it was fitted to, and the log-loss without it."""

    value: float
    log_loss: float
    log_loss_before: float

    def __call__(self, marginals: Iterable[object]) -> list[np.ndarray] | np.ndarray:
        """Return marginals at this temperature, one (T, L) array per sequence, or one (n, L) of single labels."""
        if getattr(marginals, "ndim", 1) == 2:
            return _softened(np.asarray(marginals), self.value)
        return [_softened(np.asarray(rows, dtype=np.float64), self.value) for rows in marginals]


def fit_temperature(y_true: object, marginals: object, classes: object) -> Temperature:
    """Return the temperature of least log-loss on held-out sequences: not those that the field was fitted to."""
    logs, _, true = _true_logs(y_true, marginals, classes)
    return temperature_of(logs, true)


def temperature_of(logs: np.ndarray, true: np.ndarray) -> Temperature:
    """Return the temperature of least log-loss for log-probabilities (N, L) whose columns ``true`` (N,) are right."""
    rows = np.arange(len(logs))

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
    listed, _ = _listed(y_true, marginals)
    counts = [len(known_places(single_labels(labels))) if is_partial(labels) else len(labels) for labels in listed]
    return np.bincount(np.repeat(np.arange(len(counts)), counts), losses, minlength=len(counts))


def _listed(y_true: Any, marginals: Any) -> tuple[Any, Any]:
    """Return labels and marginals of sequences; single labels (n,) with probabilities (n, L) are sequences of one."""
    marginals = marginals.to_numpy() if hasattr(marginals, "to_numpy") else marginals
    single = isinstance(marginals, np.ndarray) and marginals.ndim == 2 and is_sequence(y_true)
    if single and not any(map(is_sequence, y_true)):
        return [[label] for label in y_true], marginals[:, None]
    return y_true, marginals


def _packed_where_known(y_true: object, marginals: object) -> tuple[PackedLabels, Any]:
    """Return labels and marginals at the positions whose label is known."""
    labels, rows = _listed(y_true, marginals)
    known, chosen, _ = known_only(labels, {"marginals": rows}, None)
    return pack_labels(y_true=known), chosen["marginals"]


def _true_logs(y_true: object, marginals: object, classes: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log-marginals (N, L), the numbers of their rows, and the column of the true label in each.

    Of positions whose label is known.
    """
    packed, rows = _packed_where_known(y_true, marginals)
    table, true, _ = true_columns(packed, rows, classes)
    if (true < 0).any():
        unknown = packed.labels[packed.codes["y_true"][int((true < 0).argmax())]]
        raise ValueError(
            f"y_true holds the label {unknown!r}, which is not among the classes: its log-loss is infinite"
        )
    return np.log(np.maximum(table, _SMALLEST)), np.arange(len(table)), true


def _softened(rows: np.ndarray, temperature: float) -> np.ndarray:
    logs = np.log(np.maximum(rows, _SMALLEST)) / temperature
    powers = np.where(rows > 0.0, np.exp(logs - logs.max(axis=1, keepdims=True)), 0.0)
    return powers / powers.sum(axis=1, keepdims=True)


def _pack_marginals(packed: PackedLabels, marginals: object, classes: object) -> tuple[np.ndarray, list]:
    if not is_sequence(marginals) or len(marginals) != packed.n_sequences:
        got = f"{len(marginals)}" if is_sequence(marginals) else type(marginals).__name__
        raise ValueError(
            f"marginals must hold one array (positions, labels) for each of the {packed.n_sequences} sequences, "
            f"got {got}"
        )
    first = marginals[0]
    dicts = isinstance(first, list | tuple) and bool(first) and isinstance(first[0], Mapping)
    if dicts and classes is None:
        classes = sorted(first[0])
    known = _check_classes(classes, packed)
    table = np.concatenate(
        [
            _marginal_array(rows if not dicts else _from_dicts(rows, known, index), index, (length, len(known)))
            for index, (rows, length) in enumerate(zip(marginals, packed.lengths.tolist(), strict=True))
        ]
    )
    wrong = ~((table >= 0).all(axis=1) & (np.abs(table.sum(axis=1) - 1) < _SUM_TOLERANCE))
    if wrong.any():
        sequence, position = locate(packed.offsets, int(wrong.argmax()))
        raise ValueError(
            f"marginals of sequence {sequence}, position {position} are no probabilities that add up to 1: "
            f"{table[wrong.argmax()]}"
        )
    return table, known


def _check_classes(classes: object, packed: PackedLabels) -> list:
    if classes is None:
        raise ValueError("marginals need classes, the labels their columns stand for: pass classes=crf.classes_")
    values = np.asarray(classes)
    # Several labels have a row each, of the same values.
    known = (values[0] if values.ndim == 2 and len(np.unique(values, axis=0)) == 1 else values).tolist()
    if not isinstance(known, list) or len(set(known)) != len(known):
        raise ValueError(f"classes must be a list of different labels, got {classes!r:.80}")
    true = [packed.labels[code] for code in np.unique(packed.codes["y_true"])]
    if not set(known) & set(true):
        raise ValueError(f"none of the labels of y_true is among the classes: {true[0]!r}, but {known[:10]!r}")
    return known


def _marginal_array(rows: object, index: int, shape: tuple[int, int]) -> np.ndarray:
    try:
        array = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"marginals of sequence {index} are no table of numbers: {error}") from error
    if array.shape != shape:
        raise ValueError(
            f"marginals of sequence {index} have shape {array.shape}, expected {shape}: one row per label of "
            "y_true, one column per class"
        )
    return array


def _from_dicts(rows: list[Mapping], classes: list, index: int) -> np.ndarray:
    for position, row in enumerate(rows):
        if set(row) != set(classes):
            raise ValueError(
                f"marginals of sequence {index}, position {position} are of the labels {sorted(row)}, "
                f"expected {sorted(classes)}"
            )
    return np.array([[row[label] for label in classes] for row in rows])
