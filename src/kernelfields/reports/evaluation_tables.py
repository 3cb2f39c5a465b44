"""An evaluation as tables of a page: figures with intervals, scores of labels and of entities.

The input is an Evaluation of ``kernelfields.evaluation`` or the dict that its ``to_dict`` gives, also after a way
through JSON, in which None stands for minus infinity. Cost: that of writing down what is in it.
Fails: ValueError naming the part that is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernelfields.reports.estimates import Curve, read_figure
from kernelfields.reports.markup import Markup
from kernelfields.reports.page import table

_SCORES = ("precision", "recall", "f1")
_NEEDED = ("n_sequences", "n_tokens", "accuracy", "sequence_accuracy", "labels", "averages")


def read_evaluation(given: Any) -> Mapping[str, Any]:
    """Return an evaluation as a dict, whose parts are there."""
    plain = given if isinstance(given, Mapping) else given.to_dict() if hasattr(given, "to_dict") else None
    if plain is None:
        raise ValueError(f"evaluation must be an Evaluation or what its to_dict() returns, got {given!r:.60}")
    if missing := [name for name in _NEEDED if name not in plain]:
        raise ValueError(f"evaluation has no {missing[0]!r}: pass an Evaluation or what its to_dict() returns")
    return plain


def figure_words(given: Any, form: str = ".4f") -> str:
    """Return a figure with its interval in words, as in "0.9412 [0.9377, 0.9448]"."""
    value, low, high = (np.array([part]) for part in read_figure(given))
    return Curve("", value, low, high).words(0, form)


def size_words(evaluation: Mapping[str, Any]) -> str:
    """Return on what the evaluation rests, in a sentence."""
    size = f"{evaluation['n_sequences']:,} sequences, {evaluation['n_tokens']:,} tokens."
    if not evaluation.get("n_resamples"):
        return size
    share, count = 100 * evaluation["confidence"], evaluation["n_resamples"]
    return f"{size} In brackets: {share:g} % intervals from {count:,} resamples of sequences."


def figure_table(evaluation: Mapping[str, Any]) -> Markup:
    """Return accuracies, likelihoods and calibration, one figure in a row."""
    rows = [
        ("token accuracy", figure_words(evaluation["accuracy"])),
        ("sequence accuracy", figure_words(evaluation["sequence_accuracy"])),
    ]
    likelihood, calibration = evaluation.get("log_likelihood"), evaluation.get("calibration")
    if likelihood is not None:
        rows += [
            (f"log-likelihood per {unit}", _likelihood_words(likelihood, f"per_{unit}"))
            for unit in ("sequence", "token")
        ]
    if calibration is not None:
        rows.append(("expected calibration error", figure_words(calibration["expected_error"])))
        rows.append(("Brier score", figure_words(calibration["brier"])))
    return table(("figure", "value"), rows)


def score_tables(evaluation: Mapping[str, Any]) -> list[tuple[str, Markup]]:
    """Return captioned tables of precision, recall and F1: of labels, and of entities if there are any."""
    tables = [("Labels", _score_table("label", evaluation["labels"], evaluation["averages"]))]
    entities = evaluation.get("entities")
    if entities is not None:
        caption = f"Entities in the scheme {entities['scheme']}"
        tables.insert(0, (caption, _score_table("type", entities["types"], entities["averages"])))
    return tables


def _score_table(name: str, rows: Sequence[Mapping[str, Any]], averages: Mapping[str, Any]) -> Markup:
    written = [_score_row(row[name], row) for row in rows]
    written += [_score_row(f"{kind} average", row) for kind, row in averages.items()]
    return table((name, "precision", "recall", "F1", "support"), written, totals=len(averages))


def _score_row(name: object, scores: Mapping[str, Any]) -> tuple[object, ...]:
    return (name, *(figure_words(scores[part], ".3f") for part in _SCORES), f"{scores['support']:,}")


def _likelihood_words(likelihood: Mapping[str, Any], unit: str) -> str:
    if impossible := likelihood.get("n_impossible"):
        plural = "s have" if impossible > 1 else " has"
        return f"minus infinity: {impossible:,} sequence{plural} probability zero"
    return figure_words(likelihood[unit])
