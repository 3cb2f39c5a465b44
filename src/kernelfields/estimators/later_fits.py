"""Continued fits: from the coefficients of another fit, or by one more batch.

    GoesOn        the reader, basis, coefficients and choices of the fit before, on other data (warm_start)
    FirstBatch    a fit from nothing which further batches can go on from (partial_fit)
    NextBatch     one more batch: the same, about the posterior of those before (models/continuation.py)

What parameters may have changed since the fit before is listed in going_on.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.data.ties import resolve_ties
from kernelfields.engines.choice import learn_labelled, refuse_collections
from kernelfields.engines.engine import PackedData, Sample
from kernelfields.estimators.auto_parameters import set_parameters, warn_of_scales
from kernelfields.estimators.beginning import Beginning, Start
from kernelfields.estimators.fit_state import FitState
from kernelfields.estimators.going_on import changes_of_cliques, has_learnt_to_decide, refuse_changes
from kernelfields.inputs.steps import ColumnSteps
from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.registry import resolve_kernel
from kernelfields.models.build import NamedCliques
from kernelfields.models.continuation import Continuation, PosteriorPrior, check_continues, with_pivots
from kernelfields.models.continued_terms import continue_designs
from kernelfields.models.field import Field
from kernelfields.models.label_growth import LabelGrowth
from kernelfields.models.partial import refuse_expectations
from kernelfields.models.placed import FitStep, FittedField, Placed, Solve
from kernelfields.numerics.parameters import get_open_parameters, resolve_open, with_values
from kernelfields.numerics.threads import Workers


class GoesOn(Beginning):
    """A fit that continues the last one, with its reader, basis and choices."""

    def __init__(self) -> None:
        self.steps = [self]

    def check(self, estimator: Any) -> None:
        """Raise unless the present parameters and labels allow a continuation."""
        refuse_changes(estimator, batch=False)
        self.changes = changes_of_cliques(estimator)
        declared = estimator.structure.declared_classes
        if declared is None:
            return
        if other := set(np.asarray(declared).tolist()) ^ set(estimator._answer_format.labels(estimator).tolist()):
            raise ValueError(
                f"warm_start=True keeps the labels of the fit, and those of partial_labels differ by "
                f"{min(other, key=str)!r}: set warm_start=False to start afresh"
            )

    def settle_estimator(self, estimator: Any) -> Any:
        """Return a copy with the structure of the fit."""
        fitted = with_values(estimator, estimator.structure.continued_parameters())
        self.choices = fitted.choices_
        return fitted

    def read(self, estimator: Any, X: object, y: object, sample_weight: object) -> tuple[Any, Any, np.ndarray]:
        """Read data by the reader of the last fit."""
        structure = estimator.structure
        return learn_labelled(X, y, sample_weight, structure, structure.learn_batch)

    def convert_storage(self, estimator: Any, reader: Any, data: Any, others: Any) -> Any:
        """Return data unchanged: the reader has chosen their storage."""
        return data

    def scaling_steps(self, estimator: Any, reader: Any, data: Any) -> ColumnSteps:
        """Return no steps: the reader has scaled the columns."""
        warn_of_scales(estimator, data)
        return ColumnSteps()

    def choosing_steps(self, estimator: Any, steps: Sequence[FitStep], groups: ArrayLike | None) -> list[FitStep]:
        """Return the step for settings of the present decision, if they are missing in the last fit."""
        if groups is None and has_learnt_to_decide(estimator):
            return []
        from kernelfields.estimators.tuning import LearntDecisions

        return [LearntDecisions(self, steps, groups)]

    def before(self, estimator: Any, problem: FitState) -> None:
        """Replace "auto" by the choices of the last fit."""
        chosen = problem.estimator
        clique = next(term.clique for term in estimator.field_.terms if term.clique.kernel is not None)
        own = clique.get_params(deep=False)
        set_parameters(chosen, {name: own[name] for name in get_open_parameters(estimator) if name in own})
        chosen.choices_ = self.choices

    def terms(self, estimator: Any, problem: FitState, sample: Sample, cliques: NamedCliques) -> Start:
        """Return the terms of the last fit on the sample, and their coefficients."""
        terms = estimator.field_.terms
        designs = continue_designs(estimator.structure.term_cliques(problem, cliques), terms, sample, self.changes)
        return designs, [term.known for term in terms]


class FirstBatch(Beginning):
    """A fit from zero that batches can continue: the curvature of its terms fits in memory.

    The field has the labels that y names, and those of ``classes``.
    """

    def __init__(self, X: object, y: object, classes: object):
        _check_batch(X, y)
        self.steps = [self]
        self.y = y
        self.classes = classes

    def check(self, estimator: Any) -> None:
        """Raise if batches cannot continue the objective."""
        refuse_expectations(estimator.structure, "partial_fit", "fit all sequences at once")
        why = "partial_fit keeps the curvature of labels that share no weights: leave out ties"
        resolve_ties(estimator.ties).refuse(why)
        for name, given in estimator.get_params().items():
            if name.endswith("prior_variance") and np.inf in (given if isinstance(given, list | tuple) else [given]):
                raise ValueError(f"partial_fit needs a Gaussian prior: {name} is infinite")

    def kernels(self, names: list[str]) -> list[str]:
        """Return the kernels without explicit features."""
        left = [name for name in names if not resolve_kernel(name).has_feature_map]
        if not left:
            raise ValueError(
                f"kernel='auto' is {names[0]!r} for such inputs, and partial_fit does not keep the curvature of its "
                "explicit features: use a kernel without, such as 'rbf', or fit all sequences at once"
            )
        return left

    def convert_storage(self, estimator: Any, reader: Any, data: Any, others: Any) -> Any:
        """Convert data to dense or sparse storage; categories get no columns with explicit features."""
        return reader.rows.to_natural_sparsity(data, others)

    def terms(self, estimator: Any, problem: FitState, sample: Sample, cliques: NamedCliques) -> Start:
        """Return the terms of the field, with pivots or constant."""
        designs, start = super().terms(estimator, problem, sample, cliques)
        check_continues([design.term for design in designs])
        #: The data, whose curvature is learnt when they are fitted.
        self.data = problem.data
        return designs, start

    def before(self, estimator: Any, problem: FitState) -> None:
        """Raise if labels are partly known."""
        refuse_unknown(problem.data)

    def after(self, estimator: Any) -> None:
        """Store the curvature of the batch."""
        known = Continuation.begin(estimator.field_.terms)
        estimator.continuation_ = known.learn(estimator.field_, self.data, Workers(estimator.n_jobs))
        if self.classes is not None:
            admit_classes(estimator, estimator.structure.all_classes(self.y, self.classes))


class NextBatch(GoesOn):
    """A fit to one more batch, with the posterior so far as its prior; see models/continuation.py.

    The field gets the labels that y names, and those of ``classes``.
    """

    def __init__(self, X: object, y: object, classes: object):
        _check_batch(X, y)
        super().__init__()
        self.y = y
        self.classes = classes

    def check(self, estimator: Any) -> None:
        """Raise unless there were batches with the present parameters."""
        if estimator.continuation_ is None:
            raise ValueError(
                "partial_fit goes on from batches that it fitted itself, whose curvature it keeps: begin with it, on a "
                "clone(estimator), instead of fit"
            )
        refuse_changes(estimator, batch=True)
        refuse_expectations(estimator.structure, "partial_fit", "fit all sequences at once")

    def settle_estimator(self, estimator: Any) -> Any:
        """Return a copy with the structure of the last batch, extended by the labels of this one."""
        settled = super().settle_estimator(estimator)
        admit_classes(settled, estimator.structure.all_classes(self.y, self.classes))
        self.choices = settled.choices_
        return settled

    def read(self, estimator: Any, X: object, y: object, sample_weight: object) -> tuple[Any, Any, np.ndarray]:
        """Read data by the reader of the first batch, with the labels of new words."""
        return estimator.structure.learn_batch(X, y, sample_weight, further=True)

    def scaling_steps(self, estimator: Any, reader: Any, data: Any) -> ColumnSteps:
        """Return no steps: the first batch has scaled the columns."""
        return ColumnSteps()

    def choosing_steps(self, estimator: Any, steps: Sequence[FitStep], groups: ArrayLike | None) -> list[FitStep]:
        """Return no step: the first batch has settled the decision."""
        return []

    def before(self, estimator: Any, problem: FitState) -> None:
        """Replace "auto" by the choices of the first batch, and collect notes on the data of all batches."""
        refuse_unknown(problem.data)
        super().before(estimator, problem)
        problem.estimator._repeated = estimator._repeated
        self.noted, self.items = estimator._fitted_with, estimator._fitted_items

    def cliques(self, estimator: Any, problem: FitState) -> NamedCliques:
        """Return the clique sets of the present terms."""
        return [(term.name, term.clique) for term in estimator.field_.terms]

    def terms(self, estimator: Any, problem: FitState, sample: Sample, cliques: NamedCliques) -> Start:
        """Return the present terms with further pivots among distant inputs, around their posterior."""
        self.data = problem.data
        terms = with_pivots(estimator.field_.terms, problem.data)
        self.known = estimator.continuation_.extend(terms)
        self.prior = PosteriorPrior.from_terms(terms, self.known)
        return [sample.design(term) for term in self.prior.moved], list(self.prior.means)

    def around(self, solve: Solve) -> Solve:
        """Return the solve of the continued posterior, without estimates on the way."""

        def continued(placed: Placed) -> FittedField:
            objective = self.prior.posterior(placed.posterior.datafit)
            return self.prior.restored(solve(replace(placed, objective=objective, keep=None)))

        return continued

    def after(self, estimator: Any) -> None:
        """Add the curvature of the batch, and its items."""
        estimator.continuation_ = self.known.learn(estimator.field_, self.data, Workers(estimator.n_jobs))
        estimator._fitted_with = self.noted
        estimator._fitted_items = None if self.items is None else self.items.with_items(self.data)


def has_partial_fit(estimator: Any) -> bool:
    """Return whether an estimator of rows has ``partial_fit``; AttributeError with the reason if not."""
    kernel = resolve_open(estimator.kernel, "rbf")
    if estimator.__sklearn_is_fitted__() and estimator.continuation_ is None:
        raise AttributeError("partial_fit goes on from batches that it fitted itself: begin with it, on a clone")
    if isinstance(kernel, str | Kernel) and resolve_kernel(kernel).has_feature_map:
        raise AttributeError(f"partial_fit keeps the curvature of kernels without explicit features, not of {kernel!r}")
    return True


def admit_classes(estimator: Any, classes: np.ndarray) -> None:
    """Add classes to a field, and extend everything that depends on labels."""
    if len(classes) == len(estimator.classes_):
        return
    growth, terms = LabelGrowth.between(estimator.classes_, classes), estimator.field_.terms
    extended = estimator.structure.with_classes(classes)
    grown = [growth.term(term) for term in terms]
    estimator.classes_, estimator._reader = classes, extended.reader
    estimator.field_ = Field(grown, extended.spec)
    estimator.choices_ = estimator.choices_.with_labels(growth.places, len(classes))
    precisions = growth.precisions(terms, grown, estimator.continuation_.precisions)
    estimator.continuation_ = replace(estimator.continuation_, precisions=precisions)
    theta = np.concatenate([term.known.ravel() for term in grown])
    estimator.solution_ = replace(estimator.solution_, theta=theta)
    estimator._set_views()


def _check_batch(X: object, y: object) -> None:
    """Raise ValueError if a batch is a Dask collection."""
    elsewhere = "partial_fit reads batches of this process, and X is a Dask collection: pass X.compute()"
    refuse_collections(X, y, error=ValueError(elsewhere))


def refuse_unknown(data: PackedData) -> None:
    """Raise if labels are partly known."""
    data.given.check_learnable(
        "partial_fit needs labels that are all known, or SoftTargets; fit takes partly known ones"
    )
