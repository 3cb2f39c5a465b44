"""Structure learning: a greedy choice of the clique sets of a field (Remark 11).

    bound       P(theta) - min over (theta, v_c) P  <=  gap(theta) + (s_c / 2) ||g_c||^2
    estimate    g_c^T (C_c + 1 / s_c)^-1 g_c / 2            what one step of eq. 30 in v_c alone promises
    gradient    g_c = Z_c^T (marginals - labels) A_c        C_c the within-clique covariances of the candidate

The gradient is that of the likelihood in the coefficients of the candidate where they are zero; gap(theta) is what
is left to gain without it, zero at the optimum. What several sets bring together is at most gap plus the sum of their
bounds: their priors are independent. Other penalties: objective/penalty.py; where one is not smooth, the step is one of
the coefficients that leave zero, along the subgradient of smallest norm.

The bound can only say when to stop: it is proportional to s_c, so a wide prior looks promising whatever the data say,
and the estimate, which knows the curvature, says which candidate comes first. Both are about the coefficients that the
candidate has: a kernel of which pivots were chosen is judged in the span of these pivots, and more pivots may bring
more (Corollary 10, for the set once it is fitted).

The search adds the candidates of the largest estimates and fits again from where the last fit ended. A step adds twice
as many sets as the last one that was kept, half as many as one that was not, so that M sets that are all worth having
take about log2 M fits instead of M. With held-out data, additions that do not raise their likelihood are taken back.
Cost: for each structure that candidates need, one pass of inference; half a pass over their features for the bounds;
for an estimate O(n r^2 q^2), or some Hessian products where the block C_c would be wide.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kernelfields.engines.engine import PackedData, Sample
from kernelfields.inference.choice import FamilySpec, refuse_approximate
from kernelfields.models.field import Field
from kernelfields.models.fit import fit_field
from kernelfields.models.placed import FittedField
from kernelfields.numerics.threads import Workers
from kernelfields.numerics.vectors import conjugate_gradients, dot
from kernelfields.objective.designs.design import Design
from kernelfields.objective.penalty import term_gap
from kernelfields.objective.posterior import LogPosterior, Point
from kernelfields.solvers.choice import FitOptions

#: Whether some designs can be part of one field, or be judged by one pass of inference.
Predicate: TypeAlias = Callable[[Sequence[Design]], bool]
#: The reason of the end of a search by Ctrl-C.
INTERRUPTED = "the search was interrupted"
# Single additions in a row that held-out data reject before the search gives up.
_PATIENCE = 3
# Coefficients of a candidate up to which the block of eq. 30 is spelled out; products for more of them, so many at
# most: what conjugate gradients have found by then falls short of the whole step, never beyond it.
_WIDEST_BLOCK, _MOST_PRODUCTS = 1024, 10
# Steps with an l1 penalty: coefficients hold their signs for a few at most, and each begins anew.
_MOST_WITH_L1 = 4
# How far steps are solved, and curvature, of the largest, that may be rounding: without a prior a block is singular.
_TOLERANCE, _FLAT = 1e-6, 1e-12


class Prospect(NamedTuple):
    """Gain of a candidate at the optimum of a field, in nats: a bound, and an estimate by one step of eq. 30."""

    bound: float
    estimate: float


@dataclass(frozen=True)
class StructureStep:
    """One addition, kept or rejected, or the field at the start.

    ``bounds`` and ``estimates`` hold what all candidates left before the step could bring, without the gap of the fit
    before it; ``bound`` is that of all sets added, with the gap, ``estimate`` the sum of theirs, and ``gain`` is by how
    much the objective fell. ``score`` is the log-likelihood of held-out data, None without any.
    """

    added: tuple[str, ...]
    value: float
    bound: float = 0.0
    gain: float = 0.0
    bounds: dict[str, float] = field(default_factory=dict)
    score: float | None = None
    kept: bool = True
    estimate: float = 0.0
    estimates: dict[str, float] = field(default_factory=dict)


@dataclass
class StructurePath:
    """All steps of a search for clique sets, and the reason of its end; ``str()`` lists them.

    Parameters
    ----------
    steps : list of StructureStep
        The steps, the field at the start first.
    left : dict
        The bounds of the candidates that were left.
    reason : str
        Why the search ended.

    Examples
    --------
    >>> from kernelfields.models.structure import StructurePath, StructureStep
    >>> steps = [StructureStep((), value=12.0), StructureStep(("skip",), value=10.5, gain=1.5)]
    >>> StructurePath(steps, left={}, reason="nothing is left").added
    ['skip']
    """

    steps: list[StructureStep]
    left: dict[str, float]
    reason: str

    @property
    def added(self) -> list[str]:
        """Names of the clique sets that were kept, in order."""
        return [name for step in self.steps if step.kept for name in step.added]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON.

        Returns
        -------
        dict
            The values.
        """
        return {**asdict(self), "added": self.added}

    def __str__(self) -> str:
        lines = []
        for step in self.steps:
            promised = [f"estimate {step.estimate:.4g}", f"bound {step.bound:.4g}", f"gain {step.gain:.4g}"]
            figures = promised if step.added else []
            figures += [f"objective {step.value:.6g}"]
            figures += [] if step.score is None else [f"held out {step.score:.6g}"]
            mark = "✓" if step.added and step.kept else " "
            lines.append(f"{mark} {', '.join(step.added) or '(start)'}: {', '.join(figures)}")
        return "\n".join([*lines, f"ended: {self.reason}; ✓ kept"])


def judge_candidates(
    present: Sequence[Design],
    coefficients: Sequence[np.ndarray],
    candidates: Sequence[Design],
    sample: Sample,
    together: Predicate,
) -> dict[str, Prospect]:
    """Return the gain of each candidate for a field at its optimum, in nats, at its present coefficients.

    One pass of inference judges as many candidates as can be judged ``together``, beside those that are present.
    """
    prospects: dict[str, Prospect] = {}
    for batch in _batches(candidates, together):
        posterior = LogPosterior(sample.datafit([*present, *batch]))
        zeros = [design.expand(np.zeros(design.shape)) for design in batch]
        theta = posterior.blocks.compress([*coefficients, *zeros])
        potentials = posterior.potentials(theta, only=range(len(present)))
        evaluation = posterior.datafit.evaluate(potentials)
        added = range(len(present), len(posterior.blocks))
        gradient = np.zeros(posterior.size)
        for index, slope in zip(added, posterior.datafit.pull_back(evaluation.residual, added), strict=True):
            gradient[posterior.blocks[index].rows] = posterior.blocks[index].project_gradient(slope)
        point = Point(posterior, theta, evaluation.value, gradient, potentials, evaluation)
        for index in added:
            block = posterior.blocks[index]
            bound = term_gap(block.design.term, theta[block.rows], gradient[block.rows])
            prospects[block.name] = Prospect(bound, step_gain(point, index))
    return {candidate.name: prospects[candidate.name] for candidate in candidates}


def step_gain(point: Point, index: int, widest: int = _WIDEST_BLOCK) -> float:
    """Return g^T (C + 1/s)^-1 g / 2 for one set: the gain of a step of eq. 30 in it for a quadratic objective.

    With more than ``widest`` coefficients the Hessian of the set, long-range covariances included, stands for C. With
    l1 the square holds until a coefficient changes its sign: conjugate gradients end before one would.
    """
    posterior = point.posterior
    rows = posterior.blocks[index].rows
    gradient = point.steepest[rows]
    free = gradient != 0.0
    if len(gradient) <= widest:
        matrix, most = posterior.curvature_block(point, index), float(len(gradient))

        def product(vector: np.ndarray) -> np.ndarray:
            return np.where(free, matrix @ vector, 0.0)
    else:
        whole, most = np.zeros(posterior.size), float(_MOST_PRODUCTS)

        def product(vector: np.ndarray) -> np.ndarray:
            whole[rows] = vector
            return np.where(free, posterior.hessian_product(point, whole, [index])[0][rows], 0.0)

    if not posterior.blocks[index].design.term.l1:
        return 0.5 * dot(gradient, conjugate_gradients(product, gradient, np.copy, _TOLERANCE, most, flat=_FLAT)[0])
    gain = 0.0
    for steps in range(1, _MOST_WITH_L1 + 1):
        step, _ = conjugate_gradients(product, gradient, np.copy, _TOLERANCE, steps, flat=_FLAT)
        if np.any(step * gradient < 0.0):
            break
        gain = 0.5 * dot(gradient, step)
    return gain


def have_same_factors(designs: Sequence[Design]) -> bool:
    """Whether designs belong to the same factors, all of them tied or none."""
    return len({(design.group, design.group is not None and design.is_constant) for design in designs}) == 1


def _batches(candidates: Sequence[Design], together: Predicate) -> Iterator[list[Design]]:
    left = list(candidates)
    while left:
        batch = left if together(left) else _greedy(left, len(left), together)
        names = {design.name for design in batch}
        left = [design for design in left if design.name not in names]
        yield batch


def _greedy(ranked: Sequence[Design], count: int, together: Predicate) -> list[Design]:
    """Return the first designs, at most ``count``, that can be added together; the first one always."""
    chosen = list(ranked[:1])
    for design in ranked[1:]:
        if len(chosen) < count and together([*chosen, design]):
            chosen.append(design)
    return chosen


def learn_structure(
    base: Sequence[Design],
    candidates: Sequence[Design],
    sample: Sample,
    options: FitOptions,
    *,
    max_additions: int | None = None,
    threshold: float | None = None,
    score: Callable[[FittedField], float] | None = None,
    fits: Predicate | None = None,
    announce: Callable[[str], None] | None = None,
) -> tuple[StructurePath, list[Design], FittedField]:
    """Return the path, the designs of the chosen field, and its fit; ``score`` judges fields on held-out data.

    At most ``max_additions`` are made, and none whose bound is below ``threshold``, None for a thousandth of the
    objective. ``fits`` returns whether a field of some designs can be inferred: candidates that it rejects are left
    out, and those that fit into one field are judged together. Without it, candidates of the same factors are. An
    interrupt ends the search with the field that was kept last.
    """
    designs, left, size = list(base), list(candidates), 1
    fitted = fit_field(designs, sample, options)
    best = None if score is None else score(fitted)
    steps = [StructureStep((), fitted.solution.value, score=best)]
    threshold = 1e-3 * fitted.solution.value if threshold is None else threshold
    most = len(left) if max_additions is None else max_additions
    prospects: dict[str, Prospect] = {}
    bounds: dict[str, float] = {}

    def inferable(more: Sequence[Design]) -> bool:
        return fits is None or fits([*designs, *more])

    try:
        _check_interrupt(fitted)
        while True:
            if steps[-1].kept:
                # Fields only grow: what does not fit now never will.
                left = [design for design in left if inferable([design])]
                together = have_same_factors if fits is None else inferable
                prospects = judge_candidates(designs, fitted.coefficients, left, sample, together)
            bounds = {design.name: prospects[design.name].bound for design in left}
            estimates = {design.name: prospects[design.name].estimate for design in left}
            reason = _reason(steps, bounds, threshold, most, len(candidates))
            if reason is not None:
                return StructurePath(steps, bounds, reason), designs, fitted
            ranked = sorted(left, key=lambda design: prospects[design.name].estimate, reverse=True)
            worth = [design for design in ranked if bounds[design.name] > threshold]
            n_added = sum(len(step.added) for step in steps if step.kept)
            chosen = _greedy(worth, min(size, most - n_added), inferable)
            names = tuple(design.name for design in chosen)
            bound, estimate = sum(bounds[name] for name in names), sum(estimates[name] for name in names)
            if announce is not None:
                announce(f"trying {', '.join(names)}, which could bring about {estimate:.4g} nats, {bound:.4g} at most")
            wider = [*designs, *chosen]
            zeros = [design.expand(np.zeros(design.shape)) for design in chosen]
            refitted = fit_field(wider, sample, options, start=[*fitted.coefficients, *zeros])
            _check_interrupt(refitted)
            value, held_out = refitted.solution.value, None if score is None else score(refitted)
            kept = best is None or held_out is None or held_out > best
            gain = fitted.solution.value - value
            bound += _gap(fitted)
            steps.append(StructureStep(names, value, bound, gain, bounds, held_out, kept, estimate, estimates))
            if kept:
                designs, fitted, best = wider, refitted, held_out
            if kept or len(chosen) == 1:
                left = [design for design in left if design not in chosen]
            size = 2 * len(chosen) if kept else max(1, len(chosen) // 2)
    except KeyboardInterrupt:
        return StructurePath(steps, bounds, INTERRUPTED), designs, fitted


def _check_interrupt(fitted: FittedField) -> None:
    """Raise KeyboardInterrupt again that a solver has turned into its best estimate."""
    if fitted.solution.reason == "interrupted":
        raise KeyboardInterrupt


def _reason(
    steps: Sequence[StructureStep], bounds: dict[str, float], threshold: float, most: int, n_candidates: int
) -> str | None:
    """Return the reason for the end of a search; None to continue."""
    if not bounds:
        tried = {name for step in steps for name in step.added}
        too_wide = "; the others would make exact inference too wide" if len(tried) < n_candidates else ""
        return f"no candidate is left{too_wide}"
    if max(bounds.values()) <= threshold:
        return f"no candidate could bring more than {threshold:.4g} nats"
    if sum(len(step.added) for step in steps if step.kept) >= most:
        return f"{most} additions were made"
    rejected = itertools.takewhile(lambda step: not step.kept, reversed(steps))
    if sum(len(step.added) == 1 for step in rejected) >= _PATIENCE:
        return f"held-out data rejected the last {_PATIENCE} additions"
    return None


def _gap(fitted: FittedField) -> float:
    """Return an upper bound on the gain of a fit without additions."""
    return max(0.0, float(sum(fitted.solution.gap_parts.values())))


def log_likelihood(held_out: PackedData, spec: FamilySpec, workers: Workers, fitted: FittedField) -> float:
    """Return the log-likelihood of held-out data under a fit; ValueError if inference is approximate."""
    field, total = Field(fitted.terms, spec), 0.0
    for batch in field.batches(held_out):
        answers = field.answers(batch, workers)
        refuse_approximate(answers.family, "a search for the structure of a field")
        total += float((answers.label_scores(batch.labels) - answers.log_partition).sum())
    return total
