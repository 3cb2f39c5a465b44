from kernelfields.evaluation.calibration import Calibration as Calibration, ReliabilityCurve as ReliabilityCurve
from kernelfields.evaluation.comparison import Comparison as Comparison, Difference as Difference, compare as compare
from kernelfields.evaluation.entities import (
    Span as Span,
    entity_f1_score as entity_f1_score,
    entity_spans as entity_spans,
)
from kernelfields.evaluation.evaluation import evaluate as evaluate
from kernelfields.evaluation.label_scores import (
    Scores as Scores,
    label_f1_score as label_f1_score,
    sequence_accuracy as sequence_accuracy,
    token_accuracy as token_accuracy,
)
from kernelfields.evaluation.scorers import PositionScorer as PositionScorer, position_scorer as position_scorer
from kernelfields.evaluation.results import (
    DecodingScores as DecodingScores,
    EntityScores as EntityScores,
    Evaluation as Evaluation,
    LogLikelihood as LogLikelihood,
)
from kernelfields.reports.tables import Estimate as Estimate
