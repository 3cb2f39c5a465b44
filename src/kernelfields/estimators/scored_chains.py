"""Chains with the potentials of a fitted field, and all that can be asked of them.

:class:`ScoredChains` where only neighbours meet, :class:`ScoredLongChains` for cliques of longer reach; both
answer the same questions, but the n best labellings are the former's alone.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from kernelfields.estimators.scored_graphs import ScoredGraphs
from kernelfields.fields import Chains
from kernelfields.inference.workers import Workers


class ScoredChains:
    """Chains with node (N, L) and edge (1 or N, L, L) potentials, constraints included."""

    def __init__(self, chains: Chains, node: np.ndarray, edge: np.ndarray, workers: Workers):
        self.chains = chains
        self.node, self.edge = node, edge
        self.workers = workers

    @cached_property
    def _beliefs(self) -> Any:
        from kernelfields.inference.chain import infer_chains

        return infer_chains(self.node, self.edge, self.chains.offsets, workers=self.workers)

    @property
    def log_partition(self) -> np.ndarray:
        """Log Z of each sequence, (S,)."""
        return self._beliefs.log_partition

    @property
    def marginals(self) -> np.ndarray:
        """p(y_t | x), (N, L)."""
        return self._beliefs.node_marginals

    def pair_marginals(self) -> np.ndarray:
        """Return p(y_{t-1}, y_t | x), (N, L, L), zero at the start of each sequence."""
        return self._beliefs.edge_marginals()

    def best_labels(self) -> np.ndarray:
        """Return the most probable labelling of each sequence, (N,)."""
        return _decoding().viterbi(self.node, self.edge, self.chains.offsets, workers=self.workers)[0]

    def n_best(self, k: int) -> tuple[Any, Any]:
        """Return the labels and scores of the k best labellings of each sequence."""
        return _decoding().n_best(self.node, self.edge, self.chains.offsets, k, workers=self.workers)

    def sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        """Draw labellings, (n_samples, N)."""
        return _decoding().sample_chains(
            self.node, self.edge, self.chains.offsets, n_samples, random_state=random, workers=self.workers
        )

    def entropies(self) -> np.ndarray:
        """Return the entropy of each sequence, (S,)."""
        return _decoding().chain_entropy(self.node, self.edge, self.chains.offsets, workers=self.workers)

    def label_scores(self) -> np.ndarray:
        """Return the score of the chains' own labels, (S,)."""
        chains, labels = self.chains, self.chains.labels
        score = self.node[np.arange(chains.n_positions), labels]
        steps = np.flatnonzero(~chains.is_start)
        where = steps if len(self.edge) > 1 else np.zeros_like(steps)
        score[steps] += self.edge[where, labels[steps - 1], labels[steps]]
        return np.add.reduceat(score, chains.starts)


class ScoredLongChains:
    """Chains as scored graphs, with cliques of any reach, constraints included."""

    def __init__(self, chains: Chains, scored: ScoredGraphs):
        self.chains = chains
        self._scored = scored

    @property
    def log_partition(self) -> np.ndarray:
        """Log Z of each sequence, (S,)."""
        return self._scored.beliefs.log_partition

    @property
    def marginals(self) -> np.ndarray:
        """p(y_t | x), (N, L)."""
        return self._scored.beliefs.node_marginals

    def pair_marginals(self) -> np.ndarray:
        """Return p(y_{t-1}, y_t | x), (N, L, L), zero at the start of each sequence."""
        n_labels = self.marginals.shape[1]
        marginals = np.zeros((self.chains.n_positions, n_labels, n_labels))
        marginals[~self.chains.is_start] = self._scored.factor_marginals("lag1")
        return marginals

    def best_labels(self) -> np.ndarray:
        """Return the most probable labelling of each sequence, (N,)."""
        return self._scored.best_labels()

    def n_best(self, k: int) -> tuple[Any, Any]:
        """Refuse: the k best labellings are found by a walk over neighbours only."""
        raise ValueError(
            "the n best labellings are for fields in which neighbours alone meet, and this one has cliques of "
            "longer reach: use sample to draw labellings from it"
        )

    def sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        """Draw labellings, (n_samples, N)."""
        return self._scored.sample(n_samples, random)

    def entropies(self) -> np.ndarray:
        """Return the entropy of each sequence, (S,)."""
        return self._scored.entropies()

    def label_scores(self) -> np.ndarray:
        """Return the score of the chains' own labels, (S,)."""
        return self._scored.label_scores(self.chains.labels)


def _decoding() -> Any:
    # numba loads with this module; a program that never predicts does not pay for it.
    from kernelfields.inference import chain_decoding

    return chain_decoding
