"""Confusion matrices of annotators.

    p(z_t^r = b | y_t = a) = pi^r(a, b)                              the label b that annotator r gives for a
    q_t(y) = prod_r pi^r(y, z_t^r)                                   no factor for missing labels
    pi^r(a, b) proportional to c_ab + sum_t p(y_t = a | z) [z_t^r = b]        c: pseudo-counts of a Dirichlet prior

Without a field, labels are independent of inputs and of each other, p(y_t = a | z) is proportional to share(a) q_t(a),
and the two are iterated (Dawid and Skene, 1979). Cost: O(N R L) for each iteration.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from kernelfields.annotators.annotations import UNSAID, Annotations

# Tolerance for label probabilities and maximal number of iterations without a field.
_SETTLED, _MOST = 1e-3, 100


class Confusions:
    """Confusion matrices (R, L, L) of annotators, from true labels (rows) to given labels (columns), and their prior.

    Without ``matrices`` they are those of a vote, ``weights`` (N,) of positions counted.
    """

    def __init__(
        self,
        annotations: Annotations,
        pseudo_counts: np.ndarray,
        matrices: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ):
        self.annotations = annotations
        self.pseudo_counts = pseudo_counts
        n_labels = len(pseudo_counts)
        rows, annotators = np.nonzero(annotations.codes != UNSAID)
        said = annotators * n_labels + annotations.codes[rows, annotators]
        shape = len(annotations.codes), annotations.n_annotators * n_labels
        # What was said of each position, a column for each annotator and label.
        self._indicators = scipy.sparse.csr_array((np.ones(len(rows)), (rows, said)), shape)
        if matrices is None:
            self.update(_vote_shares(annotations.counts) * (1.0 if weights is None else weights[:, None]))
        else:
            self.matrices = matrices

    def update(self, completed: np.ndarray) -> None:
        """Maximize the posterior of the matrices for weighted label probabilities (N, L)."""
        n_labels = completed.shape[1]
        counts = (self._indicators.T @ completed).reshape(-1, n_labels, n_labels).transpose(
            0, 2, 1
        ) + self.pseudo_counts
        self.matrices = counts / counts.sum(axis=2, keepdims=True)

    def log_weights(self) -> np.ndarray:
        """Compute log q_t(y), (N, L)."""
        logs = np.log(self.matrices).transpose(0, 2, 1)
        return self._indicators @ logs.reshape(-1, logs.shape[2])

    def log_consensus(self, weights: np.ndarray) -> np.ndarray:
        """Estimate log p(y_t | z), (N, L), and the matrices without a field, for weights (N,)."""
        completed = _vote_shares(self.annotations.counts)
        for _ in range(_MOST):
            before = completed
            # A label that is nobody's choice may still be that of some position.
            shares = weights @ completed + 1.0 / completed.shape[1]
            logs = self.log_weights() + np.log(shares / shares.sum())
            logs -= logs.max(axis=1, keepdims=True)
            completed = np.exp(logs)
            totals = completed.sum(axis=1, keepdims=True)
            completed /= totals
            self.update(completed * weights[:, None])
            if np.abs(completed - before).max() <= _SETTLED:
                break
        return logs - np.log(totals)


def _vote_shares(counts: np.ndarray) -> np.ndarray:
    """Compute the vote shares of labels, (N, L); zeros without votes."""
    totals = counts.sum(axis=1, keepdims=True)
    return counts / np.where(totals > 0, totals, 1.0)


def prior_counts(right: float, wrong: float, n_labels: int) -> np.ndarray:
    """Return pseudo-counts (L, L): ``right`` on the diagonal, ``wrong`` divided among the rest of a row."""
    counts = np.full((n_labels, n_labels), wrong / max(1, n_labels - 1))
    np.fill_diagonal(counts, right)
    return counts
