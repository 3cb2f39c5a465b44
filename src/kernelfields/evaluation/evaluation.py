"""Evaluation of a model, or of predicted labels: scores, likelihood and calibration, each figure with its interval.

    evaluate(crf, X_test, y_test)                   all of them
    evaluate(y_true, y_pred)                        accuracy of positions and sequences, scores of labels
             scheme="bio"                           scores of entities, which come first
             log_likelihood=...                     mean log p(y | x) per sequence and per position
             marginals=..., classes=...             expected calibration error, Brier score, reliability curve

Proportions have Wilson intervals (intervals.py); the intervals of all other figures come from the same
resamples of sequences (resampling.py). Cost: O(N) to count and
O(B S K) to resample, with B resamples, S sequences and K of the order of three times the labels.
Raises ValueError or TypeError naming the argument, the sequence and the position. Labels that occur on one side only
count as errors.

Decodings are other ways to predict labels from the same field:

    viterbi      argmax_y p(y | x)             labels that fit together
    posterior    argmax_b p(y_t = b | x)       most labels right, one by one

Accuracy mostly favours the second and entities the first, so a score is meaningful only with its decoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernelfields.evaluation.calibration import calibration_figures, confidence_bins, read_confidences
from kernelfields.evaluation.entities import EntityReader, entity_counts, entity_reader
from kernelfields.evaluation.label_scores import (
    Counts,
    average_table,
    choose_labels,
    label_counts,
    right_sequences,
    score_table,
)
from kernelfields.evaluation.model_evaluation import FittedModel, Predictions, collect_predictions
from kernelfields.evaluation.packed_labels import PackedLabels, pack_labels, select_known
from kernelfields.evaluation.resampling import Resampling
from kernelfields.evaluation.results import DecodingScores, EntityScores, Evaluation, LogLikelihood
from kernelfields.reports.tables import Estimate

# A sum of rounded terms may end up above zero by this much.
_ROUNDING = 1e-6


def evaluate(
    truth: Any,
    predicted: Any,
    y: Any = None,
    *,
    decode: str | None = None,
    labels_only: bool = False,
    marginals: Any = None,
    classes: object = None,
    log_likelihood: object = None,
    scheme: str | None = "auto",
    labels: object = None,
    n_bins: int = 10,
    n_resamples: int = 1000,
    confidence: float = 0.95,
    random_state: object = None,
) -> Evaluation:
    """Compare the predictions of a fitted estimator, or given predictions, with the true labels.

    ``evaluate(model, X, y)`` asks a fitted estimator for its labels in both decodings, its marginals and likelihoods.
    ``evaluate(y_true, y_pred)`` takes labels as they are.

    If labels are partly known, positions count whose label is, the likelihood is that of what is known, and there are
    no figures of entities. Labels that the fit of a model never saw are errors of probability zero, which ``unseen`` of
    the result names. If inference is approximate there is no log-likelihood.

    Parameters
    ----------
    truth : list of label sequences, or a fitted estimator
        True labels, or the model to evaluate.
    predicted : list of label sequences, or inputs
        Predicted labels; for an estimator the X that it takes.
    y : list of label sequences, optional
        The true labels of X, for an estimator.
    decode : {"viterbi", "posterior"}, optional
        How an estimator decides; its own way by default. Both are listed if they differ.
    labels_only : bool, default False
        Whether to leave out likelihood and calibration of an estimator.
    marginals : list of arrays (T, L), optional
        Probabilities as ``predict_marginals`` returns them, for calibration. If the most probable label of some
        position is another than the predicted one, the two are compared.
    classes : list, optional
        The L labels that the columns of marginals stand for, ``crf.classes_``.
    log_likelihood : array (S,), optional
        The log p(y | x) of each sequence, ``crf.log_likelihood(X, y, per_item=True)``.
    scheme : {"auto", "bio", "iob1", "bioes", "bilou"} or None, default "auto"
        How labels write entities; "auto" looks at the labels and counts none if no scheme fits, None counts none. If
        there are entities, their F1 is the first figure.
    labels : list, optional
        The labels to average over, often all but "O"; all by default.
    n_bins : int, default 10
        The number of bins of confidence for calibration.
    n_resamples : int, default 1000
        Resamples of sequences for the intervals of figures that are no proportions; 0 for no intervals at all.
    confidence : float, default 0.95
        The coverage of intervals: how often they should hold the figure of the population of sequences.
    random_state : int, Generator or RandomState, optional
        The seed of resamples.

    Returns
    -------
    Evaluation
        All figures; print it, or take ``to_dict()``.

    See Also
    --------
    compare : Two predictions of the same labels.

    Examples
    --------
    >>> from kernelfields.evaluation import evaluate
    >>> result = evaluate([["a", "b"], ["a", "a"]], [["a", "a"], ["a", "a"]], random_state=0)
    >>> result.accuracy.value
    0.75
    >>> result.confusions[("b", "a")]
    1
    """
    if y is not None or isinstance(truth, FittedModel):
        if not all(given is None for given in (marginals, classes, log_likelihood)):
            raise TypeError("evaluate asks a model for marginals and likelihoods: leave them out")
        given = collect_predictions(truth, predicted, y, decode, labels_only)
    else:
        if decode is not None or labels_only:
            raise TypeError("decode and labels_only are for a model: evaluate(model, X, y, decode=...)")
        given = Predictions(truth, predicted, None, log_likelihood, marginals, classes)
    y_true, y_pred, marginals, decodings, scheme = _select_known(given, scheme)
    resampling = Resampling(n_resamples, confidence, random_state)
    packed = pack_labels(y_true=y_true, y_pred=y_pred)
    averaged = choose_labels(labels, packed)
    reader = entity_reader(scheme, packed.labels)
    statistics = count_prediction(packed, reader)
    if given.log_likelihood is not None:
        statistics["log_likelihood"] = _likelihood_statistics(given.log_likelihood, packed)
    if marginals is not None:
        confidences = read_confidences(packed, marginals, given.classes)
        edges = confidence_bins(n_bins)
        statistics["calibration"] = confidences.statistics(packed, edges)
        if decodings is None:
            decodings = {"predicted": y_pred, "posterior": packed.split(confidences.labels)}
    sums = resampling.sums(statistics)
    main, (labelled, resampled) = estimated_proportions(statistics, resampling), _counts("labels", statistics, sums)
    entities = likelihood = calibration = scores = None
    if reader is not None:
        counts, summed = _counts("entities", statistics, sums)
        per_type = score_table(counts, reader.types, resampling)
        entities = EntityScores(reader.scheme.name, per_type, average_table(counts, summed, resampling))
    if given.log_likelihood is not None:
        likelihood = _log_likelihood(sums["log_likelihood"], sums["tokens"], packed.n_sequences, resampling)
    if marginals is not None:
        calibration = calibration_figures(sums["calibration"], statistics["calibration"], edges, resampling)
    if decodings is not None:
        scores = _score_decodings(y_true, y_pred, decodings, None if reader is None else reader.scheme.name, resampling)
    return Evaluation(
        n_sequences=packed.n_sequences,
        n_tokens=packed.n_positions,
        n_resamples=int(n_resamples),
        confidence=float(confidence),
        accuracy=main["accuracy"],
        sequence_accuracy=main["sequence_accuracy"],
        per_label=score_table(labelled, packed.labels, resampling),
        averages=average_table(labelled.select(averaged), resampled.select(averaged), resampling),
        entities=entities,
        log_likelihood=likelihood,
        calibration=calibration,
        decodings=scores,
        confusions=_confusions(packed),
        unseen=given.unseen,
        nouns=given.nouns,
    )


def _select_known(given: Predictions, scheme: str | None) -> tuple[Any, Any, Any, Any, str | None]:
    """Select the positions with a known label in labels, marginals and decodings; return the scheme, too."""
    decoded = given.decodings or {}
    others = {"y_pred": given.y_pred, **{f"decoding {name}": labels for name, labels in decoded.items()}}
    if given.marginals is not None:
        others["marginals"] = given.marginals
    y_true, chosen, scheme = select_known(given.y_true, others, scheme)
    decodings = {name: chosen[f"decoding {name}"] for name in decoded} or None
    return y_true, chosen["y_pred"], chosen.get("marginals"), decodings, scheme


# ---- counts of one prediction, which evaluations, comparisons and decodings share


def count_prediction(
    packed: PackedLabels, reader: EntityReader | None, predicted: str = "y_pred"
) -> dict[str, np.ndarray]:
    """Count by sequence: right sequences (S,), tokens, labels (S, 3, L) and entities (S, 3, T)."""
    statistics = {
        "sequences": np.ones(packed.n_sequences),
        "tokens": packed.lengths,
        "right": right_sequences(packed, predicted),
        "labels": label_counts(packed, predicted).values,
    }
    if reader is not None:
        statistics["entities"] = entity_counts(packed, reader, predicted).values
    return statistics


def resampled_figures(sums: Mapping[str, np.ndarray], columns: np.ndarray) -> dict[str, np.ndarray]:
    """Compute figures (1 + n_resamples,) of summed statistics, averaged over the labels ``columns``."""
    labels = Counts(sums["labels"])
    figures = {
        "accuracy": labels.hits.sum(axis=1) / sums["tokens"],
        "sequence_accuracy": sums["right"] / sums["sequences"],
        "macro_f1": labels.select(columns).average("macro")[2],
    }
    if "entities" in sums:
        figures["entity_f1"] = Counts(sums["entities"]).average("micro")[2]
    return figures


def estimated_proportions(statistics: Mapping[str, np.ndarray], resampling: Resampling) -> dict[str, Estimate]:
    """Estimate the proportions among the figures with Wilson intervals, from statistics by sequence."""
    figures = {
        "accuracy": resampling.proportion(Counts(statistics["labels"]).hits.sum(axis=1), statistics["tokens"]),
        "sequence_accuracy": resampling.proportion(statistics["right"], statistics["sequences"]),
    }
    if "entities" in statistics:
        figures["entity_f1"] = score_table(Counts(statistics["entities"]).sum_labels(), ["all"], resampling)["all"].f1
    return figures


# ---- parts of an evaluation


def _counts(part: str, *statistics: Mapping[str, np.ndarray]) -> tuple[Counts, ...]:
    return tuple(Counts(values[part]) for values in statistics)


def _confusions(packed: PackedLabels) -> dict[tuple[object, object], int]:
    labels = packed.labels
    pairs, counts = np.unique(packed.codes["y_true"] * len(labels) + packed.codes["y_pred"], return_counts=True)
    true, predicted = np.divmod(pairs, len(labels))
    cells = zip(true.tolist(), predicted.tolist(), counts.tolist(), strict=True)
    return {(labels[row], labels[column]): count for row, column, count in cells}


def _score_decodings(
    y_true: object, y_pred: object, decodings: Mapping[str, object], scheme: str | None, resampling: Resampling
) -> dict[str, DecodingScores] | None:
    """Return the figures of each decoding by name, or None if all equal ``y_pred``."""
    scores = {}
    for name, labels in decodings.items():
        # Packed one by one: labels that one decoding alone predicts are not among those of the others.
        packed = pack_labels(y_true=y_true, y_pred=y_pred, decoded=labels)
        statistics = count_prediction(packed, entity_reader(scheme, packed.labels), "decoded")
        found = estimated_proportions(statistics, resampling)
        n_changed = int(np.sum(packed.codes["y_pred"] != packed.codes["decoded"]))
        scores[str(name)] = DecodingScores(
            found["accuracy"], found["sequence_accuracy"], found.get("entity_f1"), n_changed
        )
    return scores if any(decoding.n_changed for decoding in scores.values()) else None


def _likelihood_statistics(log_likelihood: object, packed: PackedLabels) -> np.ndarray:
    """Return log-likelihoods, 0 if infinite, and an indicator of infinite ones, (S, 2)."""
    values = np.asarray(log_likelihood, dtype=np.float64)
    if values.shape != (packed.n_sequences,):
        raise ValueError(
            f"log_likelihood must hold one value for each of the {packed.n_sequences} sequences, got shape "
            f"{values.shape}: pass crf.log_likelihood(X, y, per_item=True)"
        )
    if (bad := np.flatnonzero(~(values <= _ROUNDING))).size:
        raise ValueError(
            f"log_likelihood of sequence {bad[0]} is {values[bad[0]]}, but the logarithm of a probability is not "
            "above 0: pass log-likelihoods, not losses"
        )
    impossible = np.isinf(values)
    return np.column_stack([np.where(impossible, 0.0, values), impossible])


def _log_likelihood(sums: np.ndarray, tokens: np.ndarray, n_sequences: int, resampling: Resampling) -> LogLikelihood:
    total = np.where(sums[:, 1] > 0, -np.inf, sums[:, 0])
    per_sequence, per_token = (resampling.estimate(total / size, n_sequences) for size in (n_sequences, tokens))
    return LogLikelihood(per_sequence, per_token, int(sums[0, 1]))
