"""Evaluation of predictions: scores of labels and entities, likelihood, calibration, with intervals."""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
    from kernelfields.evaluation.calibration import (
        Calibration,
        ReliabilityCurve,
        Temperature,
        brier_score,
        expected_calibration_error,
        fit_temperature,
        marginal_log_loss,
        reliability_curve,
    )
    from kernelfields.evaluation.comparison import Comparison, Difference, compare
    from kernelfields.evaluation.entities import Span, entity_f1_score, entity_spans
    from kernelfields.evaluation.evaluation import evaluate
    from kernelfields.evaluation.importance import FeatureImportance, feature_importance
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
    "FeatureImportance",
    "LogLikelihood",
    "ReliabilityCurve",
    "Scores",
    "Span",
    "Temperature",
    "brier_score",
    "compare",
    "entity_f1_score",
    "entity_spans",
    "evaluate",
    "expected_calibration_error",
    "feature_importance",
    "fit_temperature",
    "label_f1_score",
    "marginal_log_loss",
    "reliability_curve",
    "sequence_accuracy",
    "token_accuracy",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "calibration": [
            "Calibration",
            "ReliabilityCurve",
            "Temperature",
            "brier_score",
            "expected_calibration_error",
            "fit_temperature",
            "marginal_log_loss",
            "reliability_curve",
        ],
        "comparison": ["Comparison", "Difference", "compare"],
        "entities": ["Span", "entity_f1_score", "entity_spans"],
        "evaluation": ["evaluate"],
        "importance": ["FeatureImportance", "feature_importance"],
        "label_scores": ["Scores", "label_f1_score", "sequence_accuracy", "token_accuracy"],
        "results": ["DecodingScores", "EntityScores", "Evaluation", "LogLikelihood"],
        "kernelfields.reports.tables": ["Estimate"],
    },
)
