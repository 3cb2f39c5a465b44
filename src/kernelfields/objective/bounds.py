"""Lower bounds on the minimum, and certificates of the distance from it (Lemma 9, Corollary 10).

    min P >= P(theta) - sum_c (s_c / 2) ||grad_c||^2

*span*: the norm is that of the coordinates; optimal among the functions the pivots span.
*rkhs*: the norm is that of the whole RKHS; optimal among all functions. With R the residuals (marginals minus
labels, times the label factor), alpha the dual coefficients of the pivots B, f = k(., B) alpha:

    ||grad||^2 = ||f||^2 / s^2 + 2/s sum_t <f(x_t), R_t> + tr R^T K R,    ||f||^2 = alpha^T K_BB alpha

exact by streaming blocks of K, O(N^2 (d + L)) time, one block of memory. Where the residual diagonal d of the
Cholesky factor is known, ||grad||^2 <= ||grad_span||^2 + (sum_t ||R_t|| sqrt(d_t))^2 is free. What lies outside the
span is computed where the features are: objective/designs/design.py.

*Several points.* The likelihood part C is convex, so at every point visited C(theta) >= h_k + <d_k, theta> with
d_k = grad C(theta_k), h_k = C(theta_k) - <d_k, theta_k>. For any weights l on the simplex

    min P >= min_theta sum_k l_k (h_k + <d_k, theta>) + sum_c ||theta_c||^2 / (2 s_c)
           = sum_k l_k h_k - 1/2 ||S^(1/2) sum_k l_k d_k||^2

One point alone is Lemma 9. Averaging cancels the part of the gradients that oscillates from step to step, so the
bound of a bundle can be several times tighter at no extra pass over the data. The best l is found by pairwise
Frank-Wolfe steps on a problem of a dozen numbers.

*Where the penalty is not quadratic*: one mixture of cuts, in mixed_bound.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kernelfields.numerics.vectors import dot
from kernelfields.objective.posterior import Point


def relative_gap(value: float, lower_bound: float) -> float:
    """Return (value - lower_bound) / value; the negative log-posterior is positive."""
    return (value - lower_bound) / max(abs(value), np.finfo(float).tiny)


# What the best of a scope is called, and what it would take to come nearer to it.
_WORDS = {
    "span": ("the best field that its basis spans", "more iterations"),
    "rkhs": ("the best field in the whole RKHS", "more rank or iterations"),
}
# What a certificate for completed labels adds.
_GIVEN = {False: "", True: " for the labels as it completes them, one minimum of several"}
# Shares below this, in per cent, are not worth their digits.
_LEAST_SHARE = 0.001


class Bounded:
    """A value, and a lower bound on the minimum."""

    value: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """Value minus lower bound."""
        return self.value - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """Gap over the value."""
        return relative_gap(self.value, self.lower_bound)

    @property
    def nearness(self) -> str:
        """The distance from the optimum, in words."""
        share = 100.0 * max(self.relative_gap, 0.0)
        return f"within {share:.2g} % of the best fit" if share < 100.0 else "far from the best fit yet"


@dataclass(frozen=True)
class Certificate(Bounded):
    """A proof that the minimum is between ``lower_bound`` and ``value``.

    If labels are partly known, it is a certificate for the convex objective of the last completion of the labels, not
    for the objective itself, which may have other minima. ``gap`` is value minus lower bound, ``relative_gap`` its
    share of the value, and ``sentence`` says it in words.

    Parameters
    ----------
    scope : {"span", "rkhs"}
        The functions over which the minimum is: those that the basis spans, or all of the RKHS.
    value : float
        The objective at the fit.
    lower_bound : float
        A lower bound of its minimum.
    exact : bool, default True
        Whether the gap is known, and not only bounded from above.
    parts : dict, optional
        How much of the gap each clique set accounts for; the lower bound may be better than their sum.
    completed : bool, default False
        Whether it holds for the labels as this field completes them.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
    >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
    >>> certificate = crf.certificate_
    >>> certificate.scope, certificate.relative_gap < 1e-2
    ('span', True)
    """

    scope: str
    value: float
    lower_bound: float
    exact: bool = True
    parts: dict[str, float] = field(default_factory=dict)
    #: Whether it holds for the labels as this field completes them, where they are partly known.
    completed: bool = False

    @property
    def sentence(self) -> str:
        """The certificate in plain words."""
        best, more = _WORDS.get(self.scope, (f"the best of the {self.scope}", "anything"))
        if not self.relative_gap < 1.0:
            return f"how far this is from {best} is not known: the lower bound is {self.lower_bound:.3g}"
        share = 100.0 * max(self.relative_gap, 0.0)
        within = f"{share:.2g} %" if share >= _LEAST_SHARE else f"{_LEAST_SHARE:g} %"
        given = _GIVEN[self.completed]
        return f"within {within} of {best}{given}; {more} would bring at most {max(self.gap, 0.0):.3g} nats"

    def __str__(self) -> str:
        return (
            f"{self.sentence} ({self.scope} certificate: value {self.value:.6g}, lower bound {self.lower_bound:.6g}, "
            f"relative gap {'' if self.exact else 'at most '}{self.relative_gap:.3g})"
        )


# Enough for a dozen cuts when started from the last weights; more would cost as much as a small pass.
_MAX_STEPS = 60
# Combining cuts has improved a single cut by up to about ten times.
_WITHIN_REACH = 30.0


class LowerBound:
    """The best lower bound on min P from the given points, by the last ``size`` useful cuts.

    Cuts are combined once the single-point gap is within reach of the relative gap ``wanted``, or of the gap
    ``enough``; before that a combination could not end the fit, and Lemma 9 at the present point is bound enough.
    """

    def __init__(self, size: int = 10, wanted: float = np.inf, enough: float = 0.0):
        self.size = size
        self.wanted, self.enough = wanted, enough
        self.value = -np.inf
        self.single = -np.inf
        self._slopes: list[np.ndarray] = []
        self._intercepts = np.empty(0)
        self._gram = np.empty((0, 0))
        self._weights = np.empty(0)

    def add(self, point: Point) -> float:
        """Add the cut at a point and return the best bound."""
        posterior = point.posterior
        theta, precision = point.theta, posterior.prior_precision
        prior = precision * theta
        slope = point.gradient - prior
        likelihood = point.value - 0.5 * dot(theta, prior)
        intercept = likelihood - dot(theta, slope)
        self.single = point.value - sum(posterior.gap_parts(point, slope).values())
        slope *= posterior.penalty.deviation
        if len(self._slopes) >= self.size:
            self._drop(int(np.argmin(self._weights)))
        inner = np.array([dot(other, slope) for other in [*self._slopes, slope]])
        count = len(self._slopes)
        gram = np.empty((count + 1, count + 1))
        gram[:count, :count] = self._gram
        gram[count, :] = gram[:, count] = inner
        self._slopes.append(slope)
        self._gram = gram
        self._intercepts = np.append(self._intercepts, intercept)
        self._weights = np.append(self._weights, 0.0)
        self.value = max(self.value, self.single)
        if point.value - self.value <= _WITHIN_REACH * max(self.wanted * abs(point.value), self.enough):
            self._weights, bound = maximise_on_simplex(self._intercepts, gram, self._weights)
            self.value = max(self.value, bound)
        return self.value

    def _drop(self, index: int) -> None:
        del self._slopes[index]
        self._intercepts = np.delete(self._intercepts, index)
        self._gram = np.delete(np.delete(self._gram, index, axis=0), index, axis=1)
        self._weights = np.delete(self._weights, index)


def maximise_on_simplex(
    linear: np.ndarray, gram: np.ndarray, start: np.ndarray | None = None, max_steps: int = _MAX_STEPS
) -> tuple[np.ndarray, float]:
    """Maximise l . linear - l . gram l / 2 over the simplex; return weights and value.

    Pairwise Frank-Wolfe with exact steps: moves weight from the worst used vertex to the best one. ``start``
    holds weights from an earlier, similar problem; the best single vertex is tried first.
    """
    best = int(np.argmax(linear - 0.5 * np.diagonal(gram)))
    weights = np.zeros(len(linear))
    weights[best] = 1.0
    product = gram[best].copy()
    if start is not None and start.sum() > 0:
        earlier = start / start.sum()
        moved = gram @ earlier
        if earlier @ linear - 0.5 * earlier @ moved > linear[best] - 0.5 * gram[best, best]:
            weights, product = earlier, moved
    tolerance = 1e-9 * max(1.0, float(np.abs(linear).max()))
    for _ in range(max_steps):
        slope = linear - product
        up = int(np.argmax(slope))
        used = np.flatnonzero(weights > 0)
        down = int(used[np.argmin(slope[used])])
        gain = slope[up] - slope[down]
        if gain <= tolerance:
            break
        curvature = gram[up, up] + gram[down, down] - 2.0 * gram[up, down]
        step = weights[down] if curvature <= 0 else min(weights[down], gain / curvature)
        weights[up] += step
        weights[down] -= step
        product += step * (gram[up] - gram[down])
    return weights, float(weights @ linear - 0.5 * weights @ (gram @ weights))
