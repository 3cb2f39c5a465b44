"""Finite subspaces of an RKHS, in orthonormal coordinates.

Pivots B and K_BB = R R^T (R lower triangular) span {k(b, .)}; the whitened features

    z(x) = R^-1 k(B, x)          f(x) = z(x)^T v,  ||f||^2 = ||v||^2

turn the RKHS norm into the Euclidean one. f is also the kernel expansion k(x, B) alpha with the dual
coefficients alpha = R^-T v, which is how new inputs are scored: O(n r d) for the kernel rows and O(n r q)
for the product, no triangular solve per input. Rounding in alpha is that of z(x): both roads lose the condition of
R, about 1e-9 of the scores where pivots are as close as they may be. An :class:`Expansion` keeps alpha, O(r^2 q) once.
A kernel with an explicit feature map needs no pivots.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike

from kernelfields.kernels.arrays import product
from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.rows import row_blocks
from kernelfields.numerics.sparse_rows import Rows

#: The number of a pivot that was not among the inputs of the first batch of a fit.
LATER_INPUT = -1


@dataclass
class PivotSubspace:
    """The span of kernel functions at the pivots, in orthonormal coordinates.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    pivots : array or CSR matrix (r, d)
        The inputs that span it.
    factor : array (r, r)
        The lower factor R of k(B, B) = R R^T.
    indices : array (r,)
        The numbers of the pivots among the inputs of the fit, -1 for those of later batches.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.basis import GreedyCholesky, PanelCholesky
    >>> from kernelfields.kernels import RBF
    >>> X = np.array([[0.0], [0.1], [2.0]])
    >>> panel = PanelCholesky(RBF(1.0), X, capacity=2)
    >>> GreedyCholesky().select(panel, np.random.default_rng(0))
    >>> subspace = panel.subspace()
    >>> features = subspace.features(X)
    >>> bool(np.allclose(features[[0, 2]] @ features[[0, 2]].T, RBF(1.0)(X[[0, 2]])))  # exact at the pivots
    True
    """

    kernel: Kernel
    pivots: Rows
    factor: np.ndarray
    indices: np.ndarray

    @property
    def rank(self) -> int:
        """Number of pivots."""
        return len(self.factor)

    def origin(self, number: int) -> str:
        """Return the index of the training input of a pivot, also if ties have added the pivot.

        Parameters
        ----------
        number : int
            The number of the pivot.

        Returns
        -------
        str
            The input, in words.
        """
        own = self.indices[number]
        if own == LATER_INPUT:
            return "an input of a later batch"
        return f"training input {own}{', moved by ties' if own in self.indices[:number] else ''}"

    def features(self, inputs: Rows, dtype: DTypeLike = np.float64) -> np.ndarray:
        """Return whitened features R^-1 k(B, x).

        Parameters
        ----------
        inputs : array or CSR matrix (n, d)
            The inputs.
        dtype : dtype, default float64
            The type of the features.

        Returns
        -------
        array (n, r)
            The features.
        """
        features = np.empty((inputs.shape[0], self.rank), dtype=dtype)
        for rows in row_blocks(inputs.shape[0], self.rank):
            block = self.kernel(inputs[rows], self.pivots).astype(np.float64, copy=False)
            features[rows] = scipy.linalg.solve_triangular(self.factor, block.T, lower=True, check_finite=False).T
        return features

    def dual_coefficients(self, coefficients: np.ndarray) -> np.ndarray:
        """Return R^-T v: the weights of the kernel functions at the pivots (eq. 16).

        Parameters
        ----------
        coefficients : array (r, q)
            Coefficients v of the features.

        Returns
        -------
        array (r, q)
            The weights.
        """
        values = np.asarray(coefficients, dtype=np.float64)
        return scipy.linalg.solve_triangular(self.factor, values, lower=True, trans="T", check_finite=False)

    def apply(self, inputs: Rows, coefficients: np.ndarray) -> np.ndarray:
        """Evaluate the functions with given coefficients at inputs.

        Parameters
        ----------
        inputs : array or CSR matrix (n, d)
            The inputs.
        coefficients : array (r, q)
            Coefficients of the features.

        Returns
        -------
        array (n, q)
            The values.
        """
        return Expansion(self, coefficients).scores(inputs)


class Expansion:
    """A kernel expansion f(x) = k(x, B) alpha, prepared for many inputs; ``placed`` holds copies by device."""

    def __init__(self, subspace: PivotSubspace, coefficients: np.ndarray):
        self.subspace = subspace
        self.coefficients = coefficients
        self.placed: dict[Hashable, Any] = {}

    @cached_property
    def dual(self) -> np.ndarray:
        """The dual coefficients alpha, (r, q)."""
        return self.subspace.dual_coefficients(self.coefficients)

    @cached_property
    def _kernel_rows(self) -> Callable[[Rows], np.ndarray]:
        return self.subspace.kernel.towards(self.subspace.pivots)

    def scores(self, inputs: Rows) -> np.ndarray:
        """Return k(x, B) alpha for each row of inputs, (n, q), streamed."""
        scores = np.empty((inputs.shape[0], self.dual.shape[1]))
        for rows in row_blocks(inputs.shape[0], self.subspace.rank):
            scores[rows] = product(self._kernel_rows(inputs[rows]), self.dual)
        return scores


@dataclass
class ExplicitSubspace:
    """The whole RKHS of a kernel with a finite feature map: z(x) = phi(x).

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    n_coordinates : int
        The number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X, y = [np.array([[0.0, 1.0], [1.0, 0.0]])], [["a", "b"]]
    >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False, window=1).fit(X, y)
    >>> crf.basis_["node"].rank
    2
    """

    kernel: Kernel
    n_coordinates: int

    @property
    def rank(self) -> int:
        """Number of features."""
        return self.n_coordinates

    def features(self, inputs: Rows, dtype: DTypeLike = np.float64) -> Rows:
        """Return phi(x), dense or CSR as the inputs are.

        Parameters
        ----------
        inputs : array or CSR matrix (n, d)
            The inputs.
        dtype : dtype, default float64
            The type of the features.

        Returns
        -------
        array or CSR matrix (n, r)
            The features.
        """
        features = self.kernel.feature_map(inputs)
        assert features is not None
        return features.astype(dtype, copy=False)

    def apply(self, inputs: Rows, coefficients: np.ndarray) -> np.ndarray:
        """Return phi(x)^T coefficients.

        Parameters
        ----------
        inputs : array or CSR matrix (n, d)
            The inputs.
        coefficients : array (r, q)
            Coefficients of the features.

        Returns
        -------
        array (n, q)
            The values.
        """
        return np.asarray(self.features(inputs) @ coefficients)


@dataclass
class ConstantSubspace:
    """The one-dimensional space of functions that do not depend on the input: z(x) = 1.

    Parameters
    ----------
    kernel : Kernel
        The constant kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X, y = [np.array([[0.0, 1.0], [1.0, 0.0]])], [["a", "b"]]
    >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False, window=1).fit(X, y)
    >>> crf.basis_["edge"].rank  # transitions that do not depend on inputs
    1
    """

    kernel: Kernel
    rank: ClassVar[int] = 1

    def features(self, inputs: Rows, dtype: DTypeLike = np.float64) -> np.ndarray:
        """Return a column of ones.

        Parameters
        ----------
        inputs : array or CSR matrix (n, d)
            The inputs.
        dtype : dtype, default float64
            The type of the features.

        Returns
        -------
        array (n, 1)
            The feature.
        """
        return np.ones((inputs.shape[0], 1), dtype=dtype)

    def apply(self, inputs: Rows, coefficients: np.ndarray) -> np.ndarray:
        """Return the coefficients, once per row.

        Parameters
        ----------
        inputs : array or CSR matrix (n, d)
            The inputs.
        coefficients : array (1, q)
            The coefficients.

        Returns
        -------
        array (n, q)
            The values.
        """
        return np.repeat(np.asarray(coefficients, dtype=np.float64), inputs.shape[0], axis=0)


#: A subspace of an RKHS: its kernel, its rank, features z(x) of inputs, and z(x)^T coefficients.
Subspace: TypeAlias = PivotSubspace | ExplicitSubspace | ConstantSubspace
