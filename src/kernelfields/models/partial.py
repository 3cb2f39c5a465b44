"""Fits to labels that are partly known, and to what is known of data without labels.

    R(theta) = ||theta||^2 / (2 s) + sum_i weight_i ( log Z_i(theta) - log Z_i(theta given what is known) )

is a difference of convex functions (objective/likelihoods/likelihood.py), which L-BFGS minimises.

Data without labels have no part in R. What else is known of them, expected shares of labels
(objective/likelihoods/expectations.py), is added to R: a fit to the labels alone comes first, then L-BFGS on the sum.

Minima are local. What is certified is the convex objective of the labels as they are completed at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.data.partial_labels import informative
from kernelfields.data.readers import InputReader
from kernelfields.engines.engine import PackedData
from kernelfields.models.expectations import LabelShares, check_expectations
from kernelfields.numerics.registry import SETTINGS
from kernelfields.numerics.threads import blas_threads
from kernelfields.objective.bounds import MixedBound
from kernelfields.objective.likelihoods.expectations import Criteria
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.choice import SOLVERS, resolve_solver
from kernelfields.solvers.loop import Keeper, Monitor, Solution, Watcher, minimize
from kernelfields.solvers.newton import HessianRule

#: Where a fit ends unless it is told: at this relative gap, or when the log-posterior could rise by no more than so
#: many nats a position and 3 % of itself, whichever comes first.
USUAL_TOLERANCE, NATS_PER_POSITION = 1e-3, 1e-3


@SETTINGS.register("partial labels")
class PartialLabels(BaseEstimator):
    """What a fit to labels that are partly known is told beside them.

    Parameters
    ----------
    classes : list of labels or None
        All labels there are, where y may not show each of them; None for those that y names.
    expectations : list of LabelShares and LabelledFeature
        Shares that labels are known to have, of all positions or of those where a feature is active.
    """

    def __init__(self, *, classes: Any = None, expectations: Sequence[LabelShares] = ()):
        self.classes = classes
        self.expectations = expectations

    @property
    def expects_shares(self) -> bool:
        """Whether the objective has expected shares of labels."""
        return not isinstance(self.expectations, tuple | list) or bool(self.expectations)

    def refuse_expectations(self, method: str, advice: str) -> None:
        """Raise if a fit has expectations, which a method does not support."""
        if self.expects_shares:
            raise ValueError(f"{method} takes labels only, and this field has expectations: {advice}")

    def check(self) -> None:
        """Raise if a parameter cannot be used."""
        if self.expects_shares:
            check_expectations(self.expectations)

    def criteria(self, data: PackedData, reader: InputReader, classes: np.ndarray) -> Criteria | CriteriaOfParts | None:
        """Return the expectations of data, None for none; ValueError if labels could be anything."""
        if data.lie_with is not None:
            return CriteriaOfParts(self, reader, classes) if self.expects_shares else None
        known = data.partial is None or bool(informative(data.partial).any())
        if not known and not self.expectations:
            raise ValueError(
                "nothing is known of any label in y, so that all labels fit equally well: label some positions, or say "
                "what is expected, as in partial_labels=PartialLabels(classes=[...], expectations=[LabelShares({...})])"
            )
        expected = [part for shares in self.expectations for part in shares.on(data, reader, classes)]
        return Criteria(expected, known) if expected else None

    def minimize(
        self,
        posterior: LogPosterior,
        options: FitOptions,
        start: np.ndarray | None,
        monitor: Monitor | None = None,
        keep: Keeper | None = None,
    ) -> Solution:
        """Return the minimum that a start leads to."""
        return options.minimize(posterior, start, monitor, keep)


@dataclass(frozen=True, eq=False)
class CriteriaOfParts:
    """Criteria of data that are elsewhere, in parts which make their own; something is taken to be known of labels."""

    settings: PartialLabels
    reader: InputReader
    classes: np.ndarray
    labelled: ClassVar[bool] = True

    def of(self, data: PackedData) -> Criteria:
        """Return the criteria of one part."""
        asked = [shares.on(data, self.reader, self.classes, is_part=True) for shares in self.settings.expectations]
        return Criteria([part for own in asked for part in own])


def resolve_partial_labels(settings: object) -> PartialLabels:
    """Return the settings, usual ones for None; raise if they cannot be used."""
    if settings is None:
        return PartialLabels()
    if not isinstance(settings, PartialLabels):
        raise TypeError(f"partial_labels must be None or a PartialLabels(...), got {settings!r}")
    settings.check()
    return settings


def needs_hessian(solver: object) -> bool:
    """Whether a solver, or its name, is one that needs a convex objective."""
    kind = SOLVERS.get(solver) if isinstance(solver, str) else type(solver)
    return kind is not None and issubclass(kind, HessianRule)


@dataclass
class FitOptions:
    """How a field is fitted; ``watch`` is called after each iteration, ``random`` is for solvers and bases that draw.

    A fit ends at the relative gap ``tol``, or at the gap ``enough`` if that comes first: the value is then so near to
    the least one, in nats. ``announce`` takes lines about the progress of a fit. ``criteria`` are those for data
    without labels.
    """

    solver: object
    tol: float
    max_iter: int
    watch: Watcher | None = None
    random: np.random.Generator = field(default_factory=np.random.default_rng)
    announce: Callable[[str], None] | None = None
    partial: PartialLabels = field(default_factory=PartialLabels)
    criteria: Criteria | CriteriaOfParts | None = None
    enough: float = 0.0

    def tightened(self, factor: float, **others: Any) -> FitOptions:
        """Return options that end a fit at so many times the gap."""
        return replace(self, tol=factor * self.tol, enough=factor * self.enough, **others)

    def report(self, line: str) -> None:
        """Pass on a line about the progress of the fit."""
        if self.announce is not None:
            self.announce(line)

    def minimize(
        self,
        posterior: LogPosterior,
        start: np.ndarray | None,
        monitor: Monitor | None = None,
        keep: Keeper | None = None,
        bound: MixedBound | None = None,
    ) -> Solution:
        """Return where the solver ends that these options name."""
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
