"""Kernels of the distance between two inputs.

What "scale" means, with d columns and v the variance of all entries of the training inputs:

    RBF        gamma = 1 / (d v), as in scikit-learn's SVC: the exponent is about 2 for a random pair
    Laplacian  gamma = 1 / (d sqrt(v)): the exponent is about 1 for a random pair
    Matern     length_scale = sqrt(d v / 2): at nu = inf this is RBF(gamma="scale")

"auto" is the same with v = 1. Constant inputs give gamma = 1 (length_scale = sqrt(1/2)).

Shapes: X (n, d), Z (m, d), dense or CSR; blocks (n, m). Cost: one matrix product and one pass of exp; for
the Laplacian n m comparisons of rows.
"""

from __future__ import annotations

import math

import numpy as np

from kernelfields.kernels import arrays
from kernelfields.kernels.kernel import Kernel, Towards, checked, declares_parameters, register
from kernelfields.kernels.parameters import is_number, overall_variance, positive, positive_or_rule, resolve_rule
from kernelfields.numerics.sparse_rows import Rows

# Orders of which the formula needs no Bessel functions; others of half-integers differ little from infinity.
_ORDERS = (0.5, 1.5, 2.5, math.inf)


class _Stationary(Kernel):
    """A kernel with k(x, x) = 1."""

    takes_tensors = True

    def _diagonal(self, X: Rows) -> np.ndarray:
        return arrays.fill_array(X, (X.shape[0],), 1.0, X.dtype)


class _OfSquaredDistances(_Stationary):
    """A kernel that is a function of ||x - z||^2 alone."""

    def _of_distances(self, distances: np.ndarray) -> np.ndarray:
        """Return the values for squared distances, which may be overwritten."""
        raise NotImplementedError(f"{type(self).__name__} must define _of_distances(distances).")

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        return self._of_distances(arrays.squared_distances(X, Z))

    def _towards(self, Z: Rows) -> Towards:
        to = arrays.prepare_destinations(Z)
        return lambda X: self._of_distances(arrays.squared_distances(X, to))


@declares_parameters
class _Exponential(_Stationary):
    """A kernel exp(-gamma distance); gamma is a number, "scale" or "auto"."""

    gamma: float | str = checked(positive_or_rule, "scale")


@register("rbf")
class RBF(_OfSquaredDistances, _Exponential):
    """The Gaussian kernel, k(x, z) = exp(-gamma ||x - z||^2).

    Functions of it are smooth, and fall back to zero far from all training inputs. It is the usual kernel of
    numbers.

    Parameters
    ----------
    gamma : float, "scale" or "auto", default "scale"
        How fast similarity falls with distance. "scale" is 1 / (d v) for d columns whose entries have the variance
        v, so that the exponent is about 2 for a random pair; "auto" is 1 / d.

    See Also
    --------
    Laplacian : For columns of different kinds.
    Matern : For functions that are less smooth.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import RBF
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> RBF(gamma=0.5)(X).round(3)
    array([[1.   , 0.607, 0.011],
           [0.607, 1.   , 0.135],
           [0.011, 0.135, 1.   ]])
    >>> RBF().resolve(X)  # "scale" becomes a number with the data
    RBF(gamma=0.642857142857142...)
    """

    def _from_data(self, X: Rows, weights: np.ndarray | None) -> dict[str, float]:
        return {"gamma": resolve_rule(self.gamma, X, weights)} if isinstance(self.gamma, str) else {}

    def _of_distances(self, distances: np.ndarray) -> np.ndarray:
        return _exponential(distances, -positive(self, "gamma"))


@register("laplacian")
class Laplacian(_Exponential):
    """The Laplacian kernel, k(x, z) = exp(-gamma ||x - z||_1).

    It adds up absolute differences of columns, so that functions of it can follow single columns while others differ,
    as trees do.

    Parameters
    ----------
    gamma : float, "scale" or "auto", default "scale"
        How fast similarity falls with distance. "scale" is 1 / (d sqrt(v)) for d columns whose entries have the
        variance v, so that the exponent is about 1 for a random pair; "auto" is 1 / d.

    See Also
    --------
    RBF : Smoother, and faster to compute for many columns.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import Laplacian
    >>> Laplacian(gamma=0.5)(np.array([[0.0, 0.0], [1.0, 3.0]])).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    """

    def _from_data(self, X: Rows, weights: np.ndarray | None) -> dict[str, float]:
        if not isinstance(self.gamma, str):
            return {}
        if self.gamma == "auto":
            return {"gamma": resolve_rule("auto", X)}
        deviation = math.sqrt(overall_variance(X, weights))
        return {"gamma": 1.0 / (X.shape[1] * deviation) if deviation > 0 else 1.0}

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        gamma = positive(self, "gamma")
        return _exponential(arrays.manhattan_distances(X, Z), -gamma)


def _order(owner: Kernel, name: str) -> float:
    nu = getattr(owner, name)
    if not is_number(nu) or nu not in _ORDERS:
        raise ValueError(f"Matern: nu must be 0.5, 1.5, 2.5 or infinity, got {nu!r}.")
    return float(nu)


@register("matern")
@declares_parameters
class Matern(_OfSquaredDistances):
    """The Matern kernel: ``nu`` sets how smooth functions are, ``length_scale`` how fast they vary.

    With t = sqrt(2 nu) ||x - z|| / length_scale it is e^-t for nu = 1/2, (1 + t) e^-t for 3/2,
    (1 + t + t^2/3) e^-t for 5/2, and exp(-||x - z||^2 / (2 length_scale^2)) for infinity.

    Parameters
    ----------
    nu : {0.5, 1.5, 2.5, inf}, default 1.5
        Functions are differentiable fewer than ``nu`` times.
    length_scale : float, "scale" or "auto", default "scale"
        The distance over which functions vary. "scale" is sqrt(d v / 2) for d columns whose entries have the variance
        v; "auto" is sqrt(d / 2).

    See Also
    --------
    RBF : The limit of infinite ``nu``.

    References
    ----------
    Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import Matern
    >>> Matern(nu=0.5, length_scale=2.0)(np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """

    nu: float = checked(_order, 1.5)
    length_scale: float | str = checked(positive_or_rule, "scale")

    def _from_data(self, X: Rows, weights: np.ndarray | None) -> dict[str, float]:
        if not isinstance(self.length_scale, str):
            return {}
        return {"length_scale": math.sqrt(0.5 / resolve_rule(self.length_scale, X, weights))}

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
        return arrays.transform(distances, lambda t: (1.0 + t + t * t / 3.0) * arrays.exponential(-t))


def _exponential(distances: np.ndarray, factor: float) -> np.ndarray:
    distances *= factor
    return arrays.exponential(distances)
