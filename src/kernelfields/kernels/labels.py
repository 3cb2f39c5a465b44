"""Kernels on labels, k((x, y), (x', y')) = k_x(x, x') k_y(y, y'), and their contrasts.

Centring, k_y -> J k_y J with J = I - 1 1^T / L, leaves every conditional probability unchanged (Lemma 13), so the work
is done with a factor of the centred kernel, A of shape (L, q) with A A^T = J k_y J and q its rank:

    f(x, y) = sum_j A[y, j] g_j(x)              ||f||^2 = sum_j ||g_j||^2

For both deltas A is an orthonormal contrast matrix (Helmert), q = L - 1. Its columns are orthogonal and
sum to zero over labels in every case. Cost O(L^3) for a LabelMatrix, O(L^2) otherwise.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import helmert

from kernelfields.kernels.kernel import rounding_tolerance, symmetric
from kernelfields.numerics.parameters import ComparedByParameters

# Eigenvalues of the centred kernel below this share of the largest of the kernel count as zero.
_RANK_TOLERANCE = 1e-12


class LabelKernel(ComparedByParameters):
    """A positive semi-definite kernel between the labels 0 .. L - 1."""

    kind: ClassVar[str] = ""

    def matrix(self, n_labels: int) -> np.ndarray:
        """Return k_y, shape (L, L)."""
        raise NotImplementedError(f"{type(self).__name__} must define matrix(n_labels).")

    def factor(self, n_labels: int) -> np.ndarray:
        """Return A of shape (L, q) with A A^T the centred kernel and q its rank."""
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

    def spec(self) -> dict[str, Any]:
        """Return a description that ``label_kernel_from_spec`` reads."""
        return {"kind": self.kind}


class _Contrasts(LabelKernel):
    """A label kernel that is I - 1 1^T / L when centred."""

    def factor(self, n_labels: int) -> np.ndarray:
        """Return the orthonormal Helmert contrasts, shape (L, L - 1)."""
        if _checked_count(n_labels) == 1:
            return np.zeros((1, 0))  # a single label has nothing to contrast
        return np.ascontiguousarray(helmert(n_labels).T)


class Delta(_Contrasts):
    """k_y(y, y') = 1 if y = y', else 0: the default."""

    kind = "delta"

    def matrix(self, n_labels: int) -> np.ndarray:
        """Return the identity."""
        return np.eye(_checked_count(n_labels))


class CentredDelta(_Contrasts):
    """k_y(y, y') = 1 - 1/L if y = y', else -1/L."""

    kind = "centred"

    def matrix(self, n_labels: int) -> np.ndarray:
        """Return I - 1 1^T / L."""
        return np.eye(_checked_count(n_labels)) - 1.0 / n_labels


class LabelMatrix(LabelKernel):
    """k_y(y, y') = values[y, y'], symmetric and positive semi-definite, in the order of ``classes_``."""

    kind = "matrix"

    def __init__(self, values: Any):
        self.values = values

    def matrix(self, n_labels: int) -> np.ndarray:
        """Return the values, checked to be a kernel on L labels."""
        values = self._checked_values()
        if len(values) != _checked_count(n_labels):
            raise ValueError(
                f"LabelMatrix: there are {n_labels} labels, but values has shape {values.shape}. "
                "It needs one row and one column per label, in sorted order of the labels."
            )
        return values

    def spec(self) -> dict[str, Any]:
        """Return the description with the values as a numpy array."""
        return {"kind": self.kind, "values": self._checked_values()}

    def _checked_values(self) -> np.ndarray:
        try:
            values = np.array(self.values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"LabelMatrix: values must be a square array of numbers: {error}.") from error
        if values.ndim != 2 or values.shape[0] != values.shape[1] or values.size == 0:
            raise ValueError(f"LabelMatrix: values must be a square array, got shape {values.shape}.")
        values = symmetric(values, "LabelMatrix: values")
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


def resolve_label_kernel(kernel: Any) -> LabelKernel:
    """Return the label kernel meant by "delta", "centred", a LabelKernel or an L x L array."""
    if isinstance(kernel, LabelKernel):
        return kernel
    if isinstance(kernel, str):
        names: dict[str, type[LabelKernel]] = {"delta": Delta, "centred": CentredDelta, "centered": CentredDelta}
        if kernel not in names:
            raise ValueError(f"unknown label kernel {kernel!r}; known are {', '.join(map(repr, names))}.")
        return names[kernel]()
    if isinstance(kernel, np.ndarray | list | tuple):
        return LabelMatrix(np.asarray(kernel))
    raise TypeError(
        f"a label kernel is 'delta', 'centred', a LabelKernel object or an L x L array of its values, got {kernel!r}."
    )


def label_kernel_from_spec(spec: Mapping[str, Any]) -> LabelKernel:
    """Return the label kernel that ``LabelKernel.spec`` described."""
    kinds: dict[str, type[LabelKernel]] = {kernel.kind: kernel for kernel in (Delta, CentredDelta, LabelMatrix)}
    kind = spec.get("kind") if isinstance(spec, Mapping) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError(f"a label kernel is of the kind {', '.join(kinds)}; the description is {spec!r}.")
    given, expected = set(spec) - {"kind"}, kinds[kind]._get_param_names()
    if given != set(expected):
        raise ValueError(
            f"a label kernel of kind {kind!r} has the parameters [{', '.join(expected)}], "
            f"got [{', '.join(map(str, given))}]."
        )
    return LabelMatrix(LabelMatrix(spec["values"])._checked_values()) if kind == "matrix" else kinds[kind]()
