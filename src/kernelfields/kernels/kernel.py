"""Kernels k(x, z) on rows of a matrix: their interface, their algebra, and checks of their Gram matrices.

Sums, products, whole powers and non-negative multiples of kernels are kernels: k + l, k + 1, k * l, k**3, 2 * k.

X and Z may be NumPy arrays, CSR matrices or, both on one device, tensors of PyTorch: blocks and diagonals of tensors
are tensors there. Kernels whose formulas need NumPy (functions, matrices, scikit-learn's, classes of users that do not
set ``takes_tensors``) copy the rows to the processor, compute there by blocks, and copy the values back.

Gram matrices are checked for symmetry, |K - K^T| <= tolerance max |K|, and on a sample for negative eigenvalues, none
below -tolerance max |eigenvalue|, with a tolerance of 1e-8 in float64 and 1e-4 in float32.

Cost: that of the parts; Sum and Product hold two (n, m) blocks at a time, however many are chained. The check of
eigenvalues costs O(s^3) for s <= 200 rows. Fails: ValueError or TypeError naming the parameter or the entries.
"""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn import get_config

from kernelfields.kernels import arrays
from kernelfields.numerics.parameters import ComparedByParameters, non_negative, whole

# Rows whose Gram matrix is looked at for negative eigenvalues.
_SAMPLE = 200


class Kernel(ComparedByParameters):
    """A positive semi-definite kernel; ``__init__`` of a subclass stores its parameters untouched.

    Subclasses write ``_block(X, Z)`` and ``_diagonal(X)`` for checked inputs, and where they have parameters ``checks``
    or ``check_parameters`` and, if a parameter may follow the data, ``_from_data``. Those whose two formulas also hold
    for tensors, such as compositions of the functions in kernels/arrays.py, say so by ``takes_tensors``.
    """

    kind: ClassVar[str] = ""
    takes_tensors: ClassVar[bool] = False
    #: What each parameter has to be: functions of the kernel and the name of the parameter that raise if it is not.
    checks: ClassVar[Mapping[str, Callable[[Any, str], Any]]] = {}
    # numpy numbers leave `2.0 * kernel` to the kernel instead of making an array of it.
    __array_ufunc__ = None

    def __call__(self, X: Any, Z: Any | None = None) -> np.ndarray:
        """Return the block k(X, Z) of shape (n, m); without Z the exactly symmetric k(X, X)."""
        X = arrays.as_rows(X)
        if Z is not None:
            Z = arrays.as_rows(Z, "Z")
            arrays.check_comparable(X, Z)
        if arrays.is_tensor(X) and not self.takes_tensors:
            from kernelfields.kernels.tensors import block_by_host

            return block_by_host(self._block, X, Z)
        return self._block(X, Z)

    def towards(self, Z: Any) -> Callable[[Any], np.ndarray]:
        """Return the function X -> k(X, Z) for rows Z that stay: the digits of ``self(X, Z)``, with less to do."""
        Z = arrays.as_rows(Z, "Z")
        return lambda X: self(X, Z)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        # As scikit-learn writes it, but its cost doubles with every kernel inside another.
        changed_only = get_config()["print_changed_only"]
        defaults = {name: each.default for name, each in inspect.signature(type(self)).parameters.items()}
        shown = {name: repr(value) for name, value in self.get_params(deep=False).items()}
        parts = [
            f"{name}={text}"
            for name, text in shown.items()
            if not changed_only or defaults[name] is inspect.Parameter.empty or text != repr(defaults[name])
        ]
        text, half = f"{type(self).__name__}({', '.join(parts)})", N_CHAR_MAX // 2
        return text if len(text) <= N_CHAR_MAX else f"{text[:half]}...{text[-half:]}"

    def diag(self, X: Any) -> np.ndarray:
        """Return k(x, x) for every row, shape (n,)."""
        X = arrays.as_rows(X)
        if arrays.is_tensor(X) and not self.takes_tensors:
            from kernelfields.kernels.tensors import diagonal_by_host

            return diagonal_by_host(self._diagonal, X)
        return self._diagonal(X)

    def resolve(self, X: Any, weights: np.ndarray | None = None) -> Kernel:
        """Return a copy whose parameters are checked, and numbers where they were rules such as gamma="scale".

        ``weights`` (n,) say how often each row counts; None is once. A tensor is copied to the processor.
        """
        X = arrays.on_host(arrays.as_rows(X))
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
        """Return features (n, q), dense or CSR, with phi(x) . phi(z) = k(x, z), or None if none are of finite size."""
        return None

    @property
    def has_feature_map(self) -> bool:
        """Whether ``feature_map`` gives features for any input."""
        return type(self).feature_map is not Kernel.feature_map

    @property
    def keeps_rows(self) -> bool:
        """Whether ``resolve`` keeps the rows it is given, so that all of them have to be in one place."""
        return False

    def spec(self) -> dict[str, Any]:
        """Return a description that ``kernel_from_spec`` reads; its values fit JSON, arrays aside."""
        parameters = self.get_params(deep=False).items()
        return {"kind": self.kind, **{name: plain_value(value) for name, value in parameters}}

    def check_parameters(self) -> None:
        """Raise ValueError or TypeError, naming the parameter and its value, if one is not allowed."""
        for name, check in self.checks.items():
            check(self, name)

    def _from_data(self, X: Any, weights: np.ndarray | None) -> dict[str, float]:
        """Return the parameters that follow from the data."""
        return {}

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} must define _block(X, Z).")

    def _diagonal(self, X: Any) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} must define _diagonal(X).")

    def __add__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Sum(self, other)
        return Sum(self, Constant(_non_negative(other, "added to"))) if _is_number(other) else NotImplemented

    def __radd__(self, other: float) -> Kernel:
        return Sum(Constant(_non_negative(other, "added to")), self) if _is_number(other) else NotImplemented

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(_non_negative(other, "multiplied with"), self) if _is_number(other) else NotImplemented

    def __rmul__(self, other: float) -> Kernel:
        return self * other

    def __pow__(self, exponent: int) -> Kernel:
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


def valid_kernel(owner: Kernel, name: str) -> None:
    """Check that the parameter is a kernel whose own parameters are allowed."""
    kernel = getattr(owner, name)
    if not isinstance(kernel, Kernel):
        raise TypeError(
            f"{type(owner).__name__}: {name} must be a Kernel, got {kernel!r}. "
            "Use resolve_kernel to turn a name or a function into one."
        )
    kernel.check_parameters()


class Constant(Kernel):
    """k(x, z) = value >= 0, with the square root of the value as its one feature."""

    kind = "constant"
    takes_tensors = True
    checks: ClassVar = {"value": non_negative}

    def __init__(self, value: float = 1.0):
        self.value = value

    def feature_map(self, X: Any) -> np.ndarray:
        """Return a column of sqrt(value)."""
        X = arrays.as_rows(X)
        return arrays.filled(X, (X.shape[0], 1), math.sqrt(non_negative(self, "value")), X.dtype)

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        n_columns = X.shape[0] if Z is None else Z.shape[0]
        return arrays.filled(X, (X.shape[0], n_columns), non_negative(self, "value"), arrays.block_dtype(X, Z))

    def _diagonal(self, X: Any) -> np.ndarray:
        return arrays.filled(X, (X.shape[0],), non_negative(self, "value"), X.dtype)


class _OfTwo(Kernel):
    """A kernel made of two others."""

    takes_tensors = True
    checks: ClassVar = {"left": valid_kernel, "right": valid_kernel}

    def __init__(self, left: Kernel, right: Kernel):
        self.left = left
        self.right = right

    def _joined(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the block of both parts; the left one may be overwritten."""
        raise NotImplementedError

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        return self._joined(self.left(X, Z), self.right(X, Z))

    def towards(self, Z: Any) -> Callable[[Any], np.ndarray]:
        """Return X -> k(X, Z), by those of both parts."""
        left, right = self.left.towards(Z), self.right.towards(Z)
        return lambda X: self._joined(left(X), right(X))


class Sum(_OfTwo):
    """k(x, z) + l(x, z), also written ``k + l``."""

    kind = "sum"

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
        return arrays.side_by_side(left, right)

    def _joined(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        left += right
        return left

    def _diagonal(self, X: Any) -> np.ndarray:
        return self.left.diag(X) + self.right.diag(X)


class Product(_OfTwo):
    """k(x, z) l(x, z), also written ``k * l``."""

    kind = "product"

    def _joined(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        left *= right
        return left

    def _diagonal(self, X: Any) -> np.ndarray:
        return self.left.diag(X) * self.right.diag(X)


class Power(Kernel):
    """k(x, z)^exponent for a whole exponent >= 1, also written ``k**exponent``."""

    kind = "power"
    takes_tensors = True
    checks: ClassVar = {"kernel": valid_kernel, "exponent": whole}

    def __init__(self, kernel: Kernel, exponent: int):
        self.kernel = kernel
        self.exponent = exponent

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        return arrays.raise_to(self.kernel(X, Z), whole(self, "exponent"))

    def _diagonal(self, X: Any) -> np.ndarray:
        return arrays.raise_to(self.kernel.diag(X)[:, None], whole(self, "exponent")).ravel()


class Scaled(Kernel):
    """factor * k(x, z) for a factor >= 0, also written ``factor * k``."""

    kind = "scaled"
    takes_tensors = True
    checks: ClassVar = {"kernel": valid_kernel, "factor": non_negative}

    def __init__(self, factor: float, kernel: Kernel):
        self.factor = factor
        self.kernel = kernel

    @property
    def has_feature_map(self) -> bool:
        """Whether the part has features."""
        return self.kernel.has_feature_map

    def feature_map(self, X: Any) -> Any | None:
        """Return sqrt(factor) times the features of the part, or None if it has none."""
        features = self.kernel.feature_map(X)
        if features is None:
            return None
        return arrays.converted(features * math.sqrt(non_negative(self, "factor")), features.dtype)

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        return self._scaled(self.kernel(X, Z))

    def _scaled(self, block: np.ndarray) -> np.ndarray:
        block *= non_negative(self, "factor")
        return block

    def towards(self, Z: Any) -> Callable[[Any], np.ndarray]:
        """Return X -> k(X, Z), by that of the part."""
        block = self.kernel.towards(Z)
        return lambda X: self._scaled(block(X))

    def _diagonal(self, X: Any) -> np.ndarray:
        return self._scaled(self.kernel.diag(X))


class Normalized(Kernel):
    """k(x, z) / sqrt(k(x, x) k(z, z)): the cosine in the feature space of k, 0 for zero features."""

    kind = "normalized"
    takes_tensors = True
    checks: ClassVar = {"kernel": valid_kernel}

    def __init__(self, kernel: Kernel):
        self.kernel = kernel

    def _block(self, X: Any, Z: Any | None) -> np.ndarray:
        inverse = self._inverse_norms(X)
        other = inverse if Z is None else self._inverse_norms(Z)
        block = arrays.scale_rows_and_columns(self.kernel(X, Z), inverse, other)
        if Z is None:
            arrays.set_diagonal(block, inverse > 0)
        return block

    def _diagonal(self, X: Any) -> np.ndarray:
        return arrays.converted(self._inverse_norms(X) > 0, X.dtype)

    def _inverse_norms(self, X: Any) -> np.ndarray:
        squared = self.kernel.diag(arrays.as_rows(X))
        if (squared < 0).any():
            row = int(np.argmax(arrays.on_host(squared) < 0))
            raise ValueError(
                f"Normalized: {self.kernel!r} gives k(x, x) = {squared[row]:.3g} < 0 at row {row}, "
                "so it is not positive semi-definite; use another kernel."
            )
        return arrays.inverse_or_zero(arrays.square_root(squared))


def rounding_tolerance(dtype: np.dtype) -> float:
    """Return the relative error that is put down to rounding."""
    return 1e-4 if dtype == np.float32 else 1e-8


def symmetric(block: np.ndarray, name: str) -> np.ndarray:
    """Return the square block made exactly symmetric; ValueError if it is not so up to rounding."""
    if not np.isfinite(block).all():
        i, j = np.argwhere(~np.isfinite(block))[0]
        raise ValueError(
            f"{name} has the value {block[i, j]} at ({i}, {j}). "
            "Kernel values must be finite: check the inputs for NaN and infinity, and rescale large ones."
        )
    if np.array_equal(block, block.T):
        return block
    difference = np.abs(block - block.T)
    if difference.max() > rounding_tolerance(block.dtype) * np.abs(block).max():
        i, j = np.unravel_index(np.argmax(difference), block.shape)
        raise ValueError(
            f"{name} is not symmetric: the value at ({i}, {j}) is {block[i, j]:.6g} "
            f"but at ({j}, {i}) it is {block[j, i]:.6g}. A kernel needs k(x, z) = k(z, x)."
        )
    return (block + block.T) / 2


def check_positive_semidefinite(kernel: Kernel, X: Any, random_state: Any = None) -> None:
    """Raise ValueError if the Gram matrix of at most 200 random rows shows that k is no kernel.

    Passing is no proof: a negative eigenvalue may need more or other rows to appear.
    """
    X = arrays.on_host(arrays.as_rows(X))
    n_rows = X.shape[0]
    if n_rows == 0:
        return
    resolved = kernel.resolve(X)
    rows = np.sort(np.random.default_rng(random_state).permutation(n_rows)[:_SAMPLE])
    name = " ".join(repr(resolved).split())
    gram = symmetric(resolved(X[rows]), f"the Gram matrix of {name}")
    eigenvalues = np.linalg.eigvalsh(gram.astype(np.float64))
    largest = np.abs(eigenvalues).max()
    if eigenvalues[0] < -rounding_tolerance(gram.dtype) * largest:
        raise ValueError(
            f"{name} is not positive semi-definite: on {len(rows)} rows the Gram matrix has the "
            f"eigenvalue {eigenvalues[0]:.3g} (largest absolute one {largest:.3g}). Use another kernel or "
            "other parameters; for a similarity that is not a kernel, take Linear() on its rows as features."
        )
