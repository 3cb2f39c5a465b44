"""Stochastic starts for sparse chain fields: a few epochs of gradient steps, or of the dual, one sequence at a time.

For fields of one node set with sparse explicit features and, at most, one set of plain transitions, with or without
constraints. An epoch costs about as much as a pass on one thread, and early on does the work of several batch steps.
The rate is found on a sample of sequences, by the loss after one epoch over it.

Coefficients are kept one per (feature, labelling) pair, W. Where the set's own coefficients V are contrasts
between labels, W = V A^T with orthonormal columns of A: steps from zero stay in that space, and V = W A.

*Ascent of the dual*, where all coefficients have a Gaussian prior, with l1 or not:

    max over mu   sum_i weight_i H(mu_i) - sum_c R_c*(d_c),       d_c = sum_i weight_i Z_i^T (y_i - mu_i)

mu_i are the marginals of sequence i, and the coefficients are those at which R* has its slope: s soft(d, l1). At the
optimum mu_i are the marginals these give. A visit to a sequence infers it and moves mu_i there by a step of its own
(objective/stochastic_compiled.py), so there is no rate to find; zeros of an elastic net are exact all along. Unlike
that of gradient steps, whose rate must cool, the error falls by a constant factor per epoch, the mean step or so:
benchmarks/crfsuite_speed.py prints what that saves. Sequences that are explained already are visited every fourth
epoch only. Where labels are partly known, y_i are their marginals given that, and move as mu_i do. Memory: one
float32 per position and label, two where labels are partly known, and one per sequence and transition.

    Shalev-Shwartz and Zhang (2014), Accelerated proximal stochastic dual coordinate ascent.
    Le Priol, Piche and Lacoste-Julien (2018), Adaptive stochastic dual coordinate ascent for conditional random fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import softmax

from kernelfields.data.chains import Chains, labelled_runs
from kernelfields.data.constraints import ConstraintMasks, resolve_constraints
from kernelfields.objective.designs.design import LocalDesign
from kernelfields.objective.designs.pairs import Support
from kernelfields.objective.likelihoods.likelihood import Likelihood, Objective, PartialLikelihood

if TYPE_CHECKING:
    from kernelfields.objective.stochastic_compiled import Penalties, SparseChains, WeightedPairs

_MOST_INT32 = np.iinfo(np.int32).max
_SAMPLE = 500
_FIRST_RATE = 0.1
_MOST_HALVINGS = 30
_MOST_DOUBLINGS = 12
# So many passes over lists of allowed labels an epoch may cost.
_PASSES = 40
# The ascent ends where what sequences could gain is this share of the value; batch steps go on from there. It runs on
# one thread and batch steps on all, so where these need few passes, without l1, it ends early; later where labels are
# partly known, as these need more of them.
_CLOSE, _CLOSE_IF_SMOOTH, _CLOSE_IF_PARTIAL = 1e-3, 0.05, 0.01
_MOST_EPOCHS = 60
# It also ends where that is more than this share and does not fall: under a weak prior, steps that single sequences
# take may undo each other.
_FAR = 0.1
# Epochs over all sequences, before some are left out.
_FIRST_EPOCHS = 3
_EVERY = 4
_LEFT_OUT = 0.1
# With a prior so weak that steps are shorter, gradient steps come further.
_SHORTEST_STEP = 0.01
_MOST_BYTES = 256 * 2**20


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
        #: The descent whose dual is climbed: of all sequences, where this one is of runs of known labels.
        self.whole = self
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

    @cached_property
    def compiled_parts(self) -> tuple[SparseChains, WeightedPairs, Penalties]:
        """Sequences, pairs and penalties as compiled code takes them: in one type each, so that it compiles once."""
        from kernelfields.objective.stochastic_compiled import Penalties, SparseChains, WeightedPairs

        chains, features, support, masks = self.chains, self._features, self._support, self._masks
        nothing = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
        begin, labels = nothing if chains.allowed is None else (chains.allowed.begin, chains.allowed.labels)
        columns = features.indices.astype(np.int32 if features.shape[1] <= _MOST_INT32 else np.int64, copy=False)
        rows = features.indptr.astype(np.int64, copy=False), columns, features.data
        partial = chains.partial if isinstance(chains.partial, np.ndarray) else np.empty((0, 0))
        return (
            SparseChains(chains.offsets, chains.required_labels, chains.weights, *rows, begin, labels, partial),
            WeightedPairs(support.begin.astype(np.int64, copy=False), support.outcomes, self._before, self._after),
            Penalties(masks.edge, masks.start, masks.end, masks.label),
        )

    def _fresh(self) -> _State:
        return _State(np.zeros(self._support.size), np.zeros(len(self._before)))

    def _epoch(self, state: _State, order: np.ndarray, rate: float, moving: bool = True) -> float:
        from kernelfields.objective.stochastic_compiled import Schedule, descend

        cooling = max(rate * self._decay[0], self._least_cooling)
        state.scale, state.n_steps, loss = descend(
            order,
            *self.compiled_parts,
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
    if chains.partial is None:
        return StochasticDescent(chains, node, edge, n_labels, None if base is None else base.masks)
    # Where labels are partly known, gradient steps are on the runs of those that are known. They may begin and end
    # anywhere, and so are free of constraints.
    runs = labelled_runs(chains)
    if not runs.weights.any():
        return None
    descent = StochasticDescent(runs, node, edge, n_labels, None)
    if isinstance(likelihood, PartialLikelihood):
        descent.whole = StochasticDescent(chains, node, edge, n_labels, None if base is None else base.masks)
    return descent


def _all_contrasts(factor: np.ndarray | None) -> bool:
    """Whether A A^T is the identity or centres: steps then stay in the space of coefficients V A^T."""
    return factor is None or np.allclose(factor @ factor.T, np.eye(len(factor)) - 1.0 / len(factor))


def _every_pair(n_features: int, n_labels: int) -> Support:
    begin = np.arange(n_features + 1, dtype=np.int64) * n_labels
    return Support(begin, np.tile(np.arange(n_labels, dtype=np.int32), n_features), n_labels)


class DualAscent:
    """Ascent from marginals that are the labels, where all coefficients are zero."""

    def __init__(self, descent: StochasticDescent):
        from kernelfields.objective.stochastic_compiled import Dual, Priors

        self._descent = descent
        chains, (n_pairs, n_edges) = descent.chains, descent.sizes
        step_sums = np.zeros((chains.n_sequences, n_edges), dtype=np.float32)
        if chains.partial is None:
            marginals = np.zeros((chains.n_positions, descent.n_labels), dtype=np.float32)
            marginals[np.arange(chains.n_positions), chains.labels] = 1.0
            np.add.at(step_sums, descent.observed_steps(), 1.0)
            targets = marginals[:0]
        else:
            marginals = softmax(chains.partial, axis=1).astype(np.float32)
            targets = marginals.copy()
        zeros = np.zeros(n_pairs), np.zeros(n_edges)
        self.dual = Dual(*zeros, marginals, step_sums, np.zeros(chains.n_sequences), targets)
        node, edge = descent.terms[0], descent.terms[-1]
        self.priors = Priors(node.prior_variance, node.l1, edge.prior_variance, edge.l1)
        #: Epochs made, parts of one where sequences were left out.
        self.epochs = 0.0
        #: About the value at the coefficients, as the last visits to all sequences found it.
        self.value = np.inf

    def run(self, random: np.random.Generator, close: float = 0.0) -> list[np.ndarray] | None:
        """Return the coefficients of the sets; None where the prior is too weak for this to be of use.

        With l1 the ascent ends at the relative gap ``close``, about.
        """
        from kernelfields.objective.stochastic_compiled import ascend

        descent = self._descent
        dual, priors = self.dual, self.priors
        change = np.zeros_like(dual.node)
        if priors.node_l1 or priors.edge_l1:
            close = max(_CLOSE, close)
        else:
            close = _CLOSE_IF_SMOOTH if descent.chains.partial is None else _CLOSE_IF_PARTIAL
        n_sequences, before, stalled = len(descent.visited), np.inf, False
        for epoch in range(_MOST_EPOCHS):
            order = random.permutation(descent.visited)
            everyone = epoch < _FIRST_EPOCHS or epoch % _EVERY == 0
            if not everyone:
                order = order[dual.gaps[order] >= _LEFT_OUT * dual.gaps.sum() / n_sequences]
            loss, step = ascend(order, *descent.compiled_parts, dual, priors, change)
            self.epochs += len(order) / n_sequences
            if not np.isfinite(loss) or (epoch == _FIRST_EPOCHS - 1 and step < _SHORTEST_STEP):
                return None
            left = dual.gaps.sum()
            if everyone:
                self.value = loss + self._penalty()
                stalled, before = left >= max(before, _FAR * self.value), left
            if stalled or left <= close * self.value:
                break
        return self.coefficients()

    def coefficients(self) -> list[np.ndarray]:
        """Return the coefficients of the sets that the marginals stand for."""
        return self._descent.parts(*self._pairs())

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients of pairs of features and labels, and of labels."""
        dual, priors = self.dual, self.priors
        node, edge = _soft(dual.node, priors.node_l1), _soft(dual.edge, priors.edge_l1)
        return priors.node_variance * node, priors.edge_variance * edge

    def _penalty(self) -> float:
        priors, (node, edge) = self.priors, self._pairs()
        squares = float(node @ node) / priors.node_variance + float(edge @ edge) / priors.edge_variance
        return 0.5 * squares + priors.node_l1 * float(np.abs(node).sum()) + priors.edge_l1 * float(np.abs(edge).sum())


def _soft(values: np.ndarray, l1: float) -> np.ndarray:
    return np.sign(values) * np.maximum(np.abs(values) - l1, 0.0)


def dual_ascent(descent: StochasticDescent) -> DualAscent | None:
    """Return the ascent of the dual of a descent's objective; None where there is none, or it needs much memory."""
    descent = descent.whole
    for term in descent.terms:
        if not np.isfinite(term.prior_variance) or (term.l1 > 0.0 and term.label_factor is not None):
            return None
    chains, (_, n_edges) = descent.chains, descent.sizes
    n_tables = 1 if chains.partial is None else 2
    n_bytes = 4 * (n_tables * chains.n_positions * descent.n_labels + chains.n_sequences * n_edges)
    return DualAscent(descent) if n_bytes <= _MOST_BYTES else None
