"""Kernels of the distance between two inputs.

What "scale" means, with d columns and v the variance of all entries of the training inputs:

    RBF        gamma = 1 / (d v), as in scikit-learn's SVC: the exponent is about 2 for a random pair
    Laplacian  gamma = 1 / (d sqrt(v)): the exponent is about 1 for a random pair
    Matern     length_scale = sqrt(d v / 2): at nu = inf this is RBF(gamma="scale")

"auto" is the same with v = 1. Constant inputs give gamma = 1 (length_scale = sqrt(1/2)).

Shapes: X (n, d), Z (m, d), dense or CSR; blocks (n, m). Cost: one matrix product and one pass of exp (Bessel functions
for other nu, which tensors leave the device for, block by block); for the Laplacian n m comparisons of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from kernelfields.kernels import arrays
from kernelfields.kernels.kernel import Kernel, Towards, checked, declares_parameters, register
from kernelfields.numerics.parameters import is_number, overall_variance, positive, positive_or_rule, scale_or_auto
from kernelfields.numerics.sparse_rows import Rows

# Beyond this order the Bessel function overflows where the kernel is not yet 1 to rounding.
_LARGEST_NU = 50.0
# Here e^-t is zero; powers of larger numbers could overflow.
_LARGEST_T = 800.0


class _Stationary(Kernel):
    """A kernel with k(x, x) = 1."""

    takes_tensors = True

    def _diagonal(self, X: Rows) -> np.ndarray:
        return arrays.filled(X, (X.shape[0],), 1.0, X.dtype)


class _OfSquaredDistances(_Stationary):
    """A kernel that is a function of ||x - z||^2 alone."""

    def _of_distances(self, distances: np.ndarray) -> np.ndarray:
        """Return the values for squared distances, which may be overwritten."""
        raise NotImplementedError

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        return self._of_distances(arrays.squared_distances(X, Z))

    def _towards(self, Z: Rows) -> Towards:
        to = arrays.destinations(Z)
        return lambda X: self._of_distances(arrays.squared_distances(X, to))


@declares_parameters
class _Exponential(_Stationary):
    """A kernel exp(-gamma distance); gamma is a number, "scale" or "auto"."""

    gamma: float | str = checked(positive_or_rule, "scale")


@register("rbf")
class RBF(_OfSquaredDistances, _Exponential):
    """k(x, z) = exp(-gamma ||x - z||^2); gamma is a number, "scale" or "auto"."""

    def _from_data(self, X: Rows, weights: np.ndarray | None) -> dict[str, float]:
        return {"gamma": scale_or_auto(self.gamma, X, weights)} if isinstance(self.gamma, str) else {}

    def _of_distances(self, distances: np.ndarray) -> np.ndarray:
        return _exponential(distances, -positive(self, "gamma"))


@register("laplacian")
class Laplacian(_Exponential):
    """k(x, z) = exp(-gamma ||x - z||_1); gamma is a number, "scale" or "auto"."""

    def _from_data(self, X: Rows, weights: np.ndarray | None) -> dict[str, float]:
        if not isinstance(self.gamma, str):
            return {}
        if self.gamma == "auto":
            return {"gamma": scale_or_auto("auto", X)}
        deviation = math.sqrt(overall_variance(X, weights))
        return {"gamma": 1.0 / (X.shape[1] * deviation) if deviation > 0 else 1.0}

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        gamma = positive(self, "gamma")
        return _exponential(arrays.manhattan_distances(X, Z), -gamma)


def _order(owner: Kernel, name: str) -> float:
    nu = getattr(owner, name)
    if not is_number(nu) or not (0 < nu <= _LARGEST_NU or nu == np.inf):
        raise ValueError(
            f"Matern: nu must be positive and at most {_LARGEST_NU:g}, or infinite, got {nu!r}. "
            "For large nu the kernel is close to that of nu=float('inf')."
        )
    return float(nu)


@register("matern")
@declares_parameters
class Matern(_OfSquaredDistances):
    """The Matern kernel: ``nu`` sets how smooth functions are, ``length_scale`` how fast they vary.

        2^(1 - nu) / Gamma(nu) t^nu K_nu(t)      with t = sqrt(2 nu) ||x - z|| / length_scale
        nu = 1/2: e^-t    3/2: (1 + t) e^-t    5/2: (1 + t + t^2/3) e^-t    p + 1/2: a polynomial of degree p
        nu = inf: exp(-||x - z||^2 / (2 length_scale^2))

    ``nu`` is at most 50, or infinite; half-integers and infinity are fast. ``length_scale`` is a
    number, "scale" or "auto".
    """

    nu: float = checked(_order, 1.5)
    length_scale: float | str = checked(positive_or_rule, "scale")

    @classmethod
    def serving_refusal(cls, parameters: Mapping[str, object]) -> str:
        """Return that Bessel functions are needed, for orders that are not half-integers."""
        nu = float(str(parameters["nu"]))
        if nu == math.inf or _is_half_integer(nu):
            return ""
        advice = "Use nu of 0.5, 1.5, 2.5 and so on, or infinity"
        return f"with nu={nu:g} cannot be served: it needs Bessel functions. {advice}"

    def _from_data(self, X: Rows, weights: np.ndarray | None) -> dict[str, float]:
        if not isinstance(self.length_scale, str):
            return {}
        return {"length_scale": math.sqrt(0.5 / scale_or_auto(self.length_scale, X, weights))}

    def _of_distances(self, distances: np.ndarray) -> np.ndarray:
        nu, length_scale = _order(self, "nu"), positive(self, "length_scale")
        if nu == np.inf:
            return _exponential(distances, -0.5 / length_scale**2)
        distances = arrays.square_root(distances)
        if nu == 0.5:
            return _exponential(distances, -1.0 / length_scale)
        distances *= math.sqrt(2.0 * nu) / length_scale
        if nu == 1.5:
            return arrays.transform(distances, lambda t: (1.0 + t) * arrays.exponential(-t))
        if nu == 2.5:
            return arrays.transform(distances, lambda t: (1.0 + t + t * t / 3.0) * arrays.exponential(-t))
        if _is_half_integer(nu):
            return arrays.transform(distances, lambda t: _polynomial_form(nu, arrays.in_float64(t)))
        return arrays.transform(distances, lambda t: arrays.computed_on_host(t, lambda host: _bessel_form(nu, host)))


def _exponential(distances: np.ndarray, factor: float) -> np.ndarray:
    distances *= factor
    return arrays.exponential(distances)


def _is_half_integer(nu: float) -> bool:
    return (2 * nu) % 2 == 1


def _polynomial_form(nu: float, t: np.ndarray) -> np.ndarray:
    """Return e^-t sum_i c_i t^i for nu = p + 1/2 and i = 0 .. p, c_i = p! (2p - i)! 2^i / ((2p)! (p - i)! i!)."""
    p, factorial = round(nu - 0.5), math.factorial
    coefficients = [
        factorial(p) * factorial(2 * p - i) * 2**i / (factorial(2 * p) * factorial(p - i) * factorial(i))
        for i in range(p + 1)
    ]
    t = t.clip(max=_LARGEST_T)
    total = t * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        total += coefficient
        total *= t
    total += coefficients[0]
    return total * arrays.exponential(-t)


def _bessel_form(nu: float, t: np.ndarray) -> np.ndarray:
    """Return 2^(1 - nu) / Gamma(nu) t^nu K_nu(t), and its limit 1 where K_nu overflows at small t."""
    from scipy.special import gammaln, kve

    t = t.astype(np.float64)
    scaled_bessel = kve(nu, t)  # e^t K_nu(t)
    small = ~np.isfinite(scaled_bessel)
    t[small] = scaled_bessel[small] = 1.0
    logarithm = (1.0 - nu) * math.log(2.0) - gammaln(nu) + nu * np.log(t) + np.log(scaled_bessel) - t
    values = np.exp(logarithm)
    values[small] = 1.0
    # Rounding in the logarithm must not lift an entry above the diagonal.
    return np.minimum(values, 1.0)
