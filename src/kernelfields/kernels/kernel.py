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

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, field
from typing import Any, ClassVar

import numpy as np

from kernelfields.kernels import arrays
from kernelfields.kernels.parameters import is_number, non_negative, whole
from kernelfields.numerics.parameters import declares_parameters, is_whole
from kernelfields.numerics.registry import Parametrized, Registry
from kernelfields.numerics.sparse_rows import Rows, is_sparse

# Rows whose Gram matrix is looked at for negative eigenvalues.
_SAMPLE = 200
# Columns this few are handed on dense, and so are columns of which this share is not zero: products of sparse rows
# with themselves would cost more than zeros do.
_FEW, _FULL = 512, 0.25

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
        """Return the function X -> k(X, Z) for rows Z that stay: the digits of ``self(X, Z)``, with less to do.

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
        """Return a copy whose parameters are checked, and numbers if they were rules such as gamma="scale".

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
        """Return explicit features phi with phi(x) . phi(z) = k(x, z), or None if none are of finite size.

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
        """Whether ``feature_map`` gives features for any input: the class has one, and so have all parts."""
        return type(self).feature_map is not Kernel.feature_map and all(part.has_feature_map for part in self._parts)

    @property
    def _parts(self) -> list[Kernel]:
        """The kernels among the parameters."""
        return [value for value in self.get_params(deep=False).values() if isinstance(value, Kernel)]

    @property
    def keeps_rows(self) -> bool:
        """Whether ``resolve`` keeps the rows it is given, so that all of them have to be in one place."""
        return False

    @property
    def own_columns(self) -> tuple[int, ...]:
        """Columns of one position or row that the kernel reads as they come, such as time stamps; those of its parts.

        No scale changes their values, and no statistics are made of them.
        """
        return tuple(sorted({column for part in self._parts for column in part.own_columns}))

    @property
    def kind(self) -> str:
        """The name under which the class is registered; TypeError if it is not."""
        return KERNELS.name_of(self)

    def spec(self) -> dict[str, object]:
        """Return a description that ``kernel_from_spec`` reads; its values fit JSON, arrays aside.

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
        """Return the kernel whose description had these parameters.

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
        """Return why a kernel of this description needs more than its model file and NumPy.

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
        """Raise ValueError or TypeError, naming the parameter and its value, if one is not allowed."""
        for name, declared in getattr(self, "__dataclass_fields__", {}).items():
            if "check" in declared.metadata:
                declared.metadata["check"](self, name)

    @property
    def follows_data(self) -> bool:
        """Whether parameters that are not given follow the data, by a rule of the class."""
        return type(self)._from_data is not Kernel._from_data

    def _from_data(self, X: Rows, weights: np.ndarray | None) -> dict[str, float]:
        """Return the parameters that follow from the data."""
        return {}

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} must define _block(X, Z).")

    def _towards(self, Z: Rows) -> Towards:
        """Return X -> k(X, Z) for checked rows, with the parts that depend on Z alone computed once."""
        return lambda X: self._block(X, Z)

    def _diagonal(self, X: Rows) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} must define _diagonal(X).")

    def __add__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Sum(self, other)
        return Sum(self, Constant(_non_negative(other, "added to"))) if is_number(other) else NotImplemented

    def __radd__(self, other: float) -> Kernel:
        return Sum(Constant(_non_negative(other, "added to")), self) if is_number(other) else NotImplemented

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(_non_negative(other, "multiplied with"), self) if is_number(other) else NotImplemented

    def __rmul__(self, other: float) -> Kernel:
        return self * other

    def __pow__(self, exponent: int) -> Kernel:
        power = Power(self, exponent)
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
)
register = KERNELS.register


def checked(check: Callable[[Kernel, str], object], default: object = MISSING) -> Any:
    """Declare a parameter of a kernel; ``check(kernel, name)`` raises if its value is not allowed."""
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
    """Check that the parameter is a kernel whose own parameters are allowed."""
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
        return arrays.filled(rows, (rows.shape[0], 1), math.sqrt(non_negative(self, "value")), rows.dtype)

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        n_columns = X.shape[0] if Z is None else Z.shape[0]
        return arrays.filled(X, (X.shape[0], n_columns), non_negative(self, "value"), arrays.block_dtype(X, Z))

    def _diagonal(self, X: Rows) -> np.ndarray:
        return arrays.filled(X, (X.shape[0],), non_negative(self, "value"), X.dtype)


class _OfParts(Kernel):
    """A function of the values of other kernels; subclasses write ``_combine`` for its blocks and diagonals."""

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
        return None if left is None or right is None else arrays.side_by_side(left, right)

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


#: Kinds of columns of named features.
KINDS = NUMBERS, CATEGORIES = "numbers", "categories"


@register("columns")
@declares_parameters
class Columns(Kernel):
    """A kernel on some of the columns, k(x, z) = kernel(x[begin:end], z[begin:end]).

    With sums, different kernels see different features: ``Linear() + Columns(RBF(), 0, 50)`` is linear in everything
    and smooth in the first fifty columns. Cost: that of the inner kernel, and a copy of the columns of sparse rows.

    Parameters
    ----------
    kernel : Kernel
        The kernel on these columns.
    begin : int or {"numbers", "categories"}, default 0
        The first column; or, for feature dicts with numbers and categories, all columns of that kind.
    end : int, optional
        The column after the last; by default all that follow.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import Columns, Linear
    >>> X = np.array([[1.0, 5.0, 7.0], [2.0, 0.0, 9.0]])
    >>> Columns(Linear(), 0, 2)(X)
    array([[26.,  2.],
           [ 2.,  4.]])
    """

    takes_tensors = True
    kernel: Kernel = checked(valid_kernel)
    begin: int | str = 0
    end: int | None = None

    def check_parameters(self) -> None:
        """Check the part, and that begin and end are whole numbers in order."""
        super().check_parameters()
        if isinstance(self.begin, str):
            if self.begin not in KINDS or self.end is not None:
                raise ValueError(
                    f"Columns: begin must be a whole number, or one of {', '.join(map(repr, KINDS))} alone."
                )
            return
        for name, value in (("begin", self.begin), ("end", self.end)):
            usable = (is_whole(value) and value >= 0) or (name == "end" and value is None)
            if not usable:
                raise ValueError(f"Columns: {name} must be a whole number that is not negative, got {value!r}.")
        if self.end is not None and self.end <= self.begin:
            raise ValueError(f"Columns: end must be above begin, got {self.begin} to {self.end}.")

    def resolve(self, X: object, weights: np.ndarray | None = None, labels: np.ndarray | None = None) -> Columns:
        """Return a copy whose inner kernel follows the data in its columns.

        Parameters
        ----------
        X : array or CSR matrix (n, d)
            Training inputs.
        weights : array (n,), optional
            How often each row counts; once by default.
        labels : array (n,), optional
            Numbers of labels, -1 if a row has none.

        Returns
        -------
        Columns
            The copy.
        """
        self.check_parameters()
        return Columns(self.kernel.resolve(self._select_columns(X), weights, labels), self.begin, self.end)

    def feature_map(self, X: object) -> Rows | None:
        """Return the features of the inner kernel.

        Parameters
        ----------
        X : array or CSR matrix (n, d)
            The inputs.

        Returns
        -------
        array or CSR matrix (n, q), or None
            The features, None if the inner kernel has none.
        """
        return self.kernel.feature_map(self._select_columns(X))

    @property
    def own_columns(self) -> tuple[int, ...]:
        """Columns that the inner kernel reads as they come; categories are never changed."""
        begin = self.begin if isinstance(self.begin, int) else 0
        return () if self.begin == CATEGORIES else tuple(begin + column for column in self.kernel.own_columns)

    def _select_columns(self, X: object) -> Rows:
        if isinstance(self.begin, str):
            raise ValueError(
                f"Columns: {self.begin!r} are columns of feature dicts with numbers and categories, of sequences, and "
                "these inputs have none: name columns by their places"
            )
        rows = arrays.as_rows(X)
        width = rows.shape[1]
        end = width if self.end is None else self.end
        if not self.begin < end <= width:
            raise ValueError(f"Columns: {self.begin} to {self.end} are asked for, and the inputs have {width} columns.")
        seen = rows[:, self.begin : end]
        if not is_sparse(seen):
            return seen
        full = seen.nnz >= _FULL * seen.shape[0] * seen.shape[1]
        return seen.toarray() if full or end - self.begin <= _FEW else seen

    def _towards(self, Z: Rows) -> Towards:
        block = self.kernel.towards(self._select_columns(Z))
        return lambda X: block(self._select_columns(X))

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        return self.kernel(self._select_columns(X), None if Z is None else self._select_columns(Z))

    def _diagonal(self, X: Rows) -> np.ndarray:
        return self.kernel.diag(self._select_columns(X))


def has_named_kinds(kernel: object) -> bool:
    """Whether a part of a kernel selects its columns by kind, "numbers" or "categories"."""
    if not isinstance(kernel, Kernel):
        return False
    named = isinstance(kernel, Columns) and isinstance(kernel.begin, str)
    return named or any(map(has_named_kinds, kernel.get_params(deep=False).values()))


def with_places(kernel: Kernel, n_numbers: int) -> Kernel:
    """Replace kinds of columns by places: first ``n_numbers`` columns of numbers, then categories."""
    if not has_named_kinds(kernel):
        return kernel
    own = kernel.get_params(deep=False)
    inner = {name: with_places(value, n_numbers) for name, value in own.items() if isinstance(value, Kernel)}
    if isinstance(kernel, Columns) and isinstance(kernel.begin, str):
        begin, end = (0, n_numbers) if kernel.begin == NUMBERS else (n_numbers, None)
        return Columns(inner["kernel"], begin, end)
    return type(kernel)(**{**own, **inner})


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


def rounding_tolerance(dtype: np.dtype) -> float:
    """Return the relative error that rounding can explain."""
    return 1e-4 if dtype == np.float32 else 1e-8


def symmetric(block: np.ndarray, name: str) -> np.ndarray:
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
    """Check on data that a function is a kernel: no Gram matrix of a kernel has a negative eigenvalue.

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
    gram = symmetric(resolved(X[rows]), f"the Gram matrix of {name}")
    eigenvalues = np.linalg.eigvalsh(gram.astype(np.float64))
    largest = np.abs(eigenvalues).max()
    if eigenvalues[0] < -rounding_tolerance(gram.dtype) * largest:
        raise ValueError(
            f"{name} is not positive semi-definite: on {len(rows)} rows the Gram matrix has the "
            f"eigenvalue {eigenvalues[0]:.3g} (largest absolute one {largest:.3g}). Use another kernel or "
            "other parameters; for a similarity that is not a kernel, take Linear() on its rows as features."
        )
