"""What a fit works on, and parameters that are left to the data.

    parameter         "auto" is judged on held-out data among                    where there is too little of them
    scale             False, True          where spreads of columns differ much   True for up to 64 columns
    kernel            "linear" for features that are there or not, as those of    the first
                      words; "rbf" for numbers; where columns come to one scale,
                      as those of sensors do, also "laplacian" and, where all
                      labels are known, "forest", and the sum of the best two
    prior_variance    powers of ten                                              1
    support, l1       of features that are there or not, beside the variance      "all", 0
    rank              500, 1000           where more positions are there          1000
    decode            Viterbi, posterior  under constraints                       Viterbi

Candidates are compared by the likelihood of a part of the data that short fits did not see (models/pilot_fit.py), the
last one by the share of right labels. A Laplacian kernel adds up differences of columns instead of their squares: it
can follow a single column while the others differ, as trees can, which suits columns of different kinds. The trees of a
forest are grown on the part that is learnt from, so that what they make of the part held out is judged as fairly.
A sum of kernels is tried at the prior variance of the best one: its functions are sums of functions of both kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Generic, TypeAlias

import numpy as np
from scipy.sparse import issparse

from kernelfields.data.chains import Chains
from kernelfields.data.readers import InputReader
from kernelfields.data.scaling import FEW_COLUMNS, learn_scaling
from kernelfields.engines.engine import Engine, PackedData, Sample, SampleSettings
from kernelfields.estimators.questions import Data, Reader
from kernelfields.features.leakage import RepeatedLabels
from kernelfields.features.window_features import WIDTHS, window_columns
from kernelfields.inference.choice import FamilySpec
from kernelfields.kernels.dot_product import Linear
from kernelfields.models.build import NamedCliques
from kernelfields.models.fit import DevelopmentSet, FitOptions
from kernelfields.models.pilot_fit import Choices, Settings
from kernelfields.numerics.parameters import is_auto
from kernelfields.objective.designs.design import Design
from kernelfields.objective.term import Term
from kernelfields.posterior.evidence.settings import EvidencePath, EvidenceSearch
from kernelfields.solvers.loop import Iteration
from kernelfields.structure.search import StructurePath

#: Data that are learnt from and data to judge by.
Parts: TypeAlias = "tuple[PackedData, PackedData]"
# WindowFeatures makes ten columns of one.
_FEW_FOR_WINDOWS = 8


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
    #: How the reader would bring columns to one scale, while it is open whether it should.
    scaling: Reader | None = None
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
            design.term.support is None and design.compress(term.known).shape == design.shape
            for design, term in zip(designs, self.piloted, strict=True)
        )
        return [term.known for term in self.piloted] if alike else None

    def place(self, data: PackedData, cliques: NamedCliques, beside: int = 0, solved: bool = True) -> Sample:
        """Return data where the fit runs; the features of clique sets share its memory with ``beside`` positions."""
        n_terms = max(1, sum(clique.kernel is not None for _, clique in cliques))
        settings = replace(self.settings, n_terms=n_terms, beside=beside, solved=solved)
        return self.engine.place(data, self.spec, settings)

    def on_scale(self, parts: Parts, scale: bool) -> Parts:
        """Return parts of the data whose columns come to one scale, or as they are."""
        if not scale or self.scaling is None:
            return parts
        # Each reader scales the kind of data that it reads.
        return tuple(map(self.scaling.scaled, parts))  # type: ignore[arg-type, return-value]

    def scale_columns(self, scale: bool) -> None:
        """Bring columns to one scale, or leave them as they are, where that is open."""
        if self.scaling is not None and scale:
            self.reader, self.data = self.scaling, self.scaling.scaled(self.data)  # type: ignore[arg-type, assignment]
        self.scaling = None


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


def suitable_kernels(reader: InputReader, scaled: bool) -> list[str]:
    """Return the kernels that may suit inputs of a kind, the first where there is nothing to choose by."""
    if reader.holds_features:
        return ["linear"]
    # Kernels without a matrix product, such as the Laplacian, are for few columns.
    return ["rbf", "laplacian"] if scaled and reader.n_features <= FEW_COLUMNS else ["rbf"]


def usual_scale(training: Training) -> bool:
    """Whether columns come to one scale where that is open and there is too little to judge it by: if they are few."""
    return training.scaling is not None and training.reader.n_features <= FEW_COLUMNS


def input_candidates(training: Training, kernel_open: bool, tied: bool = False) -> list[dict[str, object]]:
    """Return what scale of the columns and kernel may be, as far as they are open; first what is usual.

    Trees compare single columns, so that they do not suit ``tied`` labels, with which columns change places.
    """
    # Collections of a cluster have their labels elsewhere.
    labels_known = getattr(training.data, "certain_labels", None) is not None
    scales: list[bool | None] = [None]
    if training.scaling is not None:
        usual = usual_scale(training)
        scales = [usual, not usual]
    candidates: list[dict[str, object]] = []
    for scale in scales:
        own: dict[str, object] = {} if scale is None else {"scale": scale}
        kernels = suitable_kernels(training.reader, bool(scale) or training.reader.is_scaled) if kernel_open else []
        if "laplacian" in kernels and labels_known and not tied:
            kernels = [*kernels, "forest"]
        candidates += [{**own, "kernel": kernel} for kernel in kernels] or [own]
    return candidates


def suits_windows(parts: Parts) -> bool:
    """Whether statistics over windows may add something: sequences are long, columns of numbers few."""
    train = parts[0]
    if type(train) is not Chains or issparse(train.inputs) or train.inputs.shape[1] > _FEW_FOR_WINDOWS:
        return False
    return float(np.median(train.lengths)) >= max(WIDTHS)


def windowed(parts: Parts, scale: bool) -> Parts:
    """Return parts of the data as WindowFeatures makes them, their columns on one scale or as they are."""
    train, held_out = (np.asarray(part.inputs, dtype=np.float64) for part in parts)
    train, held_out = (
        np.hstack([rows, window_columns(rows, part.offsets)])
        for rows, part in zip((train, held_out), parts, strict=True)
    )
    scaling = learn_scaling(train, parts[0].position_weights, always=True) if scale else None
    if scaling is not None:
        train, held_out = scaling(train), scaling(held_out)
    return replace(parts[0], inputs=train), replace(parts[1], inputs=held_out)


def sums_of_kernels(ranked: Sequence[Settings]) -> list[dict[str, object]]:
    """Return the kernel of the best settings plus the next best one, if another came close on the same scale."""
    best, *others = ranked
    close = [own["kernel"] for own in others if "kernel" in own and own.get("scale") == best.get("scale")]
    return [{"kernel": f"{best['kernel']} + {kernel}"} for kernel in close[:1]]
