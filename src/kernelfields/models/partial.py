"""Fits to labels that are partly known, and to what is known of data without labels.

    R(theta) = ||theta||^2 / (2 s) + sum_i weight_i ( log Z_i(theta) - log Z_i(theta given what is known) )

is a difference of convex functions (objective/likelihoods/likelihood.py), which L-BFGS minimises.

Data without labels have no part in R. What else is known of them, expected shares of labels
(objective/likelihoods/expectations.py), is added to R: a fit to the labels alone comes first, then L-BFGS on the sum.

Minima are local. What is certified is the convex objective of the labels as they are completed at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.data.given_labels import LabelsAlone
from kernelfields.engines.engine import PackedData
from kernelfields.models.expectations import LabelShares, check_expectations
from kernelfields.models.placed import FitStep, FittedField, Placed, Solve
from kernelfields.models.starts import end_at_once
from kernelfields.numerics.registry import SETTINGS
from kernelfields.objective.likelihoods.completion import Completion
from kernelfields.objective.likelihoods.expectations import Criteria
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.choice import needs_hessian
from kernelfields.solvers.loop import Iteration


@SETTINGS.register("partial labels")
class PartialLabels(LabelsAlone, BaseEstimator):
    """What a fit to labels that are partly known is told beside them.

    Parameters
    ----------
    classes : list of labels or None
        All labels there are, where y may not show each of them; None for those that y names.
    expectations : list of LabelShares
        Shares that labels are known to have, of all positions or of those where a feature is active.
    """

    def __init__(self, *, classes: Any = None, expectations: Sequence[LabelShares] = ()):
        self.classes = classes
        self.expectations = expectations

    def steps(self, data: PackedData, classes: np.ndarray) -> list[FitStep]:
        """Return the steps of a fit to data."""
        criteria = self.criteria(data, classes)
        return [] if criteria is None else [ExpectedShares(criteria)]

    @property
    def expects_shares(self) -> bool:
        """Whether the objective has expected shares of labels."""
        return not isinstance(self.expectations, tuple | list) or bool(self.expectations)

    def check(self) -> None:
        """Raise if a parameter cannot be used."""
        if self.expects_shares:
            check_expectations(self.expectations)

    def criteria(self, data: PackedData, classes: np.ndarray) -> Criteria | CriteriaOfParts | None:
        """Return the expectations of data, None for none; ValueError if labels could be anything."""
        if data.lie_with is not None:
            return CriteriaOfParts(self, classes) if self.expects_shares else None
        if not self.expectations:
            data.given.check_informative()
            return None
        expected = [part for shares in self.expectations for part in shares.on(data, classes)]
        return Criteria(expected, bool(data.given.informative().any()))


class ExpectedShares(FitStep):
    """Adds what is expected of data without labels to the objective, after a fit to the labels alone."""

    in_rounds = True

    def __init__(self, criteria: Criteria | CriteriaOfParts):
        self.criteria = criteria

    def around(self, solve: Solve) -> Solve:
        """Return the solve of the whole objective."""

        def with_shares(placed: Placed) -> FittedField:
            options = placed.options
            if needs_hessian(options.solver):
                raise ValueError("expectations have no Hessian products, which this solver needs: use 'lbfgs'")
            whole = LogPosterior(Completion(placed.posterior.datafit).with_criteria(self.criteria))
            start = placed.start
            if start is None and not self.criteria.labelled:
                start = whole.expanded(np.zeros(whole.size))
            elif start is None:
                options.report("fitting to the labels alone, then to the expected shares as well")
                supervised = solve(replace(placed, monitor=None, keep=None))
                start = supervised.coefficients
                ends_now = {"interrupted": end_at_once, "callback": _stop}
                options = replace(options, watch=ends_now.get(supervised.solution.reason, options.watch))
            return solve(replace(placed, objective=whole, start=start, options=options, rounds=1))

        return with_shares


def _stop(iteration: Iteration) -> bool:
    """End a fit where it begins, as a callback would."""
    return True


@dataclass(frozen=True, eq=False)
class CriteriaOfParts:
    """Criteria of data that are elsewhere, in parts which make their own; something is taken to be known of labels."""

    settings: PartialLabels
    classes: np.ndarray
    labelled: ClassVar[bool] = True

    def of(self, data: PackedData) -> Criteria:
        """Return the criteria of one part."""
        asked = [shares.on(data, self.classes, is_part=True) for shares in self.settings.expectations]
        return Criteria([part for own in asked for part in own])
