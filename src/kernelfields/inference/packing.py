"""Packed arrays for inference, the errors for arrays that do not fit together, and the range of scaled passes.

Chains: sequences lie end to end; sequence i owns the positions offsets[i] .. offsets[i + 1] - 1.

    node     (N, L)     u_t(b), the potential of label b at position t
    edge     (E, L, L)  w_t(a, b), the potential of the step from label a at t - 1 to label b at t;
                        E = 1 shares one matrix among all positions, E = N gives every position its own
                        (those at sequence starts are never read)
    offsets  (S + 1,)   0 = offsets[0] < offsets[1] < ... < offsets[S] = N

    score(y) = sum_t node[t, y_t] + sum_{t not a start} edge[t or 0, y_{t-1}, y_t]

A potential of -inf forbids a label, a step or a combination of labels. The checks cost a pass over the arrays.
Raises ValueError naming what is wrong and where.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

# Scaled passes keep probabilities given the past that sum to one at each position. Those that are not structurally zero
# have all their digits as long as these bounds hold; where one does not, the pass is taken in logarithms.
#: Least probability: products of two numbers above it are still normal doubles relative to one.
TINY = 1e-250
#: Where the sum at a position is less before it is scaled to one, numbers of TINY after it have to be looked at before.
LEAST_SCALE = 1e-40
#: Least probability before scaling, of labels at a position and of steps into it: what is smaller has lost digits.
LEAST_PREDICTED = 1e-290

#: Scores, and probabilities, that differ by less are equal but for rounding, which is another on every road: the lowest
#: label wins then, on all of them.
TIE = 1e-10

#: Chains of more positions are long: their pieces are passed side by side (chain/long.py).
LONG = 2**13

# The use of minus infinity in chains, for error messages.
_CHAINS_FORBID = "forbid a label or a step"


class ScaledPasses(NamedTuple):
    """Arrays of the scaled passes of chains; chain/scaled_compiled.py has the equations."""

    transfer: np.ndarray  # (E, L, L), exp(w_t - shift_t), E = 1 or N; 0 where forbidden
    shift: np.ndarray  # (E,), largest entry of w_t, 0 where all are forbidden
    alpha: np.ndarray  # (N, L), filtered probabilities
    inverse_predicted: np.ndarray  # (N, L), 1 / c_t, 0 at a start and where c_t is
    marginals: np.ndarray  # (N, L), p(y_t = b | x)


def check_potentials(node: ArrayLike, edge: ArrayLike, offsets: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return node and edge as contiguous float64 and offsets as contiguous int64, or raise ValueError."""
    node = np.ascontiguousarray(node, dtype=np.float64)
    edge = np.ascontiguousarray(edge, dtype=np.float64)
    if node.ndim != 2 or node.shape[1] == 0:
        raise ValueError(
            f"node potentials must have shape (positions, labels) with at least one label, got {node.shape}"
        )
    n_positions, n_labels = node.shape
    if edge.ndim != 3 or edge.shape[1:] != (n_labels, n_labels) or edge.shape[0] not in (1, n_positions):
        raise ValueError(
            f"edge potentials must have shape (1, {n_labels}, {n_labels}), one matrix for all positions, or "
            f"({n_positions}, {n_labels}, {n_labels}), one per position, got {edge.shape}; "
            "write edge[None] for a single matrix"
        )
    offsets = check_offsets(offsets, n_positions)
    starts = offsets[:-1] if edge.shape[0] == n_positions else None
    check_values("node potentials", node, forbids=_CHAINS_FORBID)
    check_values("edge potentials", edge, ignored=starts, forbids=_CHAINS_FORBID)
    return node, edge, offsets


def check_offsets(offsets: ArrayLike, n_positions: int) -> np.ndarray:
    """Return offsets as contiguous int64 that rise from 0 to n_positions, or raise ValueError."""
    bounds = np.asarray(offsets)
    if bounds.ndim != 1 or bounds.size == 0 or bounds.dtype.kind not in "iu":
        raise ValueError(
            "offsets must be whole numbers of shape (sequences + 1,), "
            f"got shape {bounds.shape} and dtype {bounds.dtype}"
        )
    checked = np.ascontiguousarray(bounds, dtype=np.int64)
    if checked[0] != 0 or checked[-1] != n_positions:
        raise ValueError(
            f"offsets must run from 0 to the number of positions {n_positions}, got {checked[0]} to {checked[-1]}"
        )
    short = np.flatnonzero(np.diff(checked) <= 0)
    if short.size:
        i = int(short[0])
        raise ValueError(
            f"offsets must increase, but sequence {i} runs from {checked[i]} to {checked[i + 1]}; drop empty sequences"
        )
    return checked


def check_values(
    name: str, potentials: np.ndarray, *, ignored: np.ndarray | None = None, forbids: str = "forbid"
) -> None:
    """Raise ValueError if a potential is NaN or plus infinity; ``ignored`` rows are not checked."""
    # The maximum is NaN or inf exactly when an entry is, and needs no temporary of the array's size.
    if potentials.size == 0 or potentials.max() < np.inf:
        return
    wrong = ~(potentials < np.inf)
    if ignored is not None:
        wrong[ignored] = False
    places = np.argwhere(wrong)
    if len(places):
        place = tuple(int(i) for i in places[0])
        raise ValueError(
            f"{name} must be finite or -inf, got {potentials[place]} at {place} "
            f"and {len(places)} such entries in all; use -inf to {forbids}"
        )


class InfeasibleSequence(ValueError):
    """A sequence has no labelling of finite score.

    Parameters
    ----------
    sequence : int
        The number of the sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inference import ChainFamily, InfeasibleSequence, Potentials
    >>> forbidden = Potentials(np.full((1, 2), -np.inf), {"edge": np.zeros((1, 2, 2))})
    >>> try:
    ...     ChainFamily(np.array([0, 1]), 2).distribution(forbidden)
    ... except InfeasibleSequence as error:
    ...     print(error.sequence)
    0
    """

    def __init__(self, sequence: int):
        self.sequence = sequence
        super().__init__(
            f"sequence {sequence}: every labelling is forbidden, so it has no best one and no marginals; "
            "check the constraints, what is known of its labels, and which of its potentials are -inf"
        )


def raise_if_infeasible(log_values: np.ndarray, error: Callable[[int], ValueError] = InfeasibleSequence) -> None:
    """Raise for the first sequence or graph with a log partition function or best score (S,) of -inf."""
    forbidden = np.flatnonzero(np.isneginf(log_values))
    if forbidden.size:
        raise error(int(forbidden[0]))


def positive_exp(scores: np.ndarray, shift: np.ndarray | float) -> np.ndarray:
    """Return exp(scores - shift), positive also after underflow, and zero for minus infinity alone."""
    values = scores - shift
    np.exp(values, out=values)
    if not values.all():
        values[(values == 0.0) & (scores > -np.inf)] = np.finfo(np.float64).smallest_subnormal
    return values


def first_largest(values: np.ndarray, axis: int = 1) -> np.ndarray:
    """Return the indices of the largest values along an axis, the lowest index up to rounding."""
    return (values >= values.max(axis=axis, keepdims=True) - TIE).argmax(axis=axis)


def exponentials(tables: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return exp(w - shift) of tables (E, ..), zero for forbidden entries alone, and the shifts (E,), the maxima."""
    tops = tables.max(axis=tuple(range(1, tables.ndim)), initial=-np.inf)
    shift = np.where(np.isfinite(tops), tops, 0.0)
    return positive_exp(tables, shift.reshape(-1, *(1,) * (tables.ndim - 1))), shift
