"""Certificates: how far an estimate can be from the best one, in which space (Lemma 9, Corollary 10).

    min P >= P(theta) - sum_c (s_c / 2) ||grad_c||^2

*span*: the norm is that of the coordinates; optimal among the functions the pivots span.
*rkhs*: the norm is that of the whole RKHS; optimal among all functions. With R the residuals (marginals minus
labels, times the label factor), alpha the dual coefficients of the pivots B, f = k(., B) alpha:

    ||grad||^2 = ||f||^2 / s^2 + 2/s sum_t <f(x_t), R_t> + tr R^T K R,    ||f||^2 = alpha^T K_BB alpha

exact by streaming blocks of K, O(N^2 (d + L)) time, one block of memory. Where the residual diagonal d of the
Cholesky factor is known, ||grad||^2 <= ||grad_span||^2 + (sum_t ||R_t|| sqrt(d_t))^2 is free. What
lies outside the span is computed where the features are: engines/feature_origin.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


def relative_gap(value: float, lower_bound: float) -> float:
    """Return (value - lower_bound) / value; the negative log-posterior is positive."""
    return (value - lower_bound) / max(abs(value), np.finfo(float).tiny)


@dataclass(frozen=True)
class Certificate:
    """The minimum over ``scope`` lies between ``lower_bound`` and ``value``.

    ``parts`` says how much of the gap each clique set accounts for at the estimate itself; the lower bound may
    be better than their sum when it comes from several points. ``exact`` is False where the gap is itself only
    bounded from above.
    """

    scope: str
    value: float
    lower_bound: float
    exact: bool = True
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """Value minus lower bound."""
        return self.value - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """Gap over the value."""
        return relative_gap(self.value, self.lower_bound)

    def __str__(self) -> str:
        return (
            f"{self.scope} certificate: value {self.value:.6g}, lower bound {self.lower_bound:.6g}, "
            f"relative gap {'' if self.exact else 'at most '}{self.relative_gap:.3g}"
        )
