"""A stochastic start for sparse chain fields: a few epochs of gradient steps, one sequence at a time.

For fields of one node set with sparse explicit features and, at most, one set of plain transitions, with or without
constraints. An epoch costs about as much as a pass on one thread, and early on does the work of several batch steps.
The rate is found on a sample of sequences, by the loss after one epoch over it.

Coefficients are kept one per (feature, labelling) pair, W. Where the set's own coefficients V are contrasts
between labels, W = V A^T with orthonormal columns of A: steps from zero stay in that space, and V = W A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.fields.chains import Chains, labelled_runs
from kernelfields.fields.constraints import ConstraintMasks, resolve_constraints
from kernelfields.objective.designs.design import LocalDesign
from kernelfields.objective.designs.pairs import Support
from kernelfields.objective.likelihoods.likelihood import Likelihood, Objective, PartialLikelihood

_SAMPLE = 500
_FIRST_RATE = 0.1
_MOST_HALVINGS = 30
_MOST_DOUBLINGS = 12
# So many passes over lists of allowed labels an epoch may cost.
_PASSES = 40


@dataclass
class _State:
    node: np.ndarray
    edge: np.ndarray
    scale: float = 1.0
    n_steps: int = 0


class StochasticDescent:
    """Stochastic gradient descent from zero on a field of the right kind; see :func:`stochastic_descent`."""

    def __init__(
        self,
        chains: Chains,
        node: LocalDesign,
        edge: LocalDesign | None,
        n_labels: int,
        masks: ConstraintMasks | None = None,
    ):
        self.chains = chains
        self.n_labels = n_labels
        self.terms = [design.term for design in (node, edge) if design is not None]
        self._masks = resolve_constraints(None, np.arange(n_labels)) if masks is None else masks
        self._node, self._edge = node, edge
        self._features = node.features
        self._support = node.term.support or _every_pair(node.features.shape[1], n_labels)
        pairs = np.empty(0, dtype=np.int64)
        if edge is not None:
            pairs = np.arange(n_labels**2) if edge.term.support is None else edge.term.support.outcomes.astype(np.int64)
        self._before, self._after = pairs // n_labels, pairs % n_labels
        #: The sequences that are visited: those that weigh something.
        self.visited = np.flatnonzero(chains.weights > 0)
        n_sequences = len(self.visited)
        self._decay = tuple(
            1.0 / (design.term.prior_variance * n_sequences) if design is not None else 0.0 for design in (node, edge)
        )
        # A prior that hardly decays leaves the cooling to the number of sequences seen.
        self._least_cooling = 0.1 / n_sequences

    def run(self, epochs: int, random: np.random.Generator) -> list[np.ndarray]:
        """Return the coefficients of the sets after some epochs."""
        rate = self._find_rate(random)
        state = self._fresh()
        for _ in range(epochs):
            self._epoch(state, random.permutation(self.visited), rate)
        return self._coefficients(state)

    def parts(self, node: np.ndarray, edge: np.ndarray) -> list[np.ndarray]:
        """Return the coefficients of the sets from one number per pair of features and labels, and of labels."""
        node = node.reshape(-1, 1)
        if self._node.term.support is None:
            node = node.reshape(self._features.shape[1], -1)
            if self._node.term.label_factor is not None:
                node = node @ self._node.term.label_factor
        return [node] if self._edge is None else [node, edge.reshape(self._edge.shape)]

    @property
    def sizes(self) -> tuple[int, int]:
        """How many pairs of features and labels there are, and how many of labels."""
        return self._support.size, len(self._before)

    def observed_steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Return sequence and pair of labels of every step in the data whose pair has a coefficient."""
        chains, n_labels = self.chains, self.n_labels
        assert chains.labels is not None
        places = np.full(n_labels**2, -1)
        places[self._before * n_labels + self._after] = np.arange(len(self._before))
        steps = np.flatnonzero(~chains.is_start)
        pairs = places[chains.labels[steps - 1] * n_labels + chains.labels[steps]]
        sequences = np.repeat(np.arange(chains.n_sequences), chains.lengths)[steps]
        return sequences[pairs >= 0], pairs[pairs >= 0]

    def compiled_parts(self) -> tuple[Any, Any, Any]:
        """Return sequences, pairs and penalties as compiled code takes them."""
        from kernelfields.objective.stochastic_compiled import Penalties, SparseChains, WeightedPairs

        chains, features, support, masks = self.chains, self._features, self._support, self._masks
        nothing = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
        lists = nothing if chains.allowed is None else (chains.allowed.begin, chains.allowed.labels)
        rows = features.indptr, features.indices, features.data
        return (
            SparseChains(chains.offsets, chains.required_labels, chains.weights, *rows, *lists),
            WeightedPairs(support.begin, support.outcomes, self._before, self._after),
            Penalties(masks.edge, masks.start, masks.end, masks.label),
        )

    def _fresh(self) -> _State:
        return _State(np.zeros(self._support.size), np.zeros(len(self._before)))

    def _epoch(self, state: _State, order: np.ndarray, rate: float, moving: bool = True) -> float:
        from kernelfields.objective.stochastic_compiled import Schedule, descend

        cooling = max(rate * self._decay[0], self._least_cooling)
        state.scale, state.n_steps, loss = descend(
            order,
            *self.compiled_parts(),
            state.node,
            state.edge,
            state.scale,
            state.n_steps,
            Schedule(self._decay[0], self._decay[1], rate, cooling),
            moving,
        )
        return loss

    def _find_rate(self, random: np.random.Generator) -> float:
        """Return the rate after which the loss of a sample is lowest, searched by halving and doubling."""
        sample = random.choice(self.visited, size=min(_SAMPLE, len(self.visited)), replace=False)
        loss_at_zero = self._epoch(self._fresh(), sample, 0.0, moving=False)

        def loss_after(rate: float) -> float:
            state = self._fresh()
            self._epoch(state, sample, rate)
            loss = self._epoch(state, sample, rate, moving=False)
            # Far above the best rate the loss need not fall as the rate does: all that is no help is alike.
            return loss if loss < loss_at_zero and np.isfinite(state.scale) else np.inf

        rate, best = _FIRST_RATE, loss_after(_FIRST_RATE)
        for factor, most in ((0.5, _MOST_HALVINGS), (2.0, _MOST_DOUBLINGS)):
            for _ in range(most):
                tried = loss_after(rate * factor)
                if not tried < best and (np.isfinite(best) or factor > 1.0):
                    break
                rate, best = rate * factor, tried
        return rate

    def _coefficients(self, state: _State) -> list[np.ndarray]:
        return self.parts(state.scale * state.node, state.edge)


def stochastic_descent(
    likelihood: Objective, designs: Sequence[LocalDesign], passes: int = _PASSES
) -> StochasticDescent | None:
    """Return the descent of a field of the right kind, else None; an epoch may cost some ``passes`` over lists."""
    node, chains = designs[0], likelihood.data
    sparse_node = node.labels_per_clique == 1 and node.positions is None and node.sparse
    plain = isinstance(likelihood, Likelihood | PartialLikelihood) and likelihood.family.method == "chain"
    if not plain or not isinstance(chains, Chains) or len(designs) > 2:
        return None
    if not sparse_node or not _all_contrasts(node.term.label_factor):
        return None
    edge = designs[1] if len(designs) == 2 else None
    if edge is not None and not (
        edge.labels_per_clique == 2 and edge.tied_everywhere and edge.term.label_factor is None
    ):
        return None
    base, n_labels = likelihood.family.base, likelihood.n_labels
    allowed = None if base is None else base.allowed
    # Steps here are over all labels: where few of many are allowed, passes over lists are done sooner.
    if allowed is not None and allowed.step_pairs * passes < n_labels**2:
        return None
    if chains.evidence is None:
        return StochasticDescent(chains, node, edge, n_labels, None if base is None else base.masks)
    # Where labels are partly known, the runs of those that are known come near enough to start from. They may begin
    # and end anywhere, and so are free of constraints.
    return StochasticDescent(labelled_runs(chains), node, edge, n_labels, None)


def _all_contrasts(factor: np.ndarray | None) -> bool:
    """Whether A A^T is the identity or centres: steps then stay in the space of coefficients V A^T."""
    return factor is None or np.allclose(factor @ factor.T, np.eye(len(factor)) - 1.0 / len(factor))


def _every_pair(n_features: int, n_labels: int) -> Support:
    begin = np.arange(n_features + 1, dtype=np.int64) * n_labels
    return Support(begin, np.tile(np.arange(n_labels, dtype=np.int32), n_features), n_labels)
