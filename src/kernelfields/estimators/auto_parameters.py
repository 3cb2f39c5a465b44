"""What a fit works on, and parameters that are left to the data: scale of columns, kernel, prior variance.

    scale="auto"            columns come to one scale where their spreads differ much    features/scaling.py
    kernel="auto"           "linear" for features that are there or not, as those of words; "rbf" for numbers; where
                            columns were of different scales, as those of sensors are, "rbf" or "laplacian"
    prior_variance="auto"   a power of ten                                               models/pilot_fit.py

A Laplacian kernel adds up differences of columns instead of their squares: it can follow a single column while the
others differ, as trees can, which suits columns of different kinds. Which of the two kernels it is, and which
variance, is judged by the likelihood of a part of the data that short fits did not see.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from scipy.sparse import issparse

from kernelfields.engines.engine import Engine, PackedData, Sample, SampleSettings
from kernelfields.features.readers import ChainReader, GraphReader, InputReader, TableReader
from kernelfields.inference.choice import FamilySpec
from kernelfields.kernels.dot_product import Linear
from kernelfields.models.build import NamedCliques
from kernelfields.models.fit import DevelopmentSet, FitOptions
from kernelfields.numerics.parameters import is_auto
from kernelfields.solvers.loop import Iteration
from kernelfields.structure.search import StructurePath
from kernelfields.uncertainty.evidence.settings import EvidencePath, EvidenceSearch

#: Packed data of an estimator, and how it reads them.
Data = TypeVar("Data", bound=PackedData)
Reader = TypeVar("Reader", bound=ChainReader | GraphReader | TableReader)

# Kernels without a matrix product, such as the Laplacian, are for few columns.
_FEW_COLUMNS = 64


@dataclass
class Training(Generic[Data, Reader]):
    """What a fit works on: labelled data, how they were read, where they go, and what is found on the way."""

    reader: Reader
    data: Data
    classes: np.ndarray
    spec: FamilySpec
    engine: Engine
    options: FitOptions
    announce: Callable[[str], None]
    settings: SampleSettings
    #: Inputs and labels of a development set, as they were given.
    held_out: tuple[object, object] = (None, None)
    cliques: NamedCliques = ()
    optimize: EvidenceSearch | None = None
    development: DevelopmentSet | None = None
    structure_path: StructurePath | None = None
    evidence_path: EvidencePath | None = None
    #: The probability above which a label is predicted.
    threshold: float = 0.5

    def place(self, data: PackedData, cliques: NamedCliques, beside: int = 0, solved: bool = True) -> Sample:
        """Return data where the fit runs; the features of clique sets share its memory with ``beside`` positions."""
        n_terms = max(1, sum(clique.kernel is not None for _, clique in cliques))
        settings = replace(self.settings, n_terms=n_terms, beside=beside, solved=solved)
        return self.engine.place(data, self.spec, settings)


class NoProgress(AbstractContextManager):
    """Progress of a fit that shows nothing."""

    def __exit__(self, *exception: object) -> None:
        """Nothing to end."""

    def __call__(self, iteration: Iteration) -> None:
        """Show nothing."""

    def announce(self, text: str) -> None:
        """Show nothing."""


def stays_sparse(kernel: object, data: object) -> bool:
    """Whether sparse inputs are the features: threads skip what is not there, in half the time of a device."""
    linear = is_auto(kernel) or isinstance(kernel, Linear) or (isinstance(kernel, str) and kernel == "linear")
    return linear and issparse(getattr(data, "inputs", None))


def suitable_kernels(reader: InputReader) -> list[str]:
    """Return the kernels that may suit inputs of a kind, the first where there is nothing to choose by."""
    if reader.holds_features:
        return ["linear"]
    return ["rbf", "laplacian"] if reader.is_scaled and reader.n_features <= _FEW_COLUMNS else ["rbf"]
