"""Labels that are known when a field is asked, probabilities of labels that are, and the most probable labellings.

With log q (N, L) for what is known (fields/evidence.py) and u the potentials of the field:

    p(y | x, known)       exp(score(y) + sum_t log q_t(y_t)) / Z(u + log q)
    log p(known | x)      log Z(u + log q) - log Z(u)

Weights count relative to the largest of their position, so that a label, or a set of allowed ones, has the weight one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kernelfields.fields.evidence import as_evidence
from kernelfields.fields.reading import locate, plain_label
from kernelfields.inference.answers import Answers
from kernelfields.inference.choice import refuse_approximate
from kernelfields.numerics.parameters import check_count
from kernelfields.reports.filled import FilledLabel, FilledLabels, words_for


def known_evidence(estimator: Any, known: object, data: Any) -> np.ndarray:
    """Return what is known of the labels of data, as log-weights (N, L); errors say that ``known`` is meant."""
    try:
        labels, evidence = estimator._read_known(known, data)
        return as_evidence(labels, evidence, estimator._field().spec.n_labels)
    except (TypeError, ValueError) as error:
        raise type(error)(f"known: {error}") from error


def log_likelihoods(answers: Iterable[Answers]) -> np.ndarray:
    """Return log p(y | x, what the answers are given) of each sequence, graph or instance of labelled batches, (S,).

    Of labels that are partly known, the probability of what is; minus infinity where that leaves no labelling.
    ValueError if inference is approximate.
    """
    parts = []
    for batch in answers:
        refuse_approximate(batch.family, "a log-likelihood")
        if batch.data.evidence is None:
            parts.append(batch.label_scores(batch.data.labelling) - batch.log_partition)
        else:
            parts.append(_log_evidence(batch))
    return np.concatenate(parts)


def _log_evidence(answers: Answers) -> np.ndarray:
    """Return log p(what ``data`` tell of the labels | x, what is given), (S,); minus infinity for contradictions."""
    data = answers.data
    evidence = as_evidence(data.labels, data.evidence, answers.family.n_labels)
    impossible = answers.family.given(evidence).impossible()
    # Inference needs a labelling: where there is none, what is given stands alone.
    told = np.where(np.repeat(impossible, data.lengths)[:, None], 0.0, evidence)
    return np.where(impossible, -np.inf, answers.given(told).log_partition - answers.log_partition)


def fill_in(estimator: Any, X: Any, y: Any, tokens: Any, top: int | None) -> FilledLabels:
    """Return the labels that y leaves open, as the estimator predicts them given the others, the least sure first."""
    if top is not None:
        check_count(top, "top", " or None")
    if y is None:
        raise ValueError("y is None: pass what is known of the labels, with None for each one that is not")
    labels, parts = estimator._label_names(), []
    starts = [np.zeros(1, dtype=np.int64)]
    for answers in estimator._answers(X, known=y):
        parts.append((answers.evidence, answers.marginals))
        starts.append(starts[-1][-1] + np.cumsum(answers.data.lengths))
    if not parts:
        return FilledLabels((), 0, estimator._places)
    offsets, answer = np.concatenate(starts), estimator.predict(X, known=y)
    predicted = answer.ravel() if isinstance(answer, np.ndarray) else np.concatenate(answer)
    evidence, marginals = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    chosen = np.searchsorted(labels, predicted)
    likely = marginals[np.arange(len(chosen)), chosen]
    unknown = np.flatnonzero((evidence > -np.inf).sum(axis=1) > 1)
    order = unknown[np.argsort(likely[unknown], kind="stable")][:top]
    rows = []
    for row in order.tolist():
        whole, part, token = estimator._place_names(*locate(offsets, row), tokens)
        known = words_for(np.exp(evidence[row]).tolist(), labels.tolist())
        rows.append(FilledLabel(whole, part, token, known, plain_label(labels[chosen[row]]), float(likely[row])))
    return FilledLabels(tuple(rows), len(chosen) - len(unknown), estimator._places)


def ranked_labellings(answers: Iterable[Any], classes: np.ndarray, k: int) -> list[list[tuple[np.ndarray, float]]]:
    """Return the k most probable labellings of each sequence or graph, with their log-probabilities."""
    check_count(k, "k")
    results: list[list[tuple[np.ndarray, float]]] = []
    for batch in answers:
        for labels, scores, total in zip(*batch.n_best(int(k)), batch.log_partition, strict=True):
            results.append([(classes[row], float(score - total)) for row, score in zip(labels, scores, strict=True)])
    return results
