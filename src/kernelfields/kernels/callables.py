"""Kernels given by a function or by their values.

    CallableKernel    function(X, Z) -> (n, m), as scikit-learn's SVC(kernel=function) takes them; kernels of its
                      Gaussian processes are such functions, of dense rows, and white noise in them is zero
    Precomputed       k(i, j) = matrix[i, j]

The function receives float32 or float64 rows, dense or CSR as the caller passed them. A model file holds only the name;
the function is passed again on loading. Cost: that of the function; the diagonal costs _DIAGONAL_BLOCK values per row.

Inputs of Precomputed are one-column arrays of row numbers: X (n, 1), Z (m, 1), matrix (N, N). This is how objects
that are not vectors (strings, graphs, molecules) enter. Cost O(n m); the matrix is not copied.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.kernels import arrays
from kernelfields.kernels.kernel import Kernel, KernelFunction, register, symmetrize
from kernelfields.numerics.sparse_rows import Rows, is_sparse

_DIAGONAL_BLOCK = 32


@register("callable")
class CallableKernel(Kernel):
    """A kernel given by a function of two matrices, as in scikit-learn's ``SVC(kernel=function)``.

    Fields take the function itself; the class is for sums, products and names. Kernels of scikit-learn's Gaussian
    processes are such functions. A model file holds the name alone: pass the function again when you load it.

    Parameters
    ----------
    function : callable
        ``function(X, Z)`` returns the array (n, m) of values for rows X (n, d) and Z (m, d).
    name : str, optional
        What stands for the function in model files; by default its own name.

    See Also
    --------
    Precomputed : A kernel by its values.
    kernelfields.load : Takes functions as ``callables={name: function}``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import CallableKernel
    >>> def same_sign(X, Z):
    ...     return (np.sign(X) @ np.sign(Z).T > 0).astype(float)
    >>> CallableKernel(same_sign)(np.array([[-1.0], [2.0], [5.0]]))
    array([[1., 0., 0.],
           [0., 1., 1.],
           [0., 1., 1.]])
    """

    # A function has no copy that is equal to it, and may hold data of any size.
    shared = frozenset({"function"})
    undescribed = frozenset({"function"})

    def __init__(self, function: KernelFunction, name: str | None = None):
        self.function = function
        self.name = name

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        # The address of a function in memory differs from run to run.
        return f"CallableKernel({self.label()})"[:N_CHAR_MAX]

    def check_parameters(self) -> None:
        """Check that the function is callable and the name is text."""
        if not callable(self.function) or isinstance(self.function, type):
            raise TypeError(f"CallableKernel: function must be callable as function(X, Z), got {self.function!r}.")
        if self.name is not None and not isinstance(self.name, str):
            raise TypeError(f"CallableKernel: name must be a string or None, got {self.name!r}.")

    def label(self) -> str:
        """Return the name of the function in model files.

        Returns
        -------
        str
            The name.
        """
        return self.name or str(getattr(self.function, "__name__", type(self.function).__name__))

    def spec(self) -> dict[str, object]:
        """Return the description, which holds only the name of the function.

        Returns
        -------
        dict
            The kind and the name.
        """
        return {"kind": self.kind, "name": self.label()}

    @classmethod
    def serving_refusal(cls, parameters: Mapping[str, object]) -> str:
        """Return the reason: the function is not in the file.

        Parameters
        ----------
        parameters : dict
            The parameters of the description.

        Returns
        -------
        str
            The reason.
        """
        return f"{parameters['name']!r} cannot be served: a function is code, which a model file does not hold"

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, object], functions: Mapping[str, KernelFunction]) -> Kernel:
        """Return the kernel of a function that the caller passes under the described name.

        Parameters
        ----------
        parameters : dict
            The name of the function.
        functions : dict
            Kernel functions by name.

        Returns
        -------
        CallableKernel
            The kernel.
        """
        name = parameters["name"]
        if not isinstance(name, str):
            raise ValueError(f"the name of a kernel function must be a string, got {name!r}.")
        if name not in functions:
            raise ValueError(
                f"this kernel uses the function {name!r}, which is not stored with it. "
                f"Pass callables={{{name!r}: function}}; given were [{', '.join(map(repr, functions))}]."
            )
        kernel = cls(functions[name], name)
        kernel.check_parameters()
        if cls(functions[name]).label() == name:
            kernel.name = None  # as it was: a fit that goes on compares kernels
        return kernel

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        block = self._values(X, X if Z is None else Z)
        block = symmetrize(block, f"the kernel function {self.label()!r}") if Z is None else block
        return block.astype(arrays.block_dtype(X, Z), copy=False)

    def _diagonal(self, X: Rows) -> np.ndarray:
        diagonal = np.empty(X.shape[0], dtype=X.dtype)
        for first in range(0, X.shape[0], _DIAGONAL_BLOCK):
            rows = slice(first, min(first + _DIAGONAL_BLOCK, X.shape[0]))
            diagonal[rows] = self._values(X[rows], X[rows]).diagonal()
        return diagonal

    def _values(self, X: Rows, Z: Rows) -> np.ndarray:
        try:
            returned = self.function(X, Z)
        except Exception as error:
            rows = "sparse (CSR)" if is_sparse(X) or is_sparse(Z) else "dense"
            error.add_note(f"raised by the kernel function {self.label()!r}, which was called with {rows} rows")
            raise
        dense = returned.toarray() if is_sparse(returned) else returned
        expected = (X.shape[0], Z.shape[0])
        # A copy: sums and products of kernels write into blocks, which may be an array the function keeps.
        try:
            values = np.array(dense, dtype=arrays.block_dtype(X, Z))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the kernel function {self.label()!r} must return a real array of shape {expected} for inputs of "
                f"{expected[0]} and {expected[1]} rows, got a {type(returned).__name__}: {error}."
            ) from error
        if values.shape != expected:
            raise ValueError(
                f"the kernel function {self.label()!r} must return shape {expected} "
                f"for inputs of {expected[0]} and {expected[1]} rows, got {values.shape}."
            )
        if not np.isfinite(values).all():
            i, j = np.argwhere(~np.isfinite(values))[0]
            raise ValueError(
                f"the kernel function {self.label()!r} returned {values[i, j]} at ({i}, {j}). "
                "Kernel values must be finite: check the function and its inputs."
            )
        return values


@register("precomputed")
class Precomputed(Kernel):
    """A kernel given by its values, k(i, j) = matrix[i, j].

    Inputs are one column of row numbers. This is how strings, graphs, molecules and other objects that are no vectors
    enter: number them, and compute their similarities once.

    Parameters
    ----------
    matrix : array (N, N)
        The values for all pairs, symmetric and positive semi-definite. It is not copied.

    See Also
    --------
    CallableKernel : A kernel by a function.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import Precomputed
    >>> similarity = np.array([[1.0, 0.8, 0.1], [0.8, 1.0, 0.3], [0.1, 0.3, 1.0]])
    >>> Precomputed(similarity)(np.array([[2], [0]]), np.array([[1]]))
    array([[0.3],
           [0.8]])
    """

    shared = frozenset({"matrix"})

    def __init__(self, matrix: ArrayLike):
        self.matrix = matrix

    def check_parameters(self) -> None:
        """Check that the matrix is square, finite and symmetric up to rounding."""
        symmetrize(self._values(), "Precomputed: matrix")

    def spec(self) -> dict[str, object]:
        """Return the description, with the matrix as an array.

        Returns
        -------
        dict
            The kind and the matrix.
        """
        return {"kind": self.kind, "matrix": self._values()}

    def _values(self) -> np.ndarray:
        try:
            values = np.asarray(self.matrix)
            values = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"Precomputed: matrix must hold real numbers: {error}.") from error
        if values.ndim != 2 or values.shape[0] != values.shape[1]:
            raise ValueError(f"Precomputed: matrix must be square, got shape {values.shape}.")
        return values

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        values = self._values()
        columns = arrays.row_numbers(X if Z is None else Z, len(values), "Precomputed")
        block = arrays.convert(arrays.look_up(X, values, columns, "Precomputed"), arrays.block_dtype(X, Z))
        return symmetrize(block, "Precomputed: matrix") if Z is None else block

    def _diagonal(self, X: Rows) -> np.ndarray:
        return arrays.convert(arrays.look_up(X, self._values(), None, "Precomputed"), X.dtype)
