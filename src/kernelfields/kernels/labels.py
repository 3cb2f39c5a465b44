"""Kernels on labels, k((x, y), (x', y')) = k_x(x, x') k_y(y, y'), and their contrasts.

Centring, k_y -> J k_y J with J = I - 1 1^T / L, leaves every conditional probability unchanged (Lemma 13), so the work
is done with a factor of the centred kernel, A of shape (L, q) with A A^T = J k_y J and q its rank:

    f(x, y) = sum_j A[y, j] g_j(x)              ||f||^2 = sum_j ||g_j||^2

For both deltas A is an orthonormal contrast matrix (Helmert), q = L - 1. Its columns are orthogonal and
sum to zero over labels in every case. Cost O(L^3) for a LabelMatrix, O(L^2) otherwise.
"""

from __future__ import annotations

import numbers

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.kernels.kernel import rounding_tolerance, symmetrize
from kernelfields.numerics.registry import Parametrized, Registry

# Eigenvalues of the centred kernel below this share of the largest of the kernel count as zero.
_RANK_TOLERANCE = 1e-12


class LabelKernel(Parametrized):
    """A positive semi-definite kernel between labels; the base class of all label kernels.

    The kernel of a clique is the product of a kernel of inputs and one of labels. Subclasses write ``matrix``.

    See Also
    --------
    LabelMatrix : A label kernel by its values.

    Examples
    --------
    Labels of an ordered scale, where neighbours resemble each other:

    >>> import numpy as np
    >>> from kernelfields.kernels import LabelKernel
    >>> class Ordered(LabelKernel):
    ...     def matrix(self, n_labels):
    ...         places = np.arange(n_labels)
    ...         return np.exp(-abs(places[:, None] - places))
    >>> Ordered().matrix(3).round(3)
    array([[1.   , 0.368, 0.135],
           [0.368, 1.   , 0.368],
           [0.135, 0.368, 1.   ]])
    """

    def matrix(self, n_labels: int) -> np.ndarray:
        """Return the values for all pairs of labels.

        Parameters
        ----------
        n_labels : int
            The number of labels L.

        Returns
        -------
        array (L, L)
            The values k_y.
        """
        raise NotImplementedError(f"{type(self).__name__} must define matrix(n_labels).")

    def factor(self, n_labels: int) -> np.ndarray:
        """Return a factor of the centred kernel, whose columns are the coordinates of label functions.

        Parameters
        ----------
        n_labels : int
            The number of labels L.

        Returns
        -------
        array (L, q)
            A with A A^T the centred kernel, and q its rank.
        """
        kernel = self.matrix(n_labels)
        row_means = kernel.mean(axis=0)
        centred = kernel - row_means - row_means[:, None] + row_means.mean()
        eigenvalues, vectors = np.linalg.eigh((centred + centred.T) / 2)
        # Centring may cancel all of k_y: what is rounding is measured against k_y itself.
        largest = np.linalg.norm(kernel, 2)
        kept = np.flatnonzero(eigenvalues > _RANK_TOLERANCE * largest)[::-1]
        vectors = vectors[:, kept]
        # Eigenvectors have no sign: the first of the largest entries is made positive.
        leading = np.argmax(np.round(np.abs(vectors), 8), axis=0)
        signs = np.sign(vectors[leading, np.arange(len(kept))])
        return vectors * signs * np.sqrt(eigenvalues[kept])

    def spec(self) -> dict[str, object]:
        """Return a description for ``label_kernel_from_spec``.

        Returns
        -------
        dict
            The kind and the parameters.
        """
        return {"kind": LABEL_KERNELS.find_name(self), **self.get_params(deep=False)}


LABEL_KERNELS: Registry[LabelKernel] = Registry("label kernel")


class _Contrasts(LabelKernel):
    """A label kernel that is I - 1 1^T / L when centred."""

    def factor(self, n_labels: int) -> np.ndarray:
        """Return the orthonormal Helmert contrasts.

        Parameters
        ----------
        n_labels : int
            The number of labels L.

        Returns
        -------
        array (L, L - 1)
            The contrasts.
        """
        if _checked_count(n_labels) == 1:
            return np.zeros((1, 0))  # a single label has nothing to contrast
        from scipy.linalg import helmert

        return np.ascontiguousarray(helmert(n_labels).T)


@LABEL_KERNELS.register("delta")
class Delta(_Contrasts):
    """Equal labels are similar, k_y(y, y') = 1 if y = y', else 0: the default.

    See Also
    --------
    CentredDelta : The same field, written without the constant.

    Examples
    --------
    >>> from kernelfields.kernels import Delta
    >>> Delta().matrix(2)
    array([[1., 0.],
           [0., 1.]])
    """

    def matrix(self, n_labels: int) -> np.ndarray:
        """Return the identity.

        Parameters
        ----------
        n_labels : int
            The number of labels L.

        Returns
        -------
        array (L, L)
            The values.
        """
        return np.eye(_checked_count(n_labels))


@LABEL_KERNELS.register("centred")
class CentredDelta(_Contrasts):
    """The delta kernel without its constant, k_y(y, y') = 1 - 1/L if y = y', else -1/L.

    See Also
    --------
    Delta : The same field.

    Examples
    --------
    >>> from kernelfields.kernels import CentredDelta
    >>> CentredDelta().matrix(2)
    array([[ 0.5, -0.5],
           [-0.5,  0.5]])
    """

    def matrix(self, n_labels: int) -> np.ndarray:
        """Return I - 1 1^T / L.

        Parameters
        ----------
        n_labels : int
            The number of labels L.

        Returns
        -------
        array (L, L)
            The values.
        """
        return np.eye(_checked_count(n_labels)) - 1.0 / n_labels


@LABEL_KERNELS.register("matrix")
class LabelMatrix(LabelKernel):
    """A label kernel given by its values, k_y(y, y') = values[y, y'].

    Parameters
    ----------
    values : array (L, L)
        Similarities of labels in the order of ``classes_``, symmetric and positive semi-definite.

    Examples
    --------
    The first two of three labels resemble each other:

    >>> from kernelfields import NodeCliques
    >>> from kernelfields.kernels import LabelMatrix
    >>> kernel = LabelMatrix([[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> NodeCliques("rbf", label_kernel=kernel).label_kernel.matrix(3)[0]
    array([1. , 0.8, 0. ])
    """

    def __init__(self, values: ArrayLike):
        self.values = values

    def matrix(self, n_labels: int) -> np.ndarray:
        """Return the values; ValueError unless they are a kernel on L labels.

        Parameters
        ----------
        n_labels : int
            The number of labels L.

        Returns
        -------
        array (L, L)
            The values.
        """
        values = self._checked_values()
        if len(values) != _checked_count(n_labels):
            raise ValueError(
                f"LabelMatrix: there are {n_labels} labels, but values has shape {values.shape}. "
                "It needs one row and one column per label, in sorted order of the labels."
            )
        return values

    def spec(self) -> dict[str, object]:
        """Return the description, with the values as an array.

        Returns
        -------
        dict
            The kind and the values.
        """
        return {**super().spec(), "values": self._checked_values()}

    def _checked_values(self) -> np.ndarray:
        try:
            values = np.array(self.values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"LabelMatrix: values must be a square array of numbers: {error}.") from error
        if values.ndim != 2 or values.shape[0] != values.shape[1] or values.size == 0:
            raise ValueError(f"LabelMatrix: values must be a square array, got shape {values.shape}.")
        values = symmetrize(values, "LabelMatrix: values")
        eigenvalues = np.linalg.eigvalsh(values)
        if eigenvalues[0] < -rounding_tolerance(values.dtype) * np.abs(eigenvalues).max():
            raise ValueError(
                f"LabelMatrix: values must be positive semi-definite, but {eigenvalues[0]:.3g} is an "
                "eigenvalue. Adding its absolute value to the diagonal makes it so."
            )
        return values


def _checked_count(n_labels: int) -> int:
    if not isinstance(n_labels, numbers.Integral) or isinstance(n_labels, bool) or n_labels < 1:
        raise ValueError(f"n_labels must be a whole number >= 1, got {n_labels!r}.")
    return int(n_labels)


def resolve_label_kernel(kernel: object) -> LabelKernel:
    """Return the label kernel for "delta", "centred", a LabelKernel or an L x L array."""
    if isinstance(kernel, LabelKernel):
        return kernel
    if isinstance(kernel, str):
        names = LABEL_KERNELS.shorthands
        if kernel not in names:
            raise ValueError(f"unknown label kernel {kernel!r}; known are {', '.join(map(repr, names))}.")
        return LABEL_KERNELS.make(kernel)
    if isinstance(kernel, np.ndarray | list | tuple):
        return LabelMatrix(np.asarray(kernel))
    raise TypeError(
        f"a label kernel is 'delta', 'centred', a LabelKernel object or an L x L array of its values, got {kernel!r}."
    )


def label_kernel_from_spec(spec: object) -> LabelKernel:
    """Return the label kernel of a description by ``LabelKernel.spec``."""
    kind, parameters = LABEL_KERNELS.read(spec)
    kernel = kind(**parameters)
    return LabelMatrix(kernel._checked_values()) if isinstance(kernel, LabelMatrix) else kernel
