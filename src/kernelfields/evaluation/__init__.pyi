from kernelfields.evaluation.calibration import Calibration as Calibration
from kernelfields.evaluation.calibration import ReliabilityCurve as ReliabilityCurve
from kernelfields.evaluation.comparison import Comparison as Comparison
from kernelfields.evaluation.comparison import Difference as Difference
from kernelfields.evaluation.comparison import compare as compare
from kernelfields.evaluation.entities import (
    Span as Span,
)
from kernelfields.evaluation.entities import (
    entity_f1_score as entity_f1_score,
)
from kernelfields.evaluation.entities import (
    entity_spans as entity_spans,
)
from kernelfields.evaluation.evaluation import evaluate as evaluate
from kernelfields.evaluation.label_scores import (
    Scores as Scores,
)
from kernelfields.evaluation.label_scores import (
    label_f1_score as label_f1_score,
)
from kernelfields.evaluation.label_scores import (
    sequence_accuracy as sequence_accuracy,
)
from kernelfields.evaluation.label_scores import (
    token_accuracy as token_accuracy,
)
from kernelfields.evaluation.results import (
    DecodingScores as DecodingScores,
)
from kernelfields.evaluation.results import (
    EntityScores as EntityScores,
)
from kernelfields.evaluation.results import (
    Evaluation as Evaluation,
)
from kernelfields.evaluation.results import (
    LogLikelihood as LogLikelihood,
)
from kernelfields.reports.tables import Estimate as Estimate
