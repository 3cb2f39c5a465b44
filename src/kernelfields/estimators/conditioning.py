"""Answers given labels that are known: their probabilities, the labels they leave open, and ranked labellings.

With log q (N, L) for what is known (fields/evidence.py) and u the potentials of the field:

    p(y | x, known)       exp(score(y) + sum_t log q_t(y_t)) / Z(u + log q)
    log p(known | x)      log Z(u + log q) - log Z(u)

Weights count relative to the largest of their position, so that a label, or a set of allowed ones, has the weight one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from kernelfields.fields.evidence import as_evidence
from kernelfields.fields.reading import locate, plain_label
from kernelfields.inference.answers import Answers
from kernelfields.inference.choice import refuse_approximate
from kernelfields.numerics.parameters import check_count
from kernelfields.reports.inspection import FilledLabel, FilledLabels, words_for


def log_likelihoods(answers: Iterable[Answers]) -> np.ndarray:
    """Return log p(y | x, what the answers are given) of each item of labelled batches, (S,).

    Of labels that are partly known, the probability of what is; minus infinity where that leaves no labelling.
    ValueError if inference is approximate.
    """
    parts = [np.empty(0)]
    for batch in answers:
        refuse_approximate(batch.family, "a log-likelihood")
        if batch.data.evidence is None:
            parts.append(batch.label_scores(batch.data.labelling) - batch.log_partition)
        else:
            parts.append(_log_evidence(batch))
    return np.concatenate(parts)


def _log_evidence(answers: Answers) -> np.ndarray:
    """Return log p(what ``data`` hold of the labels | x, what is given), (S,); minus infinity for contradictions."""
    data = answers.data
    evidence = as_evidence(data.labels, data.evidence, answers.family.n_labels)
    impossible = answers.family.given(evidence).impossible()
    # Inference needs a labelling: where there is none, what is given stands alone.
    possible = np.where(np.repeat(impossible, data.lengths)[:, None], 0.0, evidence)
    return np.where(impossible, -np.inf, answers.given(possible).log_partition - answers.log_partition)


def filled_labels(
    answers: Iterable[Answers],
    predict: Callable[[], Any],
    labels: np.ndarray,
    names: Callable[[int, int], tuple[int, Any, Any]],
    places: tuple[str, str],
    top: int | None,
) -> FilledLabels:
    """Return the labels that are not known, as they are predicted given the others, by increasing confidence.

    ``answers`` are given what is known, ``labels`` (L,) name the columns of marginals, ``names`` a place.
    """
    parts, starts = [], [np.zeros(1, dtype=np.int64)]
    for batch in answers:
        parts.append((batch.evidence, batch.marginals))
        starts.append(starts[-1][-1] + np.cumsum(batch.data.lengths))
    if not parts:
        return FilledLabels((), 0, places)
    offsets, answer = np.concatenate(starts), predict()
    predicted = answer.ravel() if isinstance(answer, np.ndarray) else np.concatenate(answer)
    evidence, marginals = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    chosen = np.searchsorted(labels, predicted)
    likely = marginals[np.arange(len(chosen)), chosen]
    unknown = np.flatnonzero((evidence > -np.inf).sum(axis=1) > 1)
    order = unknown[np.argsort(likely[unknown], kind="stable")][:top]
    rows = []
    for row in order.tolist():
        whole, part, token = names(*locate(offsets, row))
        known = words_for(np.exp(evidence[row]).tolist(), labels.tolist())
        rows.append(FilledLabel(whole, part, token, known, plain_label(labels[chosen[row]]), float(likely[row])))
    return FilledLabels(tuple(rows), len(chosen) - len(unknown), places)


def ranked_labellings(
    answers: Iterable[Answers], labelling: Callable[[np.ndarray], Any], k: int
) -> list[list[tuple[Any, float]]]:
    """Return the k most probable labellings of each item, with their log-probabilities.

    ``labelling`` turns the numbers of the labels of one item into the form in which they leave.
    """
    check_count(k, "k")
    results: list[list[tuple[Any, float]]] = []
    for batch in answers:
        for labels, scores, total in zip(*batch.n_best(int(k)), batch.log_partition, strict=True):
            results.append([(labelling(row), float(score - total)) for row, score in zip(labels, scores, strict=True)])
    return results
