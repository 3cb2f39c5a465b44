"""What a fit works on, and parameters that are left to the data: scale of columns, kernel, prior variance.

    scale="auto"            columns come to one scale where their spreads differ much    features/scaling.py
    kernel="auto"           "linear" for features that are there or not, as those of words; "rbf" for numbers; where
                            columns were of different scales, as those of sensors are, "rbf" or "laplacian"
    prior_variance="auto"   a power of ten                                               models/pilot_fit.py

A Laplacian kernel adds up differences of columns instead of their squares: it can follow a single column while the
others differ, as trees can, which is what columns of different kinds ask for. Which of the two kernels it is, and which
variance, is judged by the likelihood of a part of the data that short fits did not see.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from scipy.sparse import issparse

from kernelfields.engines.engine import Engine, Sample, SampleSettings
from kernelfields.features.scaling import uneven_spreads
from kernelfields.fields.chains import Chains
from kernelfields.inference.choice import FamilySpec
from kernelfields.kernels.dot_product import Linear
from kernelfields.kernels.registry import has_no_scale, has_one_scale
from kernelfields.models.build import NamedCliques, name_cliques
from kernelfields.models.field import Field
from kernelfields.models.fit import DevelopmentSet, FitOptions
from kernelfields.models.pilot_fit import FALLBACK, PilotFit, split
from kernelfields.numerics.parameters import is_auto
from kernelfields.objective.designs.design import Design
from kernelfields.solvers.loop import Iteration
from kernelfields.structure.candidates import default_candidates, learn_chain_cliques, resolve_search
from kernelfields.structure.search import StructurePath, StructureSearch
from kernelfields.uncertainty.evidence.settings import EvidencePath, EvidenceSearch

# Kernels without a matrix product, such as the Laplacian, are for few columns.
_FEW_COLUMNS = 64


class Settled(Protocol):
    """What is asked of an estimator whose parameters are left to the data."""

    kernel: Any
    prior_variance: Any
    scale: Any
    field_: Field

    @property
    def _learns_in_pilot(self) -> bool:
        """Whether there is more to learn from a pilot fit than the kernel and the prior variance."""

    @property
    def _continues(self) -> bool:
        """Whether a fit goes on from the present coefficients."""

    def _names_cliques(self) -> bool:
        """Whether clique sets describe the field, so that kernel and prior variance are not used."""

    def _for_pilot(self) -> Self:
        """Return a copy for short fits on a part of the data."""

    def _family_spec(self, classes: np.ndarray, data: Any) -> FamilySpec:
        """Return what decides the family of labellings."""

    def _cliques(self, training: Training) -> NamedCliques:
        """Return the named clique sets of the field."""

    def _term_variances(self, training: Training) -> list[float]:
        """Return the prior variance of each term, in the order of ``_designs``."""

    def _designs(self, training: Training, sample: Sample) -> tuple[list[Design], list[np.ndarray] | None]:
        """Return the terms of the field on a sample, and the coefficients to start from."""

    def _learn_from_pilot(self, training: Training, field: Field, held_out: Any) -> None:
        """Take note of what a field, fitted to a part of the data, predicts for a part that was held out."""


Estimator = TypeVar("Estimator", bound=Settled)


@dataclass
class Training:
    """What a fit works on: labelled data, how they were read, where they go, and what is found on the way."""

    reader: Any
    data: Any
    classes: np.ndarray
    spec: FamilySpec
    engine: Engine
    options: FitOptions
    say: Callable[[str], None]
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

    def place(self, data: Any, cliques: NamedCliques, beside: int = 0, solved: bool = True) -> Sample:
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

    def say(self, text: str) -> None:
        """Show nothing."""


def warn_of_uneven_columns(estimator: Settled, data: Any) -> None:
    """Warn where one column drowns the others in the distances of a kernel whose scale the user has chosen."""
    if not is_auto(estimator.scale) or not has_one_scale(estimator.kernel) or not hasattr(data, "inputs"):
        return
    uneven = uneven_spreads(data.inputs, getattr(data, "position_weights", data.weights)[: data.inputs.shape[0]])
    if uneven is not None:
        warnings.warn(
            f"columns have very different spreads, {uneven[0]:.3g} is usual and {uneven[1]:.3g} the largest, and "
            f"{estimator.kernel!r} takes a difference of one to mean as much in each: scale=True brings them to one "
            "scale, scale=False says that this is meant",
            stacklevel=5,
        )


def scales(estimator: Settled, data: Any) -> bool:
    """Whether columns are brought to one scale, always or where they need it; not where data lie on a cluster."""
    if not hasattr(data, "inputs"):
        if estimator.scale is True:
            raise ValueError("scale=True is for data of this process: scale the partitions of a collection before")
        return False
    return has_no_scale(estimator.kernel) if is_auto(estimator.scale) else bool(estimator.scale)


def stays_sparse(kernel: Any, data: Any) -> bool:
    """Whether sparse inputs are the features: threads skip what is not there, in half the time of a device."""
    linear = is_auto(kernel) or kernel == "linear" or isinstance(kernel, Linear)
    return linear and issparse(getattr(data, "inputs", None))


def settle(estimator: Estimator, training: Training) -> Estimator:
    """Return a copy of an estimator in which what was left to the data is settled."""
    settled = copy.copy(estimator)
    path = is_auto(estimator.prior_variance)
    kernels = suitable_kernels(training.reader) if is_auto(estimator.kernel) else [estimator.kernel]
    settled.kernel, settled.prior_variance = kernels[0], FALLBACK if path else estimator.prior_variance
    if not (path or len(kernels) > 1 or estimator._learns_in_pilot):
        return settled
    if estimator._continues:
        term = next(term for term in estimator.field_.terms if term.clique.kernel is not None)
        settled.kernel = term.clique.kernel if is_auto(estimator.kernel) else estimator.kernel
        settled.prior_variance = term.prior_variance if path else estimator.prior_variance
        return settled
    if estimator._names_cliques() or training.optimize is not None:
        return settled
    if (parts := split(training.data)) is not None:
        what = " and ".join(["the kernel"] * (len(kernels) > 1) + ["the prior variance"] * path) or "a threshold"
        training.say(f"choosing {what} on a part of the data")
        _pilot(settled, training, parts, kernels, path)
    return settled


def suitable_kernels(reader: Any) -> list[str]:
    """Return the kernels that may suit inputs of a kind, the first where there is nothing to choose by."""
    if reader.holds_features:
        return ["linear"]
    return ["rbf", "laplacian"] if reader.is_scaled and reader.n_features <= _FEW_COLUMNS else ["rbf"]


def _pilot(settled: Settled, training: Training, parts: tuple[Any, Any], kernels: list[Any], path: bool) -> None:
    """Set the kernel and, along a path, the prior variance under which held-out data are most likely."""
    options = replace(training.options, random=np.random.default_rng(0))
    piloted = settled._for_pilot()
    spec = piloted._family_spec(training.classes, training.data)
    found = []
    for kernel in kernels:
        piloted.kernel = kernel
        say = partial(_say_of, training.say, kernel) if len(kernels) > 1 else training.say
        scene = replace(training, spec=spec, options=options, say=_say_nothing, development=None)
        scene.cliques = piloted._cliques(scene)
        found.append(_pilot_fit(piloted, scene, say).choose(*parts, path=path))
    best = min(range(len(kernels)), key=lambda place: found[place].loss)
    settled.kernel = kernels[best]
    if path:
        settled.prior_variance = found[best].variance
    settled._learn_from_pilot(training, Field(found[best].terms, spec), parts[1])


def _pilot_fit(piloted: Settled, scene: Training, say: Callable[[str], None]) -> PilotFit:
    def variances_of(variance: float) -> list[float]:
        varied = copy.copy(piloted)
        varied.prior_variance = variance
        return varied._term_variances(scene)

    return PilotFit(
        lambda data, solved: scene.place(data, scene.cliques, solved=solved),
        lambda sample: piloted._designs(scene, sample)[0],
        variances_of,
        say,
    )


def _say_of(say: Callable[[str], None], kernel: str, text: str) -> None:
    say(f"{kernel}: {text}")


def _say_nothing(text: str) -> None:
    """Progress that nobody asked for."""


def learnt_cliques(
    cliques: StructureSearch | str,
    prior_variance: Any,
    window: int | tuple[int, int],
    training: Training,
    described: Any,
    held_out: Chains | None,
) -> NamedCliques:
    """Return the clique sets of cliques="learn": those described, and the candidates that bring most (Remark 11)."""
    if not isinstance(training.data, Chains):
        raise ValueError(
            "cliques='learn' needs sequences of this process: learn on a part of the data, then name the sets"
        )
    search = resolve_search(cliques)
    candidates = search.candidates
    if candidates is None:
        candidates = default_candidates(prior_variance, window, len(training.classes))
    named = name_cliques([*described, *candidates])
    chosen, training.structure_path = learn_chain_cliques(
        search,
        described,
        candidates,
        training.data,
        held_out,
        place_chains=lambda chains: training.place(chains, named),
        options=replace(training.options, watch=None, criteria=None),
        say=training.say,
    )
    return chosen
