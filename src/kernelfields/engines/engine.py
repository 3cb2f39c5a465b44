"""Engines: the places where fits run, and labelled data put there.

    Threads(memory="8GB")      the threads of this process
    Torch("cuda:1")            one device of PyTorch
    Dask(client)               the workers of a cluster

    engine.place(data, spec, settings) -> Sample        labelled data in a place
    sample.view(clique)                     -> View          what the cliques of a set see; the panel of its basis
    sample.design(term)                     -> Design        a term on the data
    sample.datafit(designs)                 -> Datafit       the likelihood in the coefficients of the terms

Nothing above a sample depends on where the arrays are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.basis.selection import Basis
from kernelfields.basis.subspace import Expansion
from kernelfields.data.chains import Items
from kernelfields.data.cliques import CliqueSet
from kernelfields.data.reading import Matrix
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.family import LabelFamily
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.group import ALONE, Group
from kernelfields.numerics.threads import Workers
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import Design, kernel_quadratic_form
from kernelfields.objective.term import Data, Term

#: Packed sequences, graphs or instances, with their labels where these are known.
PackedData: TypeAlias = Data


@dataclass(frozen=True)
class SampleSettings:
    """How labelled data are put in a place.

    ``dtype`` is the precision of features, None where the engine may choose it for a fit to the relative gap
    ``tol``. ``n_terms`` terms with features share the memory with those of data of ``beside`` more positions; data
    that are only looked at, such as a development set, are not ``solved``. ``group`` are the processes of which each
    has a part of the data.
    """

    dtype: np.dtype | None = None
    tol: float = 1e-3
    workers: Workers = field(default_factory=Workers)
    n_terms: int = 1
    beside: int = 0
    solved: bool = True
    group: Group = ALONE


class View(Protocol):
    """What the cliques of a set see of labelled data: a row for each."""

    n_rows: int
    #: The first row, (1, d), which has the kind and the width of the inputs.
    first_row: Matrix

    def resolved(self, kernel: Kernel) -> Kernel:
        """Return the kernel with rules that read the data turned into numbers."""

    def check_kernel(self, kernel: Kernel, random: np.random.Generator) -> None:
        """Raise if the kernel is not positive semi-definite on a random sample of rows."""

    def panel(self, kernel: Kernel, capacity: int) -> Any:
        """Return an empty panel for the columns of a basis."""


class Sample(Protocol):
    """Labelled data in a place."""

    spec: FamilySpec
    settings: SampleSettings
    n_positions: int

    def check_basis(self, name: str, basis: Basis) -> None:
        """Raise if a way of choosing pivots cannot be had here."""

    def view(self, name: str, clique: CliqueSet) -> View:
        """Return what the cliques of a set see."""

    def design(self, term: Term, view: Any = None, panel: Any = None) -> Design:
        """Return a term on the data; ``view`` and ``panel`` are those its features come from, where they are known."""

    def shared(self, design: Any, term: Term) -> Any:
        """Return the features of a design for another term, which sees the same rows."""

    def part(
        self, designs: Sequence[Design], items: Items, times: int = 1, dtype: np.dtype | None = None
    ) -> tuple[Any, list[Any]] | None:
        """Return some items, of so many times the weight, and designs of features that are there; None if not."""

    def single_labels(self) -> Any | None:
        """Return the same data without what labels meet in: no factors, no constraints; None where there are none."""

    def on_host(self) -> Sample:
        """Return the same data with all features in the memory of the host; ValueError where they cannot be."""

    def datafit(self, designs: Sequence[Design]) -> Datafit:
        """Return the likelihood of the data in the coefficients of some terms."""


class DeviceFamily(LabelFamily):
    """A family whose potentials are computed and stay away from the host, where they are inferred."""

    def scores(self, expansion: Expansion, inputs: Matrix) -> Any:
        """Return k(x, B) alpha for each row of inputs, (n, q), there."""
        raise NotImplementedError(f"{type(self).__name__} must define scores(expansion, inputs)")


class Engine(BaseEstimator):
    """A place where fits run, with its settings: ``Threads``, ``Torch`` or ``Dask``."""

    name: ClassVar[str] = ""

    def __sklearn_clone__(self) -> Engine:
        # A device or a cluster is shared by the clones of an estimator.
        return self

    @property
    def alone(self) -> Engine:
        """The engine on which this process works by itself: this one, unless several processes fit together."""
        return self

    def check(self) -> None:
        """Raise, before any work starts, if fits cannot run here."""

    def check_scoring(self) -> None:
        """Raise if new data cannot be scored here."""
        self.check()

    def same_random(self, random: np.random.Generator) -> np.random.Generator:
        """Return a generator of random numbers that draws the same ones in all processes of a fit."""
        return random

    def place(self, data: PackedData, spec: FamilySpec, settings: SampleSettings) -> Sample:
        """Return labelled data in this place."""
        raise NotImplementedError(f"{type(self).__name__} must define place(data, spec, settings)")

    def scores(self, expansion: Expansion, inputs: Matrix) -> np.ndarray:
        """Return k(x, B) alpha of new inputs, (n, q), on the host; ``expansion.placed`` keeps copies elsewhere."""
        return expansion.scores(inputs)

    def quadratic_form(self, kernel: Kernel, inputs: Matrix, residuals: np.ndarray) -> float:
        """Return tr R^T K R for residuals R (N, q), with the kernel matrix K of N inputs computed here."""
        return kernel_quadratic_form(kernel, inputs, residuals)

    def device_inference(self, family: LabelFamily) -> DeviceFamily | None:
        """Return the family that infers new data where their kernels are computed; None for the host."""
        return None
