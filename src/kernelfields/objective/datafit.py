"""Datafits: the negative log-likelihood of a sample as a function of the coefficients of its terms.

For terms c with features Z_c (n_c, r_c), coefficients V_c (r_c, q_c) and label factor A_c (L^k, q_c):

    potentials   = sum_c  scatter_c(Z_c V_c A_c^T)                     half a pass over the features
    likelihood   : value, residual and Hessian response in the potentials, no pass (likelihoods/)
    pulled back  = Z_c^T gather_c(residual) A_c                        half a pass

``passes`` counts full passes over all features, a product in one term counting for its share of the stored values.
Inference and reductions are float64. Potentials, residuals and distributions are those of the data of this process,
on its threads or its device. Second order and what the pivots do not span are questions of their own: ``curvature``
(clique_curvature.py) and ``outside`` (outside.py). A datafit of a part of the data is wrapped by one that adds up over
all processes (engines/together/summed.py).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from kernelfields.data.chains import Packed
from kernelfields.data.given_labels import KnownLabels
from kernelfields.inference.choice import FamilySpec, choose_family
from kernelfields.inference.family import LabelFamily
from kernelfields.inference.potentials import Placed, Potentials
from kernelfields.numerics.group import ALONE, Group
from kernelfields.numerics.memory import available_memory
from kernelfields.numerics.threads import Workers
from kernelfields.objective.clique_curvature import Curvature
from kernelfields.objective.coordinates import DenseSet
from kernelfields.objective.designs.design import (
    LocalDesign,
    runs_of_one_table,
    shared_pull_back,
    shared_scores,
)
from kernelfields.objective.likelihoods.likelihood import Evaluation, Likelihood, Objective
from kernelfields.objective.outside import OutsideSpan

# Tables of labels that meet, at a point, in a direction and at a trial, their residual, and three of inference.
_TABLE_ARRAYS = 7


class StepMemory(Protocol):
    """The steps of limited-memory BFGS."""

    def add(self, step: np.ndarray, change: np.ndarray, product: float) -> None:
        """Keep a step s, the change y of the gradient over it, and s . y > 0."""

    def inverse_product(self, vector: np.ndarray, free: np.ndarray | None = None) -> np.ndarray:
        """Return the quasi-Newton inverse Hessian times a vector; there must be a pair.

        With ``free`` (size,), it is that of these coordinates alone; the others are only scaled.
        """


#: Makes room for so many steps, given a metric (size,) of all coefficients and the sets that a Gram matrix measures.
StepRoom: TypeAlias = Callable[[int, np.ndarray, Sequence[DenseSet]], StepMemory]


class Partners(Protocol):
    """The other processes of a joint fit: starts of solvers, saved iterations, and reports of inference."""

    def start(self, theta: np.ndarray | None, size: int) -> np.ndarray | None:
        """Return the initial coefficients of the next solver: ``theta``, unless its fit is restarted after a loss."""

    def save_iteration(self, theta: np.ndarray) -> None:
        """Save the coefficients of an iteration."""

    def sentences(self, own: Sequence[str]) -> list[str]:
        """Return the distinct sentences of all processes."""


class Facts(NamedTuple):
    """Properties of a likelihood: convexity, the approximation of inference or None, sizes."""

    convex: bool
    approximation: str | None
    n_items: int
    n_positions: int


class Datafit:
    """The designs of a sample, and the likelihood of its labels: the data part of a posterior."""

    #: Steps that limited-memory BFGS should remember: more than a hundred save no passes, and forty take a tenth more.
    #: Pairs cost little beside a pass, on a device nothing.
    usual_pairs = 100
    #: Whether features and beliefs of all data are arrays of this process, to be cut and multiplied at will.
    is_local = True
    #: The processes among which a solver keeps its coefficients.
    group: Group = ALONE
    #: The processes of a joint fit, as one; none in a fit of one process.
    partners: Sequence[Partners] = ()
    #: Room of the engine for the steps that limited-memory BFGS remembers; None for the host's.
    step_room: StepRoom | None = None
    #: Passes that keep nothing per position, once a rule has asked for them (likelihoods/fused.py).
    fused: Any = None

    def __init__(self, likelihood: Objective, designs: Sequence[LocalDesign]):
        self.likelihood = likelihood
        self.designs = list(designs)
        #: Passes over the features so far.
        self.passes = 0.0
        self._stored_values = max(1, sum(design.stored_values for design in self.designs))

    def potentials(
        self, coefficients: Sequence[np.ndarray] | Mapping[int, np.ndarray], only: Sequence[int] | None = None
    ) -> Potentials:
        """Return the potentials of coefficients; ``only`` names the nonzero terms."""
        family = self.likelihood.family
        total = family.zeros()
        for run in runs_of_one_table(_select_designs(self.designs, only)):
            designs = [design for _, design in run]
            parts = [coefficients[index] for index, _ in run]
            scored = shared_scores(designs, parts, self.likelihood.workers)
            for design, scores in zip(designs, scored, strict=True):
                self.passes += 0.5 * design.stored_values / self._stored_values
                family.arrangement.add_scores(total, design, scores)
        return total

    def pull_back(self, residual: Potentials, only: Sequence[int] | None = None) -> list[np.ndarray]:
        """Turn a gradient in potentials into gradients in the coefficients of all terms, or of the terms ``only``."""
        gradients, family = list[np.ndarray](), self.likelihood.family
        for run in runs_of_one_table(_select_designs(self.designs, only)):
            designs = [design for _, design in run]
            self.passes += 0.5 * sum(design.stored_values for design in designs) / self._stored_values
            residuals = [family.arrangement.residuals(residual, design) for design in designs]
            gradients += shared_pull_back(designs, residuals, self.likelihood.workers)
        return gradients

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and beliefs at the given potentials, without a pass over features."""
        return self.likelihood.evaluate(potentials)

    def evaluate_with_slope(
        self, potentials: Potentials | None, direction: Potentials, furthest: float = 0.0
    ) -> tuple[Evaluation | None, float, float]:
        """Return the evaluation at some potentials, the slope in a direction, and the largest ``furthest``.

        The evaluation is None where a potential is not finite, or where some process has none to evaluate.
        """
        if potentials is None or not potentials.is_finite:
            return None, np.inf, furthest
        evaluation = self.evaluate(potentials)
        if not np.isfinite(evaluation.value):
            return None, np.inf, furthest
        return evaluation, evaluation.residual.dot(direction), furthest

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian of the likelihood in the potentials times a direction."""
        return self.likelihood.hessian_response(evaluation, direction)

    def with_likelihood(self, likelihood: Objective) -> Datafit:
        """Return the same designs with another likelihood of the labels."""
        other = copy.copy(self)
        other.likelihood, other.fused = likelihood, None
        return other

    @property
    def facts(self) -> Facts:
        """Properties of the likelihood, and the sizes of the data."""
        return describe_likelihood(self.likelihood)

    @property
    def curvature(self) -> Curvature:
        """The curvature for rules of second order."""
        return Curvature(self.likelihood, self.designs)

    @property
    def outside_span(self) -> OutsideSpan:
        """The gradient outside the span of the pivots, for certificates."""
        return OutsideSpan(self.likelihood, self.designs)


def describe_likelihood(likelihood: Objective) -> Facts:
    """Return the properties of a likelihood."""
    # Labels that meet no others are items of their own where some are not known.
    family = likelihood.family
    items = family if likelihood.whole is None else likelihood.whole.family
    return Facts(likelihood.convex, None if family.exact else family.method, items.n_items, family.n_positions)


def _select_designs(designs: Sequence[LocalDesign], only: Sequence[int] | None) -> list[tuple[int, LocalDesign]]:
    chosen = range(len(designs)) if only is None else only
    return [(index, designs[index]) for index in chosen]


def choose_objective(family: LabelFamily, data: Packed, workers: Workers | None = None) -> Objective:
    """Return the likelihood of labelled data: of complete labels, partial labels, or targets."""
    if data.labels is None:
        raise ValueError("a likelihood needs labelled data")
    objective = _likelihood(data.given, family, data, workers)
    objective.data = data
    return objective


@singledispatch
def _likelihood(given: object, family: LabelFamily, data: Packed, workers: Workers | None) -> Objective:
    """Return the likelihood of the given labels of data."""
    from kernelfields.objective.likelihoods.partial_likelihood import choose_partial

    return choose_partial(given, family, data, workers)


@_likelihood.register
def _of_labels(given: KnownLabels, family: LabelFamily, data: Packed, workers: Workers | None) -> Likelihood:
    weights = data.weights
    statistics = family.statistics(data.labelling, None if np.all(weights == 1.0) else weights)
    return Likelihood(family, statistics, weights, workers)


def choose_likelihood(
    data: Packed,
    placed: Sequence[Placed],
    spec: FamilySpec,
    workers: Workers | None = None,
    planned: LabelFamily | None = None,
) -> Objective:
    """Return the likelihood of labelled data for some clique sets; see ``choose_family`` for ``planned``.

    MemoryError where potentials do not fit.
    """
    family = choose_family(data, placed, spec, planned=planned)
    check_tables_fit(family)
    return choose_objective(family, data, workers)


def check_tables_fit(family: LabelFamily) -> None:
    """Raise MemoryError before a fit if a table of scores for every clique cannot fit in memory."""
    groups = [group for group in family.groups if len(group.row) > 1 and not group.tied]
    needed, available = _TABLE_ARRAYS * 8 * sum(group.n_rows * group.size for group in groups), available_memory()
    if available is not None and needed > available:
        raise MemoryError(
            "labels that meet and depend on the inputs need a table for every clique, of neighbours (L, L) scores at "
            f"every position: {needed / 2**30:,.1f} GiB for {sum(group.n_rows for group in groups):,} cliques and "
            f"{family.n_labels:,} labels, but {available / 2**30:,.1f} GiB are free. Leave out the edge kernel, or use "
            "fewer sequences or edges."
        )
