"""Marginals averaged over the posterior around a fit: log-odds shrunk by their variance.

    q_t(b) proportional to p_t(b)^(1 / T_t),    T_t = sqrt(1 + (pi / 8) v_t)
    v_t = sum_{b != a} p_t(b) Var log(p_t(a) / p_t(b)) / sum_{b != a} p_t(b),    a = argmax_b p_t(b)

For two labels and Gaussian log-odds with mean m and variance v, the mean of the logistic function is approximately its
value at m / sqrt(1 + pi v / 8), because it is close to a probit (MacKay 1992). This gives the temperature T_t of the
marginals p (n, L) at each position. With more labels v_t is the mean variance between the most probable label and the
others, weighted by their probabilities; the most probable label does not change.

Variances are those of log-marginals to first order in the coefficients, which includes the evidence of neighbours and
its uncertainty: central differences along sampled deviations. (Shrunk node potentials would leave the decision to the
transitions.)

Cost: a product and two passes of inference for each sample; no passes without edges. Raises ValueError for approximate
inference.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from kernelfields.inference.answers import Answers
from kernelfields.inference.choice import refuse_approximate
from kernelfields.inference.family import LabelFamily
from kernelfields.inference.potentials import Potentials
from kernelfields.inference.single import SingleFamily
from kernelfields.models.field import Field
from kernelfields.numerics.threads import Workers
from kernelfields.posterior.laplace.samples import LaplaceSamples, label_variances, potential_deviations

# Nudges along deviations are this long: derivatives by central differences, their error its square.
_NUDGE = 1e-3
# A probability of zero counts as this small one: the logarithm must exist.
_SMALLEST = np.finfo(np.float64).tiny


def shrink_marginals(field: Field, answers: Answers, samples: LaplaceSamples, workers: Workers) -> np.ndarray:
    """Shrink the log-odds of marginals (n, L) by their posterior variance."""
    refuse_approximate(answers.family, "uncertainty=True")
    marginals, data = answers.marginals, answers.data
    if not data.n_positions:
        return marginals
    return probit_marginals(marginals, log_odds_variances(field.family(data), field, answers, samples, workers))


@singledispatch
def log_odds_variances(
    family: LabelFamily, field: Field, answers: Answers, samples: LaplaceSamples, workers: Workers
) -> np.ndarray:
    """Return the posterior variances (n, L) of the log-odds between the most probable label and each other."""
    marginals, data = answers.marginals, answers.data
    centre, best = field.potentials(data, family, workers), marginals.argmax(axis=1)[:, None]

    def logs(step: float, direction: Potentials) -> np.ndarray:
        moved = Answers(data, family, centre.plus(step, direction), workers)
        return _logs(moved.condition(answers.known).marginals)

    variances = np.zeros_like(marginals)
    for direction in potential_deviations(field.terms, data, family, samples):
        slopes = (logs(_NUDGE, direction) - logs(-_NUDGE, direction)) / (2.0 * _NUDGE)
        variances += np.square(slopes - np.take_along_axis(slopes, best, axis=1))
    return variances


@log_odds_variances.register
def _single_label_variances(
    family: SingleFamily, field: Field, answers: Answers, samples: LaplaceSamples, workers: Workers
) -> np.ndarray:
    """Return the variances of log-odds without edges, from features alone."""
    return label_variances(field, answers.data, samples, against=answers.marginals.argmax(axis=1))


def probit_marginals(marginals: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Shrink marginals (n, L) by given variances (n, L) of log-odds between the most probable label and others."""
    others = marginals.copy()
    np.put_along_axis(others, marginals.argmax(axis=1)[:, None], 0.0, axis=1)
    weights = others.sum(axis=1)
    doubt = np.einsum("ij,ij->i", others, variances) / np.maximum(weights, _SMALLEST)
    logs = _logs(marginals) / np.sqrt(1.0 + np.pi / 8.0 * doubt)[:, None]
    powers = np.where(marginals > 0.0, np.exp(logs - logs.max(axis=1, keepdims=True)), 0.0)
    return powers / powers.sum(axis=1, keepdims=True)


def _logs(marginals: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(marginals, _SMALLEST))
