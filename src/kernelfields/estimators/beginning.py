"""Beginnings of fits: reading of data, open parameters, and terms before the solve.

    estimator  ->  settled              what the structure of the data decides is given
    X, y       ->  read                 reader, data and classes
    data       ->  convert_storage      dense or sparse
               ->  scaling              on the requested scale
    parameters ->  choosing             the step that gives values to what is left to the data
               ->  cliques              what the field is made of
    sample     ->  terms                terms on the sample, and coefficients to start from

A fit from nothing learns all of these. One that goes on (going_on.py) knows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.engines.choice import learn_labelled
from kernelfields.engines.engine import Sample
from kernelfields.estimators.fit_state import FitState
from kernelfields.inputs.steps import ColumnSteps
from kernelfields.models.build import NamedCliques
from kernelfields.models.placed import FitStep
from kernelfields.numerics.parameters import get_open_parameters, should_learn_settings
from kernelfields.objective.designs.design import Design

#: Terms on a sample, and the coefficients to start from, None for zero.
Start: TypeAlias = tuple[list[Design], list[np.ndarray] | None]
# Any of these calls for short fits; what else is left to the data is chosen along with them, or has its usual value.
_JUDGED = {"kernel", "prior_variance", "scale"}


class Beginning(FitStep):
    """A fit from zero: learn the reader, choose parameters, select a basis for each term."""

    #: What it does around the solve: nothing; a beginning that goes on is a step of the fit itself, the innermost.
    steps: Sequence[FitStep] = ()

    def settle_estimator(self, estimator: Any) -> Any:
        """Return the estimator that reads the data, with the choices of an earlier fit."""
        return estimator

    def read(self, estimator: Any, X: object, y: object, sample_weight: object) -> tuple[Any, Any, np.ndarray]:
        """Return reader, labelled data and sorted classes."""
        structure = estimator.structure
        return learn_labelled(X, y, sample_weight, structure, structure.learn)

    def convert_storage(self, estimator: Any, reader: Any, data: Any, others: Any) -> Any:
        """Convert data to dense or sparse storage as the kernel needs it; ``others`` are further parts."""
        return estimator.structure.to_natural_sparsity(reader, data, others)

    def scaling_steps(self, estimator: Any, reader: Any, data: Any) -> ColumnSteps:
        """Return the steps that standardize columns, if requested."""
        if estimator.scale is not True:
            return ColumnSteps()
        from kernelfields.estimators.column_scales import learn_scale

        return learn_scale(estimator, reader, data, always=True)

    def choosing_steps(self, estimator: Any, steps: Sequence[FitStep], groups: ArrayLike | None) -> list[FitStep]:
        """Return the steps that choose open parameters; ``groups`` are the groups of items."""
        if (
            groups is None
            and not should_learn_settings(estimator)
            and _JUDGED.isdisjoint(get_open_parameters(estimator))
        ):
            return []
        from kernelfields.estimators.tuning import Tuning

        return [Tuning(self, steps, groups)]

    def cliques(self, estimator: Any, problem: FitState) -> NamedCliques:
        """Return the named clique sets of the field."""
        return estimator.structure.clique_sets(problem)

    def terms(self, estimator: Any, problem: FitState, sample: Sample, cliques: NamedCliques) -> Start:
        """Return the terms of the field on the sample, and their initial coefficients, None for zero."""
        return estimator.structure.designs(problem, sample, cliques), None


class PartOf(Beginning):
    """A fit to a part of data, with the columns and classes of all data."""

    def __init__(self, reader: Any, classes: np.ndarray):
        self.reader = reader
        self.classes = classes

    def read(self, estimator: Any, X: object, y: object, sample_weight: object) -> tuple[Any, Any, np.ndarray]:
        """Return reader, labelled data and the classes of all data."""
        return estimator.structure.learn(X, y, sample_weight, (self.reader, self.classes))


#: How a fit begins that knows of no other.
FROM_NOTHING = Beginning()
