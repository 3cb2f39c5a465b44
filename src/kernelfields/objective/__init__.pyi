from kernelfields.objective.bounds import Certificate as Certificate
from kernelfields.objective.bounds import LowerBound as LowerBound
from kernelfields.objective.datafit import Datafit as Datafit
from kernelfields.objective.likelihoods.likelihood import (
    Likelihood as Likelihood,
)
from kernelfields.objective.likelihoods.likelihood import (
    PartialLikelihood as PartialLikelihood,
)
from kernelfields.objective.likelihoods.likelihood import (
    labelled_objective as labelled_objective,
)
from kernelfields.objective.likelihoods.likelihood import (
    likelihood_of as likelihood_of,
)
from kernelfields.objective.posterior import Direction as Direction
from kernelfields.objective.posterior import LogPosterior as LogPosterior
from kernelfields.objective.term import Term as Term
