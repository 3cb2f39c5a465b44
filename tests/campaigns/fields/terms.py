"""Scores of all labellings of a small field, from kernels and coefficients.

    score(y) = base(y) + sum over terms c, rows n and labellings l of C_c(y)_nl (z_n^T V_c A_c^T)_l

``C_c(y)_nl`` counts how often row n of a term has the labelling l in y: one at each clique of a chain or graph.
Every answer follows from the list of the scores
(oracles/labellings.py). Kernels are written out here once more, so that nothing of the package but arrays of a fitted
model (pivots, factors, coefficients) enters the numbers that its answers are compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.oracles.labellings import Labellings


def kernel_values(kernel: Any, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return k(x, z) of all rows x of the first and z of the second table, from the formula of the kernel."""
    products = first @ second.T
    squares = np.maximum(((first[:, None, :] - second[None, :, :]) ** 2).sum(axis=2), 0.0)
    kind = type(kernel).__name__
    if kind == "Linear":
        return products
    if kind == "RBF":
        return np.exp(-kernel.gamma * squares)
    if kind == "Laplacian":
        return np.exp(-kernel.gamma * np.abs(first[:, None, :] - second[None, :, :]).sum(axis=2))
    if kind == "Polynomial":
        return (kernel.gamma * products + kernel.coef0) ** kernel.degree
    if kind == "Matern" and kernel.nu == 1.5:
        scaled = np.sqrt(3.0 * squares) / kernel.length_scale
        return (1.0 + scaled) * np.exp(-scaled)
    raise NotImplementedError(f"no formula for {kernel!r}")


@dataclass
class PlainTerm:
    """Functions of one clique set: how features and coefficients become scores of labellings."""

    name: str
    group: str | None
    coefficients: np.ndarray
    prior_variance: float
    l1: float
    #: (L^k, q), or None for coefficients of single labellings.
    factor: np.ndarray | None
    #: Features and labellings of the coefficients, where only some pairs have any.
    pairs: tuple[np.ndarray, np.ndarray] | None
    n_outcomes: int
    features_of: Callable[[np.ndarray], np.ndarray]

    @classmethod
    def of(cls, term: Any, n_labels: int) -> PlainTerm:
        """Return the arrays of a fitted term; ``features_of`` takes what its cliques see, dense."""
        subspace, support = term.subspace, term.pairs
        kind = type(subspace).__name__
        if kind == "PivotSubspace":
            pivots = subspace.pivots
            dense = np.asarray(pivots.toarray() if hasattr(pivots, "toarray") else pivots, dtype=np.float64)

            def features_of(seen: np.ndarray) -> np.ndarray:
                return np.linalg.solve(np.asarray(subspace.factor), kernel_values(subspace.kernel, dense, seen)).T

        elif kind == "ConstantSubspace":

            def features_of(seen: np.ndarray) -> np.ndarray:
                return np.ones((len(seen), 1))

        else:
            if type(subspace.kernel).__name__ != "Linear":
                raise NotImplementedError(f"no features of {subspace.kernel!r}")

            def features_of(seen: np.ndarray) -> np.ndarray:
                return seen

        pairs = None
        if not support.complete:
            pairs = np.repeat(np.arange(len(support.begin) - 1), np.diff(support.begin)), np.asarray(support.outcomes)
        return cls(
            term.name,
            term.clique.group,
            np.asarray(term.coefficients, dtype=np.float64),
            float(term.clique.prior_variance),
            float(term.clique.l1 or 0.0),
            term.label_factor,
            pairs,
            n_labels**term.clique.labels_per_clique,
            features_of,
        )

    def table(self, coefficients: np.ndarray) -> np.ndarray:
        """Return weights of all features and labellings, (r, L^k)."""
        if self.pairs is None:
            return coefficients if self.factor is None else coefficients @ self.factor.T
        features, outcomes = self.pairs
        table = np.zeros((int(features.max(initial=0)) + 1, self.n_outcomes))
        table[features, outcomes] = coefficients.ravel()
        return table

    def scores(self, features: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the scores of all labellings of rows with some features, (n, L^k)."""
        table = self.table(coefficients)
        # Features that were never seen in training have no pairs, and may be more than the last that has one.
        return features[:, : len(table)] @ table

    def pulled(self, features: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Return the derivative in the coefficients where that in the scores is ``slopes`` (n, L^k)."""
        if self.pairs is not None:
            which, outcomes = self.pairs
            return (features[:, which] * slopes[:, outcomes]).sum(axis=0)[:, None]
        whole = features.T @ slopes
        return whole if self.factor is None else whole @ self.factor

    def penalty(self, coefficients: np.ndarray) -> float:
        """Return what the prior adds to the objective."""
        return float((coefficients**2).sum() / (2 * self.prior_variance) + self.l1 * np.abs(coefficients).sum())


@dataclass
class Rows:
    """A term on one item: features (n, r) of its rows, and counts (K, n, L^k) of labellings there.

    ``members`` are the places whose labels meet in each row, where rows are cliques.
    """

    features: np.ndarray
    counts: np.ndarray
    members: Sequence[tuple[int, ...]] = ()


@dataclass
class Enumerated(Labellings):
    """All labellings of one item, with the rows of each term.

    ``cuts`` are the segmentations, as tuples (begin, end, label), of which labellings may be the same.
    """

    rows: Sequence[Rows] = ()
    cuts: list[tuple] | None = None

    def expected(self, term: int) -> np.ndarray:
        """Return expected counts of the labellings of each row of a term, (n, L^k)."""
        return np.tensordot(self.probabilities, self.rows[term].counts, axes=1)


def clique_counts(labellings: np.ndarray, members: Sequence[tuple[int, ...]], n_labels: int) -> np.ndarray:
    """Return which labelling each clique has, (K, n, L^k); members are the places that meet in each clique."""
    order = len(members[0])
    counts = np.zeros((len(labellings), len(members), n_labels**order))
    for row, places in enumerate(members):
        numbers = np.ravel_multi_index(tuple(labellings[:, list(places)].T), (n_labels,) * order)
        counts[np.arange(len(labellings)), row, numbers] = 1.0
    return counts


def rows_of(
    term: PlainTerm, labellings: np.ndarray, members: Sequence[tuple[int, ...]], seen: np.ndarray, n_labels: int
) -> Rows:
    """Return a term on one item: what its cliques see (n, d), and the places that meet in each."""
    counts = np.zeros((len(labellings), 0, term.n_outcomes))
    if members:
        counts = clique_counts(labellings, members, n_labels)
    return Rows(term.features_of(seen), counts, members)


def scored(item: Enumerated, base: np.ndarray, terms: Sequence[PlainTerm], coefficients: Sequence[np.ndarray]) -> Any:
    """Return the item with the scores of some coefficients on top of the logarithm of its base measure (K,)."""
    total = np.array(base, dtype=np.float64)
    for term, rows, own in zip(terms, item.rows, coefficients, strict=True):
        table = term.scores(rows.features, own)
        total = total + rows.counts.reshape(len(total), table.size) @ table.ravel()
    return replace(item, scores=total)
