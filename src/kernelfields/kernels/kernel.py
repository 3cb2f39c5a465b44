"""Kernels k(x, z) on rows of a matrix: their interface, their names, and checks of their Gram matrices.

X and Z may be NumPy arrays, CSR matrices or, both on one device, tensors of PyTorch: blocks and diagonals of tensors
are tensors there. Kernels whose formulas need NumPy (functions, matrices, scikit-learn's, classes of users that do not
set ``takes_tensors``) copy the rows to the processor, compute there by blocks, and copy the values back.

Gram matrices are checked for symmetry, |K - K^T| <= tolerance max |K|, and on a sample for negative eigenvalues, none
below -tolerance max |eigenvalue|, with a tolerance of 1e-8 in float64 and 1e-4 in float32.

Cost: the check of eigenvalues costs O(s^3) for s <= 200 rows. Raises ValueError or TypeError naming the parameter or
the entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, field
from typing import Any, ClassVar

import numpy as np

from kernelfields.kernels import arrays
from kernelfields.kernels.parameters import is_number, non_negative
from kernelfields.numerics.parameters import declares_parameters
from kernelfields.numerics.registry import Parametrized, Registry
from kernelfields.numerics.sparse_rows import Rows

# Rows whose Gram matrix is looked at for negative eigenvalues.
_SAMPLE = 200

#: X -> k(X, Z) for rows Z that stay.
Towards = Callable[[Rows], np.ndarray]
KernelFunction = Callable[[Rows, Rows], np.ndarray]


class Kernel(Parametrized):
    """A positive semi-definite kernel on rows of a matrix; the base class of all kernels.

    ``__init__`` of a subclass stores its parameters unchanged. Subclasses write ``_block(X, Z)`` and ``_diagonal(X)``
    for checked inputs; ``_towards(Z)`` if a part of the work depends on Z alone; ``check_parameters`` for parameters
    that are not declared with a check (``checked``), and ``_from_data`` if one may follow the data. Formulas made of
    the functions in kernels/arrays.py hold for tensors too, which ``takes_tensors`` declares. The decorator
    ``register`` gives a kernel its name, also its kind in model files.

    See Also
    --------
    register : The decorator that names a kernel.
    CallableKernel : A kernel by a function, without a class.

    Examples
    --------
    A kernel that is periodic in the difference of times:

    >>> import numpy as np
    >>> from kernelfields.kernels import Kernel
    >>> class Periodic(Kernel):
    ...     def __init__(self, period=1.0):
    ...         self.period = period
    ...     def _block(self, X, Z):
    ...         other = X if Z is None else Z
    ...         return np.exp(-2.0 * np.sin(np.pi * (X - other.T) / self.period) ** 2)
    ...     def _diagonal(self, X):
    ...         return np.ones(len(X))
    >>> Periodic(period=24.0)(np.array([[0.0], [6.0], [24.0]])).round(3)
    array([[1.   , 0.368, 1.   ],
           [0.368, 1.   , 0.368],
           [1.   , 0.368, 1.   ]])
    """

    takes_tensors: ClassVar[bool] = False
    #: Parameters that are left out of descriptions, because they are code.
    undescribed: ClassVar[frozenset[str]] = frozenset()
    # numpy numbers leave `2.0 * kernel` to the kernel instead of making an array of it.
    __array_ufunc__ = None

    def __call__(self, X: object, Z: object | None = None) -> np.ndarray:
        """Return the block k(X, Z); without Z the exactly symmetric k(X, X).

        Parameters
        ----------
        X : array or CSR matrix (n, d)
            Inputs, the rows of the block.
        Z : array or CSR matrix (m, d), optional
            Inputs, the columns of the block.

        Returns
        -------
        array (n, m)
            The values.
        """
        rows, other = arrays.as_rows(X), None if Z is None else arrays.as_rows(Z, "Z")
        if other is not None:
            arrays.check_comparable(rows, other)
        return self._block(rows, other) if self.takes_tensors else arrays.compute_on_host(rows, self._block, other)

    def towards(self, Z: object) -> Callable[[object], np.ndarray]:
        """Return the function X -> k(X, Z) for fixed rows Z, with the digits of ``self(X, Z)`` at less cost.

        Parameters
        ----------
        Z : array or CSR matrix (m, d)
            The rows that stay.

        Returns
        -------
        function
            Takes X (n, d) and returns k(X, Z), (n, m).
        """
        other = arrays.as_rows(Z, "Z")
        # A subclass with a block of its own does not take the preparation of its base class.
        first = next(owner for owner in type(self).__mro__ if {"_block", "_towards"} & vars(owner).keys())
        if "_towards" not in vars(first) or (arrays.is_tensor(other) and not self.takes_tensors):
            return lambda X: self(X, other)
        block = self._towards(other)

        def checked(X: object) -> np.ndarray:
            rows = arrays.as_rows(X)
            arrays.check_comparable(rows, other)
            return block(rows)

        return checked

    def diag(self, X: object) -> np.ndarray:
        """Return k(x, x) for every row.

        Parameters
        ----------
        X : array or CSR matrix (n, d)
            The inputs.

        Returns
        -------
        array (n,)
            The values.
        """
        rows = arrays.as_rows(X)
        return self._diagonal(rows) if self.takes_tensors else arrays.compute_on_host(rows, self._diagonal)

    def resolve(self, X: object, weights: np.ndarray | None = None, labels: np.ndarray | None = None) -> Kernel:
        """Return a copy with checked parameters, and numbers for rules such as gamma="scale".

        Parameters
        ----------
        X : array or CSR matrix (n, d)
            Training inputs. A tensor is copied to the processor.
        weights : array (n,), optional
            How often each row counts; once by default.
        labels : array (n,), optional
            Numbers of labels, -1 if a row has none, for kernels that learn from them.

        Returns
        -------
        Kernel
            The copy.
        """
        X = arrays.on_host(arrays.as_rows(X))
        self.check_parameters()
        parameters = {
            name: value.resolve(X, weights, labels) if isinstance(value, Kernel) else value
            for name, value in self.get_params(deep=False).items()
        }
        from_data = self._from_data(X, weights)
        resolved = type(self)(**{**parameters, **from_data})
        if from_data:
            resolved.check_parameters()  # a variance close to underflow gives no usable number
        return resolved

    def feature_map(self, X: object) -> Rows | None:
        """Return explicit features phi with phi(x) . phi(z) = k(x, z); None without finite features.

        Parameters
        ----------
        X : array or CSR matrix (n, d)
            The inputs.

        Returns
        -------
        array or CSR matrix (n, q), or None
            The features.
        """
        return None

    @property
    def has_feature_map(self) -> bool:
        """Whether ``feature_map`` returns features for any input: the class and all parts have one."""
        return type(self).feature_map is not Kernel.feature_map and all(part.has_feature_map for part in self._parts)

    @property
    def _parts(self) -> list[Kernel]:
        """The kernels among the parameters."""
        return [value for value in self.get_params(deep=False).values() if isinstance(value, Kernel)]

    @property
    def should_keep_rows(self) -> bool:
        """Whether ``resolve`` stores the given rows, so that one process needs all of them."""
        return False

    @property
    def own_columns(self) -> tuple[int, ...]:
        """Columns that the kernel, or a part of it, reads unscaled, such as time stamps.

        No scale changes their values, and no statistics are made of them.
        """
        return tuple(sorted({column for part in self._parts for column in part.own_columns}))

    @property
    def has_named_kinds(self) -> bool:
        """Whether a part selects its columns by kind, "numbers" or "categories"."""
        return any(part.has_named_kinds for part in self._parts)

    def with_places(self, n_numbers: int) -> Kernel:
        """Replace kinds of columns by places: first ``n_numbers`` columns of numbers, then categories.

        Parameters
        ----------
        n_numbers : int
            The number of columns of numbers.

        Returns
        -------
        Kernel
            The kernel; this one if no part selects columns by kind.
        """
        if not self.has_named_kinds:
            return self
        own = self.get_params(deep=False)
        inner = {name: value.with_places(n_numbers) for name, value in own.items() if isinstance(value, Kernel)}
        return type(self)(**{**own, **inner})

    @property
    def summands(self) -> list[Kernel]:
        """The kernels of a sum, nested sums included; the kernel alone if it is no sum."""
        return [self]

    @property
    def kind(self) -> str:
        """The registered name of the class; TypeError without one."""
        return KERNELS.find_name(self)

    def spec(self) -> dict[str, object]:
        """Return a description for ``kernel_from_spec``; its values fit JSON, except for arrays.

        Returns
        -------
        dict
            The kind of the kernel and its parameters.
        """
        parameters = self.get_params(deep=False).items()
        described = {name: plain_value(value) for name, value in parameters if name not in self.undescribed}
        return {"kind": self.kind, **described}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, object], functions: Mapping[str, KernelFunction]) -> Kernel:
        """Return the kernel with the parameters of a description.

        Parameters
        ----------
        parameters : dict
            The parameters by name; kernels among them are built already.
        functions : dict
            Kernel functions by name, for kernels that need one.

        Returns
        -------
        Kernel
            The kernel.
        """
        kernel = cls(**parameters)
        try:
            kernel.check_parameters()
        except TypeError as error:
            raise ValueError(f"the description of a kernel of kind {kernel.kind!r} is wrong: {error}") from error
        return kernel

    @classmethod
    def serving_refusal(cls, parameters: Mapping[str, object]) -> str:
        """Return the reason why a kernel needs more than its model file and NumPy; None if it does not.

        Parameters
        ----------
        parameters : dict
            The parameters of the description.

        Returns
        -------
        str
            The reason; empty if there is none.
        """
        return ""

    def check_parameters(self) -> None:
        """Raise ValueError or TypeError, naming the parameter and its value, for an invalid parameter."""
        for name, declared in getattr(self, "__dataclass_fields__", {}).items():
            if "check" in declared.metadata:
                declared.metadata["check"](self, name)

    @property
    def depends_on_data(self) -> bool:
        """Whether parameters depend on the data, by a rule of the class."""
        return type(self)._from_data is not Kernel._from_data

    def _from_data(self, X: Rows, weights: np.ndarray | None) -> dict[str, float]:
        """Return the parameters that depend on the data."""
        return {}

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} must define _block(X, Z).")

    def _towards(self, Z: Rows) -> Towards:
        """Return X -> k(X, Z) for checked rows; parts of Z alone are computed once."""
        return lambda X: self._block(X, Z)

    def _diagonal(self, X: Rows) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} must define _diagonal(X).")

    def __add__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return KERNELS.build("sum", self, other)
        return self + Constant(_non_negative(other, "added to")) if is_number(other) else NotImplemented

    def __radd__(self, other: float) -> Kernel:
        return Constant(_non_negative(other, "added to")) + self if is_number(other) else NotImplemented

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return KERNELS.build("product", self, other)
        if not is_number(other):
            return NotImplemented
        return KERNELS.build("scaled", _non_negative(other, "multiplied with"), self)

    def __rmul__(self, other: float) -> Kernel:
        return self * other

    def __pow__(self, exponent: int) -> Kernel:
        power = KERNELS.build("power", self, exponent)
        power.check_parameters()
        return power


_BY_HAND = "compute its values and pass kernels.Precomputed(matrix) or a function, as the example {} does"
KERNELS: Registry[Kernel] = Registry(
    "kernel",
    retired={
        "manifold": _BY_HAND.format("'Two labels are enough'"),
        "scikit-learn": "fit again, with the kernel of scikit-learn passed as a function of two arrays",
        **dict.fromkeys(("graph laplacian", "graph diffusion"), _BY_HAND.format("'Papers that cite each other'")),
    },
    homes={
        "constant": "kernelfields.kernels.kernel",
        **dict.fromkeys(("sum", "product", "power", "scaled"), "kernelfields.kernels.algebra"),
        "columns": "kernelfields.kernels.columns",
        "normalized": "kernelfields.kernels.algebra",
        **dict.fromkeys(("callable", "precomputed"), "kernelfields.kernels.callables"),
        **dict.fromkeys(("linear", "poly", "polynomial", "cosine", "tanimoto"), "kernelfields.kernels.dot_product"),
        "forest": "kernelfields.kernels.forest",
        **dict.fromkeys(("rbf", "laplacian", "matern"), "kernelfields.kernels.stationary"),
    },
)
register = KERNELS.register


def checked(check: Callable[[Kernel, str], object], default: object = MISSING) -> Any:
    """Declare a parameter of a kernel; ``check(kernel, name)`` raises for an invalid value."""
    return field(default=default, metadata={"check": check})


def plain_value(value: object) -> object:
    """Return a parameter as a value of a spec: a nested spec, a Python number, "inf" for infinity."""
    if isinstance(value, Kernel):
        return value.spec()
    if isinstance(value, np.generic):
        value = value.item()
    return "inf" if isinstance(value, float) and value == np.inf else value


def _non_negative(value: float, done: str) -> float:
    if not (np.isfinite(value) and value >= 0):
        raise ValueError(
            f"a number {done} a kernel must be finite and >= 0, got {value!r}: "
            "otherwise the result is not positive semi-definite."
        )
    return float(value)


def valid_kernel(owner: Kernel, name: str) -> None:
    """Check that the parameter is a kernel with valid parameters."""
    kernel = getattr(owner, name)
    if not isinstance(kernel, Kernel):
        raise TypeError(
            f"{type(owner).__name__}: {name} must be a Kernel, got {kernel!r}. "
            "Use resolve_kernel to turn a name or a function into one."
        )
    kernel.check_parameters()


@register("constant")
@declares_parameters
class Constant(Kernel):
    """A constant, k(x, z) = value.

    Parameters
    ----------
    value : float, default 1.0
        The value, 0 or more.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import RBF, Constant
    >>> Constant(2.0)(np.zeros((1, 3)), np.ones((2, 3)))
    array([[2., 2.]])
    >>> RBF(0.5) + 1  # a number is a constant
    Sum(left=RBF(gamma=0.5), right=Constant())
    """

    takes_tensors = True
    value: float = checked(non_negative, 1.0)

    def feature_map(self, X: object) -> Rows:
        """Return a column of sqrt(value).

        Parameters
        ----------
        X : array or CSR matrix (n, d)
            The inputs.

        Returns
        -------
        array (n, 1)
            The feature.
        """
        rows = arrays.as_rows(X)
        return arrays.fill_array(rows, (rows.shape[0], 1), math.sqrt(non_negative(self, "value")), rows.dtype)

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        n_columns = X.shape[0] if Z is None else Z.shape[0]
        return arrays.fill_array(X, (X.shape[0], n_columns), non_negative(self, "value"), arrays.block_dtype(X, Z))

    def _diagonal(self, X: Rows) -> np.ndarray:
        return arrays.fill_array(X, (X.shape[0],), non_negative(self, "value"), X.dtype)


def has_named_kinds(kernel: object) -> bool:
    """Whether a part of a kernel selects its columns by kind, "numbers" or "categories"."""
    return isinstance(kernel, Kernel) and kernel.has_named_kinds


def rounding_tolerance(dtype: np.dtype) -> float:
    """Return the relative error that rounding can explain."""
    return 1e-4 if dtype == np.float32 else 1e-8


def symmetrize(block: np.ndarray, name: str) -> np.ndarray:
    """Make a square block exactly symmetric; ValueError if it is not symmetric up to rounding."""
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


def check_positive_semidefinite(
    kernel: Kernel, X: object, random_state: int | np.random.Generator | None = None
) -> None:
    """Check on data that a function is a kernel: its Gram matrix has no negative eigenvalue.

    Passing is no proof: a negative eigenvalue may need more or other rows to appear.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : array or CSR matrix (n, d)
        Inputs, of which at most 200 random ones are taken.
    random_state : int or numpy.random.Generator, optional
        The seed of the rows that are drawn.

    Raises
    ------
    ValueError
        If the Gram matrix is not symmetric, or has a negative eigenvalue.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import CallableKernel, check_positive_semidefinite
    >>> distances = CallableKernel(lambda X, Z: np.abs(X - Z.T), name="distance")
    >>> check_positive_semidefinite(distances, np.array([[0.0], [1.0], [3.0]]))
    Traceback (most recent call last):
        ...
    ValueError: CallableKernel(distance) is not positive semi-definite: on 3 rows the Gram matrix has the eigenvalue ...
    """
    X = arrays.on_host(arrays.as_rows(X))
    n_rows = X.shape[0]
    if n_rows == 0:
        return
    resolved = kernel.resolve(X)
    rows = np.sort(np.random.default_rng(random_state).permutation(n_rows)[:_SAMPLE])
    name = " ".join(repr(resolved).split())
    gram = symmetrize(resolved(X[rows]), f"the Gram matrix of {name}")
    eigenvalues = np.linalg.eigvalsh(gram.astype(np.float64))
    largest = np.abs(eigenvalues).max()
    if eigenvalues[0] < -rounding_tolerance(gram.dtype) * largest:
        raise ValueError(
            f"{name} is not positive semi-definite: on {len(rows)} rows the Gram matrix has the "
            f"eigenvalue {eigenvalues[0]:.3g} (largest absolute one {largest:.3g}). Use another kernel or "
            "other parameters; for a similarity that is not a kernel, take Linear() on its rows as features."
        )
