"""The information that labels have about their inputs, in the place of a likelihood: what clusters maximise.

    I        = H(mean_t p_t) - mean_t H(p_t)             p_t: marginals of the label at t, means by weights w_t, sum 1
    dI/dp_t  = w_t log(p_t / mean_t p_t)
    dI/du    = Cov(phi, h),   h = sum_t log p_t(y_t) / mean(y_t)      u: potentials, phi: what they score

Regularised information maximisation (Gomes, Krause, Perona 2010): labels are to be sure of themselves at every
position and equally frequent over all. The gradient is one product with the Hessian of log Z, which every likelihood
with exact inference has; on chains it carries what a label says of its neighbours. ``value`` is -I, between -log L
and 0, so that solvers, which minimise, see -I + ||theta||^2 / (2 s). It is not convex: no bound below -log L is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.objective.likelihoods.likelihood import Evaluation, Likelihood
from kernelfields.objective.potentials import Placed, Potentials

# Probabilities below are zero; their logarithms are still numbers.
_LEAST = 1e-300


class InformationObjective:
    """Minus the information of a likelihood's marginals about the inputs; labels of the data do not count.

    ``weights`` (N,) are those of the positions, of sum one, and the likelihood's own.
    """

    approximation: str | None = None
    inference = None
    constrained = False
    convex = False

    def __init__(self, likelihood: Likelihood, weights: np.ndarray):
        self._likelihood = likelihood
        self._weights = weights
        self.n_labels = likelihood.n_labels
        self.workers = likelihood.workers
        self.layout = likelihood.layout
        self.doubts: list[str] = []

    @property
    def value_at_zero(self) -> float:
        """The value where all labels are equally likely everywhere: nothing is known."""
        return 0.0

    def clique_marginals(self, evaluation: Evaluation, term: Placed) -> np.ndarray:
        """Return the probabilities of the labellings of a set's cliques, (n, L^k)."""
        return self._likelihood.clique_marginals(evaluation, term)

    def clique_weights(self, term: Placed) -> np.ndarray:
        """Return the weight of every clique of a set, (n,)."""
        return self._likelihood.clique_weights(term)

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return -I, its gradient in the potentials, and the beliefs behind them."""
        evaluation = self._likelihood.evaluate(potentials)
        marginals = evaluation.beliefs.node_marginals
        shares = self._weights @ marginals
        surprise = np.log(np.maximum(marginals, _LEAST))
        surprise -= np.log(np.maximum(shares, _LEAST))
        value = -float(np.einsum("t,ty,ty->", self._weights, marginals, surprise))
        direction = self.layout.zeros()
        direction.node[...] = surprise
        gradient = self._likelihood.hessian_response(evaluation, direction)
        gradient.scale(-1.0)
        return Evaluation(value, gradient, evaluation.beliefs)

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Any:
        """Raise: second derivatives of the information are not there, and solvers of first order need none."""
        raise NotImplementedError("the information has no Hessian products: use limited-memory BFGS")
