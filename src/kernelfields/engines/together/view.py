"""The inputs of cliques in several processes: data-dependent rules, supports, columns.

Rules such as gamma="scale" read the variance of the inputs. It is added up over the processes, column by column, and
the kernel is resolved on two rows that have the same means and variances; where every process has all data, as with
lists, it is resolved on these. Pivots are chosen by every process alike, among all inputs or, where these are many,
among 20,000 of them or four times the rank, drawn at random: small data have the pivots of one process. Cost: two
exchanges for the moments, one of a sample of rows that shows whether the kernel is one, one of the candidates.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import scipy.sparse

from kernelfields.basis.gradient import Gradient
from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.pivot_rules import AllPoints
from kernelfields.basis.selection import Basis
from kernelfields.basis.subspace import PivotSubspace
from kernelfields.data.cliques import CliqueSet
from kernelfields.data.reading import Matrix
from kernelfields.engines.view import LocalView
from kernelfields.kernels.kernel import Kernel, check_positive_semidefinite
from kernelfields.numerics.group import Group
from kernelfields.objective.designs.supports import ListedSupport, Support

# As many as check_positive_semidefinite looks at.
_SAMPLE = 200
# Inputs among which pivots are chosen, at least; all, where there are no more.
_MOST_CANDIDATES = 20_000


class SharedView(LocalView):
    """Rows of this process for the cliques of a set; their number counts all processes."""

    def __init__(self, sample: Any, name: str, clique: CliqueSet):
        super().__init__(sample, name, clique)
        self._group = sample.group
        firsts = self._group.gather((self.inputs.shape[0], self.inputs[:1]))
        self._counts = [count for count, _ in firsts]
        self.n_rows = sum(self._counts)
        self.first_row = next((row for count, row in firsts if count), self.inputs[:1])

    def resolve_kernel(self, kernel: Kernel) -> Kernel:
        """Return the kernel with numbers for data-dependent rules."""
        everywhere = self._sample.everywhere
        if everywhere is not None:
            return LocalView(everywhere, self._name, self._clique).resolve_kernel(kernel)
        parts = [kernel, *(value for value in kernel.get_params().values() if isinstance(value, Kernel))]
        if keeping := next((part for part in parts if part.should_keep_rows), None):
            raise ValueError(
                f"{keeping!r} learns from all inputs of fit, which the workers have in parts: give it what it learns "
                "from them, or pass lists"
            )
        signs, ones = np.array([[1.0], [-1.0]]), np.ones(self.first_row.shape[1])
        guess = kernel.resolve(signs * ones)
        if guess == kernel.resolve(2.0 * signs * ones):
            return guess
        rules = (
            part for part in parts if part.depends_on_data and not type(part).__module__.startswith("kernelfields.")
        )
        if ruled := next(rules, None):
            raise ValueError(
                f"{ruled!r} reads its parameters off the data by a rule that needs all of them, and the workers have "
                "parts: give them as numbers"
            )
        means, deviations = self._moments()
        return kernel.resolve(means + signs * deviations)

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of each column over the rows of all processes."""
        weights, inputs, group = self._clique.weights(self._sample.data), self.inputs, self._group
        weights = np.ones(inputs.shape[0]) if weights is None else weights
        # Differences from one row are exactly zero where columns are constant, and so are their squares.
        row: Any = self.first_row
        first = np.ravel(row if isinstance(row, np.ndarray) else row.toarray()).astype(np.float64)
        if isinstance(inputs, np.ndarray):
            sums = weights @ (inputs - first)
        else:
            sums = inputs.T.astype(np.float64) @ weights - weights.sum() * first
        sums, weight = group.total([sums, float(weights.sum())])
        means = first + sums / weight
        squares = group.total(_squares(inputs, weights, means))
        return means, np.sqrt(squares / weight)

    def check_kernel(self, kernel: Kernel, random: np.random.Generator) -> None:
        """Raise if the kernel is not positive semi-definite on a sample; ``random`` advances as in one process."""
        rows = np.sort(random.permutation(self.n_rows)[:_SAMPLE])
        check_positive_semidefinite(kernel, self._rows_of_all(rows))

    def panel(self, kernel: Kernel, basis: Basis, most: int | None) -> PanelCholesky:
        """Return an empty panel of equal candidates in all processes; few inputs are all candidates.

        ValueError for a basis that would need kernel values between inputs of several processes.
        """
        if isinstance(basis, Gradient | AllPoints):
            kind = "all" if isinstance(basis, AllPoints) else "gradient"
            raise ValueError(
                f"basis={kind!r} of clique set {self._name!r} needs kernel values between all inputs, which workers do "
                "not bring together: use basis='random-cholesky', or engine='threads'"
            )
        capacity = basis.capacity(most, self.n_rows)
        numbers, most_candidates = np.arange(self.n_rows), max(_MOST_CANDIDATES, 4 * capacity)
        if self.n_rows > most_candidates:
            numbers = np.sort(np.random.default_rng(0).choice(self.n_rows, most_candidates, replace=False))
        own = self._sample.own
        own.rows_of_all = self.n_rows
        panel = own.panel(self._name, self._clique, kernel, self._rows_of_all(numbers), capacity)
        panel.numbers = numbers
        return panel

    def _rows_of_all(self, numbers: np.ndarray) -> Matrix:
        """Return inputs of all processes by their rising numbers."""
        parts = [part for part in self._group.gather(self.inputs[self.own_rows(numbers)]) if part.shape[0]]
        if scipy.sparse.issparse(parts[0]):
            return scipy.sparse.csr_array(scipy.sparse.vstack(parts, format="csr"))
        return np.concatenate(parts)

    def own_rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return this process's rows among rows of all processes, given by index."""
        own = self._group.find_share(self._counts)
        return numbers[(numbers >= own.start) & (numbers < own.stop)] - own.start


def agree_on_subspace(group: Group, subspace: PivotSubspace) -> PivotSubspace:
    """Return the subspace of the first process if rounding has led to different pivots."""
    mark = crc32(np.ascontiguousarray(np.diagonal(subspace.factor)).tobytes(), crc32(subspace.indices.tobytes()))
    return subspace if len(set(group.gather(mark))) == 1 else group.gather(subspace)[0]


def _squares(inputs: Matrix, weights: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return weighted sums of squared differences from the means, column by column."""
    if isinstance(inputs, np.ndarray):
        return weights @ np.square(inputs - means)
    weight_of_value = np.repeat(weights, np.diff(inputs.indptr))
    squared = weight_of_value * np.square(inputs.data - means[inputs.indices])
    squares = np.bincount(inputs.indices, squared, minlength=inputs.shape[1])
    stored = np.bincount(inputs.indices, weight_of_value, minlength=inputs.shape[1])
    return squares + (weights.sum() - stored) * np.square(means)


def share_support(
    group: Group,
    features: Matrix | None,
    labellings: np.ndarray,
    n_outcomes: int,
    least: float,
    weights: np.ndarray | None,
    *,
    listed: bool,
) -> Support:
    """Return the pairs of features (n, r), None for the constant, and labellings (n,) that occur in some process.

    A pair whose total weight is below ``least`` is left out; ``weights`` (n,) are those of rows, None for ones.
    """
    weights = np.ones(len(labellings)) if weights is None else weights
    if features is None or listed:
        width, pairs, amounts = 1, labellings.astype(np.int64), weights
    else:
        stored = scipy.sparse.csr_array(features)
        pairs = stored.indices.astype(np.int64) * n_outcomes + np.repeat(labellings, np.diff(stored.indptr))
        width, amounts = stored.shape[1], stored.data * np.repeat(weights, np.diff(stored.indptr))
    keys, places = np.unique(pairs, return_inverse=True)
    parts = group.gather((keys, np.bincount(places, weights=amounts, minlength=len(keys))))
    keys, places = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    if least > 0:
        keys = keys[np.bincount(places, weights=np.concatenate([part[1] for part in parts])) >= least]
    if listed:
        return ListedSupport(np.array([0, len(keys)]), keys, n_outcomes)
    begin = np.concatenate([[0], np.cumsum(np.bincount(keys // n_outcomes, minlength=width))])
    return Support(begin.astype(np.int32), (keys % n_outcomes).astype(np.int32), n_outcomes)
