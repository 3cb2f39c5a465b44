"""Evaluation of predictions: scores of labels and entities, likelihood, calibration, with intervals."""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
    from kernelfields.evaluation.calibration import Calibration, ReliabilityCurve
    from kernelfields.evaluation.comparison import Comparison, Difference, compare
    from kernelfields.evaluation.entities import Span, entity_f1_score, entity_spans
    from kernelfields.evaluation.evaluation import evaluate
    from kernelfields.evaluation.label_scores import Scores, label_f1_score, sequence_accuracy, token_accuracy
    from kernelfields.evaluation.results import DecodingScores, EntityScores, Evaluation, LogLikelihood
    from kernelfields.reports.tables import Estimate

__all__ = [
    "Calibration",
    "Comparison",
    "DecodingScores",
    "Difference",
    "EntityScores",
    "Estimate",
    "Evaluation",
    "LogLikelihood",
    "ReliabilityCurve",
    "Scores",
    "Span",
    "compare",
    "entity_f1_score",
    "entity_spans",
    "evaluate",
    "label_f1_score",
    "sequence_accuracy",
    "token_accuracy",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "calibration": ["Calibration", "ReliabilityCurve"],
        "comparison": ["Comparison", "Difference", "compare"],
        "entities": ["Span", "entity_f1_score", "entity_spans"],
        "evaluation": ["evaluate"],
        "label_scores": ["Scores", "label_f1_score", "sequence_accuracy", "token_accuracy"],
        "results": ["DecodingScores", "EntityScores", "Evaluation", "LogLikelihood"],
        "kernelfields.reports.tables": ["Estimate"],
    },
)
