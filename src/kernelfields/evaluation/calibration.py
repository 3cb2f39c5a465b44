"""Calibration: agreement of marginal probabilities with the share of right labels.

    confidence_t = max_b p(y_t = b | x),   correct_t = [the label with that probability is true]
    expected calibration error = sum_bins (n_bin / N) |mean correct - mean confidence|
    Brier score = mean_t sum_b (p(y_t = b | x) - [y_t = b])^2,   from 0 to 2

Bins are intervals (low, high] of confidence, of equal width. A true label that is not among the classes has
probability 0: it is wrong, and its Brier score has 1 for it.

Arrays: marginals, one (T, L) per sequence, columns in the order of ``classes`` (L,). Cost: O(N L).
Raises ValueError naming the sequence whose marginals have another shape or are no probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelfields.data.reading import is_sequence, locate
from kernelfields.evaluation.packed_labels import PackedLabels
from kernelfields.evaluation.resampling import Resampling
from kernelfields.reports.tables import Estimate, Result

_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class ReliabilityCurve(Result):
    """The share of right labels by predicted probability.

    Parameters
    ----------
    edges : array (n_bins + 1,)
        The edges of the bins of confidence.
    counts : array (n_bins,)
        The number of positions in each bin.
    confidence : array (n_bins,)
        Their mean probability; NaN if a bin is empty.
    accuracy : array (n_bins,)
        The share of them whose label is right; NaN if a bin is empty.
    accuracy_low, accuracy_high : array (n_bins,), or None
        The ends of the intervals, None if none were computed.

    See Also
    --------
    evaluate : Computes it from marginals.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.evaluation import evaluate
    >>> marginals = [np.array([[0.9, 0.1], [0.3, 0.7]])]
    >>> curve = evaluate([["a", "a"]], [["a", "b"]], marginals=marginals, classes=["a", "b"]).calibration.curve
    >>> curve.counts
    array([0, 0, 0, 0, 0, 0, 1, 0, 1, 0])
    """

    edges: np.ndarray
    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    accuracy_low: np.ndarray | None = None
    accuracy_high: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Calibration(Result):
    """Calibration of probabilities: expected calibration error, Brier score and reliability curve.

    Parameters
    ----------
    expected_error : Estimate
        The mean distance of confidence and accuracy over bins.
    brier : Estimate
        The mean squared error of the probabilities.
    curve : ReliabilityCurve
        Both by bin.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.evaluation import evaluate
    >>> marginals = [np.array([[0.9, 0.1], [0.3, 0.7]])]
    >>> result = evaluate([["a", "a"]], [["a", "b"]], marginals=marginals, classes=["a", "b"])
    >>> round(result.calibration.brier.value, 3)
    0.5
    """

    expected_error: Estimate
    brier: Estimate
    curve: ReliabilityCurve


@dataclass(frozen=True, eq=False)
class Confidences:
    """The best label of each position (N,): its probability, correctness, squared error, and name."""

    confidence: np.ndarray
    correct: np.ndarray
    squared_error: np.ndarray
    labels: list

    def statistics(self, packed: PackedLabels, edges: np.ndarray) -> np.ndarray:
        """Return sums by sequence, (S, 3 n_bins + 1): positions, confidences, right labels by bin; squared errors."""
        n_bins = len(edges) - 1
        cells = packed.sequence * n_bins + np.searchsorted(edges[1:-1], self.confidence)
        size = packed.n_sequences * n_bins
        columns = [
            np.bincount(cells, weights, size).reshape(-1, n_bins) for weights in (None, self.confidence, self.correct)
        ]
        return np.column_stack([*columns, np.add.reduceat(self.squared_error, packed.offsets[:-1])])


def read_confidences(packed: PackedLabels, marginals: object, classes: object) -> Confidences:
    """Compare marginals with the true labels."""
    table, known = _pack_marginals(packed, marginals, classes)
    column_of = {label: column for column, label in enumerate(known)}
    true = np.array([column_of.get(label, -1) for label in packed.labels])[packed.codes["y_true"]]
    best = table.argmax(axis=1)
    rows = np.arange(len(table))
    of_truth = np.where(true >= 0, table[rows, true], 0.0)
    # sum_b (p_b - [b true])^2 without a table of zeros and ones.
    squared = np.einsum("nl,nl->n", table, table) - 2 * of_truth + 1
    return Confidences(table[rows, best], best == true, squared, [known[column] for column in best.tolist()])


def confidence_bins(n_bins: int) -> np.ndarray:
    """Return the edges (n_bins + 1,) of bins of equal width."""
    if not isinstance(n_bins, int | np.integer) or isinstance(n_bins, bool) or n_bins < 1:
        raise ValueError(f"n_bins must be a whole number of at least 1, got {n_bins!r}")
    return np.linspace(0.0, 1.0, n_bins + 1)


def calibration_figures(
    sums: np.ndarray, by_sequence: np.ndarray, edges: np.ndarray, resampling: Resampling
) -> Calibration:
    """Compute figures from statistics (S, 3 n_bins + 1) and resampled sums (1 + n_resamples, 3 n_bins + 1)."""
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


def _pack_marginals(packed: PackedLabels, marginals: object, classes: object) -> tuple[np.ndarray, list]:
    if not is_sequence(marginals) or len(marginals) != packed.n_sequences:
        got = f"{len(marginals)}" if is_sequence(marginals) else type(marginals).__name__
        raise ValueError(
            f"marginals must hold one array (positions, labels) for each of the {packed.n_sequences} sequences, "
            f"got {got}"
        )
    known = _check_classes(classes, packed)
    table = np.concatenate(
        [
            _marginal_array(rows, index, (length, len(known)))
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
