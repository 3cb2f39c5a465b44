"""Fits that follow another one: from its coefficients, or by one more batch.

    GoesOn        the reader, basis, coefficients and choices of the fit before, on other data (warm_start)
    FirstBatch    a fit from nothing which further batches can go on from

What parameters may have changed since the fit before is listed in going_on.py.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from kernelfields.engines.engine import Sample
from kernelfields.estimators.auto_parameters import warn_of_uneven_columns, with_learnt_decisions
from kernelfields.estimators.beginning import Beginning, Start
from kernelfields.estimators.fit_state import FitState
from kernelfields.estimators.going_on import changes_of_cliques, refuse_changes
from kernelfields.inputs.steps import ColumnSteps
from kernelfields.kernels.registry import resolve_kernel
from kernelfields.models.build import continued_designs
from kernelfields.models.continuation import check_continues
from kernelfields.numerics.parameters import is_auto


class FirstBatch(Beginning):
    """A fit from nothing which batches go on from: its terms have a curvature that is small enough to keep."""

    def kernels(self, names: list[str]) -> list[str]:
        """Return the kernels without explicit features."""
        left = [name for name in names if not resolve_kernel(name).has_feature_map]
        if not left:
            raise ValueError(
                f"kernel='auto' is {names[0]!r} for such inputs, and partial_fit does not keep the curvature of its "
                "explicit features: use a kernel without, such as 'rbf', or fit all sequences at once"
            )
        return left

    def in_kind(self, estimator: Any, reader: Any, data: Any, others: Any) -> Any:
        """Return data dense or sparse; categories in columns of their own would have explicit features."""
        return reader.in_own_kind(data, others)

    def terms(self, estimator: Any, problem: FitState, sample: Sample) -> Start:
        """Return the terms of the field, all of them with pivots or constant."""
        designs, start = super().terms(estimator, problem, sample)
        check_continues([design.term for design in designs])
        return designs, start


class GoesOn(Beginning):
    """A fit from the coefficients of the one before it: in its basis, as its reader reads, with what it has chosen."""

    def check(self, estimator: Any) -> None:
        """Raise unless the present parameters and labels can go on."""
        refuse_changes(estimator, batch=False)
        self.changes = changes_of_cliques(estimator)
        declared = estimator._declared_classes
        if declared is None:
            return
        if other := set(np.asarray(declared).tolist()) ^ set(estimator.label_names().tolist()):
            raise ValueError(
                f"warm_start=True keeps the labels of the fit, and those of partial_labels differ by "
                f"{min(other, key=str)!r}: set warm_start=False to start afresh"
            )

    def settled(self, estimator: Any) -> Any:
        """Return a copy with the structure of the fit."""
        return estimator.as_fitted()

    def read(self, estimator: Any, X: object, y: object, sample_weight: object) -> tuple[Any, Any, np.ndarray]:
        """Return data as the reader of the fit reads them."""
        return estimator._learn_again(X, y, sample_weight)

    def in_kind(self, estimator: Any, reader: Any, data: Any, others: Any) -> Any:
        """Return data of the kind that the reader makes."""
        return data

    def scaling(self, estimator: Any, reader: Any, data: Any) -> ColumnSteps:
        """Return no steps: the reader has brought columns to the scale of the basis."""
        warn_of_uneven_columns(estimator, data)
        return ColumnSteps()

    def chosen(self, estimator: Any, problem: FitState) -> Any:
        """Return a copy in which "auto" stands for what the fit has chosen."""
        chosen, given = copy.copy(estimator), estimator.get_params(deep=False)
        clique = next(term.clique for term in estimator.field_.terms if term.clique.kernel is not None)
        own = clique.get_params(deep=False)
        chosen._set_chosen({name: own[name] for name in estimator._chosen_by_data if is_auto(given[name])})
        problem.choices = estimator.choices_
        problem.categories = estimator.choices_.chosen.get("categories")
        if not estimator._has_learnt_to_decide:
            problem.choices = with_learnt_decisions(chosen, problem)
        return chosen

    def terms(self, estimator: Any, problem: FitState, sample: Sample) -> Start:
        """Return the terms of the fit on the sample, and their coefficients."""
        terms = estimator.field_.terms
        designs = continued_designs(estimator.term_cliques(problem), terms, sample, self.changes)
        return designs, [term.known for term in terms]
