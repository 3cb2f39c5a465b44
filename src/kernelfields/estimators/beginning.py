"""How a fit begins: what is read, what is left open, and which terms there are before the solve.

    estimator  ->  settled              what the structure of the data decides is given
    X, y       ->  read                 reader, data and classes
    data       ->  in_kind, scaling     dense or sparse, and the scale that columns could have
    problem    ->  chosen               parameters that were left to the data have values
               ->  cliques              what the field is made of
    sample     ->  terms                terms on the sample, and coefficients to start from

A fit from nothing learns all of these. One that goes on (going_on.py) knows them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from kernelfields.engines.choice import is_collection
from kernelfields.engines.engine import Sample
from kernelfields.estimators.auto_parameters import warn_of_uneven_columns, with_chosen_parameters
from kernelfields.estimators.fit_state import FitState
from kernelfields.models.build import NamedCliques
from kernelfields.models.placed import FitStep
from kernelfields.objective.designs.design import Design

#: Terms on a sample, and the coefficients to start from, None for zero.
Start: TypeAlias = tuple[list[Design], list[np.ndarray] | None]


class Beginning(FitStep):
    """A fit from nothing: the reader is learnt, parameters are chosen, a basis is selected for each term."""

    def settled(self, estimator: Any) -> Any:
        """Return the estimator that reads the data: one in which nothing is open that an earlier fit has decided."""
        return estimator

    def read(self, estimator: Any, X: object, y: object, sample_weight: object) -> tuple[Any, Any, np.ndarray]:
        """Return reader, labelled data and sorted classes."""
        if is_collection(X) or is_collection(y):
            return estimator._learn_collection(X, y, sample_weight)
        return estimator._learn(X, y, sample_weight)

    def in_kind(self, estimator: Any, reader: Any, data: Any, others: Any) -> Any:
        """Return data dense or sparse, as suits the kernel if that is left open; ``others`` have further parts."""
        return estimator._in_own_kind(reader, data, others)

    def scaling(self, estimator: Any, reader: Any, data: Any) -> Any:
        """Return the steps that may bring columns to one scale."""
        warn_of_uneven_columns(estimator, data)
        return estimator.learn_scale(reader, data)

    def chosen(self, estimator: Any, problem: FitState) -> Any:
        """Return a copy of the estimator with values for what was left to the data."""
        return with_chosen_parameters(estimator, problem)

    def cliques(self, estimator: Any, problem: FitState) -> NamedCliques:
        """Return the named clique sets of the field."""
        return estimator.clique_sets(problem)

    def terms(self, estimator: Any, problem: FitState, sample: Sample) -> Start:
        """Return the terms of the field on the sample, and the coefficients to start from, None for zero."""
        designs = estimator._designs(problem, sample)
        return designs, problem.start_for(designs)


class PartOf(Beginning):
    """A fit to a part of the data that another reader has seen, which have its columns and classes."""

    def __init__(self, reader: Any, classes: np.ndarray):
        self.reader = reader
        self.classes = classes

    def read(self, estimator: Any, X: object, y: object, sample_weight: object) -> tuple[Any, Any, np.ndarray]:
        """Return reader, labelled data and the classes of all."""
        return estimator._learn(X, y, sample_weight, (self.reader, self.classes))


#: How a fit begins that knows of no other.
FROM_NOTHING = Beginning()
