"""Kernels on some of the columns, named by their places or by their kind, k(x, z) = kernel(x[begin:end], z[begin:end]).

Raises ValueError or TypeError naming the parameter, or the columns that the inputs lack.
"""

from __future__ import annotations

import numpy as np

from kernelfields.kernels import arrays
from kernelfields.kernels.kernel import Kernel, Towards, checked, register, valid_kernel
from kernelfields.numerics.parameters import declares_parameters, is_whole
from kernelfields.numerics.sparse_rows import Rows, is_sparse

# Columns this few are handed on dense, and so are columns of which this share is not zero: products of sparse rows
# with themselves would cost more than zeros do.
_FEW, _FULL = 512, 0.25
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
        """Check the part, and that begin and end are integers in order."""
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
        """Return a copy whose inner kernel is resolved by the data in its columns.

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
        """Columns that the inner kernel reads unscaled; categories are never changed."""
        begin = self.begin if isinstance(self.begin, int) else 0
        return () if self.begin == CATEGORIES else tuple(begin + column for column in self.kernel.own_columns)

    @property
    def has_named_kinds(self) -> bool:
        """Whether the columns, or the columns of the inner kernel, are selected by kind."""
        return isinstance(self.begin, str) or super().has_named_kinds

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
        if not isinstance(self.begin, str):
            return super().with_places(n_numbers)
        begin, end = (0, n_numbers) if self.begin == NUMBERS else (n_numbers, None)
        return Columns(self.kernel.with_places(n_numbers), begin, end)

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
