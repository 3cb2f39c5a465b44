from kernelfields.compat import (
    estimator as estimator,
    metrics as metrics,
    pycrfsuite as pycrfsuite,
    scorers as scorers,
    utils as utils,
)
from kernelfields.compat.crf import CRF as CRF
