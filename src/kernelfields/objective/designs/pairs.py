"""The pairs of features and labellings with a weight: all of them here, chosen ones in supports.py.

Both answer the same questions: what shape coefficients have, what features make of them, and what residuals make of
coefficients. A term without features, such as plain transitions, has one feature, the constant. Where labels share
weights, every pair has one, and fewer are free (tied_coefficients.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np

from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.subspace import PivotSubspace, Subspace
from kernelfields.data.chains import Packed
from kernelfields.data.cliques import CliqueSet
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.group import Group
from kernelfields.numerics.sparse_rows import Rows, is_sparse
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs import pair_forms
from kernelfields.objective.designs.tables import FeatureTable, feature_table

#: Pairs with a coefficient.
Pairs: TypeAlias = "EveryPair | pair_forms.Support"
#: Computes sum_tu k(x_t, x_u) <R_t, R_u> for residuals R (n, q) of inputs x (n, d).
QuadraticForm: TypeAlias = Callable[[Kernel, Rows, np.ndarray], float]
#: Finds the pairs that occur, as :func:`seen_pairs` does.
PairFinder: TypeAlias = "Callable[..., pair_forms.Support]"


class Scorer(Protocol):
    """Fitted coefficients, prepared for scores of inputs."""

    def scores(self, inputs: Rows, workers: Workers) -> np.ndarray:
        """Return the scores of every row of inputs, (n, q)."""


@dataclass(frozen=True, eq=False)
class EveryPair:
    """Coefficients V (r, q) for every pair of a feature and a label coordinate."""

    #: Whether no pair is left out.
    complete: ClassVar[bool] = True
    #: Whether pairs share coefficients: fewer are free than the table V has entries.
    shared: ClassVar[bool] = False
    #: The labellings that the scores of the only feature are listed for; None for a table of all.
    listing: ClassVar[np.ndarray | None] = None

    def choose_span(
        self, choose: Callable[[int | None], PanelCholesky], most: int | None
    ) -> tuple[PivotSubspace, PanelCholesky | None]:
        """Return the span of at most ``most`` pivots, which ``choose`` selects, and the panel with its features."""
        panel = choose(most)
        return panel.subspace(), panel

    def in_subspace(self, clique: CliqueSet, subspace: Subspace, n_labels: int) -> EveryPair:
        """Return the pairs of the features of a subspace."""
        return self

    def free_coefficients(self, table: np.ndarray) -> np.ndarray:
        """Return the free coefficients of a table V, or the gradient in them from one in V: all entries."""
        return table

    def quadratic_form(
        self, clique: CliqueSet, kernel: Kernel, inputs: Rows, residuals: np.ndarray, form: QuadraticForm
    ) -> float:
        """Return the squared norm of the likelihood's gradient in the RKHS for residuals (n, q) of cliques."""
        return form(kernel, inputs, residuals)

    def shape(self, rank: int, width: int) -> tuple[int, int]:
        """Return the shape of the coefficients for these numbers of features and label coordinates."""
        return rank, width

    def select_pairs(
        self, data: Packed, clique: CliqueSet, n_labels: int, features: Rows | None, find: PairFinder
    ) -> Pairs:
        """Return the pairs with a coefficient in a fit to data; ``find`` finds the pairs in the data."""
        return self

    def check_term(self, name: str, subspace: Subspace, factor: np.ndarray | None, values: np.ndarray) -> None:
        """Accept the coefficients of a set: tables of any shape fit."""

    def matrix(self, values: np.ndarray) -> np.ndarray:
        """Return coefficients as a table of features and label coordinates."""
        return values

    def dense(self, values: np.ndarray) -> np.ndarray:
        """Return coefficients as an array, in the shape of :meth:`row` for listed labellings."""
        return values

    def row(self, values: np.ndarray) -> np.ndarray:
        """Return the scores of the only feature."""
        return values

    def pick(self, row: np.ndarray) -> np.ndarray:
        """Return a row of residuals as a gradient in the coefficients of the only feature."""
        return row

    def restrict_matrix(self, block: np.ndarray) -> np.ndarray:
        """Return the part of a matrix over label coordinates for coefficients of the only feature."""
        return block

    def product(self, features: Rows, values: np.ndarray) -> np.ndarray:
        """Return the scores of known features (n, r)."""
        return features @ values

    def slope(self, features: Rows, residuals: np.ndarray, workers: Workers) -> np.ndarray:
        """Return the gradient in the coefficients for residuals (n, q) of known features."""
        return features.T @ residuals

    def table(self, features: Rows | FeatureTable) -> FeatureTable:
        """Return the products of features with coefficients."""
        return feature_table(features)

    def find_occupied(self, features: Rows | FeatureTable, group: Group) -> np.ndarray | None:
        """Return the columns of features with coefficients; None for all.

        A feature that no training input has keeps the coefficient zero: its column is left out.
        """
        if not is_sparse(features):
            return None
        counts = np.bincount(features.indices, minlength=features.shape[1])
        present = group.total(counts.astype(np.float64))
        return None if present.all() else np.flatnonzero(present)

    def scorer(self, subspace: Subspace, values: np.ndarray) -> Scorer:
        """Return fitted coefficients, prepared for scores of inputs."""
        return _SubspaceScorer(subspace, values)

    def sharer(self, features: object) -> object:
        """Return the key of terms that share work on the same inputs."""
        return features

    def count(self, n_outcomes: int) -> int:
        """Return the number of labellings with a coefficient of the only feature."""
        return n_outcomes

    def labellings(self, n_outcomes: int) -> np.ndarray:
        """Return the labellings with a coefficient of the only feature."""
        return np.arange(n_outcomes)

    def list_pairs(self, n_features: int, n_outcomes: int) -> pair_forms.Support:
        """Return all pairs one by one."""
        begin = np.arange(n_features + 1, dtype=np.int64) * n_outcomes
        return pair_forms.Support(begin, np.tile(np.arange(n_outcomes, dtype=np.int32), n_features), n_outcomes)

    def make_coefficients(self, values: np.ndarray, n_features: int) -> np.ndarray:
        """Return one number per pair as coefficients."""
        return values.reshape(n_features, -1)

    def describe_pairs(self) -> dict[str, Mapping[str, np.ndarray]]:
        """Return the entries of a document with the pairs."""
        return {}


#: What most terms have: no pair is left out.
EVERY_PAIR = EveryPair()


class SeenPairs(EveryPair):
    """The pairs that occur in the data of a future fit."""

    def select_pairs(
        self, data: Packed, clique: CliqueSet, n_labels: int, features: Rows | None, find: PairFinder
    ) -> Pairs:
        """Return the pairs that occur in data often enough."""
        rows, labellings = clique.observed(data, n_labels)
        weights = clique.weights(data)
        if rows is not None:
            features = None if features is None else features[rows]
            weights = None if weights is None else weights[rows]
        n_outcomes, listed = clique.n_configurations(n_labels), clique.has_sparse_labellings
        return find(features, labellings, n_outcomes, clique.least_weight, weights, listed=listed)


#: What terms have whose clique sets ask for pairs that occur, before they meet data.
SEEN_PAIRS = SeenPairs()


@dataclass(frozen=True, eq=False)
class _SubspaceScorer:
    """Coefficients of all features of a subspace."""

    subspace: Subspace
    values: np.ndarray

    def scores(self, inputs: Rows, workers: Workers) -> np.ndarray:
        """Return the scores of every row of inputs, (n, q)."""
        return self.subspace.apply(inputs, self.values)


def seen_pairs(
    features: Rows | None,
    labellings: np.ndarray,
    n_outcomes: int,
    least: float,
    weights: np.ndarray | None,
    *,
    listed: bool,
) -> pair_forms.Support:
    """Return the pairs of features (n, r), None for the constant, and labellings (n,) that occur in this process."""
    if listed:
        return pair_forms.listed_support(labellings, n_outcomes, least, weights)
    return pair_forms.observed_support(features, labellings, n_outcomes, least, weights)
