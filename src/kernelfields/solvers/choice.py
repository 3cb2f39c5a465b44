"""Choice of a solver by name, the rule of ``solver="auto"``, and the end of a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kernelfields.numerics.threads import blas_threads
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.lbfgs import LBFGS, StochasticStart
from kernelfields.solvers.loop import Bound, DirectionRule, Keeper, Monitor, Solution, Watcher, minimize
from kernelfields.solvers.newton import BlockJacobi, HessianRule, Newton, NewtonCG, SubspaceDescent

SOLVERS: dict[str, type] = {
    "newton": Newton,
    "newton-cg": NewtonCG,
    "block-jacobi": BlockJacobi,
    "subspace": SubspaceDescent,
    "lbfgs": LBFGS,
    "sgd+lbfgs": LBFGS,
}

#: Where a fit ends unless it is told: at this relative gap, or when the log-posterior could rise by no more than so
#: many nats a position and 3 % of itself, whichever comes first.
USUAL_TOLERANCE, NATS_PER_POSITION = 1e-3, 1e-3

_MEMORY_AFTER_START = 20


def resolve_tolerance(tol: float | str) -> float:
    """Return the relative gap that ends a fit, at the latest if ``tol`` is "auto"."""
    return USUAL_TOLERANCE if isinstance(tol, str) else tol


def check_solver(solver: object) -> None:
    """Raise for an unknown name of a solver; objects are checked on use."""
    if isinstance(solver, str) and solver not in ("auto", *SOLVERS):
        raise ValueError(f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {solver!r}")


def needs_hessian(solver: object) -> bool:
    """Whether a solver, or its name, needs a convex objective."""
    kind = SOLVERS.get(solver) if isinstance(solver, str) else type(solver)
    return kind is not None and issubclass(kind, HessianRule)


@dataclass
class FitOptions:
    """Options of a fit; ``watch`` is called after each iteration, ``random`` is for random solvers and bases.

    A fit ends at the relative gap ``tol``, or at the gap ``enough`` if that comes first: the value is then so near to
    the least one, in nats. ``announce`` takes lines about the progress of a fit.
    """

    solver: object
    tol: float
    max_iter: int
    watch: Watcher | None = None
    random: np.random.Generator = field(default_factory=np.random.default_rng)
    announce: Callable[[str], None] | None = None
    enough: float = 0.0

    def with_tolerance(self, factor: float, **others: Any) -> FitOptions:
        """Return options with the tolerance multiplied by a factor."""
        return replace(self, tol=factor * self.tol, enough=factor * self.enough, **others)

    def report(self, line: str) -> None:
        """Forward a line about the progress of the fit."""
        if self.announce is not None:
            self.announce(line)

    def minimize(
        self,
        posterior: LogPosterior,
        start: np.ndarray | None,
        monitor: Monitor | None = None,
        keep: Keeper | None = None,
        bound: Bound | None = None,
    ) -> Solution:
        """Return the solution of the solver of these options."""
        rule = resolve_solver(self.solver, posterior, self.tol, self.random)
        # Products are cut into runs for our own threads: only solvers that factor matrices have use for those of BLAS.
        with blas_threads(None if rule.factors_matrices else 1):
            return minimize(
                posterior,
                rule,
                start=start,
                tol=self.tol,
                enough=self.enough,
                max_iter=self.max_iter,
                watch=self.watch,
                monitor=monitor,
                keep=keep,
                bound=bound,
            )


def resolve_solver(
    solver: object, posterior: LogPosterior, tol: float, random: np.random.Generator | None = None
) -> DirectionRule:
    """Return the rule of a name.

    "auto" chooses by the size of the field and the tolerance.

    Parameters
    ----------
    solver : str or DirectionRule
        "auto", "lbfgs", "newton-cg", "newton", "block-jacobi", "subspace" or "sgd+lbfgs"; or a rule.
    posterior : LogPosterior
        The objective.
    tol : float
        The relative gap that ends the fit.
    random : Generator, optional
        For rules that draw.

    Returns
    -------
    DirectionRule
        The rule.

    Examples
    --------
    >>> from kernelfields.solvers import SOLVERS
    >>> sorted(SOLVERS)
    ['block-jacobi', 'lbfgs', 'newton', 'newton-cg', 'sgd+lbfgs', 'subspace']
    """
    if isinstance(solver, str) and solver == "auto":
        solver = choose(posterior)
    if not posterior.penalty.smooth:
        from kernelfields.solvers.orthant import within_orthants

        return within_orthants(solver, tol, random)
    if isinstance(solver, str):
        if solver == "sgd+lbfgs":
            # Near the optimum few steps are worth remembering; the start for partly known labels is not as near.
            memory = _MEMORY_AFTER_START if posterior.convex else None
            return LBFGS(memory, StochasticStart(random_state=random))
        solver = SOLVERS[solver]() if solver in SOLVERS else solver
    if isinstance(solver, HessianRule) and posterior.approximation is not None:
        raise ValueError(
            f"solver={solver.name!r} needs Hessian products, which are exact or nothing, and inference="
            f"{posterior.approximation!r} is approximate: use solver='lbfgs'"
        )
    if isinstance(solver, HessianRule) and not posterior.convex:
        raise ValueError(
            f"solver={solver.name!r} needs a convex objective, and with labels that are partly known it is not: use "
            "solver='lbfgs'"
        )
    if isinstance(solver, HessianRule) and not posterior.penalty.quadratic:
        raise ValueError(
            f"solver={solver.name!r} needs a Gaussian prior on every coefficient, and a prior_variance is "
            "infinite: use solver='lbfgs'"
        )
    if isinstance(solver, DirectionRule):
        return solver
    raise ValueError(f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {solver!r}")


def has_raw_inputs(posterior: LogPosterior) -> bool:
    """Whether dense inputs are features without a basis or a metric, with bad conditioning."""
    measured = {dense.index for dense in posterior.metric.dense_sets}
    return any(design.dense_inputs for index, design in enumerate(posterior.datafit.designs) if index not in measured)


def sparse_values(posterior: LogPosterior) -> int:
    """Return the number of stored values in features of a density of at most one in ten."""
    return sum(design.stored_values for design in posterior.datafit.designs if design.density <= 0.1)


def choose(posterior: LogPosterior, *, small: int = 400, many_values: int = 50_000) -> str:
    """Choose a solver; docs/finished_studies.md names the measurements behind the rules.

    * Where the penalty is not quadratic: L-BFGS, as the Hessian may vanish. The same where inference is approximate:
      there is no Hessian then.
    * Labels that are partly known: L-BFGS, since the Hessian may be indefinite.
    * ``small`` fields: Newton-CG, up to three times faster than L-BFGS, both in hundredths of a second.
    * Raw dense inputs, more of them than positions can tell apart: Newton-CG, since correlated columns take L-BFGS
      past any reasonable ``max_iter`` without a metric.
    * Otherwise L-BFGS: at most half the passes of Newton-CG where features are whitened by a basis or a metric, and
      on sparse features; after a stochastic start where there are ``many_values`` sparse ones, worth finding its
      rate (benchmarks/crfsuite_speed.py).
    """
    smooth = posterior.penalty.quadratic and posterior.approximation is None and posterior.convex
    if smooth and (posterior.size <= small or has_raw_inputs(posterior)):
        return "newton-cg"
    return "sgd+lbfgs" if sparse_values(posterior) >= many_values else "lbfgs"
