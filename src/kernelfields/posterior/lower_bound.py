"""Lower bounds on the minimum: Lemma 9 at one point, and at several together.

The likelihood part C is convex, so at every point visited C(theta) >= h_k + <d_k, theta> with
d_k = grad C(theta_k), h_k = C(theta_k) - <d_k, theta_k>. For any weights l on the simplex

    min P >= min_theta sum_k l_k (h_k + <d_k, theta>) + sum_c ||theta_c||^2 / (2 s_c)
           = sum_k l_k h_k - 1/2 ||S^(1/2) sum_k l_k d_k||^2

One point alone is Lemma 9: P(theta) - sum_c (s_c/2) ||grad_c||^2. Averaging cancels the part of the gradients
that oscillates from step to step, so the bound of a bundle can be several times tighter at no extra pass over the
data. Any l gives a true bound; the best is found by pairwise Frank-Wolfe steps on a problem of a dozen numbers.
"""

from __future__ import annotations

import numpy as np

from kernelfields.engines import dot
from kernelfields.posterior.points import Point

# Enough for a dozen cuts when started from the last weights; more would cost as much as a small pass.
_MAX_STEPS = 60
# Combining cuts has improved a single cut by up to about ten times.
_WITHIN_REACH = 30.0


class LowerBound:
    """The best lower bound on min P over the points added so far, from the last ``size`` useful cuts.

    Cuts are combined once the single-point gap is within reach of the relative gap ``wanted``; before that a
    combination could not end the fit, and Lemma 9 at the present point is bound enough.
    """

    def __init__(self, size: int = 10, wanted: float = np.inf):
        self.size = size
        self.wanted = wanted
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
        slope *= posterior.prior_deviation
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
        if point.value - self.value <= _WITHIN_REACH * self.wanted * abs(point.value):
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
