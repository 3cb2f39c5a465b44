"""Everything that true and predicted labels say about a field, each figure with its interval.

    evaluate(y_true, y_pred)                        accuracy of tokens and sequences, scores of labels
             scheme="bio"                           scores of entities, which come first
             log_likelihood=...                     mean log p(y | x) per sequence and per token
             marginals=..., classes=...             expected calibration error, Brier score, reliability curve
             decodings={"posterior": ...}           the same figures of labels decoded in other ways

Shares have intervals that know small counts (shares.py); all other figures of one evaluation come from the same
resamples of sequences (resampling.py). Cost: O(N) to count and
O(B S K) to resample, with B resamples, S sequences and K of the order of three times the labels.
Fails: ValueError or TypeError naming the argument, the sequence and the position. Labels that only one side knows
count as errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.evaluation.calibration import Calibration, calibrate, read_confidences
from kernelfields.evaluation.comparison import label_statistics
from kernelfields.evaluation.decodings import DecodingScores, score_decodings
from kernelfields.evaluation.entities import EntityReader, find_entities
from kernelfields.evaluation.label_scores import Counts, Scores, average_table, choose_labels, score_table
from kernelfields.evaluation.packed_labels import PackedLabels, pack_labels
from kernelfields.evaluation.resampling import ResampledFigures, Resampling
from kernelfields.reports.report import evaluation_tables
from kernelfields.reports.tables import Estimate, Result, Table

# A sum of rounded terms may end up above zero by this much.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class EntityScores(Result):
    """Scores of entities by type and averaged, with the name of the scheme that was read."""

    scheme: str
    per_type: dict[str, Scores]
    averages: dict[str, Scores]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, a list of types with their scores."""
        figures = super().to_dict()
        types = [{"type": kind, **scores} for kind, scores in figures["per_type"].items()]
        return {"scheme": self.scheme, "types": types, "averages": figures["averages"]}


@dataclass(frozen=True)
class LogLikelihood(Result):
    """Mean log p(y | x) per sequence and per token, and how many sequences have probability zero."""

    per_sequence: Estimate
    per_token: Estimate
    n_impossible: int


@dataclass(frozen=True)
class Evaluation(ResampledFigures):
    """What :func:`evaluate` found.

    ``per_label`` maps labels to Scores and ``averages`` "micro", "macro" and "weighted"; ``entities``,
    ``log_likelihood`` and ``calibration`` are None if they were not asked for. ``decodings`` maps names to
    DecodingScores where labels that were decoded in other ways differ, else it is None.
    """

    accuracy: Estimate
    sequence_accuracy: Estimate
    per_label: dict[Any, Scores]
    averages: dict[str, Scores]
    entities: EntityScores | None = None
    log_likelihood: LogLikelihood | None = None
    calibration: Calibration | None = None
    decodings: dict[str, DecodingScores] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, a list of labels with their scores."""
        figures = super().to_dict()
        sizes = {name: figures.pop(name) for name in ("n_sequences", "n_tokens", "n_resamples", "confidence")}
        labels = [{"label": label, **scores} for label, scores in figures.pop("per_label").items()]
        return {**sizes, "labels": labels, "averages": figures.pop("averages"), **figures}

    def _tables(self) -> list[Table]:
        return list(evaluation_tables(self.to_dict()).values())


def evaluate(
    y_true: Any,
    y_pred: Any,
    *,
    marginals: Any = None,
    classes: Any = None,
    log_likelihood: Any = None,
    scheme: str | None = "auto",
    labels: Any = None,
    decodings: Mapping[str, Any] | None = None,
    n_bins: int = 10,
    n_resamples: int = 1000,
    confidence: float = 0.95,
    random_state: Any = None,
) -> Evaluation:
    """Compare predicted labels with the true ones.

    Parameters
    ----------
    y_true, y_pred : lists of label sequences of equal lengths
    marginals : list of (T, L) arrays as ``predict_marginals`` returns them, for calibration
    classes : the L labels that the columns of marginals stand for, ``crf.classes_``
    log_likelihood : (S,) log p(y | x) of each sequence, ``crf.log_likelihood(X, y, per_sequence=True)``
    scheme : "auto", "bio", "iob1", "bioes", "bilou" or None, default "auto"
        How labels write entities; "auto" looks at the labels and counts none if no scheme fits, None counts none.
        Where there are entities, their F1 is the first figure.
    labels : labels to average over, all for None; often all but "O"
    decodings : dict, name -> label sequences, the same field read in other ways, such as
        ``{"viterbi": ..., "posterior": ...}``; listed where they differ from ``y_pred``. With marginals and no dict,
        the most probable label of every position is held beside ``y_pred``.
    n_bins : bins of confidence for calibration
    n_resamples : resamples of sequences for the intervals of figures that are no shares; 0 for no intervals at all
    confidence : how often an interval is to hold the figure of all sequences there could be
    random_state : int, Generator, RandomState or None
    """
    resampling = Resampling(n_resamples, confidence, random_state)
    packed = pack_labels(y_true=y_true, y_pred=y_pred)
    averaged = choose_labels(labels, packed)
    reader = find_entities(scheme, packed.labels)
    statistics = {"tokens": packed.lengths, **label_statistics(packed, reader)}
    if log_likelihood is not None:
        statistics["log_likelihood"] = _likelihood_statistics(log_likelihood, packed)
    if marginals is not None:
        confidences = read_confidences(packed, marginals, classes)
        edges = confidences.edges(n_bins, "uniform")
        statistics["calibration"] = confidences.statistics(packed, edges)
        if decodings is None:
            decodings = {"predicted": y_pred, "posterior": packed.split(confidences.labels)}
    sums = resampling.sums(statistics)
    n_sequences, tokens = packed.n_sequences, sums["tokens"][:, 0]
    counts, resampled = (Counts.split(each["labels"]) for each in (statistics, sums))
    return Evaluation(
        n_sequences=n_sequences,
        n_tokens=packed.n_positions,
        n_resamples=int(n_resamples),
        confidence=float(confidence),
        accuracy=resampling.share(counts.hits.sum(axis=1), packed.lengths),
        sequence_accuracy=resampling.share(1 - statistics["wrong"], np.ones(n_sequences)),
        per_label=score_table(counts, packed.labels, resampling),
        averages=average_table(counts.take(averaged), resampled.take(averaged), resampling),
        entities=None
        if reader is None
        else _entity_scores(statistics["entities"], sums["entities"], reader, resampling),
        log_likelihood=None
        if log_likelihood is None
        else _log_likelihood(sums["log_likelihood"], tokens, n_sequences, resampling),
        calibration=None
        if marginals is None
        else calibrate(sums["calibration"], statistics["calibration"], edges, resampling),
        decodings=None
        if decodings is None
        else score_decodings(y_true, y_pred, decodings, None if reader is None else reader.scheme.name, resampling),
    )


def _entity_scores(
    by_sequence: np.ndarray, sums: np.ndarray, reader: EntityReader, resampling: Resampling
) -> EntityScores:
    counts = Counts.split(by_sequence)
    return EntityScores(
        reader.scheme.name,
        score_table(counts, reader.types, resampling),
        average_table(counts, Counts.split(sums), resampling),
    )


def _likelihood_statistics(given: Any, packed: PackedLabels) -> np.ndarray:
    """Sums (S, 2): log-likelihoods that are finite, and whether they are not."""
    values = np.asarray(given, dtype=np.float64)
    if values.shape != (packed.n_sequences,):
        raise ValueError(
            f"log_likelihood must hold one value for each of the {packed.n_sequences} sequences, got shape "
            f"{values.shape}: pass crf.log_likelihood(X, y, per_sequence=True)"
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
