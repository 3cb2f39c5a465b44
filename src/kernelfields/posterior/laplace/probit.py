"""Marginals averaged over the posterior around a fit: log-odds shrunk by their variance.

    q_t(b) proportional to p_t(b)^(1 / T_t),    T_t = sqrt(1 + (pi / 8) v_t)
    v_t = sum_{b != a} p_t(b) Var log(p_t(a) / p_t(b)) / sum_{b != a} p_t(b),    a = argmax_b p_t(b)

For two labels and a Gaussian log-odds m with variance v, the mean of the logistic function is close to its value at
m / sqrt(1 + pi v / 8), as it is close to a probit (MacKay 1992); marginals p (n, L) of the fitted field get a
temperature T_t at each position in this way. With more labels v is that of the most probable label against the others,
by their weight; it stays the most probable.

Variances are those of log-marginals to first order in the coefficients, so that the evidence of neighbours and its
uncertainty are in them: derivatives along drawn deviations by central differences. Scaling node potentials instead
would hand the decision to the transitions.

Cost: a product and two passes of inference for each draw. Labels that meet no others need no passes. Fails: ValueError
where inference is approximate.
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
    """Shrink the log-odds of marginals (n, L) by their variance in the posterior around the fit."""
    refuse_approximate(answers.family, "uncertainty=True")
    marginals, data = answers.marginals, answers.data
    if not data.n_positions:
        return marginals
    return probit_marginals(marginals, odds_variances(field.family(data), field, answers, samples, workers))


@singledispatch
def odds_variances(
    family: LabelFamily, field: Field, answers: Answers, samples: LaplaceSamples, workers: Workers
) -> np.ndarray:
    """Return the variances (n, L) of the log-odds of the most probable label to the others."""
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


@odds_variances.register
def _of_single_labels(
    family: SingleFamily, field: Field, answers: Answers, samples: LaplaceSamples, workers: Workers
) -> np.ndarray:
    return label_variances(field, answers.data, samples, against=answers.marginals.argmax(axis=1))


def probit_marginals(marginals: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Return marginals (n, L) shrunk by the variances (n, L) of log-odds of the most probable label to others."""
    others = marginals.copy()
    np.put_along_axis(others, marginals.argmax(axis=1)[:, None], 0.0, axis=1)
    weights = others.sum(axis=1)
    doubt = np.einsum("ij,ij->i", others, variances) / np.maximum(weights, _SMALLEST)
    logs = _logs(marginals) / np.sqrt(1.0 + np.pi / 8.0 * doubt)[:, None]
    powers = np.where(marginals > 0.0, np.exp(logs - logs.max(axis=1, keepdims=True)), 0.0)
    return powers / powers.sum(axis=1, keepdims=True)


def _logs(marginals: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(marginals, _SMALLEST))
