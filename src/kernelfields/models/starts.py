"""The start of a solver, if it is not given: zero, or the end of a cheaper fit (models/cheaper_fits.py).

many sparse weights     rounds over those that are not zero, where the penalty leaves few (models/working_set.py)
"""

from __future__ import annotations

from kernelfields import models
from kernelfields.engines.engine import Sample
from kernelfields.models.placed import Placed
from kernelfields.numerics.threads import blas_threads
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.choice import FitOptions
from kernelfields.solvers.loop import Solution

# Where there are so many positions, a fit to a share of the sequences may come first.
_LEAST_POSITIONS = 10_000


def minimize_from_best_start(placed: Placed) -> Solution:
    """Minimize from the solution of a cheaper fit, unless there is a start or a watcher."""
    posterior, sample, options = placed.posterior, placed.sample, placed.options
    if not posterior.penalty.smooth and models.working_set.has_working_sets(posterior):
        # Passes over all pairs have no product that is worth threads of BLAS, which wait busily for each other.
        with blas_threads(1):
            return models.working_set.minimize_in_working_sets(posterior, sample, options, placed.start)
    if placed.start is not None:
        return options.minimize(posterior, posterior.blocks.compress(placed.start))
    start = _STARTS.get(options.solver) if isinstance(options.solver, str) else None
    return (start or _from_zero)(posterior, sample, options)


def _from_zero(posterior: LogPosterior, sample: Sample, options: FitOptions) -> Solution:
    return options.minimize(posterior, None)


def _usual_start(posterior: LogPosterior, sample: Sample, options: FitOptions) -> Solution:
    """Return the solution from single labels for approximate inference, else from a smaller field or a share."""
    if posterior.approximation is not None:
        theta, options = models.cheaper_fits.start_from_single_labels(posterior, sample, options)
        return options.minimize(posterior, theta)
    found = None
    if posterior.convex:
        if posterior.datafit.likelihood.family.method == "n-grams":
            found = models.cheaper_fits.start_without_ngrams(posterior, sample, options)
        if found is None and sample.n_positions >= _LEAST_POSITIONS:
            found = models.cheaper_fits.start_on_share(posterior, sample, options)
    return _from_zero(posterior, sample, options) if found is None else found


#: The starts of solvers by name; others begin at zero.
_STARTS = {"auto": _usual_start}
