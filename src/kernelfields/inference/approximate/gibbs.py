"""Gibbs sampling of labellings, with as many sweeps as its chains need to agree.

    y_v ~ p(y_v | all others), node after node: a sweep leaves p(y) as it is

Four chains start far apart: a good labelling, chance, one label at all nodes, and another one at all of them. They are
watched by the shares of labels at each node, in the two halves of each chain, after Gelman and Rubin: of m = 8 halves
of n sweeps with shares q_j of a label at a node,

    W = mean of n q_j (1 - q_j) / (n - 1)        variance within
    B = variance of the q_j                      between
    R-hat = sqrt((n - 1) / n + B / W)            the largest of all labels and nodes of a graph

Halves of 50 sweeps are tried first, then twice as many after what went before, until R-hat is at most 1.05, or 800 have
been tried. Draws are n / 5 sweeps apart: R-hat^2 - 1 is about the number of sweeps from one independent labelling to
the next, divided by n. A graph whose chains still disagree is reported.

Draws follow p(y) as far as the chains have mixed; neighbours within a chain are not independent. A label changes alone,
so that forbidden combinations are not crossed: where these cut the labellings into islands, a chain stays on its own,
and the report says so as the chains disagree.

Arrays: labels (chains, N), counts (chains, 2, N, L). Cost: O(I L) each sweep and chain. Graphs are shared out among
threads; random numbers come from one state for each graph and chain, so no answer depends on threads.
"""

from __future__ import annotations

import numpy as np

from kernelfields.inference import approximate
from kernelfields.numerics.threads import Workers

#: R-hat at which chains have mixed, and how many times they are tried, each time twice as long.
MIXED, _TRIALS, _FIRST_HALF = 1.05, 5, 50
# Sweeps of a half for each sweep between draws.
_APART = 5
#: Chains of a graph, and the sweeps of the first trial of one.
CHAINS, FIRST_TRIAL = 4, 2 * _FIRST_HALF


def sample_gibbs(
    arranged: tuple,
    labels: np.ndarray,
    states: np.ndarray,
    n_samples: int,
    runs: list[tuple[int, int]],
    workers: Workers,
) -> tuple[np.ndarray, list[str]]:
    """Return labellings (n_samples, N), and sentences about graphs whose chains have not mixed.

    ``arranged`` are incidence, node potentials and tables; ``labels`` (chains, N) is where chains start, ``states``
    (chains, S) are random; ``runs`` share out the graphs.
    """
    compiled = approximate.gibbs_compiled
    offsets = arranged[0].offsets
    drawn = np.empty((n_samples, labels.shape[1]), dtype=np.int64)
    spread, halves = np.empty(len(offsets) - 1), np.empty(len(offsets) - 1, dtype=np.int64)

    def run(first: int, last: int) -> None:
        compiled.mix(first, last, *arranged, labels, states, _FIRST_HALF, _TRIALS, MIXED, spread, halves)
        nodes = slice(*offsets[[first, last]])
        for row in range(n_samples):
            chain = row % len(labels)
            compiled.sample_sweeps(first, last, *arranged, labels[chain], states[chain], halves // _APART)
            drawn[row, nodes] = labels[chain, nodes]

    workers.each(run, runs)
    return drawn, _doubts(spread, halves)


def _doubts(spread: np.ndarray, halves: np.ndarray) -> list[str]:
    """Return a warning about the graphs (S,) with chains that disagree; no warning without such graphs."""
    doubtful = np.flatnonzero(spread > MIXED)
    if not doubtful.size:
        return []
    worst = doubtful[spread[doubtful].argmax()]
    return [
        f"Gibbs sampling has not mixed on {doubtful.size} of {len(spread)} graphs, the worst is {worst}: R-hat of its "
        f"{CHAINS} chains is {spread[worst]:.2f} after {2 * halves[worst]:,} sweeps, and {MIXED} at most if they "
        'agree; draws may miss a part of the labellings: use method="perfect" for two labels whose pairs attract, or '
        'inference="junction" where its tables fit into memory'
    ]
