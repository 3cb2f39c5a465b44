"""Where the features of a clique set come from, and what they leave out.

Features Z (n, r) stand for a kernel on inputs (n, d), by way of pivots. Two questions need more than Z:

* how much gradient lies outside the span of the pivots, with R (n, q) the residuals in label coordinates and
  d = k(x, x) - ||z(x)||^2:

      tr R^T K R - ||Z^T R||^2                exact, O(n^2 (d + q)) time, streamed in blocks
      (sum_t ||R_t|| sqrt(d_t))^2             a bound, free; the sum runs over shards before it is squared

* what rounding of stored features does to the value. A fit sees Z as it is stored; the fitted field answers with
  the kernel. To first order the value of the field itself differs from the one reported by

      sum_t <R_t, (z(x_t) - Z_t)^T V>         z(x) = R_B^-1 k(B, x) in float64

  estimated on at most 2,000 positions spread evenly over the data: O(2000 r (d + q)) time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.basis import PivotSubspace
from kernelfields.basis.quadratic_form import kernel_quadratic_form

_SAMPLE = 2000
# Rows of the kernel that are there at once: where memory is short, all of the sample would be too many.
_AT_ONCE = 250


@dataclass
class FeatureOrigin:
    """The pivots behind features, the inputs (n, d) they were computed from, and k(x, x) - ||z(x)||^2, (n,)."""

    subspace: PivotSubspace
    inputs: Any
    residual_diagonal: np.ndarray

    def outside_bound(self, norms: np.ndarray) -> float:
        """Return sum_t ||R_t|| sqrt(d_t), a bound on the norm of the gradient outside the span, from ||R_t||."""
        return float(norms @ np.sqrt(np.maximum(self.residual_diagonal, 0.0)))

    def squared_gradient(self, residuals: np.ndarray) -> float:
        """Return tr R^T K R, the squared norm of the likelihood's gradient in the whole RKHS."""
        return kernel_quadratic_form(self.subspace.kernel, self.inputs, residuals)

    def rounding(self, stored: Any, coefficients: np.ndarray, residuals: Any) -> float:
        """Return the change of the value if features were exact; both are asked for some rows only."""
        n_rows = len(self.residual_diagonal)
        rows = np.linspace(0, n_rows - 1, min(n_rows, _SAMPLE)).astype(np.int64)
        dual, total = self.subspace.dual_coefficients(coefficients), 0.0
        for begin in range(0, len(rows), _AT_ONCE):
            some = rows[begin : begin + _AT_ONCE]
            exact = self.subspace.kernel(self.inputs[some], self.subspace.pivots) @ dual
            kept = np.asarray(stored[some], dtype=np.float64) @ coefficients
            total += float(np.vdot(residuals[some], exact - kept))
        return n_rows / max(1, len(rows)) * total
