from kernelfields.objective import fused_trials as fused_trials, stochastic as stochastic
from kernelfields.objective.bounds import Certificate as Certificate, LowerBound as LowerBound
from kernelfields.objective.datafit import Datafit as Datafit
from kernelfields.objective.likelihoods.likelihood import (
    Likelihood as Likelihood,
    PartialLikelihood as PartialLikelihood,
    labelled_objective as labelled_objective,
    likelihood_of as likelihood_of,
)
from kernelfields.objective.posterior import Direction as Direction, LogPosterior as LogPosterior
from kernelfields.objective.term import Term as Term
