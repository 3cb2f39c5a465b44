"""Every labelling of one short item, one by one: the oracle that all other inference is compared with.

    p(y) = exp(score(y)) / sum_y' exp(score(y'))        marginals, entropies, the best labellings: sums over all y

Scores are given; nothing of the package takes part. An item of T positions and L labels costs O(T L^T).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

Factor = tuple[Sequence[int], np.ndarray]
_MOST = 1_000_000


def all_labellings(length: int, n_labels: int) -> np.ndarray:
    """Return all labellings, (L^T, T).

    The last position is the leading digit, so that the first of equals is what a Viterbi pass finds that prefers low
    labels. ValueError for more than a million.
    """
    if n_labels**length > _MOST:
        raise ValueError(f"there are {n_labels}^{length} labellings, enumeration takes at most {_MOST:,}")
    return np.arange(n_labels**length)[:, None] // n_labels ** np.arange(length) % n_labels


def all_segmentations(length: int, n_labels: int, longest: int, *, repeats: bool = True) -> Iterator[tuple]:
    """Yield all segmentations as tuples of (begin, end, label); without ``repeats``, neighbours have other labels."""
    if length == 0:
        yield ()
        return
    for begin in range(max(0, length - longest), length):
        for before in all_segmentations(begin, n_labels, longest, repeats=repeats):
            for label in range(n_labels):
                if repeats or not before or before[-1][2] != label:
                    yield (*before, (begin, length, label))


def compute_scores(labellings: np.ndarray, node: np.ndarray, factors: Iterable[Factor] = ()) -> np.ndarray:
    """Return the scores (K,) of labellings: node scores (T, L), and a table for the labels of each factor's members."""
    scores = node[np.arange(len(node)), labellings].sum(axis=1)
    for members, table in factors:
        scores = scores + table[tuple(labellings[:, member] for member in members)]
    return scores


@dataclass
class Labellings:
    """All labellings (K, T) of one item with their scores (K,), minus infinity where they are forbidden."""

    labellings: np.ndarray
    scores: np.ndarray
    n_labels: int

    @classmethod
    def of(
        cls, node: np.ndarray, factors: Iterable[Factor] = (), whole: Callable[[np.ndarray], float] | None = None
    ) -> Self:
        """Return the labellings of node scores (T, L), of factors, and of a score of whole labellings."""
        labellings = all_labellings(*node.shape)
        scores = compute_scores(labellings, node, factors)
        if whole is not None:
            scores = scores + np.array([whole(labels) for labels in labellings])
        return cls(labellings, scores, node.shape[1])

    def condition(self, log_weights: np.ndarray) -> Self:
        """Return the distribution once log-weights (T, L) of labels are known."""
        return replace(self, scores=self.scores + compute_scores(self.labellings, log_weights))

    def weighted(self, weights: np.ndarray) -> Self:
        """Return the distribution once weights (T, L) of labels are known, 0 and 1 for labels that are allowed."""
        with np.errstate(divide="ignore"):
            return self.condition(np.log(np.asarray(weights, dtype=np.float64)))

    def log_evidence(self, weights: np.ndarray) -> float:
        """Return log of the expected weight, of labels that are allowed their probability."""
        return self.weighted(weights).log_partition - self.log_partition

    @property
    def possible(self) -> bool:
        """Whether any labelling is left."""
        return bool((self.scores > -np.inf).any())

    @cached_property
    def log_partition(self) -> float:
        """Log of the sum of all weights."""
        peak = self.scores.max()
        return float(peak + np.log(np.exp(self.scores - peak).sum())) if self.possible else -np.inf

    @cached_property
    def logs(self) -> np.ndarray:
        """Log-probabilities, (K,); the largest score is taken off first, which keeps the digits."""
        shifted = self.scores - self.scores.max()
        return shifted - np.log(np.exp(shifted).sum())

    @property
    def probabilities(self) -> np.ndarray:
        """Probabilities, (K,)."""
        return np.exp(self.logs)

    @cached_property
    def marginals(self) -> np.ndarray:
        """p(y_t), (T, L)."""
        weights = self.probabilities
        return np.array([np.bincount(column, weights, self.n_labels) for column in self.labellings.T])

    def joint(self, members: Sequence[int], weights: np.ndarray | None = None) -> np.ndarray:
        """Return the probabilities, or other weights (K,), of the labels of some positions together, (L, .., L)."""
        shape = (self.n_labels,) * len(members)
        numbers = np.ravel_multi_index(tuple(self.labellings[:, list(members)].T), shape)
        weights = self.probabilities if weights is None else weights
        return np.bincount(numbers, weights, self.n_labels ** len(members)).reshape(shape)

    @property
    def entropy(self) -> float:
        """Entropy in nats."""
        some = self.probabilities > 0
        return float(-(self.probabilities[some] @ self.logs[some]))

    def log_probability(self, labels: Sequence[int] | np.ndarray) -> float:
        """Return the log-probability that the labels are these, in however many rows they stand."""
        logs = self.logs[(self.labellings == np.asarray(labels)).all(axis=1)]
        return float(np.logaddexp.reduce(logs)) if logs.size else -np.inf

    @property
    def best(self) -> np.ndarray:
        """The most probable labelling, (T,)."""
        return self.labellings[self.scores.argmax()]

    @property
    def likeliest(self) -> np.ndarray:
        """The most probable label of each position, (T,)."""
        return self.marginals.argmax(axis=1)

    def best_first(self) -> Self:
        """Return the labellings that are possible, the best first."""
        order = np.argsort(-self.scores, kind="stable")[: int((self.scores > -np.inf).sum())]
        return replace(self, labellings=self.labellings[order], scores=self.scores[order])

    def ranked(self, count: int | None = None) -> list[tuple[np.ndarray, float]]:
        """Return the most probable labellings that are possible with their log-probabilities, the best first."""
        sorted_ = self.best_first()
        return list(zip(sorted_.labellings, sorted_.logs.tolist(), strict=True))[:count]

    def response(self, directions: np.ndarray) -> np.ndarray:
        """Return p (d - E d), the change of the probabilities where scores change by ``directions`` (K,)."""
        return self.probabilities * (directions - self.probabilities @ directions)
