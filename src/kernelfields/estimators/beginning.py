"""How a fit begins: what is read, what is left open, and which terms there are before the solve.

    estimator  ->  settled              what the structure of the data decides is given
    X, y       ->  read                 reader, data and classes
    data       ->  in_kind, scaling     dense or sparse, and on the scale that is asked for
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

from kernelfields.engines.choice import reads_collections
from kernelfields.engines.engine import Sample
from kernelfields.estimators.fit_state import FitState
from kernelfields.inputs.steps import ColumnSteps
from kernelfields.models.build import NamedCliques
from kernelfields.models.placed import FitStep
from kernelfields.numerics.parameters import left_open
from kernelfields.objective.designs.design import Design

#: Terms on a sample, and the coefficients to start from, None for zero.
Start: TypeAlias = tuple[list[Design], list[np.ndarray] | None]
# Any of these calls for short fits; what else is left to the data is chosen along with them, or has its usual value.
_JUDGED = {"kernel", "prior_variance", "scale"}


class Beginning(FitStep):
    """A fit from nothing: the reader is learnt, parameters are chosen, a basis is selected for each term."""

    #: What it does around the solve: nothing; a beginning that goes on is a step of the fit itself, the innermost.
    steps: Sequence[FitStep] = ()

    def settled(self, estimator: Any) -> Any:
        """Return the estimator that reads the data: one in which nothing is open that an earlier fit has decided."""
        return estimator

    @reads_collections
    def read(self, estimator: Any, X: object, y: object, sample_weight: object) -> tuple[Any, Any, np.ndarray]:
        """Return reader, labelled data and sorted classes."""
        return estimator.structure.learn(X, y, sample_weight)

    def in_kind(self, estimator: Any, reader: Any, data: Any, others: Any) -> Any:
        """Return data dense or sparse, as suits the kernel if that is left open; ``others`` have further parts."""
        return estimator.structure.in_own_kind(reader, data, others)

    def scaling(self, estimator: Any, reader: Any, data: Any) -> ColumnSteps:
        """Return the steps that bring columns to one scale if that is asked for."""
        return estimator._learn_scale(reader, data, always=True) if estimator.scale is True else ColumnSteps()

    def choosing(self, estimator: Any, steps: Sequence[FitStep], groups: ArrayLike | None) -> list[FitStep]:
        """Return the steps, before others, that choose what is left to the data; ``groups`` are those of items."""
        if (
            groups is None
            and not estimator.decision_rule.learns(estimator)
            and _JUDGED.isdisjoint(left_open(estimator))
        ):
            return []
        from kernelfields.estimators.tuning import Tuning

        return [Tuning(self, steps, groups)]

    def cliques(self, estimator: Any, problem: FitState) -> NamedCliques:
        """Return the named clique sets of the field."""
        return estimator.structure.clique_sets(problem)

    def terms(self, estimator: Any, problem: FitState, sample: Sample, cliques: NamedCliques) -> Start:
        """Return the terms of the field on the sample, and the coefficients to start from, None for zero."""
        return estimator.structure.designs(problem, sample, cliques), None


class PartOf(Beginning):
    """A fit to a part of the data that another reader has seen, which have its columns and classes."""

    def __init__(self, reader: Any, classes: np.ndarray):
        self.reader = reader
        self.classes = classes

    def read(self, estimator: Any, X: object, y: object, sample_weight: object) -> tuple[Any, Any, np.ndarray]:
        """Return reader, labelled data and the classes of all."""
        return estimator.structure.learn(X, y, sample_weight, (self.reader, self.classes))


#: How a fit begins that knows of no other.
FROM_NOTHING = Beginning()
