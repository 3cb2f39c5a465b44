"""Kernels made of kernels.

    Sum         k(x, z) + l(x, z)           features [phi_k, phi_l]
    Product     k(x, z) l(x, z)
    Power       k(x, z)^exponent            whole exponent >= 1
    Scaled      factor k(x, z)              features sqrt(factor) phi_k
    Normalized  k(x, z) / sqrt(k(x, x) k(z, z)), and 0 where k(x, x) or k(z, z) is 0

Cost: that of the parts. Sum and Product hold two (n, m) blocks at a time, however many are chained.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from kernelfields.kernels.inputs import as_rows, on_host
from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.parameters import non_negative, whole
from kernelfields.kernels.products import (
    converted,
    inverse_or_zero,
    raise_to,
    scale_rows_and_columns,
    set_diagonal,
    side_by_side,
    square_root,
)


def _check_parts(owner: Kernel, *names: str) -> None:
    for name in names:
        part = getattr(owner, name)
        if not isinstance(part, Kernel):
            raise TypeError(
                f"{type(owner).__name__}: {name} must be a Kernel, got {part!r}. "
                "Use resolve_kernel to turn a name or a function into one."
            )
        part.check_parameters()


class Sum(Kernel):
    """k(x, z) + l(x, z), also written ``k + l``."""

    kind = "sum"
    takes_tensors = True

    def __init__(self, left: Kernel, right: Kernel):
        self.left = left
        self.right = right

    def check_parameters(self) -> None:
        """Check both parts."""
        _check_parts(self, "left", "right")

    @property
    def has_feature_map(self) -> bool:
        """Whether both parts have features."""
        return self.left.has_feature_map and self.right.has_feature_map

    def feature_map(self, X: Any) -> Any | None:
        """Return the features of both parts side by side, or None if a part has none."""
        left = self.left.feature_map(X)
        right = None if left is None else self.right.feature_map(X)
        if left is None or right is None:
            return None
        if sparse.issparse(left) or sparse.issparse(right):
            return sparse.hstack([sparse.csr_array(left), sparse.csr_array(right)], format="csr")
        return side_by_side(left, right)

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        block = self.left(X, Z)
        block += self.right(X, Z)
        return block

    def _diagonal(self, X: Any) -> np.ndarray:
        return self.left.diag(X) + self.right.diag(X)


class Product(Kernel):
    """k(x, z) l(x, z), also written ``k * l``."""

    kind = "product"
    takes_tensors = True

    def __init__(self, left: Kernel, right: Kernel):
        self.left = left
        self.right = right

    def check_parameters(self) -> None:
        """Check both parts."""
        _check_parts(self, "left", "right")

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        block = self.left(X, Z)
        block *= self.right(X, Z)
        return block

    def _diagonal(self, X: Any) -> np.ndarray:
        return self.left.diag(X) * self.right.diag(X)


class Power(Kernel):
    """k(x, z)^exponent for a whole exponent >= 1, also written ``k**exponent``."""

    kind = "power"
    takes_tensors = True

    def __init__(self, kernel: Kernel, exponent: int):
        self.kernel = kernel
        self.exponent = exponent

    def check_parameters(self) -> None:
        """Check the part, and that the exponent is whole and >= 1."""
        _check_parts(self, "kernel")
        whole(self, "exponent")

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        return raise_to(self.kernel(X, Z), whole(self, "exponent"))

    def _diagonal(self, X: Any) -> np.ndarray:
        return raise_to(self.kernel.diag(X)[:, None], whole(self, "exponent")).ravel()


class Scaled(Kernel):
    """factor * k(x, z) for a factor >= 0, also written ``factor * k``."""

    kind = "scaled"
    takes_tensors = True

    def __init__(self, factor: float, kernel: Kernel):
        self.factor = factor
        self.kernel = kernel

    def check_parameters(self) -> None:
        """Check the part, and that the factor is >= 0."""
        _check_parts(self, "kernel")
        non_negative(self, "factor")

    @property
    def has_feature_map(self) -> bool:
        """Whether the part has features."""
        return self.kernel.has_feature_map

    def feature_map(self, X: Any) -> Any | None:
        """Return sqrt(factor) times the features of the part, or None if it has none."""
        features = self.kernel.feature_map(X)
        if features is None:
            return None
        return converted(features * math.sqrt(non_negative(self, "factor")), features.dtype)

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        block = self.kernel(X, Z)
        block *= non_negative(self, "factor")
        return block

    def _diagonal(self, X: Any) -> np.ndarray:
        diagonal = self.kernel.diag(X)
        diagonal *= non_negative(self, "factor")
        return diagonal


class Normalized(Kernel):
    """k(x, z) / sqrt(k(x, x) k(z, z)): the cosine in the feature space of k, 0 for zero features."""

    kind = "normalized"
    takes_tensors = True

    def __init__(self, kernel: Kernel):
        self.kernel = kernel

    def check_parameters(self) -> None:
        """Check the part."""
        _check_parts(self, "kernel")

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        inverse = self._inverse_norms(X)
        other = inverse if Z is None else self._inverse_norms(Z)
        block = scale_rows_and_columns(self.kernel(X, Z), inverse, other)
        if Z is None:
            set_diagonal(block, inverse > 0)
        return block

    def _diagonal(self, X: Any) -> np.ndarray:
        return converted(self._inverse_norms(X) > 0, X.dtype)

    def _inverse_norms(self, X: Any) -> np.ndarray:
        squared = self.kernel.diag(as_rows(X))
        if (squared < 0).any():
            row = int(np.argmax(on_host(squared) < 0))
            raise ValueError(
                f"Normalized: {self.kernel!r} gives k(x, x) = {squared[row]:.3g} < 0 at row {row}, "
                "so it is not positive semi-definite; use another kernel."
            )
        return inverse_or_zero(square_root(squared))
