"""Kernels that are functions of inner products.

Shapes: X (n, d), Z (m, d), dense or CSR; blocks (n, m). Cost: one matrix product and one pass.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from kernelfields.kernels import arrays
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.parameters import non_negative, positive, positive_or_rule, scale_or_auto, whole


class Linear(Kernel):
    """k(x, z) = <x, z>, with the inputs themselves as features."""

    kind = "linear"
    takes_tensors = True

    def feature_map(self, X: Any) -> Any:
        """Return X."""
        return arrays.as_rows(X)

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        return arrays.inner_products(X, Z)

    def _diagonal(self, X: Any) -> np.ndarray:
        return arrays.converted(arrays.squared_norms(X), X.dtype)


class Polynomial(Kernel):
    """k(x, z) = (gamma <x, z> + coef0)^degree; gamma is a number, "scale" or "auto"."""

    kind = "polynomial"
    takes_tensors = True
    checks: ClassVar = {"degree": whole, "gamma": positive_or_rule, "coef0": non_negative}

    def __init__(self, degree: int = 3, gamma: float | str = "scale", coef0: float = 1.0):
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def _from_data(self, X: Any, weights: np.ndarray | None) -> dict[str, float]:
        return {"gamma": scale_or_auto(self.gamma, X, weights)} if isinstance(self.gamma, str) else {}

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        return self._of_products(arrays.inner_products(X, Z))

    def _diagonal(self, X: Any) -> np.ndarray:
        norms = arrays.squared_norms(X)[:, None]
        return arrays.converted(self._of_products(norms).ravel(), X.dtype)

    def _of_products(self, products: np.ndarray) -> np.ndarray:
        products *= positive(self, "gamma")
        products += non_negative(self, "coef0")
        return arrays.raise_to(products, whole(self, "degree"))


class Cosine(Kernel):
    """k(x, z) = <x, z> / (||x|| ||z||); a zero row has similarity 0 with every row, itself included."""

    kind = "cosine"
    takes_tensors = True

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        if Z is not None:
            return arrays.inner_products(_unit_rows(X), _unit_rows(Z))
        block = arrays.inner_products(_unit_rows(X))
        arrays.set_diagonal(block, self._diagonal(X))
        return block

    def _diagonal(self, X: Any) -> np.ndarray:
        return arrays.converted(arrays.squared_norms(X) > 0, X.dtype)


def _unit_rows(X: Any) -> Any:
    inverse = arrays.inverse_or_zero(arrays.square_root(arrays.squared_norms(X)))
    if sparse.issparse(X):
        return sparse.csr_array(sparse.diags_array(inverse) @ X).astype(X.dtype)
    return arrays.converted(X * inverse[:, None], X.dtype)
