"""Probabilities averaged over the posterior: means over draws, or log-odds shrunk as much as they are uncertain.

    q_t(b) proportional to p_t(b)^(1 / T_t),    T_t = sqrt(1 + (pi / 8) v_t)
    v_t = sum_{b != a} p_t(b) Var log(p_t(a) / p_t(b)) / sum_{b != a} p_t(b),    a = argmax_b p_t(b)

*sampling*: the mean of marginals over drawn coefficients. *probit*: for two labels and a Gaussian log-odds m with
variance v, the mean of the logistic function is close to its value at m / sqrt(1 + pi v / 8), as it is close to a
probit (MacKay 1992); marginals p (n, L) of the fitted field get a temperature T_t at each position in this way.
With more labels v is that of the most probable label against the others, by their weight; it stays the most
probable. Variances are those of log-marginals to first order in the coefficients, so that what neighbours say and
how sure that is are in them: derivatives along drawn deviations by central differences. Scaling node potentials
instead would hand the decision to the transitions.
Cost: one pass of inference for each draw, two for probit; labels that meet no others need none.
Fails: ValueError for a kind of uncertainty that does not exist, or with fewer than two draws for probit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from kernelfields.inference.answers import Answers
from kernelfields.inference.choice import refuse_approximate
from kernelfields.models.field import Field
from kernelfields.numerics.threads import Workers
from kernelfields.uncertainty.laplace.samples import LaplaceSamples, sampled_answers

# A probability of zero counts as this small one: the logarithm must exist.
_SMALLEST = np.finfo(np.float64).tiny


def resolve_uncertainty(uncertainty: Any, *, joint: bool = False) -> str | None:
    """Return "probit", "sampling" or None for what a user asks for; ``joint`` if several labels at once are."""
    if isinstance(uncertainty, bool | np.bool_):
        kind = "probit" if uncertainty else None
    elif isinstance(uncertainty, str) and uncertainty in ("probit", "sampling"):
        kind = uncertainty
    else:
        raise ValueError(f"uncertainty must be True, False, 'probit' or 'sampling', got {uncertainty!r}")
    if kind == "probit" and joint:
        raise ValueError(
            "joint marginals of several labels need uncertainty='sampling': the probit correction that "
            f"uncertainty={uncertainty!r} stands for is one of single labels"
        )
    return kind


def averaged_marginals(
    kind: str,
    marginals: np.ndarray,
    samples: LaplaceSamples,
    sampled: Callable[[LaplaceSamples], Iterable[np.ndarray]],
) -> np.ndarray:
    """Return marginals (n, L) averaged over the posterior, from those of the fit and those that some samples give."""
    if kind == "sampling":
        return mean_marginals(sampled(samples), samples.n_samples)
    nudged = samples.nudged()
    step, best = nudged.step, marginals.argmax(axis=1)[:, None]
    assert step is not None
    variances = np.zeros_like(marginals)
    pairs = iter(sampled(nudged))
    for ahead, back in zip(pairs, pairs, strict=True):
        slopes = (_logs(ahead) - _logs(back)) / (2.0 * step)
        variances += np.square(slopes - np.take_along_axis(slopes, best, axis=1))
    return probit_marginals(marginals, variances)


def averaged_answers(
    kind: str,
    batches: Iterable[Answers],
    field: Field,
    samples: LaplaceSamples,
    workers: Workers,
    group: str | None = None,
) -> Iterator[tuple[Any, np.ndarray, list[np.ndarray] | None]]:
    """Yield the data of batches with their marginals and those of a group of cliques, averaged over the posterior."""
    for answers in batches:
        if kind == "probit":
            refuse_approximate(answers.family, "uncertainty='probit'")
        joint: list[np.ndarray] | None = None

        def marginals(drawn: LaplaceSamples, answers: Answers = answers) -> Iterator[np.ndarray]:
            nonlocal joint
            for drawn_answers in sampled_answers(field, answers.data, drawn, workers):
                sampled = drawn_answers.given(answers.evidence)
                if group is not None:
                    parts = [rows / drawn.n_samples for rows in sampled.clique_marginals(group)]
                    joint = (
                        parts if joint is None else [mine + theirs for mine, theirs in zip(joint, parts, strict=True)]
                    )
                yield sampled.marginals

        yield answers.data, averaged_marginals(kind, answers.marginals, samples, marginals), joint


def mean_marginals(sampled: Iterable[np.ndarray], n_samples: int) -> np.ndarray:
    """Return the mean of marginals (n, L) that are computed one after the other."""
    return np.asarray(sum(sampled)) / n_samples


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
