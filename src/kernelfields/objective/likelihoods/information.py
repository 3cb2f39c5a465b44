"""The information that labels have about their inputs, in the place of a likelihood: what clusters maximise.

    I        = H(mean_t p_t) - mean_t H(p_t)             p_t: marginals of the label at t, means by weights w_t, sum 1
    dI/dp_t  = w_t log(p_t / mean_t p_t)
    dI/du    = Cov(phi, h),   h = sum_t log p_t(y_t) / mean(y_t)      u: potentials, phi: what they score

Regularised information maximisation (Gomes, Krause, Perona 2010): labels are to be sure of themselves at every
position and equally frequent over all. The gradient is one product with the Hessian of log Z, which every likelihood
with exact inference has; on chains it carries the information of a label about its neighbours. ``value`` is -I,
between -log L and 0, so that solvers, which minimise, see -I + ||theta||^2 / (2 s). It is not convex: no bound below
-log L is known.
"""

from __future__ import annotations

import numpy as np

from kernelfields.inference.family import Potentials
from kernelfields.objective.likelihoods.likelihood import Evaluation, Objective

# Probabilities below are zero; their logarithms are still numbers.
_LEAST = 1e-300


class InformationObjective(Objective):
    """Minus the information of a family's marginals about the inputs; there are no labels.

    ``weights`` of items (S,) are such that those of the positions add up to one.
    """

    convex = False

    @property
    def value_at_zero(self) -> float:
        """The value where all labels are equally likely everywhere: nothing is known."""
        return 0.0

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return -I, its gradient in the potentials, and the distribution behind them."""
        weights = self.weights[self.family.position_items]
        member = self.family.at(potentials, self._item_weights, self.workers)
        marginals = member.marginals()
        shares = weights @ marginals
        surprise = np.log(np.maximum(marginals, _LEAST))
        surprise -= np.log(np.maximum(shares, _LEAST))
        value = -float(np.einsum("t,ty,ty->", weights, marginals, surprise))
        direction = self.family.zeros()
        direction.node[...] = surprise
        gradient = member.covariance_product(direction)
        gradient.scale(-1.0)
        return Evaluation(value, gradient, member)

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Raise: second derivatives of the information are not there, and solvers of first order need none."""
        raise NotImplementedError("the information has no Hessian products: use limited-memory BFGS")
