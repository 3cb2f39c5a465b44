from kernelfields.estimators.answering.posterior import (
    certify as certify,
    laplace as laplace,
    sample_coefficients as sample_coefficients,
)
from kernelfields.estimators.inspecting.views import (
    explain as explain,
    show as show,
    summary as summary,
    weights as weights,
)
from kernelfields.estimators.probabilities import (
    answers as answers,
    predict_marginals as predict_marginals,
    predict_variances as predict_variances,
)
from kernelfields.estimators.questions import (
    entropy as entropy,
    log_likelihood as log_likelihood,
    predict_nbest as predict_nbest,
    sample as sample,
)
from kernelfields.estimators.streaming import stream as stream
from kernelfields.estimators.span_questions import (
    Entity as Entity,
    predict_boundaries as predict_boundaries,
    predict_entities as predict_entities,
)
