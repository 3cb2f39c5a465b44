"""The distribution of the labels of one short item, by adding up the scores of every labelling.

    score(y) = sum_t node[t, y_t] + sum over factors of table[labels of its members]         p(y) = exp(score) / sum

Scores come from inputs and coefficients alone; no inference of the package takes part. O(L^T) for T labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from scipy.special import logsumexp


@dataclass
class Scores:
    """Scores of the labels of one item: of single ones (T, L), and of some together."""

    node: np.ndarray
    factors: list[tuple[tuple[int, ...], np.ndarray]] = field(default_factory=list)
    #: A score of the whole labelling, such as that of its segments.
    whole: Callable[[np.ndarray], float] | None = None


class Law:
    """All labellings (K, T) of an item, numbers of classes, with the logarithms of their probabilities (K,)."""

    def __init__(self, labellings: np.ndarray, scores: np.ndarray, n_labels: int):
        self.labellings, self.n_labels = labellings, n_labels
        self.scores = scores
        self.logs = scores - logsumexp(scores)

    @classmethod
    def of(cls, scores: Scores) -> Law:
        """Return the law of some scores."""
        length, n_labels = scores.node.shape
        labellings = np.array(list(product(range(n_labels), repeat=length)), dtype=np.int64).reshape(-1, length)
        total = scores.node[np.arange(length), labellings].sum(axis=1)
        for members, table in scores.factors:
            total = total + table[tuple(labellings[:, member] for member in members)]
        if scores.whole is not None:
            total = total + np.array([scores.whole(row) for row in labellings])
        return cls(labellings, total, n_labels)

    @property
    def chances(self) -> np.ndarray:
        """Probabilities of the labellings, (K,)."""
        return np.exp(self.logs)

    def marginals(self) -> np.ndarray:
        """Probabilities of the labels of each position, (T, L)."""
        return np.array([np.bincount(column, self.chances, self.n_labels) for column in self.labellings.T])

    def pair(self, first: int, second: int) -> np.ndarray:
        """Probabilities of the labels of two positions together, (L, L)."""
        joint = np.zeros((self.n_labels, self.n_labels))
        np.add.at(joint, (self.labellings[:, first], self.labellings[:, second]), self.chances)
        return joint

    def best(self) -> np.ndarray:
        """The most probable labelling, (T,)."""
        return self.labellings[self.logs.argmax()]

    def likeliest(self) -> np.ndarray:
        """The most probable label of each position, (T,)."""
        return self.marginals().argmax(axis=1)

    def log_chance(self, labels: Sequence[int]) -> float:
        """The logarithm of the probability of one labelling."""
        return float(self.logs[(self.labellings == np.asarray(labels)).all(axis=1)][0])

    def entropy(self) -> float:
        """Minus the sum of p log p."""
        kept = self.logs > -np.inf
        return float(-(self.chances[kept] @ self.logs[kept]))

    def ranked(self, count: int) -> list[tuple[np.ndarray, float]]:
        """The most probable labellings that are possible, with their logarithms."""
        order = [place for place in np.argsort(-self.logs)[:count] if self.logs[place] > -np.inf]
        return [(self.labellings[place], float(self.logs[place])) for place in order]

    def given(self, allowed: np.ndarray) -> Law:
        """The law where position t has one of the labels of ``allowed`` (T, L); weights count as they are."""
        with np.errstate(divide="ignore"):
            weights = np.log(np.asarray(allowed, dtype=float))
        known = weights[np.arange(len(weights)), self.labellings].sum(axis=1)
        return Law(self.labellings, self.scores + known, self.n_labels)

    def log_evidence(self, allowed: np.ndarray) -> float:
        """The logarithm of the probability that position t has one of the labels of ``allowed`` (T, L)."""
        with np.errstate(divide="ignore"):
            weights = np.log(np.asarray(allowed, dtype=float))
        known = weights[np.arange(len(weights)), self.labellings].sum(axis=1)
        return float(logsumexp(self.logs + known))
