"""Likelihoods and label structures: what a fit asks of labelled data, and what decides which labels meet.

    value    = sum_i weight_i (log Z_i - score_i(y^i))
    residual = weight * (marginals - one-hot labels)      its gradient in the potentials

A :class:`LabelStructure` says which labels meet and how they are inferred: chains, graphs, several labels of an
instance, single labels. For data and the terms that score them it gives a layout of potentials, a likelihood (of
labelled data), and answers (about new data); everything else in a field is the same for all structures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kernelfields.fields.allowed import AllowedLabels
from kernelfields.fields.chains import Chains
from kernelfields.fields.constraints import ConstraintMasks
from kernelfields.inference.answers import Answers
from kernelfields.inference.beliefs import GraphInference
from kernelfields.numerics.threads import Workers
from kernelfields.objective.potentials import Placed, Potentials


@dataclass
class Evaluation:
    """Value and gradient at some potentials, and the beliefs behind them."""

    value: float
    residual: Potentials
    beliefs: Any


class Layout(Protocol):
    """Where the scores of terms go in potentials, and where their residuals come from."""

    def zeros(self) -> Potentials:
        """Return potentials of zero, in the right shapes."""

    def add_scores(self, potentials: Potentials, term: Placed, scores: np.ndarray) -> None:
        """Add the scores of a term's cliques, (n, L^k), or one row for all of them."""

    def clique_residuals(self, residual: Potentials, term: Placed) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a term, summed over them if it is tied."""


class Residence(Protocol):
    """A place away from the host where the potentials of new data stay."""

    layout: Any

    def scores(self, expansion: Any, inputs: Any) -> Any:
        """Return k(x, B) alpha for each row of inputs, (n, q), there."""

    def answers(self, structure: Any, data: Any, potentials: Any, workers: Workers) -> Answers:
        """Return what can be asked of data with potentials there, constraints not included."""


class Likelihood(Protocol):
    """The negative log-likelihood of labelled data as a function of potentials."""

    n_labels: int
    workers: Workers
    #: How approximate inference is called, None where it is exact.
    approximation: str | None
    #: Whether the value is convex in the potentials, as it is where labels, or targets for them, are known.
    convex: bool
    #: What approximate inference said of its last answer: sentences such as that it did not converge.
    doubts: list[str]

    @property
    def inference(self) -> GraphInference | None:
        """How labels are inferred, where there is a choice."""

    @property
    def layout(self) -> Layout:
        """Where scores go in the potentials."""

    @property
    def value_at_zero(self) -> float:
        """The value where all potentials are zero, constraints aside."""

    @property
    def constrained(self) -> bool:
        """Whether some labellings are forbidden."""

    def clique_marginals(self, evaluation: Evaluation, term: Placed) -> np.ndarray:
        """Return the probabilities of the labellings of a term's cliques, (n, L^k)."""

    def clique_weights(self, term: Placed) -> np.ndarray:
        """Return the weight of every clique of a term, (n,)."""

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and beliefs."""

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian in the potentials times a direction."""


class CountedLabellings:
    """Chains whose labellings can be counted: all, or those that constraints and lists of allowed labels leave."""

    chains: Chains
    n_labels: int
    workers: Workers
    masks: ConstraintMasks | None
    allowed: AllowedLabels | None = None

    @property
    def value_at_zero(self) -> float:
        """The value where all potentials are zero and all labellings that are allowed equally likely."""
        return float(self.chains.weights @ self._log_labellings())

    def _log_labellings(self) -> np.ndarray:
        """Return the logarithm of how many labellings each chain may have, (S,)."""
        if self.allowed is None and self.masks is None:
            return self.chains.lengths * np.log(self.n_labels)
        if self.allowed is None:
            assert self.masks is not None
            return self.masks.log_labellings(self.chains.lengths)
        from kernelfields.inference.chain.allowed import infer_allowed

        edge = np.zeros((1, self.n_labels, self.n_labels)) if self.masks is None else self.masks.edge[None]
        scores = np.zeros(len(self.allowed.labels))
        return infer_allowed(
            scores, edge, self.chains.offsets, self.allowed, steps=False, workers=self.workers
        ).log_partition


class LabelStructure(Protocol):
    """Which labels meet, and how they are inferred."""

    @property
    def n_labels(self) -> int:
        """Number of labels."""

    def layout(self, data: Any, /, placed: Sequence[Placed]) -> Layout:
        """Return where the scores of terms go in the potentials of data."""

    def plan(self, data: Any, /, layout: Any = None) -> GraphInference | None:
        """Return how data are inferred; None where there is no choice, or it depends on a layout not given."""

    def likelihood(
        self, data: Any, /, placed: Sequence[Placed], workers: Workers, plan: GraphInference | None = None
    ) -> Likelihood:
        """Return the likelihood of labelled data scored by some terms; ``plan`` as :meth:`plan` gave it."""

    def constrained(self, data: Any, /, layout: Any, potentials: Potentials) -> Potentials:
        """Return potentials with minus infinity where something is forbidden; they may be changed in place."""

    def answers(
        self, data: Any, /, layout: Any, potentials: Potentials, workers: Workers, plan: GraphInference | None = None
    ) -> Answers:
        """Return what can be asked of data with the potentials of a field, constraints included."""

    def batches(self, data: Any, /, terms: Sequence[Any], size: int | None = None) -> Iterator[Any]:
        """Cut data into batches of whole sequences, graphs or instances whose potentials fit in memory.

        ``size`` is about how many positions, rows or values of potentials a batch has; None for the usual number.
        """
