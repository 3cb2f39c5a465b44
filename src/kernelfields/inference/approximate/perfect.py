"""Perfect sampling: independent exact samples of binary labels with attractive pairs, by coupling from the past.

With two labels and pairs, the log-odds of label 1 at v, the others x held, are those of an Ising model:

    odds_v(x) = field_v + sum_{neighbours u} coupling_vu x_u,     coupling = t[0,0] + t[1,1] - t[0,1] - t[1,0]

A sweep sets x_v = 1 where log(u / (1 - u)) < odds_v(x), with one uniform number u for each node. Where no coupling is
negative, it keeps the order of labellings: x <= x' at all nodes stays so. Chains from all 0 and from all 1 that see the
same numbers therefore hold every other chain between them. Started T sweeps before now, T = 1, 2, 4, .., with the same
numbers for the same sweep, they meet at some T, and the labelling they share now is a draw from p(y) without any error
(Propp and Wilson, 1996).

Where pairs repel, the two labels are exchanged at some nodes, if that makes all pairs attract: at every second node of
a lattice, for example. Nodes with one label left are part of the fields of their neighbours.

Arrays: N nodes, P directed pairs, (N,) and (P,). Cost: O(N + P) each sweep and draw, of which a draw has 4 T. Draws are
shared out among threads; no answer depends on them.

Raises ValueError for larger factors, forbidden pairs, more labels, circles of pairs that repel in any case, and where
chains have not met after ``most_sweeps``; a draw that is biased is never returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from kernelfields.inference import approximate
from kernelfields.inference.graphs import GraphPotentials
from kernelfields.numerics.threads import Workers

#: Sweeps from which chains start at the earliest.
MOST_SWEEPS = 2**14
# Couplings below this share of the largest potential of their pairs are rounding.
_ROUNDING = 1e-12
_INSTEAD = 'draw by Gibbs sampling (method="auto"), or with inference="junction" where its tables fit into memory'


class Couplings(NamedTuple):
    """Binary labels with attractive pairs after an exchange of the labels in the mask ``exchanged`` (N,)."""

    field: np.ndarray  # (N,)
    start: np.ndarray  # (N + 1,), pairs of node v are start[v] .. start[v + 1] - 1
    neighbour: np.ndarray  # (P,)
    strength: np.ndarray  # (P,), none below zero
    exchanged: np.ndarray  # (N,)


def sample_perfectly(
    offsets: np.ndarray,
    members: Sequence[np.ndarray],
    checked: GraphPotentials,
    n_samples: int,
    random: np.random.Generator,
    workers: Workers,
    most_sweeps: int = MOST_SWEEPS,
) -> tuple[np.ndarray, np.ndarray]:
    """Return independent labellings (n_samples, N) and the number of sweeps for each, (n_samples, S)."""
    coupled_draws = approximate.perfect_compiled.coupled_draws
    n_graphs = len(offsets) - 1
    couplings = find_couplings(offsets, members, checked)
    seeds = random.integers(2**64, size=(n_samples, n_graphs), dtype=np.uint64)
    drawn = np.empty((n_samples, offsets[-1]), dtype=np.int64)
    sweeps = np.zeros((n_samples, n_graphs), dtype=np.int64)
    work = np.tile(np.diff(couplings.start[offsets] + offsets), n_samples)

    def run(first: int, last: int) -> None:
        coupled_draws(first, last, offsets, *couplings[:4], seeds, most_sweeps, drawn, sweeps)

    workers.each(run, workers.weighted_pieces(np.concatenate([[0], np.cumsum(work)]), 100))
    late = np.flatnonzero((sweeps < 0).any(axis=0))
    if late.size:
        raise ValueError(
            f"graph {late[0]}: the chains of perfect sampling have not met within {most_sweeps:,} sweeps, so strongly "
            f"do its pairs attract; {_INSTEAD}"
        )
    return np.where(couplings.exchanged, 1 - drawn, drawn), sweeps


def find_couplings(offsets: np.ndarray, members: Sequence[np.ndarray], checked: GraphPotentials) -> Couplings:
    """Return potentials of binary pairs as fields and attractive couplings; ValueError for other potentials."""
    n_nodes, n_labels = checked.node.shape
    if n_labels != 2:
        raise ValueError(f"perfect sampling needs two labels, and here are {n_labels}; {_INSTEAD}")
    largest = max((nodes.shape[1] for nodes in members if len(nodes)), default=2)
    if largest > 2:
        raise ValueError(f"perfect sampling needs pairs, and here are factors of {largest} labels; {_INSTEAD}")
    if not all(np.isfinite(table.sum()) for table in checked.tables):
        raise ValueError(f"perfect sampling needs pairs that forbid nothing, and these forbid some labels; {_INSTEAD}")
    lost = np.flatnonzero(np.isneginf(checked.node).all(axis=1))
    if lost.size:
        graph = np.searchsorted(offsets, lost[0], side="right") - 1
        raise ValueError(f"graph {graph}: no label is left to its node {lost[0] - offsets[graph]}")
    field = checked.node[:, 1] - checked.node[:, 0]
    strength = csr_array((n_nodes, n_nodes))
    for nodes, tables in zip(members, checked.tables, strict=True):
        if not len(nodes):
            continue
        tables = np.broadcast_to(tables, (len(nodes), 2, 2))
        pull = tables[:, 0, 0] + tables[:, 1, 1] - tables[:, 0, 1] - tables[:, 1, 0]
        pull = np.where(np.abs(pull) > _ROUNDING * np.abs(tables).max(axis=(1, 2)), pull, 0.0)
        first, second = nodes.T
        np.add.at(field, first, tables[:, 1, 0] - tables[:, 0, 0])
        np.add.at(field, second, tables[:, 0, 1] - tables[:, 0, 0])
        ends = np.concatenate([first, second]), np.concatenate([second, first])
        strength = strength + coo_array((np.tile(pull, 2), ends), strength.shape).tocsr()
    known = np.isinf(field)
    field = field + strength @ (field == np.inf)
    free = coo_array(strength)
    kept = ~known[free.row] & ~known[free.col] & (free.data != 0)
    strength = csr_array((free.data[kept], (free.row[kept], free.col[kept])), strength.shape)
    exchanged = find_exchange(offsets, strength)
    side = np.where(exchanged, -1.0, 1.0)
    field = side * (field + strength @ exchanged)
    rows = np.repeat(np.arange(n_nodes), np.diff(strength.indptr))
    signed = strength.data * side[rows] * side[strength.indices]
    return Couplings(field, strength.indptr.astype(np.int64), strength.indices.astype(np.int64), signed, exchanged)


def find_exchange(offsets: np.ndarray, strength: csr_array) -> np.ndarray:
    """Return the mask (N,) of nodes with exchanged labels that makes pairs attractive; ValueError without one.

    In the graph with two copies of each node, pairs that attract join equal copies and pairs that repel join different
    ones. An exchange exists where no node is joined to its own copy: one of the two sides is exchanged.
    """
    n_nodes, pairs = strength.shape[0], coo_array(strength)
    repels = n_nodes * (pairs.data < 0)
    ends = (
        np.concatenate([pairs.row, pairs.row + n_nodes]),
        np.concatenate([pairs.col + repels, pairs.col + n_nodes - repels]),
    )
    copies = coo_array((np.ones(len(ends[0])), ends), (2 * n_nodes, 2 * n_nodes))
    side = connected_components(copies, directed=False)[1].reshape(2, n_nodes)
    torn = np.flatnonzero(side[0] == side[1])
    if torn.size:
        raise ValueError(
            f"graph {np.searchsorted(offsets, torn[0], side='right') - 1}: perfect sampling needs pairs that attract, "
            "and some of these repel however the two labels are exchanged at the nodes, as an odd number of them "
            f"around a circle does; {_INSTEAD}"
        )
    return side[0] > side[1]
