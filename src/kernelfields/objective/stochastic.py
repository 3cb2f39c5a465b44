"""Stochastic starts for sparse chain fields: ascent of the dual, one sequence at a time.

For fields of one node set with sparse explicit features and, at most, one set of plain transitions, with or without
constraints, where all coefficients have a Gaussian prior, with l1 or not:

    max over mu   sum_i weight_i H(mu_i) - sum_c R_c*(d_c),       d_c = sum_i weight_i Z_i^T (y_i - mu_i)

mu_i are the marginals of sequence i, and the coefficients are those at which R* has its slope: s soft(d, l1). At the
optimum mu_i are the marginals these give. A visit to a sequence infers it and moves mu_i there by a step of its own
(objective/stochastic_compiled.py), so there is no rate to find; zeros of an elastic net are exact all along. The error
falls by a constant factor per epoch, the mean step or so; an epoch costs about as much as a pass on one thread and
early on does the work of several batch steps: benchmarks/crfsuite_speed.py prints what that saves. Sequences that are
explained already are visited every fourth epoch only. Where labels are partly known, y_i are their marginals given
that, and move as mu_i do. Memory: one float32 per position and label, two where labels are partly known, and one per
sequence and transition.

Coefficients are kept one per (feature, labelling) pair, W. Where the set's own coefficients V are contrasts
between labels, W = V A^T with orthonormal columns of A: steps from zero stay in that space, and V = W A.

    Shalev-Shwartz and Zhang (2014), Accelerated proximal stochastic dual coordinate ascent.
    Le Priol, Piche and Lacoste-Julien (2018), Adaptive stochastic dual coordinate ascent for conditional random fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial, singledispatch
from typing import TypeAlias

import numpy as np
from scipy.special import softmax

from kernelfields.data.chains import Chains
from kernelfields.data.constraints import ConstraintMasks, resolve_constraints
from kernelfields.data.given_labels import GivenLabels, KnownLabels
from kernelfields.data.partial_rows import PartialRows, TargetRows
from kernelfields.objective import compiled
from kernelfields.objective.designs.design import LocalDesign
from kernelfields.objective.likelihoods.likelihood import Likelihood, Objective
from kernelfields.objective.likelihoods.partial_likelihood import PartialLikelihood
from kernelfields.objective.posterior import LogPosterior

_MOST_INT32 = np.iinfo(np.int32).max
# So many passes over lists of allowed labels an epoch may cost.
_PASSES = 40
# The ascent ends where what sequences could gain is this share of the value; batch steps go on from there. It runs on
# one thread and batch steps on all, so where these need few passes, without l1, it ends early; later where labels are
# partly known, as these need more of them.
_CLOSE, _CLOSE_IF_SMOOTH, _CLOSE_IF_PARTIAL = 1e-3, 0.05, 0.01
_MOST_EPOCHS = 60
# It also ends where that is more than this share and does not fall: under a weak prior, steps that single sequences
# take may undo each other. Where batch steps need few passes, without l1 or to a coarse gap, it ends as soon as an
# epoch over all sequences leaves more than this share of what the one before it left.
_FAR, _SLOW = 0.1, 0.5
# Epochs over all sequences, before some are left out.
_FIRST_EPOCHS = 3
_EVERY = 4
_LEFT_OUT = 0.1
# With a prior so weak that steps are shorter, batch steps come further.
_SHORTEST_STEP = 0.01
_MOST_BYTES = 2**30


class _FromLabels:
    """An ascent from marginals equal to the labels."""

    #: How many tables of marginals (N, L) are kept, and whether batch steps need few passes without l1.
    n_tables = 1
    few_passes = True

    def __init__(self, labels: np.ndarray):
        self._labels = labels

    @property
    def close(self) -> float:
        """The share of the value at which an ascent without l1 ends."""
        return _CLOSE_IF_SMOOTH

    def tables(self, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
        """Return marginals and targets in float32, (N, L); None for the targets."""
        marginals = np.zeros((len(self._labels), n_labels), dtype=np.float32)
        marginals[np.arange(len(marginals)), self._labels] = 1.0
        return marginals, marginals[:0]

    def observed(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows at the ends of observed steps, and the labels of all rows."""
        return steps, self._labels

    @property
    def visit(self) -> Callable:
        """The compiled visits to sequences."""
        return compiled.ascend


class _FromWeights:
    """An ascent from the weights of labels, with moving targets: sums of steps, of mu - t, begin at zero.

    See :class:`_FromLabels`.
    """

    n_tables = 2
    few_passes = False

    def __init__(self, labels: np.ndarray, log_weights: np.ndarray):
        self._labels, self._log_weights = labels, log_weights

    @property
    def close(self) -> float:
        """The share of the value at which an ascent without l1 ends."""
        return _CLOSE_IF_PARTIAL

    def tables(self, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
        """Return marginals and targets in float32, (N, L)."""
        marginals = softmax(self._log_weights, axis=1).astype(np.float32)
        return marginals, marginals.copy()

    def observed(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return no steps, and the labels of all rows."""
        return steps[:0], self._labels

    @property
    def visit(self) -> Callable:
        """The compiled visits to sequences."""
        return partial(compiled.ascend_partly, self._log_weights)


_Beginning: TypeAlias = _FromLabels | _FromWeights


@singledispatch
def _beginning(given: GivenLabels, likelihood: Objective, weights: np.ndarray) -> _Beginning | None:
    """Return the beginning of an ascent for the given labels; None if the labels allow no ascent."""
    raise TypeError(f"no ascent for {type(given).__name__}")


@_beginning.register
def _of_labels(given: KnownLabels, likelihood: Objective, weights: np.ndarray) -> _Beginning | None:
    return _FromLabels(given.numbers)


@_beginning.register
def _of_weights(given: PartialRows, likelihood: Objective, weights: np.ndarray) -> _Beginning | None:
    # Where not a single label is known, nothing tells labels apart at the start.
    begins = isinstance(likelihood, PartialLikelihood) and weights[given.certain()].any()
    return _FromWeights(given.numbers, given.weights) if begins else None


@_beginning.register
def _of_targets(given: TargetRows, likelihood: Objective, weights: np.ndarray) -> _Beginning | None:
    return None


class DualAscent:
    """Ascent from marginals equal to the labels, with all coefficients zero; see :func:`dual_ascent`."""

    def __init__(
        self,
        beginning: _Beginning,
        chains: Chains,
        node: LocalDesign,
        edge: LocalDesign | None,
        n_labels: int,
        masks: ConstraintMasks | None = None,
    ):
        self._beginning = beginning
        self.chains = chains
        self.n_labels = n_labels
        self._masks = resolve_constraints(None, np.arange(n_labels)) if masks is None else masks
        self._node, self._edge = node, edge
        self._features = node.features
        self._support = node.term.pairs.list_pairs(node.features.shape[1], n_labels)
        self._steps = _scored_steps(edge, n_labels)
        #: The sequences that are visited: those that weigh something.
        self.visited = np.flatnonzero(chains.weights > 0)
        step_sums = np.zeros((chains.n_sequences, len(self._steps)), dtype=np.float32)
        np.add.at(step_sums, self._observed_steps(), 1.0)
        marginals, targets = beginning.tables(n_labels)
        zeros = np.zeros(self._support.size), np.zeros(len(self._steps))
        self.dual = compiled.Dual(*zeros, marginals, step_sums, np.zeros(chains.n_sequences), targets)
        first, last = node.term, (edge or node).term
        self.priors = compiled.Priors(first.prior_variance, first.l1, last.prior_variance, last.l1)
        #: Epochs made, parts of one where sequences were left out.
        self.epochs = 0.0
        #: About the value at the coefficients, as the last visits to all sequences found it.
        self.value = np.inf

    def run(self, random: np.random.Generator, close: float = 0.0) -> list[np.ndarray] | None:
        """Return the coefficients of the sets; None if the prior is too weak.

        With l1 the ascent ends at the relative gap ``close``, about.
        """
        dual, priors, beginning, visit = self.dual, self.priors, self._beginning, self._beginning.visit
        change = np.zeros_like(dual.node)
        has_l1 = priors.node_l1 > 0.0 or priors.edge_l1 > 0.0
        few_steps_left = beginning.few_passes and (not has_l1 or close >= _CLOSE)
        close = max(_CLOSE, close) if has_l1 else beginning.close
        n_sequences, before, stalled = len(self.visited), np.inf, False
        for epoch in range(_MOST_EPOCHS):
            order = random.permutation(self.visited)
            everyone = epoch < _FIRST_EPOCHS or epoch % _EVERY == 0
            if not everyone:
                order = order[dual.gaps[order] >= _LEFT_OUT * dual.gaps.sum() / n_sequences]
            loss, step = visit(order, *self._compiled_parts, dual, priors, change)
            self.epochs += len(order) / n_sequences
            if not np.isfinite(loss) or (epoch == _FIRST_EPOCHS - 1 and step < _SHORTEST_STEP):
                return None
            left = dual.gaps.sum()
            if everyone:
                self.value = loss + self._penalty()
                slow = few_steps_left and epoch >= _FIRST_EPOCHS and left > _SLOW * before
                stalled, before = slow or left >= max(before, _FAR * self.value), left
            if stalled or left <= close * self.value:
                break
        return self.coefficients()

    def coefficients(self) -> list[np.ndarray]:
        """Return the coefficients of the sets from the marginals."""
        node, edge = self._pairs()
        term = self._node.term
        node = term.to_coordinates(term.pairs.make_coefficients(node, self._features.shape[1]))
        return [node] if self._edge is None else [node, edge.reshape(self._edge.shape)]

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients of pairs of features and labels, and of labels."""
        dual, priors = self.dual, self.priors
        node, edge = _soft(dual.node, priors.node_l1), _soft(dual.edge, priors.edge_l1)
        return priors.node_variance * node, priors.edge_variance * edge

    def _penalty(self) -> float:
        priors, (node, edge) = self.priors, self._pairs()
        squares = float(node @ node) / priors.node_variance + float(edge @ edge) / priors.edge_variance
        return 0.5 * squares + priors.node_l1 * float(np.abs(node).sum()) + priors.edge_l1 * float(np.abs(edge).sum())

    def _observed_steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Return sequence and label pair of every step in the data with a coefficient."""
        chains = self.chains
        places = np.full(self.n_labels**2, -1)
        places[self._steps] = np.arange(len(self._steps))
        steps, labels = self._beginning.observed(np.flatnonzero(~chains.is_start))
        pairs = places[labels[steps - 1] * self.n_labels + labels[steps]]
        sequences = np.repeat(np.arange(chains.n_sequences), chains.lengths)[steps]
        return sequences[pairs >= 0], pairs[pairs >= 0]

    @cached_property
    def _compiled_parts(self) -> tuple[compiled.SparseChains, compiled.WeightedPairs, compiled.Penalties]:
        """Sequences, pairs and penalties for compiled code, each of one type, so that it compiles once."""
        chains, features, support, masks = self.chains, self._features, self._support, self._masks
        begin, labels = chains.allowed.begin, chains.allowed.labels
        columns = features.indices.astype(np.int32 if features.shape[1] <= _MOST_INT32 else np.int64, copy=False)
        rows = features.indptr.astype(np.int64, copy=False), columns, features.data
        steps = self._steps // self.n_labels, self._steps % self.n_labels
        return (
            compiled.SparseChains(chains.offsets, chains.required_labels, chains.weights, *rows, begin, labels),
            compiled.WeightedPairs(support.begin.astype(np.int64, copy=False), support.outcomes, *steps),
            compiled.Penalties(masks.edge, masks.start, masks.end, masks.label),
        )


def dual_ascent(likelihood: Objective, designs: Sequence[LocalDesign], passes: int = _PASSES) -> DualAscent | None:
    """Return the ascent of the dual of a suitable field; None for others, and if it needs much memory.

    An epoch may cost some ``passes`` over lists of allowed labels.
    """
    node, chains = designs[0], likelihood.data
    sparse_node = node.labels_per_clique == 1 and node.positions is None and node.sparse
    plain = isinstance(likelihood, Likelihood | PartialLikelihood) and likelihood.family.method == "chain"
    if not plain or not isinstance(chains, Chains) or len(designs) > 2:
        return None
    if not sparse_node or not _has_all_contrasts(node.term.label_factor):
        return None
    edge = designs[1] if len(designs) == 2 else None
    if edge is not None and not (edge.labels_per_clique == 2 and edge.is_constant and edge.term.label_factor is None):
        return None
    for term in (design.term for design in designs):
        # Steps move the coefficients of each label by themselves.
        in_contrasts = term.label_factor is not None
        if term.has_shared_coefficients or not np.isfinite(term.prior_variance) or (term.l1 and in_contrasts):
            return None
    base, n_labels = likelihood.family.base, likelihood.n_labels
    # Steps here are over all labels: where few of many are allowed, passes over lists are done sooner.
    pairs_per_step = chains.allowed.step_pairs
    if pairs_per_step * passes < n_labels**2:
        return None
    beginning = _beginning(chains.given, likelihood, chains.position_weights)
    if beginning is None:
        return None
    n_steps = len(_scored_steps(edge, n_labels))
    n_bytes = 4 * (beginning.n_tables * chains.n_positions * n_labels + chains.n_sequences * n_steps)
    if n_bytes > _MOST_BYTES:
        return None
    return DualAscent(beginning, chains, node, edge, n_labels, None if base is None else base.masks)


def dual_start(posterior: LogPosterior, random: np.random.Generator, close: float = 0.0) -> np.ndarray | None:
    """Return theta near the optimum by stochastic ascent of the dual; None if the ascent does not help.

    It visits one sequence after the other, so the data have to be those of this process, and on no device. ``close`` is
    a relative gap that is near enough where the penalty is not smooth.
    """
    datafit = posterior.datafit
    ascent = dual_ascent(datafit.likelihood, datafit.designs) if datafit.is_local else None
    if ascent is None:
        return None
    parts = ascent.run(random, close)
    datafit.passes += ascent.epochs
    if parts is None or not ascent.value < datafit.likelihood.value_at_zero:
        return None
    return posterior.blocks.flatten(parts)


def _scored_steps(edge: LocalDesign | None, n_labels: int) -> np.ndarray:
    """Return the pairs of labels a L + b with a coefficient."""
    if edge is None:
        return np.empty(0, dtype=np.int64)
    return edge.term.pairs.labellings(n_labels**2)


def _soft(values: np.ndarray, l1: float) -> np.ndarray:
    return np.sign(values) * np.maximum(np.abs(values) - l1, 0.0)


def _has_all_contrasts(factor: np.ndarray | None) -> bool:
    """Whether A A^T is the identity or centres, so that steps stay in the space of coefficients V A^T."""
    return factor is None or np.allclose(factor @ factor.T, np.eye(len(factor)) - 1.0 / len(factor))
