"""The state of a fit: labelled data, their reader, their engine, and findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np

from kernelfields.engines.engine import Engine, PackedData, Sample, SampleSettings
from kernelfields.inference.choice import FamilySpec
from kernelfields.inputs.steps import ColumnSteps
from kernelfields.models.build import NamedCliques
from kernelfields.models.choices import NO_CHOICES
from kernelfields.models.placed import FitStep, FittedField
from kernelfields.numerics.parameters import with_usual_values
from kernelfields.solvers.choice import FitOptions
from kernelfields.structures import library
from kernelfields.structures.structure import Data, Reader


@dataclass
class FitRun:
    """The run of a fit: engine, options, and steps around the solve."""

    engine: Engine
    settings: SampleSettings
    options: FitOptions
    #: Nothing in a plain fit.
    steps: Sequence[FitStep] = ()

    @property
    def held_out(self) -> Any:
        """Labelled data that a step holds out; None if no step does."""
        return next((step.held_out for step in self.steps if step.held_out is not None), None)

    def place(
        self, data: PackedData, spec: FamilySpec, n_terms: int, beside: int | None = None, solved: bool = True
    ) -> Sample:
        """Put data on the engine of the fit; features of ``n_terms`` share its memory with ``beside`` positions."""
        beside = self.settings.beside if beside is None else beside
        settings = replace(self.settings, n_terms=n_terms, beside=beside, solved=solved)
        return self.engine.place(data, spec, settings)


@dataclass
class FitState(Generic[Data, Reader]):
    """The state of a fit: an estimator, labelled data, their reader and their run."""

    #: As it is fitted: nothing of it is left to the data, and it has what became of that.
    estimator: Any
    reader: Reader
    data: Data
    classes: np.ndarray
    spec: FamilySpec
    run: FitRun

    def place(self, data: PackedData, cliques: NamedCliques, beside: int | None = None, solved: bool = True) -> Sample:
        """Put data on the engine of the fit, for the features of clique sets."""
        n_terms = max(1, sum(clique.kernel is not None for _, clique in cliques))
        return self.run.place(data, self.spec, n_terms, beside, solved)

    def keep_fitted(self, estimator: Any, fitted: FittedField) -> Any:
        """Set the fitted attributes of an estimator, and return it."""
        return estimator._keep_fitted(self, fitted)

    def read_validation_data(self, X: object, y: object) -> Data:
        """Read a development set like the data of the fit; ValueError or TypeError if the two differ in kind."""
        structure = self.estimator.structure.with_reader(self.reader, self.classes, self.spec)
        try:
            data = structure.read_labelled(X, structure.training_labels(y))
        except (TypeError, ValueError) as error:
            raise type(error)(f"development set: {error}") from error
        library.check_labels(data, self.spec, self.classes)
        if (repeated := self.estimator._repeated) is not None:
            repeated.warn(self.reader.steps.undo(data.inputs))
        return data


def add_steps(reader: Any, data: Any, steps: ColumnSteps) -> tuple[Any, Any]:
    """Add steps to a reader; return it and the transformed data."""
    if not steps.tables:
        return reader, data
    reader = replace(reader, steps=reader.steps.with_steps(steps))
    return reader, data.apply(lambda own: own.apply_steps(steps))


def with_usual_choices(estimator: Any) -> Any:
    """Return a copy of an estimator with default values of open parameters."""
    usual = with_usual_values(estimator)
    usual.choices_, usual._repeated = NO_CHOICES, None
    return usual
