"""The negative log-posterior: potentials, likelihoods, designs, bounds and certificates."""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
    from kernelfields.objective.bounds import Certificate, LowerBound
    from kernelfields.objective.datafit import Datafit
    from kernelfields.objective.likelihoods.likelihood import (
        Likelihood,
        PartialLikelihood,
        labelled_objective,
        likelihood_of,
    )
    from kernelfields.objective.posterior import Direction, LogPosterior
    from kernelfields.objective.term import Term

__all__ = [
    "Certificate",
    "Datafit",
    "Direction",
    "Likelihood",
    "LogPosterior",
    "LowerBound",
    "PartialLikelihood",
    "Term",
    "labelled_objective",
    "likelihood_of",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "bounds": ["Certificate", "LowerBound"],
        "datafit": ["Datafit"],
        "likelihoods.likelihood": ["Likelihood", "PartialLikelihood", "labelled_objective", "likelihood_of"],
        "posterior": ["Direction", "LogPosterior"],
        "term": ["Term"],
    },
)
