"""Scaled forward-backward and Hessian recursions of packed chains, all sequences side by side: on arrays and tensors.

The equations of scaled_compiled.py in step-major order (inference/step_order.py): step t is a few operations on n_t
rows. What does not depend on the step before it is computed for all positions at once. An operation has the same name
in NumPy and in PyTorch; the product of rows and tables differs, and is part of the :class:`Library`. Few short
sequences are done in NumPy before a compiler has loaded; on a device, no value is read back.

Arrays: node (N, L), tables (1, L, L) or (N, L, L), all in step-major order, float64.
Cost: O(N L^2) time; on a device about eight launches for each step of forward-backward and ten of a Hessian product.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from kernelfields.inference.packing import LEAST_PREDICTED, LEAST_SCALE, TINY, ScaledPasses
from kernelfields.inference.step_order import StepOrder

#: An array of NumPy, or a tensor.
Array = Any
#: Marginals below this bound do not count in a derivative, and their reciprocals would overflow.
LEAST_MARGINAL = 1e-290


class Library(NamedTuple):
    """NumPy or PyTorch, and the product of rows (n, L) and their tables (n, L, L), or the one of all, (L, L)."""

    functions: ModuleType
    times: Callable[[Array, Array], Array]


def _times(rows: np.ndarray, tables: np.ndarray) -> np.ndarray:
    # Not a product of matrices: BLAS rounds a row differently with others beside it, and answers would depend on those.
    return (rows[:, :, None] * tables).sum(axis=1)


NUMPY = Library(np, _times)


def _tables(tables: Array, here: slice) -> Array:
    return tables[0] if len(tables) == 1 else tables[here]


def _transposed(tables: Array, here: slice) -> Array:
    return _tables(tables, here).swapaxes(-1, -2)


def forward_backward(
    library: Library, node: Array, transfer: Array, shift: Array, order: StepOrder
) -> tuple[ScaledPasses, Array, Array]:
    """Return the scaled passes, the terms of log Z, (N,), and which positions are in doubt, (N,).

    Terms are NaN where doubles do not hold a sum. In doubt are positions of a tiny alpha: it may be that of a forbidden
    label, which :func:`underflown` tells.
    """
    functions, times = library
    top = functions.amax(node, axis=1)
    alpha = functions.exp(node - functions.where(functions.isneginf(top), 0.0, top)[:, None])
    predicted, scale, first = functions.zeros_like(alpha), functions.empty_like(top), slice(0, order.n_sequences)
    scale[first] = alpha[first].sum(axis=1)
    alpha[first] /= scale[first, None]
    for here, before in order.pairs:
        predicted[here] = chances = times(alpha[before], _tables(transfer, here))
        rows = alpha[here]
        rows *= chances
        scale[here] = total = rows.sum(axis=1)
        rows /= total[:, None]
    inverse_predicted = functions.where(predicted > LEAST_PREDICTED, 1.0 / predicted, 0.0)
    marginals = alpha + 0.0
    for here, before in reversed(order.pairs):
        marginals[before] *= times(marginals[here] * inverse_predicted[here], _transposed(transfer, here))
    terms = functions.log(scale) + top
    terms[order.n_sequences :] += shift if len(shift) == 1 else shift[order.n_sequences :]
    fine = (scale > LEAST_SCALE) & functions.isfinite(marginals.sum(axis=1))
    low = ~(functions.amin(alpha, axis=1) >= TINY)  # NaN included
    passes = ScaledPasses(transfer, shift, alpha, inverse_predicted, marginals)
    return passes, functions.where(fine, terms, functions.nan), low


def underflown(library: Library, node: Array, edge: Array, alpha: Array, order: StepOrder) -> Array:
    """Return which positions, (N,), have a label of tiny probability that nothing forbids."""
    reachable = 1.0 * (node > -np.inf)
    for here, before in order.pairs:
        reachable[here] *= library.times(reachable[before], 1.0 * (_tables(edge, here) > -np.inf)) > 0.0
    return ((reachable > 0.0) & (alpha < TINY)).any(axis=1)


def score_expectations(
    library: Library, d_node: Array, moved: Array, passes: ScaledPasses, order: StepOrder, ends: Array, ranks: Array
) -> tuple[Array, Array, Array]:
    """Return past = A, ahead = du + B - E and d_marginals = dm, (N, L) each.

    ``moved`` is T * dw; ``ends`` (S,) and ``ranks`` (N,) are those of the order, where the arrays are.
    """
    functions, times = library
    transfer, _, alpha, inverse_predicted, marginals = passes
    past = d_node + 0.0
    for here, before in order.pairs:
        expected = times(alpha[before] * past[before], _tables(transfer, here))
        expected += times(alpha[before], _tables(moved, here))
        past[here] += expected * inverse_predicted[here]
    mean = (marginals[ends] * past[ends]).sum(axis=1)
    # 1 / future, to be multiplied by what it divides as the recursion comes by; nothing is ahead of an end.
    ahead = functions.where(marginals < LEAST_MARGINAL, 0.0, alpha / marginals)
    ahead[ends] = 0.0
    for here, before in reversed(order.pairs):
        gamma = marginals[here] * inverse_predicted[here]
        expected = times(gamma * (ahead[here] + d_node[here]), _transposed(transfer, here))
        expected += times(gamma, _transposed(moved, here))
        ahead[before] *= expected
    ahead -= mean[ranks][:, None]
    return past, ahead + d_node, marginals * (past + ahead)
