from kernelfields.estimators.answering.posterior import (
    certify as certify,
    get_drawn_coefficients as get_drawn_coefficients,
    laplace as laplace,
    sample_coefficients as sample_coefficients,
)
from kernelfields.estimators.inspecting.views import (
    explain as explain,
    summary as summary,
    weights as weights,
)
from kernelfields.estimators.questions import (
    entropy as entropy,
    log_likelihood as log_likelihood,
    predict_nbest as predict_nbest,
    sample as sample,
)
from kernelfields.estimators.span_questions import (
    Entity as Entity,
    boundary_shares as boundary_shares,
    find_entities as find_entities,
)
