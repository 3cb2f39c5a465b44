"""Kernels that are functions of inner products.

Shapes: X (n, d), Z (m, d), dense or CSR; blocks (n, m). Cost: one matrix product and one pass.
"""

from __future__ import annotations

import numpy as np

from kernelfields.kernels import arrays
from kernelfields.kernels.kernel import Kernel, Towards, checked, declares_parameters, register
from kernelfields.kernels.parameters import non_negative, positive, positive_or_rule, resolve_rule, whole
from kernelfields.numerics.sparse_rows import Rows


@register("linear")
class Linear(Kernel):
    """The linear kernel, k(x, z) = <x, z>, with the inputs themselves as features.

    A field with it is a linear CRF, fitted in its explicit weights: the usual choice for words and other sparse
    features.

    See Also
    --------
    Polynomial : For products of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import Linear
    >>> Linear()(np.array([[1.0, 2.0], [0.0, 1.0]]))
    array([[5., 2.],
           [2., 1.]])
    """

    takes_tensors = True

    def feature_map(self, X: object) -> Rows:
        """Return the inputs themselves.

        Parameters
        ----------
        X : array or CSR matrix (n, d)
            The inputs.

        Returns
        -------
        array or CSR matrix (n, d)
            X as rows of floats.
        """
        return arrays.as_rows(X)

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        return arrays.inner_products(X, Z)

    def _diagonal(self, X: Rows) -> np.ndarray:
        return arrays.convert(arrays.squared_norms(X), X.dtype)


@register("polynomial", shorthands={"poly": {}})
@declares_parameters
class Polynomial(Kernel):
    """The polynomial kernel, k(x, z) = (gamma <x, z> + coef0)^degree.

    Parameters
    ----------
    degree : int, default 3
        The degree, 1 or more.
    gamma : float, "scale" or "auto", default "scale"
        The factor of inner products. "scale" is 1 / (d v) for d columns whose entries have the variance v; "auto" is 1
        / d.
    coef0 : float, default 1.0
        What is added before the power is taken; above zero, terms of lower degree take part.

    See Also
    --------
    Linear : Degree one.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import Polynomial
    >>> Polynomial(degree=2, gamma=1.0)(np.array([[1.0, 2.0], [0.0, 1.0]]))
    array([[36.,  9.],
           [ 9.,  4.]])
    """

    takes_tensors = True
    degree: int = checked(whole, 3)
    gamma: float | str = checked(positive_or_rule, "scale")
    coef0: float = checked(non_negative, 1.0)

    def _from_data(self, X: Rows, weights: np.ndarray | None) -> dict[str, float]:
        return {"gamma": resolve_rule(self.gamma, X, weights)} if isinstance(self.gamma, str) else {}

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        return self._of_products(arrays.inner_products(X, Z))

    def _diagonal(self, X: Rows) -> np.ndarray:
        return arrays.convert(self._of_products(arrays.squared_norms(X)), X.dtype)

    def _of_products(self, products: np.ndarray) -> np.ndarray:
        products *= positive(self, "gamma")
        products += non_negative(self, "coef0")
        return arrays.raise_to(products, whole(self, "degree"))


@register("cosine")
class Cosine(Kernel):
    """The cosine of two inputs, k(x, z) = <x, z> / (||x|| ||z||).

    A row of zeros has similarity 0 with every row, itself included.

    See Also
    --------
    Normalized : The cosine in the feature space of another kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import Cosine
    >>> Cosine()(np.array([[1.0, 0.0], [2.0, 2.0]])).round(3)
    array([[1.   , 0.707],
           [0.707, 1.   ]])
    """

    takes_tensors = True

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        if Z is not None:
            return self._towards(Z)(X)
        return arrays.with_diagonal(arrays.inner_products(_unit_rows(X)), self._diagonal(X))

    def _towards(self, Z: Rows) -> Towards:
        unit = _unit_rows(Z)
        return lambda X: arrays.inner_products(_unit_rows(X), unit)

    def _diagonal(self, X: Rows) -> np.ndarray:
        return arrays.convert(arrays.squared_norms(X) > 0, X.dtype)


@register("tanimoto")
class Tanimoto(Kernel):
    """The Tanimoto kernel, k(x, z) = <x, z> / (||x||^2 + ||z||^2 - <x, z>).

    For rows of zeros and ones it is the share of ones that both have: Jaccard's index of two sets, the usual similarity
    of molecular fingerprints. A row of zeros has similarity 0 with every row, itself included.

    References
    ----------
    Ralaivola, Swamidass, Saigo and Baldi (2005), Graph kernels for chemical informatics.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import Tanimoto
    >>> Tanimoto()(np.array([[1, 1, 0, 1], [1, 0, 1, 1]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    takes_tensors = True

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        if Z is not None:
            return self._towards(Z)(X)
        norms = arrays.squared_norms(X)
        return arrays.with_diagonal(self._of_products(arrays.inner_products(X), norms, norms), self._diagonal(X))

    def _towards(self, Z: Rows) -> Towards:
        others = arrays.squared_norms(Z)
        return lambda X: self._of_products(arrays.inner_products(X, Z), arrays.squared_norms(X), others)

    def _diagonal(self, X: Rows) -> np.ndarray:
        return arrays.convert(arrays.squared_norms(X) > 0, X.dtype)

    @staticmethod
    def _of_products(products: np.ndarray, norms: np.ndarray, others: np.ndarray) -> np.ndarray:
        union = arrays.outer_sums(norms, others) - products
        return arrays.convert(products * arrays.inverse_or_zero(union), products.dtype)


def _unit_rows(X: Rows) -> Rows:
    return arrays.scale_rows(X, arrays.inverse_or_zero(arrays.square_root(arrays.squared_norms(X))))
