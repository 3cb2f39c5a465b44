"""The interface of kernels k(x, z) on rows of a matrix, and their algebra.

    k(X, Z)            (n, m) dense block, k(X) the symmetric (n, n) Gram matrix
    k.diag(X)          (n,) the values k(x, x)
    k.resolve(X)       the same kernel with rules such as gamma="scale" turned into numbers
    k.feature_map(X)   finite features with phi(x) . phi(z) = k(x, z), or None
    k + l, k + 1, 2 * k, k * l, k**3

Sums, products, whole powers and non-negative multiples of kernels are kernels.

X and Z may be NumPy arrays, CSR matrices or, both on one device, tensors of PyTorch: blocks and diagonals of
tensors are tensors there. Kernels whose formulas need NumPy (functions, matrices, scikit-learn's, classes of users
that do not set ``takes_tensors``) copy the rows to the processor, compute there by blocks, and copy the values
back.
"""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np

from kernelfields.kernels.inputs import as_rows, check_comparable, is_tensor, on_host
from kernelfields.kernels.parameters import ComparedByParameters


class Kernel(ComparedByParameters):
    """A positive semi-definite kernel; ``__init__`` of a subclass stores its parameters untouched.

    Subclasses write ``_block(X, Z)`` and ``_diagonal(X)`` for checked inputs, and where they have
    parameters ``check_parameters`` and, if a parameter may follow the data, ``_from_data``. Those whose two
    formulas also hold for tensors, such as compositions of the functions in kernels/products.py, say so by
    ``takes_tensors``.
    """

    kind: ClassVar[str] = ""
    takes_tensors: ClassVar[bool] = False
    # numpy numbers leave `2.0 * kernel` to the kernel instead of making an array of it.
    __array_ufunc__ = None

    def __call__(self, X: Any, Z: Any | None = None) -> np.ndarray:
        """Return the block k(X, Z) of shape (n, m); without Z the exactly symmetric k(X, X)."""
        X = as_rows(X)
        if Z is not None:
            Z = as_rows(Z, "Z")
            check_comparable(X, Z)
        if is_tensor(X) and not self.takes_tensors:
            from kernelfields.kernels.tensors import block_by_host

            return block_by_host(self._block, X, Z)
        return self._block(X, Z)

    def diag(self, X: Any) -> np.ndarray:
        """Return k(x, x) for every row, shape (n,)."""
        X = as_rows(X)
        if is_tensor(X) and not self.takes_tensors:
            from kernelfields.kernels.tensors import diagonal_by_host

            return diagonal_by_host(self._diagonal, X)
        return self._diagonal(X)

    def resolve(self, X: Any, weights: np.ndarray | None = None) -> Kernel:
        """Return a copy whose parameters are checked, and numbers where they depended on the data.

        ``weights`` (n,) say how often each row counts; None is once. A tensor is copied to the processor.
        """
        X = on_host(as_rows(X))
        self.check_parameters()
        parameters = {
            name: value.resolve(X, weights) if isinstance(value, Kernel) else value
            for name, value in self.get_params(deep=False).items()
        }
        from_data = self._from_data(X, weights)
        resolved = type(self)(**{**parameters, **from_data})
        if from_data:
            resolved.check_parameters()  # a variance close to underflow gives no usable number
        return resolved

    def feature_map(self, X: Any) -> Any | None:
        """Return explicit features (n, q), dense or CSR, or None where there are none of finite size."""
        return None

    @property
    def has_feature_map(self) -> bool:
        """Whether ``feature_map`` gives features for any input."""
        return type(self).feature_map is not Kernel.feature_map

    def spec(self) -> dict[str, Any]:
        """Return a description that ``kernel_from_spec`` reads; its values fit JSON, arrays aside."""
        parameters = self.get_params(deep=False).items()
        return {"kind": self.kind, **{name: plain_value(value) for name, value in parameters}}

    def check_parameters(self) -> None:
        """Raise ValueError or TypeError, naming the parameter and its value, if one is not allowed."""

    def _from_data(self, X: Any, weights: np.ndarray | None) -> dict[str, float]:
        """Return the parameters that follow from the data."""
        return {}

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} must define _block(X, Z).")

    def _diagonal(self, X: Any) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} must define _diagonal(X).")

    def __add__(self, other: Kernel | float) -> Kernel:
        from kernelfields.kernels.algebra import Sum
        from kernelfields.kernels.dot_product import Constant

        if isinstance(other, Kernel):
            return Sum(self, other)
        return Sum(self, Constant(_non_negative(other, "added to"))) if _is_number(other) else NotImplemented

    def __radd__(self, other: float) -> Kernel:
        from kernelfields.kernels.algebra import Sum
        from kernelfields.kernels.dot_product import Constant

        return Sum(Constant(_non_negative(other, "added to")), self) if _is_number(other) else NotImplemented

    def __mul__(self, other: Kernel | float) -> Kernel:
        from kernelfields.kernels.algebra import Product, Scaled

        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(_non_negative(other, "multiplied with"), self) if _is_number(other) else NotImplemented

    def __rmul__(self, other: float) -> Kernel:
        return self * other

    def __pow__(self, exponent: int) -> Kernel:
        from kernelfields.kernels.algebra import Power

        power = Power(self, exponent)
        power.check_parameters()
        return power


def plain_value(value: Any) -> Any:
    """Return a parameter as it stands in a spec: nested specs, Python numbers, "inf" for infinity."""
    if isinstance(value, Kernel):
        return value.spec()
    if isinstance(value, np.generic):
        value = value.item()
    return "inf" if isinstance(value, float) and value == np.inf else value


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _non_negative(value: float, done: str) -> float:
    if not (np.isfinite(value) and value >= 0):
        raise ValueError(
            f"a number {done} a kernel must be finite and >= 0, got {value!r}: "
            "otherwise the result is not positive semi-definite."
        )
    return float(value)
