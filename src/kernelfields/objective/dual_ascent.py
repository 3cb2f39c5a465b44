"""Stochastic ascent of the dual, for sparse chain fields whose coefficients all have a Gaussian prior, with l1 or not.

    max over mu   sum_i weight_i H(mu_i) - sum_c R_c*(d_c),       d_c = sum_i weight_i Z_i^T (y_i - mu_i)

mu_i are the marginals of sequence i, and the coefficients are those at which R* has its slope: s soft(d, l1). At the
optimum mu_i are the marginals these give. A visit to a sequence infers it and moves mu_i there by a step of its own
(objective/stochastic_compiled.py), so there is no rate to find; zeros of an elastic net are exact all along. Unlike
that of gradient steps, whose rate must cool, the error falls by a constant factor per epoch, the mean step or so:
benchmarks/crfsuite_speed.py prints what that saves. Sequences that are explained already are visited every fourth
epoch only. Memory: one float32 per position and label, and per sequence and transition.

    Shalev-Shwartz and Zhang (2014), Accelerated proximal stochastic dual coordinate ascent.
    Le Priol, Piche and Lacoste-Julien (2018), Adaptive stochastic dual coordinate ascent for conditional random fields.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.objective.stochastic import StochasticDescent

# The ascent ends where what sequences could gain is this share of the value; batch steps go on from there. It runs on
# one thread and batch steps on all, so where these need few passes, without l1, it ends early.
_CLOSE, _CLOSE_IF_SMOOTH = 1e-3, 0.05
_MOST_EPOCHS = 60
# Epochs over all sequences, before some are left out.
_FIRST_EPOCHS = 3
_EVERY = 4
_LEFT_OUT = 0.1
# With a prior so weak that steps are shorter, gradient steps come further.
_SHORTEST_STEP = 0.01
_MOST_BYTES = 256 * 2**20


class DualAscent:
    """Ascent from marginals that are the labels, where all coefficients are zero."""

    def __init__(self, descent: StochasticDescent):
        self._descent = descent
        self.dual, self.priors = _at_zero(descent), _priors(descent)
        #: Epochs made, parts of one where sequences were left out.
        self.epochs = 0.0
        #: About the value at the coefficients, as the last visits to all sequences found it.
        self.value = np.inf

    def run(self, random: np.random.Generator) -> list[np.ndarray] | None:
        """Return the coefficients of the sets; None where the prior is too weak for this to be of use."""
        from kernelfields.objective.stochastic_compiled import ascend

        descent = self._descent
        dual, priors = self.dual, self.priors
        change = np.zeros_like(dual.node)
        close = _CLOSE if priors.node_l1 or priors.edge_l1 else _CLOSE_IF_SMOOTH
        n_sequences = len(descent.visited)
        for epoch in range(_MOST_EPOCHS):
            order = random.permutation(descent.visited)
            everyone = epoch < _FIRST_EPOCHS or epoch % _EVERY == 0
            if not everyone:
                order = order[dual.gaps[order] >= _LEFT_OUT * dual.gaps.sum() / n_sequences]
            loss, step = ascend(order, *descent.compiled_parts(), dual, priors, change)
            self.epochs += len(order) / n_sequences
            if not np.isfinite(loss) or (epoch == _FIRST_EPOCHS - 1 and step < _SHORTEST_STEP):
                return None
            if everyone:
                self.value = loss + _penalty(dual, priors)
            if dual.gaps.sum() <= close * self.value:
                break
        return self.coefficients()

    def coefficients(self) -> list[np.ndarray]:
        """Return the coefficients of the sets that the marginals stand for."""
        return self._descent.parts(*_coefficients(self.dual, self.priors))


def _at_zero(descent: StochasticDescent) -> Any:
    """Return marginals that are the labels."""
    from kernelfields.objective.stochastic_compiled import Dual

    chains, (n_pairs, n_edges) = descent.chains, descent.sizes
    marginals = np.zeros((chains.n_positions, descent.n_labels), dtype=np.float32)
    marginals[np.arange(chains.n_positions), chains.labels] = 1.0
    step_sums = np.zeros((chains.n_sequences, n_edges), dtype=np.float32)
    np.add.at(step_sums, descent.observed_steps(), 1.0)
    return Dual(np.zeros(n_pairs), np.zeros(n_edges), marginals, step_sums, np.zeros(chains.n_sequences))


def _priors(descent: StochasticDescent) -> Any:
    from kernelfields.objective.stochastic_compiled import Priors

    node, edge = descent.terms[0], descent.terms[-1]
    return Priors(node.prior_variance, node.l1, edge.prior_variance, edge.l1)


def _coefficients(dual: Any, priors: Any) -> tuple[np.ndarray, np.ndarray]:
    return (
        priors.node_variance * _soft(dual.node, priors.node_l1),
        priors.edge_variance * _soft(dual.edge, priors.edge_l1),
    )


def _penalty(dual: Any, priors: Any) -> float:
    node, edge = _coefficients(dual, priors)
    squares = float(node @ node) / priors.node_variance + float(edge @ edge) / priors.edge_variance
    return 0.5 * squares + priors.node_l1 * float(np.abs(node).sum()) + priors.edge_l1 * float(np.abs(edge).sum())


def _soft(values: np.ndarray, l1: float) -> np.ndarray:
    return np.sign(values) * np.maximum(np.abs(values) - l1, 0.0)


def dual_ascent(descent: StochasticDescent) -> DualAscent | None:
    """Return the ascent of the dual of a descent's objective; None where there is none, or it needs much memory."""
    for term in descent.terms:
        if not np.isfinite(term.prior_variance) or (term.l1 > 0.0 and term.label_factor is not None):
            return None
    chains, (_, n_edges) = descent.chains, descent.sizes
    n_bytes = 4 * (chains.n_positions * descent.n_labels + chains.n_sequences * n_edges)
    return DualAscent(descent) if n_bytes <= _MOST_BYTES else None
