"""The algebra of kernels: sums, products, whole powers, non-negative multiples, and kernels made cosines.

    k + l,  k + 1,  k * l,  k**3,  2 * k                   are kernels
    k(x, z) / sqrt(k(x, x) k(z, z))                        is the cosine in the feature space of k

Cost: that of the parts; Sum and Product hold two (n, m) blocks at a time, however many are chained. Raises ValueError
or TypeError naming the parameter.
"""

from __future__ import annotations

import math

import numpy as np

from kernelfields.kernels import arrays
from kernelfields.kernels.kernel import Kernel, Towards, checked, register, valid_kernel
from kernelfields.kernels.parameters import non_negative, whole
from kernelfields.numerics.parameters import declares_parameters
from kernelfields.numerics.sparse_rows import Rows


class _OfParts(Kernel):
    """A function of the values of other kernels; subclasses define ``_combine`` for its blocks and diagonals."""

    takes_tensors = True

    def _combine(self, values: list[np.ndarray]) -> np.ndarray:
        """Combine the values of all parts; the values of the first part may be overwritten."""
        raise NotImplementedError

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        return self._combine([part(X, Z) for part in self._parts])

    def _diagonal(self, X: Rows) -> np.ndarray:
        return self._combine([part.diag(X) for part in self._parts])

    def _towards(self, Z: Rows) -> Towards:
        blocks = [part.towards(Z) for part in self._parts]
        return lambda X: self._combine([block(X) for block in blocks])


@declares_parameters
class _OfTwo(_OfParts):
    """A function of the values of two kernels."""

    left: Kernel = checked(valid_kernel)
    right: Kernel = checked(valid_kernel)


@register("sum")
class Sum(_OfTwo):
    """The sum of two kernels, k(x, z) + l(x, z); also written ``k + l``.

    Parameters
    ----------
    left : Kernel
        The first kernel.
    right : Kernel
        The second kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import RBF, Linear
    >>> kernel = Linear() + RBF(gamma=1.0)
    >>> kernel(np.array([[1.0]]), np.array([[1.0], [2.0]])).round(3)
    array([[2.   , 2.368]])
    """

    def feature_map(self, X: object) -> Rows | None:
        """Return the features of both parts side by side.

        Parameters
        ----------
        X : array or CSR matrix (n, d)
            The inputs.

        Returns
        -------
        array or CSR matrix (n, q), or None
            The features, None if a part has none.
        """
        left = self.left.feature_map(X)
        right = None if left is None else self.right.feature_map(X)
        return None if left is None or right is None else arrays.concatenate_columns(left, right)

    @property
    def summands(self) -> list[Kernel]:
        """The kernels of this sum, nested sums included."""
        return [*self.left.summands, *self.right.summands]

    def _combine(self, values: list[np.ndarray]) -> np.ndarray:
        left, right = values
        left += right
        return left


@register("product")
class Product(_OfTwo):
    """The product of two kernels, k(x, z) l(x, z); also written ``k * l``.

    Parameters
    ----------
    left : Kernel
        The first kernel.
    right : Kernel
        The second kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import RBF, Linear
    >>> kernel = Linear() * RBF(gamma=1.0)
    >>> kernel(np.array([[1.0]]), np.array([[1.0], [2.0]])).round(3)
    array([[1.   , 0.736]])
    """

    def _combine(self, values: list[np.ndarray]) -> np.ndarray:
        left, right = values
        left *= right
        return left


@register("power")
@declares_parameters
class Power(_OfParts):
    """A whole power of a kernel, k(x, z)^exponent; also written ``k**exponent``.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    exponent : int
        The exponent, 1 or more.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import Linear
    >>> kernel = (Linear() + 1) ** 3
    >>> kernel(np.array([[1.0]]), np.array([[1.0], [2.0]]))
    array([[ 8., 27.]])
    """

    kernel: Kernel = checked(valid_kernel)
    exponent: int = checked(whole)

    def _combine(self, values: list[np.ndarray]) -> np.ndarray:
        return arrays.raise_to(values[0], whole(self, "exponent"))


@register("scaled")
@declares_parameters
class Scaled(_OfParts):
    """A multiple of a kernel, factor * k(x, z); also written ``factor * k``.

    Parameters
    ----------
    factor : float
        The factor, 0 or more.
    kernel : Kernel
        The kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import Linear
    >>> kernel = 0.5 * Linear()
    >>> kernel(np.array([[1.0]]), np.array([[1.0], [2.0]]))
    array([[0.5, 1. ]])
    """

    factor: float = checked(non_negative)
    kernel: Kernel = checked(valid_kernel)

    def feature_map(self, X: object) -> Rows | None:
        """Return sqrt(factor) times the features of the kernel.

        Parameters
        ----------
        X : array or CSR matrix (n, d)
            The inputs.

        Returns
        -------
        array or CSR matrix (n, q), or None
            The features, None if the kernel has none.
        """
        features = self.kernel.feature_map(X)
        if features is None:
            return None
        return arrays.convert(features * math.sqrt(non_negative(self, "factor")), features.dtype)

    def _combine(self, values: list[np.ndarray]) -> np.ndarray:
        (block,) = values
        block *= non_negative(self, "factor")
        return block


@register("normalized")
@declares_parameters
class Normalized(Kernel):
    """The cosine in the feature space of a kernel, k(x, z) / sqrt(k(x, x) k(z, z)).

    It is 0 for inputs with k(x, x) = 0.

    Parameters
    ----------
    kernel : Kernel
        The kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import Normalized, Polynomial
    >>> kernel = Normalized(Polynomial(degree=2, gamma=1.0))
    >>> kernel(np.array([[1.0], [2.0]])).round(3)
    array([[1. , 0.9],
           [0.9, 1. ]])
    """

    takes_tensors = True
    kernel: Kernel = checked(valid_kernel)

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        if Z is not None:
            return self._towards(Z)(X)
        inverse = self._inverse_norms(X)
        block = arrays.scale_rows_and_columns(self.kernel(X), inverse, inverse)
        return arrays.with_diagonal(block, arrays.convert(inverse > 0, block.dtype))

    def _towards(self, Z: Rows) -> Towards:
        block, other = self.kernel.towards(Z), self._inverse_norms(Z)
        return lambda X: arrays.scale_rows_and_columns(block(X), self._inverse_norms(X), other)

    def _diagonal(self, X: Rows) -> np.ndarray:
        return arrays.convert(self._inverse_norms(X) > 0, X.dtype)

    def _inverse_norms(self, X: object) -> np.ndarray:
        squared = self.kernel.diag(X)
        row = arrays.first_negative(squared)
        if row is not None:
            raise ValueError(
                f"Normalized: {self.kernel!r} gives k(x, x) = {squared[row]:.3g} < 0 at row {row}, "
                "so it is not positive semi-definite; use another kernel."
            )
        return arrays.inverse_or_zero(arrays.square_root(squared))
