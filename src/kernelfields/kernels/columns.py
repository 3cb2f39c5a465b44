"""A kernel that sees only some columns of its inputs.

    k(x, z) = inner(x[begin:end], z[begin:end])

With sums, different kernels see different features: ``Linear() + Columns(RBF(), 0, 50)`` is linear in everything
and smooth in the first fifty columns. Cost: that of the inner kernel, and a copy of the columns of sparse rows.
"""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np

from kernelfields.kernels.arrays import as_rows
from kernelfields.kernels.kernel import Kernel, Towards, register, valid_kernel
from kernelfields.numerics.sparse_rows import Rows, is_sparse

# Columns this few are handed on dense, and so are columns of which this share is not zero: products of sparse rows
# with themselves would cost more than zeros do.
_FEW, _FULL = 512, 0.25


@register("columns")
class Columns(Kernel):
    """The inner kernel on columns begin .. end - 1; ``end=None`` means all that follow."""

    takes_tensors = True
    checks: ClassVar = {"kernel": valid_kernel}

    def __init__(self, kernel: Kernel, begin: int = 0, end: int | None = None):
        self.kernel = kernel
        self.begin = begin
        self.end = end

    def check_parameters(self) -> None:
        """Check the part, and that begin and end are whole numbers in order."""
        super().check_parameters()
        for name, value in (("begin", self.begin), ("end", self.end)):
            whole = isinstance(value, Integral) and not isinstance(value, bool) and value >= 0
            if not whole and not (name == "end" and value is None):
                raise ValueError(f"Columns: {name} must be a whole number that is not negative, got {value!r}.")
        if self.end is not None and self.end <= self.begin:
            raise ValueError(f"Columns: end must be above begin, got {self.begin} to {self.end}.")

    def resolve(self, X: object, weights: np.ndarray | None = None) -> Columns:
        """Return a copy whose inner kernel follows the data in its columns."""
        self.check_parameters()
        return Columns(self.kernel.resolve(self._seen(X), weights), self.begin, self.end)

    @property
    def has_feature_map(self) -> bool:
        """Whether the part has features."""
        return self.kernel.has_feature_map

    def feature_map(self, X: object) -> Rows | None:
        """Return the features of the part, or None if it has none."""
        return self.kernel.feature_map(self._seen(X))

    def _seen(self, X: object) -> Rows:
        rows = as_rows(X)
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
        block = self.kernel.towards(self._seen(Z))
        return lambda X: block(self._seen(X))

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        return self.kernel(self._seen(X), None if Z is None else self._seen(Z))

    def _diagonal(self, X: Rows) -> np.ndarray:
        return self.kernel.diag(self._seen(X))
