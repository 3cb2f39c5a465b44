"""What a fit works on: labelled data, how they were read, where they go, and what is found on the way."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np

from kernelfields.engines.engine import Engine, PackedData, Sample, SampleSettings
from kernelfields.estimators.questions import Data, Reader
from kernelfields.inference.choice import FamilySpec
from kernelfields.inputs.steps import ColumnSteps
from kernelfields.models.build import NamedCliques
from kernelfields.models.choices import NO_CHOICES
from kernelfields.models.placed import FitStep
from kernelfields.numerics.parameters import with_usual_values
from kernelfields.solvers.choice import FitOptions
from kernelfields.solvers.loop import Iteration
from kernelfields.structures import library


@dataclass
class FitRun:
    """How a fit is solved: where, with which options, and what happens around the solve."""

    engine: Engine
    settings: SampleSettings
    options: FitOptions
    #: Nothing in a plain fit.
    steps: Sequence[FitStep] = ()

    @property
    def held_out(self) -> Any:
        """Labelled data beside those of the fit, which a step has read; None without."""
        return next((step.held_out for step in self.steps if step.held_out is not None), None)

    def place(
        self, data: PackedData, spec: FamilySpec, n_terms: int, beside: int | None = None, solved: bool = True
    ) -> Sample:
        """Return data where the fit runs; features of ``n_terms`` share its memory with ``beside`` positions."""
        beside = self.settings.beside if beside is None else beside
        settings = replace(self.settings, n_terms=n_terms, beside=beside, solved=solved)
        return self.engine.place(data, spec, settings)


@dataclass
class FitState(Generic[Data, Reader]):
    """What a fit works on: an estimator, labelled data and how they were read, and how they are fitted."""

    #: As it is fitted: nothing of it is left to the data, and it has what became of that.
    estimator: Any
    reader: Reader
    data: Data
    classes: np.ndarray
    spec: FamilySpec
    run: FitRun

    def place(self, data: PackedData, cliques: NamedCliques, beside: int | None = None, solved: bool = True) -> Sample:
        """Return data where the fit runs, for the features of clique sets."""
        n_terms = max(1, sum(clique.kernel is not None for _, clique in cliques))
        return self.run.place(data, self.spec, n_terms, beside, solved)

    def read_beside(self, X: object, y: object) -> Data:
        """Return a development set as data like those of the fit; ValueError or TypeError if they do not fit."""
        structure = self.estimator.structure.with_reader(self.reader, self.classes, self.spec)
        try:
            data = structure.read_labelled(X, structure.training_labels(y))
        except (TypeError, ValueError) as error:
            raise type(error)(f"development set: {error}") from error
        library.check_labels(data, self.spec, self.classes)
        if (repeated := self.estimator._repeated) is not None:
            repeated.warn(self.reader.steps.undo(data.inputs))
        return data


def rewritten(reader: Any, data: Any, steps: ColumnSteps) -> tuple[Any, Any]:
    """Return a reader with further steps, and the data that it has read after these."""
    if not steps.tables:
        return reader, data
    reader = replace(reader, steps=reader.steps.extended(steps))
    return reader, data.changed(lambda own: own.rewritten(steps))


def with_usual_choices(estimator: Any) -> Any:
    """Return a copy of an estimator with usual values of what is left to the data, of which nothing has been tried."""
    usual = with_usual_values(estimator)
    usual.choices_, usual._repeated = NO_CHOICES, None
    return usual


class NoProgress(AbstractContextManager):
    """Progress of a fit that shows nothing."""

    def __exit__(self, *exception: object) -> None:
        """Nothing to end."""

    def __call__(self, iteration: Iteration) -> None:
        """Show nothing."""

    def announce(self, text: str) -> None:
        """Show nothing."""

    def choosing(self) -> None:
        """Show nothing."""

    def fitting(self) -> None:
        """Show nothing."""
