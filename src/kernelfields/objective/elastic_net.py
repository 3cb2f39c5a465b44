"""An elastic net: the penalty R(v) = v^2 / (2 s) + l1 |v| of coefficients, which sets some of them to zero.

Cost: O(size) each; values look at the coefficients that are not zero.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from kernelfields.numerics.vectors import dot


class Squares(Protocol):
    """The quadratic part of a penalty: a Gaussian prior."""

    precision: np.ndarray

    @property
    def deviation(self) -> np.ndarray:
        """The standard deviation of the prior in every coordinate."""


class ElasticNet:
    """Squares, and absolute values times ``threshold``."""

    smooth = quadratic = False

    def __init__(self, squares: Squares, threshold: np.ndarray):
        self._squares = squares
        self.precision, self.threshold = squares.precision, threshold

    @property
    def deviation(self) -> np.ndarray:
        """The standard deviation of the Gaussian prior in every coordinate, infinite without a prior."""
        return self._squares.deviation

    def value(self, theta: np.ndarray) -> float:
        """Return ||theta||^2 / (2 s) and l1 |theta|, summed."""
        places = np.flatnonzero(theta)  # few, as a rule
        own = theta[places]
        return 0.5 * dot(own, self.precision[places] * own) + dot(self.threshold[places], np.abs(own))

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return theta / s."""
        return self.precision * theta

    def line_coefficients(self, theta: np.ndarray, direction: np.ndarray) -> tuple[float, float, float]:
        """Raise: the penalty is no polynomial on a line that crosses zero."""
        raise TypeError("an elastic net has no polynomial along a line: its steps stay within an orthant")

    def steepest(self, theta: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the subgradient of smallest norm for this gradient of the smooth part."""
        slope = np.abs(gradient)
        slope -= self.threshold
        np.maximum(slope, 0.0, out=slope)
        np.copysign(slope, gradient, out=slope)
        moved = np.flatnonzero(theta)
        slope[moved] = gradient[moved] + self.threshold[moved] * np.sign(theta[moved])
        return slope
