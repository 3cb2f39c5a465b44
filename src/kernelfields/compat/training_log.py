"""Report of a training run, in the words of python-crfsuite's log parser.

``TrainingLog.iterations`` is a list of dicts, one per iteration, with the keys ``num``, ``loss``,
``feature_norm``, ``error_norm``, ``linesearch_step``, ``time`` and ``scores``. With holdout data the last one also
has the scores of the fitted model on it. CRFsuite computes them after every iteration, but uses none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any, NamedTuple

from kernelfields.compat.options import MESSAGES
from kernelfields.solvers.loop import REASONS, Iteration


class LabelScore(NamedTuple):
    """How well one label was predicted: right positions, predicted ones, true ones, and what follows.

    Precision, recall and F1 are None for a label that neither occurs nor is predicted.
    """

    match: int
    model: int
    ref: int
    precision: float | None
    recall: float | None
    f1: float | None

    @classmethod
    def of_counts(cls, match: int, model: int, ref: int) -> LabelScore:
        """Compute the scores of one label; a ratio without cases counts as zero."""
        if not model and not ref:
            return cls(0, 0, 0, None, None, None)
        precision, recall = match / max(model, 1), match / max(ref, 1)
        return cls(match, model, ref, precision, recall, 2 * match / (model + ref))


@dataclass(frozen=True)
class Holdout:
    """Counts on holdout data.

    ``counts``: right, predicted, true positions of each of ``labels``; ``positions``, ``sequences``: right, all.
    """

    labels: list
    counts: list[list[int]]
    positions: list[int]
    sequences: list[int]

    @classmethod
    def count(cls, y_true: Sequence[list], y_pred: Sequence[list], classes: list) -> Holdout:
        """Compare labels with predictions; labels that are not among ``classes`` are counted as well."""
        true, predicted = list(chain.from_iterable(y_true)), list(chain.from_iterable(y_pred))
        right = [one for one, other in zip(true, predicted, strict=True) if one == other]
        labels = list(dict.fromkeys([*classes, *true]))
        counters = Counter(right), Counter(predicted), Counter(true)
        whole = sum(one == other for one, other in zip(y_true, y_pred, strict=True))
        return cls(
            labels,
            [[counter[label] for counter in counters] for label in labels],
            [len(right), len(true)],
            [whole, len(y_true)],
        )

    def report(self) -> dict[str, Any]:
        """Return the entries of the log: scores per label, their averages, accuracies."""
        scores = {label: LabelScore.of_counts(*counts) for label, counts in zip(self.labels, self.counts, strict=True)}
        items, instances = Fraction(*self.positions), Fraction(*self.sequences)
        averages = {
            f"avg_{name}": sum(getattr(score, name) or 0.0 for score in scores.values()) / len(scores)
            for name in ("precision", "recall", "f1")
        }
        return {
            "scores": scores,
            **averages,
            "item_accuracy": items,
            "item_accuracy_float": float(items),
            "instance_accuracy": instances,
            "instance_accuracy_float": float(instances),
        }


class TrainingLog:
    """Iterations of a fit, why it ended, how many weights it had and how long it took.

    ``reason`` is "epsilon", "delta" or "max_iterations" as in crf.py, or a reason of the solver's own;
    ``message`` says it in words.
    """

    def __init__(self, reason: str, n_weights: int, history: Sequence[Iteration], holdout: Holdout | None = None):
        self.reason = reason
        self.message = {**REASONS, **MESSAGES}[reason]
        self.featgen_num_features = n_weights
        self.training_seconds = history[-1].seconds if history else 0.0
        self.holdout = holdout
        self.iterations = [_entry(before, each) for before, each in pairwise(history)]
        if holdout is not None and self.iterations:
            self.iterations[-1].update(holdout.report())

    @property
    def last_iteration(self) -> dict[str, Any] | None:
        """The last iteration, None if there was none."""
        return self.iterations[-1] if self.iterations else None


def _entry(before: Iteration, each: Iteration) -> dict[str, Any]:
    return {
        "num": each.iteration,
        "loss": each.value,
        "feature_norm": each.coefficient_norm,
        "error_norm": each.gradient_norm,
        "linesearch_step": each.step,
        "time": each.seconds - before.seconds,
        "scores": {},
    }
