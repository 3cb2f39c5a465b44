"""Fits to partly known labels, and to expectations of unlabelled data.

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
from kernelfields.engines.together.placing import DataInParts
from kernelfields.models.cheaper_fits import stop_fit
from kernelfields.models.expectations import LabelShares, check_expectations
from kernelfields.models.placed import FitStep, FittedField, Placed, Solve
from kernelfields.numerics.registry import SETTINGS
from kernelfields.objective.likelihoods.completion import Completion
from kernelfields.objective.likelihoods.expectations import Criteria
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.choice import needs_hessian
from kernelfields.solvers.loop import Iteration


@SETTINGS.register("partial labels")
class PartialLabels(LabelsAlone, BaseEstimator):
    """Information about labels that are partly known.

    Parameters
    ----------
    classes : list of labels or None, default None
        All labels there are, where y may not show each of them; None for those that y names.
    expectations : list of LabelShares, default ()
        Shares that labels are known to have, of all positions or of those where a feature is active.

    See Also
    --------
    kernelfields.SoftTargets : Labels given as probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF, PartialLabels
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", None, {"rain", "snow"}, None], ["rain", None, None]]
    >>> partial = PartialLabels(classes=["rain", "snow", "sun"])
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, partial_labels=partial, random_state=0).fit(X, y)
    >>> crf.classes_.tolist()
    ['rain', 'snow', 'sun']
    """

    def __init__(self, *, classes: Any = None, expectations: Sequence[LabelShares] = ()):
        self.classes = classes
        self.expectations = expectations

    def steps(self, data: PackedData, classes: np.ndarray) -> list[FitStep]:
        """Return the steps of a fit to data.

        Parameters
        ----------
        data : PackedData
            The data.
        classes : array (L,)
            The labels.

        Returns
        -------
        list of FitStep
            The steps; none without expectations.
        """
        criteria = self.criteria(data, classes)
        return [] if criteria is None else [ExpectedShares(criteria)]

    @property
    def has_expected_shares(self) -> bool:
        """Whether the objective has expected shares of labels."""
        return not isinstance(self.expectations, tuple | list) or bool(self.expectations)

    def check(self) -> None:
        """Raise an error if a parameter is invalid.

        Raises
        ------
        TypeError
            If expectations are no list of LabelShares.
        """
        if self.has_expected_shares:
            check_expectations(self.expectations)

    def criteria(self, data: PackedData | DataInParts, classes: np.ndarray) -> Criteria | CriteriaOfParts | None:
        """Return the expectations of data.

        Parameters
        ----------
        data : PackedData or DataInParts
            The data.
        classes : array (L,)
            The labels.

        Returns
        -------
        Criteria, CriteriaOfParts or None
            The expectations; None without any.

        Raises
        ------
        ValueError
            If nothing is known of the labels.
        """
        if isinstance(data, DataInParts):
            return CriteriaOfParts(self, classes) if self.has_expected_shares else None
        if not self.expectations:
            data.given.check_informative()
            return None
        expected = [part for shares in self.expectations for part in shares.make_expectations(data, classes)]
        return Criteria(expected, bool(data.given.informative().any()))


class ExpectedShares(FitStep):
    """Add expectations of unlabelled data to the objective, after a fit to the labels alone."""

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
                start = whole.blocks.expand(np.zeros(whole.size))
            elif start is None:
                options.report("fitting to the labels alone, then to the expected shares as well")
                supervised = solve(replace(placed, monitor=None, keep=None))
                start = supervised.coefficients
                ends_now = {"interrupted": stop_fit, "callback": _stop}
                options = replace(options, watch=ends_now.get(supervised.solution.reason, options.watch))
            return solve(replace(placed, objective=whole, start=start, options=options, rounds=1))

        return with_shares


def _stop(iteration: Iteration) -> bool:
    """End a fit at its start, as a callback does."""
    return True


@dataclass(frozen=True, eq=False)
class CriteriaOfParts:
    """Criteria of distributed data, made part by part."""

    settings: PartialLabels
    classes: np.ndarray
    labelled: ClassVar[bool] = True

    def select_part(self, data: PackedData) -> Criteria:
        """Return the criteria of one part."""
        asked = [shares.make_expectations(data, self.classes, is_part=True) for shares in self.settings.expectations]
        return Criteria([part for own in asked for part in own])


def refuse_expectations(structure: Any, method: str, advice: str) -> None:
    """Raise ValueError with advice if a fit has expectations, which a method does not support."""
    if structure.has_expected_shares:
        raise ValueError(f"{method} takes labels only, and this field has expectations: {advice}")
