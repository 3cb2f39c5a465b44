"""Prior variances and kernel parameters by maximising the evidence.

L-BFGS-B climbs the log evidence in the logarithms of the parameters, within bounds, from the given parameters and
from restarts. Large fields are climbed with few pivots first. The first restart begins at the best point so far
with pivots chosen anew for its kernels, further ones at random. The best point seen is kept. Where the evidence is
not finite the search steps back, and says so.

There is one prior variance per clique set. With a sum of kernels such as Columns(RBF(), 0, 5) + Columns(RBF(), 5)
and a prior variance for each part, these are relevance weights of groups of features.
Cost of a point: see evidence_problem.py.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning

from kernelfields.basis import Gradient, PivotSubspace
from kernelfields.engines.blas_threads import blas_threads
from kernelfields.estimators.evidence_climb import Climb, ClimbedPoint
from kernelfields.estimators.evidence_mode import mode_of
from kernelfields.estimators.evidence_parameters import (
    VARIANCE,
    FieldParameter,
    cliques_with,
    cut_space,
    variances_of,
    widths_of,
)
from kernelfields.estimators.evidence_problem import EvidenceProblem
from kernelfields.estimators.evidence_settings import EvidencePath, EvidenceSearch
from kernelfields.estimators.fitting import EngineBuilder
from kernelfields.estimators.spaces import CliqueSpace
from kernelfields.fields import CliqueSet
from kernelfields.posterior import LogPosterior
from kernelfields.posterior.laplace import Evidence, refuse_without_curvature

__all__ = ["ChosenField", "maximise_evidence", "mode_of"]

# Below this many feature values, threads of BLAS wait for each other longer than they work.
_SMALL_FEATURES = 1_000_000
# Random restarts begin up to this factor away from the given parameters.
_RESTART_FACTOR = 30.0
# With "auto", a set of fewer pivots than this is not cut, nor to fewer than a third of them.
_SMALL_RANK = 90

Bounds = tuple[float, float]
#: Builds the spaces of named clique sets, pivots chosen anew.
SpaceBuilder = Callable[[Sequence[tuple[str, CliqueSet]]], list[CliqueSpace]]


@dataclass
class ChosenField:
    """Where a search has ended: spaces with the best parameters, their mode, and the path."""

    spaces: list[CliqueSpace]
    start: list[np.ndarray]
    evidence: Evidence
    path: EvidencePath


def maximise_evidence(
    search: EvidenceSearch,
    spaces: list[CliqueSpace],
    build: SpaceBuilder,
    engine_of: EngineBuilder,
    n_labels: int,
    *,
    random: np.random.Generator,
    say: Callable[[str], None],
) -> ChosenField:
    """Return the field of the largest evidence found, with its path; ValueError if there is none anywhere.

    ``spaces`` are those of the given parameters, where the search begins.
    """
    begin, seed = time.perf_counter(), int(random.integers(2**31))
    _refuse_growing(spaces)
    _refuse_elsewhere(spaces)
    posterior = LogPosterior(engine_of([space.clique_features(n_labels) for space in spaces]))
    refuse_without_curvature(posterior)
    if not posterior.size:
        raise ValueError("optimize='evidence' has nothing to choose: all features of all inputs are zero")
    parameters = variances_of(spaces) + (widths_of(spaces) if search.kernels else [])
    first = np.log([parameter.value for parameter in parameters])
    bounds = [_bounds(search, parameter) for parameter in parameters]
    climb = Climb(search, bounds, say, begin)
    small = sum(space.features.size for space in spaces if space.features is not None) < _SMALL_FEATURES
    anew = _has_pivots(spaces, parameters)

    def problem_on(spaces: Sequence[CliqueSpace], near: ClimbedPoint | None = None) -> EvidenceProblem:
        problem = EvidenceProblem(spaces, parameters, engine_of, n_labels, search, seed)
        if near is not None:
            problem.continue_from(near.mode)
        return problem

    def rebuilt(logs: np.ndarray) -> list[CliqueSpace]:
        return build(cliques_with(spaces, parameters, np.exp(np.clip(logs, *np.array(bounds).T)).tolist()))

    try:
        with blas_threads(1 if small else None):
            near = _coarse_top(search, climb, problem_on, spaces, first)
            logs = first if near is None else near.logs
            climb.run(problem_on(rebuilt(logs) if near is not None and anew else spaces, near), logs, 0)
            for number in range(1, search.restarts + 1):
                near = climb.best if number == 1 and anew else None
                logs = _random_start(first, random) if near is None else near.logs
                climb.run(problem_on(rebuilt(logs), near), logs, number)
    except KeyboardInterrupt:
        if climb.best is None:
            raise
        warnings.warn(
            "the search for the largest evidence was interrupted; the best point so far was kept",
            ConvergenceWarning,
            stacklevel=4,
        )
    if climb.best is None:
        raise ValueError(f"the evidence is nowhere finite from here: {climb.failures[-1]}")
    if climb.failures:
        warnings.warn(
            f"the evidence was not finite at {len(climb.failures)} of {len(climb.path.steps)} points "
            f"({climb.failures[-1]}); the search stepped back and kept the best point",
            ConvergenceWarning,
            stacklevel=4,
        )
    return ChosenField(climb.best.mode.spaces, climb.best.mode.coefficients, climb.best.evidence, climb.path)


def _coarse_top(
    search: EvidenceSearch,
    climb: Climb,
    problem_on: Callable[[Sequence[CliqueSpace]], EvidenceProblem],
    spaces: Sequence[CliqueSpace],
    first: np.ndarray,
) -> ClimbedPoint | None:
    """Climb with few pivots of each set; None where there are few anyway."""
    ranks = [space.subspace.rank if isinstance(space.subspace, PivotSubspace) else 0 for space in spaces]
    if search.coarse_rank == "auto":
        ranks = [max(_SMALL_RANK // 3, rank // 4) if rank >= _SMALL_RANK else rank for rank in ranks]
    elif search.coarse_rank is not None:
        ranks = [min(rank, int(search.coarse_rank)) for rank in ranks]
    cut = [cut_space(space, rank) if rank else space for space, rank in zip(spaces, ranks, strict=True)]
    if search.coarse_rank is None or all(new is old for new, old in zip(cut, spaces, strict=True)):
        return None
    climb.run(problem_on(cut), first, 0, coarse=True)
    return climb.coarse_best


def _random_start(first: np.ndarray, random: np.random.Generator) -> np.ndarray:
    reach = np.log(_RESTART_FACTOR)
    return first + random.uniform(-reach, reach, size=len(first))


def _has_pivots(spaces: Sequence[CliqueSpace], parameters: Sequence[FieldParameter]) -> bool:
    """Whether a kernel is searched whose pivots depend on it."""
    searched = {parameter.index for parameter in parameters if parameter.name != VARIANCE}
    return any(isinstance(spaces[index].subspace, PivotSubspace) for index in searched)


def _bounds(search: EvidenceSearch, parameter: FieldParameter) -> Bounds:
    if parameter.name == VARIANCE:
        return float(np.log(search.variance_bounds[0])), float(np.log(search.variance_bounds[1]))
    middle, reach = np.log(parameter.value), np.log(search.kernel_factor)
    return float(middle - reach), float(middle + reach)


def _refuse_elsewhere(spaces: Sequence[CliqueSpace]) -> None:
    for space in spaces:
        if not (space.features is None or isinstance(space.features, np.ndarray) or issparse(space.features)):
            raise ValueError(
                f"optimize='evidence' moves features in memory, and those of clique set {space.name!r} are "
                f"{type(space.features).__name__}: use engine='threads' with memory enough for them"
            )


def _refuse_growing(spaces: Sequence[CliqueSpace]) -> None:
    if any(isinstance(space.basis, Gradient) for space in spaces):
        raise ValueError(
            "optimize='evidence' compares fields in one basis, and basis='gradient' grows with each fit: "
            "use 'random-cholesky' or 'greedy-cholesky'"
        )
