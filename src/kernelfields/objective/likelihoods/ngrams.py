"""The weighted negative log-likelihood of labelled chains whose labels meet in n-grams that see no inputs.

    value    = sum_i weight_i (log Z_i - score_i(y^i))
    residual = weight * (marginals - one-hot labels)      its gradient in the potentials

Potentials are those of ``NgramLayout``: of labels, of neighbours and, for each length, of the n-grams that have
weights, observed or all of them. An automaton of their prefixes infers chains exactly (inference/ngrams/).
"""

from __future__ import annotations

import numpy as np

from kernelfields.fields.chains import Chains
from kernelfields.fields.constraints import ConstraintMasks
from kernelfields.inference.ngrams.inference import NgramInference
from kernelfields.numerics.threads import Workers
from kernelfields.numerics.vectors import dot
from kernelfields.objective.likelihoods.likelihood import CountedLabellings, Evaluation
from kernelfields.objective.potentials import NgramLayout, Placed, Potentials


class NgramLikelihood(CountedLabellings):
    """Labelled chains with n-grams and constraints."""

    approximation: str | None = None
    convex = True

    def __init__(
        self,
        chains: Chains,
        layout: NgramLayout,
        inference: NgramInference,
        *,
        masks: ConstraintMasks | None = None,
        workers: Workers | None = None,
    ):
        if chains.labels is None:
            raise ValueError("a likelihood needs labelled chains")
        self.chains = chains
        self.n_labels = layout.n_labels
        self.layout = layout
        self.inference = inference
        self.masks = masks
        self.constrained = masks is not None
        self.workers = workers or Workers()
        self.doubts: list[str] = []
        self._observed = self._count(chains.labels)
        self._node_mask = None
        if masks is not None:
            self._node_mask = masks.apply(np.zeros((chains.n_positions, self.n_labels)), chains.offsets)

    def _count(self, labels: np.ndarray) -> Potentials:
        """Return the weighted one-hot labels, and how often edges and n-grams occur, as potentials."""
        observed, weights = self.layout.zeros(), self.chains.position_weights
        observed.node[np.arange(len(labels)), labels] = weights
        tables = zip(observed.factors, self.inference.members, self.inference.places_of(labels), strict=True)
        for table, members, places in tables:
            known = np.flatnonzero(places >= 0)
            # One row for all places, or one for each.
            cells = places[known] + (known * table[0].size if len(table) > 1 else 0)
            table[...] = np.bincount(cells, weights[members[known, -1]], minlength=table.size).reshape(table.shape)
        return observed

    def clique_marginals(self, evaluation: Evaluation, term: Placed) -> np.ndarray:
        """Return the probabilities of the labellings of a set's cliques, (n, L^k), or of those that it lists."""
        if term.labels_per_clique == 1:
            marginals = evaluation.beliefs.node_marginals
            return marginals if term.positions is None else marginals[term.positions]
        marginals = evaluation.beliefs.factor_marginals(self.layout.index(term.group))
        if term.labels_per_clique == 2:
            return marginals.reshape(len(marginals), self.n_labels**2)
        return marginals[:, self.layout.places(term)]

    def clique_weights(self, term: Placed) -> np.ndarray:
        """Return the weight of every clique of a set, (n,)."""
        weights = self.chains.position_weights
        return weights if term.positions is None else weights[term.positions]

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and beliefs at the given potentials."""
        node, tables = potentials.node, list(potentials.factors)
        if self.masks is not None:
            node, tables[0] = node + self._node_mask, tables[0] + self.masks.edge
        beliefs = self.inference.infer(node, tables, weights=self.chains.weights, workers=self.workers)
        expected = Potentials(*self._flat(beliefs.gradient()))
        value = float(beliefs.log_partition @ self.chains.weights) - self._observed_score(potentials)
        return Evaluation(value, expected.moved(-1.0, self._observed), beliefs)

    def _observed_score(self, potentials: Potentials) -> float:
        """Return the weighted score of the labels; nodes one by one, as others may be minus infinity."""
        chosen = potentials.node[np.arange(self.chains.n_positions), self.chains.labels]
        tables = zip(potentials.factors, self._observed.factors, strict=True)
        return float(chosen @ self.chains.position_weights) + sum(dot(table, counts) for table, counts in tables)

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian in the potentials times a direction."""
        return Potentials(*self._flat(evaluation.beliefs.hessian_product(direction.node, list(direction.factors))))

    @staticmethod
    def _flat(parts: tuple[np.ndarray, list[np.ndarray]]) -> list[np.ndarray]:
        node, tables = parts
        return [node, *tables]
