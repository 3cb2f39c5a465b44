from kernelfields.objective import (
    curvature as curvature,
    fused_trials as fused_trials,
    mixed_bound as mixed_bound,
    stationary_bound as stationary_bound,
    stochastic as stochastic,
)
from kernelfields.objective.bounds import Certificate as Certificate, LowerBound as LowerBound
from kernelfields.objective.datafit import (
    Datafit as Datafit,
    choose_likelihood as choose_likelihood,
    choose_objective as choose_objective,
)
from kernelfields.objective.likelihoods.likelihood import Likelihood as Likelihood
from kernelfields.objective.likelihoods.partial_likelihood import PartialLikelihood as PartialLikelihood
from kernelfields.objective.posterior import Direction as Direction, LogPosterior as LogPosterior
from kernelfields.objective.term import Term as Term
