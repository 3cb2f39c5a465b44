"""The part of terms outside the span of their pivots, for certificates over the RKHS and for new pivots.

    bound     (sum_t ||R_t|| sqrt(d_t))^2              free; d = k(x, x) - ||z(x)||^2
    exact     tr R^T K R - ||Z^T R||^2                 O(n^2) kernel values
    rounding  sum_t <R_t, (z(x_t) - Z_t)^T V>          what rounded features do to the value

R (n, q) are the residuals, marginals minus labels, in label coordinates (designs/design.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelfields.inference.potentials import Array, Potentials
from kernelfields.objective.designs.design import LocalDesign, kernel_quadratic_form
from kernelfields.objective.likelihoods.likelihood import Objective


class OutsideSpan:
    """Residuals and kernels of the terms of some designs; ``index`` is the number of a term."""

    def __init__(self, likelihood: Objective, designs: Sequence[LocalDesign]):
        self.family = likelihood.family
        self.designs = designs

    def residuals(self, residual: Potentials, index: int) -> np.ndarray:
        """Return the residuals of a term's cliques in label coordinates, (n, q), in the order of the data."""
        return self.family.arrangement.read_back(self._residuals(residual, index))

    def _residuals(self, residual: Potentials, index: int) -> Array:
        """Return the residuals on the device of the features."""
        design = self.designs[index]
        return design.to_coordinates(self.family.arrangement.residuals(residual, design))

    def bound(self, residual: Potentials, index: int) -> float:
        """Return a cheap bound on the squared norm of a term's gradient outside the span of its pivots."""
        return self._norm_bound(residual, index) ** 2

    def _norm_bound(self, residual: Potentials, index: int) -> float:
        """Return a bound on the norm."""
        origin = self.designs[index].origin
        if origin is None:
            return 0.0
        rows = self._residuals(residual, index)
        return origin.outside_bound(np.sqrt(self.family.arrangement.read_back((rows * rows).sum(axis=1))))

    def exact(self, residual: Potentials, index: int) -> float:
        """Return the squared norm of a term's gradient outside the span, exactly: O(n^2) kernel values."""
        design = self.designs[index]
        if design.origin is None:
            return 0.0
        inside = design.pull_back(self.family.arrangement.residuals(residual, design))
        whole = kernel_quadratic_form(design.origin.kernel, design.origin.inputs, self.residuals(residual, index))
        return max(whole - float(np.vdot(inside, inside)), 0.0)

    def largest(self, index: int) -> float:
        """Return the largest k(x, x) - ||z(x)||^2 of a term over the data; zero without pivots."""
        origin = self.designs[index].origin
        return 0.0 if origin is None else float(origin.residual_diagonal.max(initial=0.0))

    def rounding(self, residual: Potentials, index: int, coefficients: np.ndarray) -> float:
        """Estimate the change of the value for exact features of a term."""
        design = self.designs[index]
        if design.origin is None or design.dtype == np.float64:
            return 0.0
        return self._rounding(design, coefficients, self._residuals(residual, index))

    def _rounding(self, design: LocalDesign, coefficients: np.ndarray, residuals: Array) -> float:
        dual = design.term.span.dual_coefficients(coefficients)
        assert design.origin is not None
        return design.origin.rounding(
            design.features, coefficients, dual, lambda rows: self.family.arrangement.read_back(residuals[rows])
        )
