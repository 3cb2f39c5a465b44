"""Labels of held-out sequences against predicted ones, in the numbers and words of CRFsuite's log.

    label: (#match, #model, #ref) (precision, recall, F1)

Averages over labels count a label that nothing has as 0, as CRFsuite does. Fractions are exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple


class LabelScore(NamedTuple):
    """Counts of right, predicted and true positions of a label; precision, recall and F1 are None if undefined."""

    match: int
    model: int
    ref: int
    precision: float | None
    recall: float | None
    f1: float | None


def score_holdout(true: Sequence[Sequence], predicted: Iterable[Sequence], labels: Sequence) -> dict[str, object]:
    """Return the entries of CRFsuite's log about held-out sequences: scores of labels, averages and accuracies."""
    pairs = [(list(one), list(other)) for one, other in zip(true, predicted, strict=True)]
    flat = [pair for one, other in pairs for pair in zip(one, other, strict=True)]
    right = Counter(one for one, other in flat if one == other)
    refs, models = Counter(one for one, _ in flat), Counter(other for _, other in flat)
    scores = {str(label): _score(right[label], models[label], refs[label]) for label in labels}
    averages = [sum(score[column] or 0.0 for score in scores.values()) / len(scores) for column in (3, 4, 5)]
    entries: dict[str, object] = {"scores": scores}
    entries |= dict(zip(("avg_precision", "avg_recall", "avg_f1"), averages, strict=True))
    for name, hits, count in (
        ("item_accuracy", sum(right.values()), len(flat)),
        ("instance_accuracy", sum(one == other for one, other in pairs), len(pairs)),
    ):
        share = Fraction(hits, max(count, 1))
        entries |= {name: share, f"{name}_float": float(share)}
    return entries


def _score(match: int, model: int, ref: int) -> LabelScore:
    if not model and not ref:
        return LabelScore(0, 0, 0, None, None, None)
    return LabelScore(match, model, ref, match / max(model, 1), match / max(ref, 1), 2 * match / (model + ref))


def holdout_lines(entries: dict) -> list[str]:
    """Format the entries of :func:`score_holdout` as lines of CRFsuite's log."""
    lines = ["Performance by label (#match, #model, #ref) (precision, recall, F1):\n"]
    for label, (match, model, ref, *shares) in entries["scores"].items():
        words = ", ".join("******" if share is None else f"{share:.4f}" for share in shares)
        lines.append(f"    {label}: ({match}, {model}, {ref}) ({words})\n")
    averages = ", ".join(f"{entries[name]:.6f}" for name in ("avg_precision", "avg_recall", "avg_f1"))
    return [
        *lines,
        f"Macro-average precision, recall, F1: ({averages})\n",
        f"Item accuracy: {entries['item_accuracy_float']:.4f}\n",
        f"Instance accuracy: {entries['instance_accuracy_float']:.4f}\n",
    ]
