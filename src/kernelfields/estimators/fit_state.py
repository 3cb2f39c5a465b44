"""What a fit works on: labelled data, how they were read, where they go, and what is found on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Generic

import numpy as np

from kernelfields.engines.engine import Engine, PackedData, Sample, SampleSettings
from kernelfields.engines.together.placing import some_items
from kernelfields.estimators.questions import Data, Reader
from kernelfields.features.leakage import RepeatedLabels
from kernelfields.inference.choice import FamilySpec
from kernelfields.inputs.steps import ColumnSteps
from kernelfields.models.build import NamedCliques
from kernelfields.models.pilot_fit import Choices
from kernelfields.models.placed import FitStep
from kernelfields.models.structure import StructurePath
from kernelfields.objective.designs.design import Design
from kernelfields.objective.group import Group
from kernelfields.objective.term import Term
from kernelfields.solvers.choice import FitOptions
from kernelfields.solvers.loop import Iteration


@dataclass
class FitState(Generic[Data, Reader]):
    """What a fit works on: labelled data, how they were read, where they go, and what is found on the way."""

    reader: Reader
    data: Data
    classes: np.ndarray
    spec: FamilySpec
    engine: Engine
    options: FitOptions
    announce: Callable[[str], None]
    settings: SampleSettings
    #: Which of the items that were given have a weight, (S,); None where these are elsewhere.
    weighs: np.ndarray | None = None
    #: The data of a development set.
    held_out: Data | None = None
    #: The group of each item, which folds keep together; None where each is its own.
    groups: np.ndarray | None = None
    cliques: NamedCliques = ()
    #: What happens around the solve; nothing in a plain fit.
    steps: list[FitStep] = field(default_factory=list)
    structure_path: StructurePath | None = None
    #: The steps that bring columns to one scale, while it is open whether they should.
    scaling: ColumnSteps = field(default_factory=ColumnSteps)
    #: The prior variance of the linear part of categories beside numbers: 0 leaves it out, None is that of the field.
    categories: float | None = None
    #: What was left to the data, and what became of it.
    choices: Choices = field(default_factory=Choices)
    #: Columns of probabilities that repeat the labels.
    repeated: RepeatedLabels | None = None
    #: The terms of the pilot fit with the settings that were chosen.
    piloted: Sequence[Term] = ()

    def start_for(self, designs: Sequence[Design]) -> list[np.ndarray] | None:
        """Return the coefficients of the pilot fit where most are zero, as with l1, and belong to the same features."""
        if not any(term.l1 for term in self.piloted):
            return None
        alike = len(designs) == len(self.piloted) and all(
            design.term.support.complete and design.compress(term.known).shape == design.shape
            for design, term in zip(designs, self.piloted, strict=True)
        )
        return [term.known for term in self.piloted] if alike else None

    def place(self, data: PackedData, cliques: NamedCliques, beside: int | None = None, solved: bool = True) -> Sample:
        """Return data where the fit runs; the features of clique sets share its memory with ``beside`` positions."""
        n_terms = max(1, sum(clique.kernel is not None for _, clique in cliques))
        beside = self.settings.beside if beside is None else beside
        settings = replace(self.settings, n_terms=n_terms, beside=beside, solved=solved)
        return self.engine.place(data, self.spec, settings)

    def on_scale(self, data: PackedData, scale: bool) -> PackedData:
        """Return data whose columns come to one scale, or as they are."""
        return data.rewritten(self.scaling) if scale else data

    def scale_columns(self, scale: bool) -> None:
        """Bring columns to one scale, or leave them as they are, where that is open."""
        if scale:
            steps = self.scaling
            self.reader = replace(self.reader, steps=self.reader.steps.then(steps))
            self.data = changed(self.data, lambda data: data.rewritten(steps))
        self.scaling = ColumnSteps()

    def with_some(self, most: int) -> FitState[Data, Reader]:
        """Return the state of a fit to some items of about so many positions, all of them in this process."""
        if self.data.lie_with is not None:
            parts: Any = self.data
            return replace(self, data=parts.some(self.reader, most), engine=self.engine.alone)
        if self.data.n_positions <= most:
            return self
        chosen = some_items(self.data.lengths, most)
        groups = None if self.groups is None else self.groups[chosen]
        data: Any = self.data.subset(chosen)
        return replace(self, data=data, groups=groups)


def part_of(data: Any) -> Any:
    """Return the data of this process: all of them, or its part of a collection."""
    return data if data.lie_with is None else data.part


def among(data: Any) -> Group | None:
    """Return the processes that have parts of data; None where this one has all."""
    return None if data.lie_with is None else data.group


def changed(data: Any, change: Callable[[Any], Any]) -> Any:
    """Return data whose columns are changed, where they lie."""
    return change(data) if data.lie_with is None else data.changed(change(data.part))


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
