"""Packed arrays of graphs, and the errors for arrays that do not fit together.

Graphs lie end to end: graph i owns the nodes offsets[i] .. offsets[i + 1] - 1. Members and potentials are as in
graphs.py; the nodes of a factor are all different and of the same graph. The checks cost a pass over the arrays.
Raises ValueError naming what is wrong and where.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.numerics.parameters import check_count


def check_structure(
    offsets: ArrayLike, members: Sequence[ArrayLike], n_labels: int
) -> tuple[np.ndarray, list[np.ndarray], int]:
    """Return offsets and members as contiguous int64 arrays that fit together, or raise ValueError."""
    check_count(n_labels, "n_labels")
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
    raw = np.asarray(members)
    if raw.ndim != 2 or raw.shape[1] < 2 or (raw.size and raw.dtype.kind not in "iu"):
        raise ValueError(
            f"members of factor group {group} must be whole numbers of shape (factors, nodes per factor) with at "
            f"least two nodes per factor, got shape {raw.shape} and dtype {raw.dtype}"
        )
    rows = np.ascontiguousarray(raw, dtype=np.int64)
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
    """A graph has no labelling of finite score.

    Parameters
    ----------
    graph : int
        The number of the graph.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inference import InfeasibleGraph, Potentials, plan_inference
    >>> family = plan_inference(np.array([0, 2]), [np.array([[0, 1]])], n_labels=2)
    >>> try:
    ...     family.distribution(Potentials(np.zeros((2, 2)), {"0": np.full((1, 2, 2), -np.inf)}))
    ... except InfeasibleGraph as error:
    ...     print(error.graph)
    0
    """

    def __init__(self, graph: int):
        self.graph = graph
        super().__init__(
            f"graph {graph}: every labelling is forbidden, so it has no best one and no marginals; "
            "check the constraints, what is known of its labels, and which of its potentials are -inf"
        )


def group_places(owner: np.ndarray, n_owners: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (starts, indices): the places of each owner, concatenated."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n_owners))])
    return starts, np.argsort(owner, kind="stable")


def distinct_pairs(members: Sequence[np.ndarray], n_nodes: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return the pairs of nodes with factors (P, 2), their number (P,), and for each group the pairs of its factors."""
    rows = np.concatenate([np.zeros((0, 2), np.int64), *members])
    keys = rows.min(axis=1) * n_nodes + rows.max(axis=1)
    keys, pair_of, counts = np.unique(keys, return_inverse=True, return_counts=True)
    bounds = np.cumsum([0, *(len(each) for each in members)])
    ends = np.column_stack(np.divmod(keys, max(n_nodes, 1)))
    return ends, counts, [pair_of.ravel()[a:b] for a, b in pairwise(bounds)]


def concatenate(tables: Sequence[np.ndarray]) -> np.ndarray:
    """Return the tables of all groups as one flat array, a view if there is only one."""
    if len(tables) == 1:
        return tables[0].reshape(-1)
    return np.concatenate([np.zeros(0), *(table.reshape(-1) for table in tables)])


def split_shapes(flat: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Return arrays of these shapes from a flat one: the inverse of ``concatenate``."""
    ends = accumulate(map(math.prod, shapes), initial=0)
    return [flat[a:b].reshape(shape) for (a, b), shape in zip(pairwise(ends), shapes, strict=True)]
