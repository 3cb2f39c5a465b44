"""The arrays that graph inference takes, and the errors raised when they do not fit together; see ``graph``.

    offsets     (S + 1,)    rising from 0 to N
    members[f]  (M_f, k_f)  nodes of each factor, all different and of the same graph; k_f >= 2, M_f may be 0

The checks cost a pass over the arrays. Fails: ValueError naming what is wrong and where.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike


def check_structure(
    offsets: ArrayLike, members: Sequence[ArrayLike], n_labels: int
) -> tuple[np.ndarray, list[np.ndarray], int]:
    """Return offsets and members as contiguous int64 arrays that fit together, or raise ValueError."""
    if isinstance(n_labels, bool) or not isinstance(n_labels, int | np.integer) or n_labels < 1:
        raise ValueError(f"n_labels must be a whole number of at least 1, got {n_labels!r}")
    bounds = np.asarray(offsets)
    if bounds.ndim != 1 or bounds.size == 0 or bounds.dtype.kind not in "iu" or bounds[0] != 0:
        raise ValueError("offsets must be whole numbers of shape (graphs + 1,) that rise from 0")
    bounds = np.ascontiguousarray(bounds, dtype=np.int64)
    empty = np.flatnonzero(np.diff(bounds) <= 0)
    if empty.size:
        i = int(empty[0])
        raise ValueError(
            f"offsets must rise, but graph {i} runs from {bounds[i]} to {bounds[i + 1]}; drop graphs without nodes"
        )
    checked = [_check_members(group, each, bounds) for group, each in enumerate(members)]
    return bounds, checked, int(n_labels)


def _check_members(group: int, members: ArrayLike, offsets: np.ndarray) -> np.ndarray:
    given = np.asarray(members)
    if given.ndim != 2 or given.shape[1] < 2 or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(
            f"members of factor group {group} must be whole numbers of shape (factors, nodes per factor) with at "
            f"least two nodes per factor, got shape {given.shape} and dtype {given.dtype}"
        )
    rows = np.ascontiguousarray(given, dtype=np.int64)
    if not rows.size:
        return rows
    n_nodes = int(offsets[-1])
    outside = (rows < 0) | (rows >= n_nodes)
    if outside.any():
        m, j = np.argwhere(outside)[0]
        raise ValueError(f"factor {m} of group {group} has node {rows[m, j]}, but nodes are 0 to {n_nodes - 1}")
    ordered = np.sort(rows, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if repeated.any():
        m = int(np.flatnonzero(repeated)[0])
        raise ValueError(f"factor {m} of group {group} has a node twice: {rows[m].tolist()}; a factor joins nodes")
    graphs = np.searchsorted(offsets, ordered[:, [0, -1]], side="right")
    apart = graphs[:, 0] != graphs[:, 1]
    if apart.any():
        m = int(np.flatnonzero(apart)[0])
        raise ValueError(f"factor {m} of group {group} joins nodes of different graphs: {rows[m].tolist()}")
    return rows


class InfeasibleGraph(ValueError):
    """A graph has no labelling of finite score; ``graph`` says which."""

    def __init__(self, graph: int):
        self.graph = graph
        super().__init__(
            f"graph {graph}: every labelling is forbidden, so it has no best one and no marginals; "
            "check which node and factor potentials of this graph are -inf"
        )


def infeasible_graph(graph: int) -> InfeasibleGraph:
    """Return the error for a graph that has no labelling of finite score."""
    return InfeasibleGraph(graph)


def raise_if_infeasible_graph(log_values: np.ndarray) -> None:
    """Raise for the first graph whose log partition function or best score (S,) is -inf."""
    forbidden = np.flatnonzero(np.isneginf(log_values))
    if forbidden.size:
        raise infeasible_graph(int(forbidden[0]))


def check_values(name: str, potentials: np.ndarray) -> None:
    """Raise ValueError where a potential is NaN or plus infinity."""
    # The maximum is NaN or inf exactly when an entry is, and needs no temporary of the array's size.
    if potentials.size == 0 or potentials.max() < np.inf:
        return
    places = np.argwhere(~(potentials < np.inf))
    place = tuple(int(i) for i in places[0])
    raise ValueError(
        f"{name} must be finite or -inf, got {potentials[place]} at {place} "
        f"and {len(places)} such entries in all; use -inf to forbid"
    )
