"""The arrays that chain inference takes, and the errors raised when they do not fit together.

Sequences are packed end to end: sequence i owns the positions offsets[i] .. offsets[i + 1] - 1.

    node     (N, L)     u_t(b), the potential of label b at position t
    edge     (E, L, L)  w_t(a, b), the potential of the step from label a at t - 1 to label b at t;
                        E = 1 shares one matrix among all positions, E = N gives every position its own
                        (those at sequence starts are never read)
    offsets  (S + 1,)   0 = offsets[0] < offsets[1] < ... < offsets[S] = N

    score(y) = sum_t node[t, y_t] + sum_{t not a start} edge[t or 0, y_{t-1}, y_t]

A potential of -inf forbids a label or a step. The checks cost one pass over the arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def check_potentials(
    node: ArrayLike, edge: ArrayLike, offsets: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
    _check_values("node", node, ignored=None)
    _check_values("edge", edge, ignored=offsets[:-1] if edge.shape[0] == n_positions else None)
    return node, edge, offsets


def check_offsets(offsets: ArrayLike, n_positions: int) -> np.ndarray:
    """Return offsets as contiguous int64 that rise from 0 to n_positions, or raise ValueError."""
    given = np.asarray(offsets)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise ValueError(
            "offsets must be whole numbers of shape (sequences + 1,), "
            f"got shape {given.shape} and dtype {given.dtype}"
        )
    checked = np.ascontiguousarray(given, dtype=np.int64)
    if checked[0] != 0 or checked[-1] != n_positions:
        raise ValueError(
            f"offsets must run from 0 to the number of positions {n_positions}, got {checked[0]} to {checked[-1]}"
        )
    short = np.flatnonzero(np.diff(checked) <= 0)
    if short.size:
        i = int(short[0])
        raise ValueError(
            f"offsets must increase, but sequence {i} runs from {checked[i]} to {checked[i + 1]}; "
            "drop empty sequences"
        )
    return checked


def infeasible(sequence: int) -> ValueError:
    """Return the error for a sequence that has no labelling of finite score."""
    return ValueError(
        f"sequence {sequence}: every labelling is forbidden, so it has no best one and no marginals; "
        "check which node and edge potentials of this sequence are -inf"
    )


def raise_if_infeasible(log_values: np.ndarray) -> None:
    """Raise for the first sequence whose log partition function or best score (S,) is -inf."""
    forbidden = np.flatnonzero(np.isneginf(log_values))
    if forbidden.size:
        raise infeasible(int(forbidden[0]))


def _check_values(name: str, potentials: np.ndarray, ignored: np.ndarray | None) -> None:
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
            f"{name} potentials must be finite or -inf, got {potentials[place]} at {place} "
            f"and {len(places)} such entries in all; use -inf to forbid a label or a step"
        )
