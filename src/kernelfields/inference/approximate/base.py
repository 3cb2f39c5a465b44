"""Approximate inference on packed graphs: the methods, their options, and the layout of factors that they share.

    "trw"         TreeReweighted   pairs only; log partition from above, marginals are the gradient of the bound
    "loopy"       LoopyBelief      pairs only; Bethe's value, no bound; exact on forests, as the one above
    "mean-field"  MeanField        any factors; log partition from below
    "gibbs"       Gibbs            any factors; marginals with standard errors, no log partition (NaN)

Options are plain objects with ``get_params``, so that they can be searched over. All methods decode to a labelling
that no change of a single label improves, and return its true score; where that is -inf, no allowed labelling was
found. All draw samples by Gibbs sampling. Diagnostics of beliefs have ``converged``, ``iterations``, ``change``,
(S,) each (the last is the largest standard error for "gibbs"), and ``warnings``, a list of sentences that is empty
if all went well.

Methods that look at one node at a time read an ``Incidence``: the factors that meet at a node, of any order.

    conditional score of label b at v given the others = node[v, b] + sum_{factors at v} table[.., b, ..]

Arrays: F factors of all groups one after the other, I = sum of their orders incidences. Tables are laid end to end
in one array, tied ones once; a single group is not copied. Cost: O(I) memory once, O(I L) time per sweep over the
nodes.

Fails: ValueError for larger factors given to "trw" or "loopy", and for a graph whose labellings are all forbidden,
as far as the method can tell.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.inference.beliefs import GraphInference
from kernelfields.numerics.threads import Workers


class Incidence(NamedTuple):
    """Where nodes and factors meet, as compiled sweeps read it."""

    offsets: np.ndarray  # (S + 1,)
    node_start: np.ndarray  # (N + 1,), incidences of node v are node_start[v] .. node_start[v + 1] - 1
    factor_of: np.ndarray  # (I,)
    place_of: np.ndarray  # (I,), which axis of the factor's table belongs to the node
    start: np.ndarray  # (F + 1,), nodes of factor f are nodes[start[f]] .. nodes[start[f + 1] - 1]
    nodes: np.ndarray  # (I,)
    table_start: np.ndarray  # (F,), where the factor's table begins; filled per call


class FactorLayout:
    """Incidence of packed graphs, and the arrangement of their potentials."""

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray]):
        self.members = tuple(members)
        n_nodes = int(offsets[-1])
        nodes = np.concatenate([np.zeros(0, np.int64), *(each.ravel() for each in members)])
        orders = np.concatenate([np.zeros(0, np.int64), *(np.full(len(m), m.shape[1]) for m in members)])
        start = np.concatenate([[0], np.cumsum(orders)])
        factor = np.repeat(np.arange(len(orders)), orders)
        by_node = np.argsort(nodes, kind="stable")
        self.incidence = Incidence(
            offsets,
            np.concatenate([[0], np.cumsum(np.bincount(nodes, minlength=n_nodes))]),
            factor[by_node],
            by_node - start[factor[by_node]],
            start,
            nodes,
            np.zeros(len(orders), np.int64),
        )
        #: Incidences at or before each graph's end, (S + 1,): the work of a sweep.
        self.work = self.incidence.node_start[offsets] + offsets

    def arrange(self, factors: Sequence[np.ndarray]) -> tuple[Incidence, np.ndarray]:
        """Return the incidence with the places of all tables, and the tables end to end."""
        places, begin = [np.zeros(0, np.int64)], 0
        for members, table in zip(self.members, factors, strict=True):
            size = int(np.prod(table.shape[1:]))
            rows = np.zeros(len(members), np.int64) if len(table) == 1 else np.arange(len(members))
            places.append(begin + size * rows)
            begin += table.size
        flat = [table.ravel() for table in factors]
        tables = flat[0] if len(flat) == 1 else np.concatenate([np.zeros(0), *flat])
        return self.incidence._replace(table_start=np.concatenate(places)), tables

    def runs(self, workers: Workers, n_labels: int) -> list[tuple[int, int]]:
        """Cut the graphs into runs of about equal work."""
        return workers.weighted_pieces(self.work, 10 * n_labels)


def climb(
    layout: FactorLayout,
    node: np.ndarray,
    factors: Sequence[np.ndarray],
    labels: np.ndarray,
    workers: Workers,
) -> tuple[np.ndarray, np.ndarray]:
    """Improve a labelling one node at a time until none helps; return it and its scores (S,).

    Where a forbidden combination remains, a search with growing penalties looks for an allowed labelling; the
    score is -inf if it finds none, which does not prove that there is none.
    """
    from kernelfields.inference.approximate.sweeps_compiled import (
        iterated_modes,
        labelling_scores,
        penalised_search,
    )

    incidence, tables = layout.arrange(factors)
    labels = np.array(labels, dtype=np.int64)
    scores = np.empty(len(incidence.offsets) - 1)

    def run(first: int, last: int) -> None:
        iterated_modes(first, last, incidence, node, tables, labels)
        labelling_scores(first, last, incidence, node, tables, labels, scores)
        penalised_search(first, last, incidence, node, tables, labels, scores)

    workers.each(run, layout.runs(workers, node.shape[1]))
    return labels, scores


class TreeReweighted(BaseEstimator):
    """Options of tree-reweighted belief propagation.

    Sweeps end when no node's marginals change by more than ``tolerance``, or after ``max_iter``; the bound holds
    whenever they end. ``damping`` in [0, 1) keeps that share of the old messages; a sweep that raises the bound is
    drawn back anyway. ``warm_start`` begins with the messages of the call before, if there was one: the result
    then depends on it within the tolerance.
    """

    def __init__(self, tolerance: float = 1e-6, damping: float = 0.0, max_iter: int = 500, warm_start: bool = True):
        self.tolerance = tolerance
        self.damping = damping
        self.max_iter = max_iter
        self.warm_start = warm_start


class LoopyBelief(BaseEstimator):
    """Options of loopy belief propagation, as those of ``TreeReweighted``.

    ``damping`` sets in only when the changes stop shrinking, so forests stay exact after one sweep.
    """

    def __init__(self, tolerance: float = 1e-6, damping: float = 0.5, max_iter: int = 500, warm_start: bool = True):
        self.tolerance = tolerance
        self.damping = damping
        self.max_iter = max_iter
        self.warm_start = warm_start


class MeanField(BaseEstimator):
    """Options of mean field: ascend from ``starts`` distributions and keep the best bound of each graph.

    The first start is the softmax of the node potentials, the second a good labelling, further ones are labellings
    climbed to from chance (``random_state``).
    """

    def __init__(self, tolerance: float = 1e-6, max_iter: int = 500, starts: int = 2, random_state: Any = 0):
        self.tolerance = tolerance
        self.max_iter = max_iter
        self.starts = starts
        self.random_state = random_state


class Gibbs(BaseEstimator):
    """Options of Gibbs sampling: ``chains`` from different starts, each of ``sweeps`` sweeps after ``burn_in``.

    ``sample`` keeps a labelling every ``thin`` sweeps. A whole number as ``random_state`` gives the same numbers
    at every call.
    """

    def __init__(self, chains: int = 4, burn_in: int = 100, sweeps: int = 400, thin: int = 10, random_state: Any = 0):
        self.chains = chains
        self.burn_in = burn_in
        self.sweeps = sweeps
        self.thin = thin
        self.random_state = random_state


OPTIONS: dict[str, type[BaseEstimator]] = {
    "trw": TreeReweighted,
    "loopy": LoopyBelief,
    "mean-field": MeanField,
    "gibbs": Gibbs,
}


def no_allowed_labelling(graph: int, method: str) -> ValueError:
    """Return the error for a graph in which a method that starts from a labelling found no allowed one."""
    return ValueError(
        f"graph {graph}: no allowed labelling was found, so {method!r} has nowhere to start; check which "
        'potentials of this graph are -inf, or use "junction", which finds one if there is one'
    )


def start_chains(
    layout: FactorLayout,
    node: np.ndarray,
    tables: Sequence[np.ndarray],
    workers: Workers,
    random: np.random.Generator,
    n_chains: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return labellings (chains, N) to start from and random states (chains, S).

    The first chain starts from a good labelling, the others from chance, mended where something is forbidden.
    """
    n_graphs = len(layout.incidence.offsets) - 1
    states = random.integers(2**64, size=(n_chains, n_graphs), dtype=np.uint64)
    labels = random.integers(node.shape[1], size=(n_chains, len(node)))
    labels[0], scores = climb(layout, node, tables, node.argmax(axis=1), workers)
    lost = np.flatnonzero(np.isneginf(scores))
    if lost.size:
        raise no_allowed_labelling(int(lost[0]), "gibbs")
    if not all(np.isfinite(each.sum()) for each in (node, *tables)):
        graphs = np.repeat(np.arange(n_graphs), np.diff(layout.incidence.offsets))
        for chain in range(1, n_chains):
            climbed, scores = climb(layout, node, tables, labels[chain], workers)
            labels[chain] = np.where(np.isneginf(scores)[graphs], labels[0], climbed)
    return labels, states


def draw_labellings(
    layout: FactorLayout,
    node: np.ndarray,
    tables: Sequence[np.ndarray],
    n_samples: int,
    random: np.random.Generator,
    options: Gibbs,
) -> np.ndarray:
    """Return labellings (n_samples, N) of Gibbs chains, one every ``options.thin`` sweeps after burn-in."""
    from kernelfields.inference.approximate.sweeps_compiled import sample_sweeps

    if isinstance(n_samples, bool) or not isinstance(n_samples, int | np.integer) or n_samples < 0:
        raise ValueError(f"n_samples must be a whole number of at least 0, got {n_samples!r}")
    drawn = np.empty((n_samples, len(node)), dtype=np.int64)
    n_chains = min(options.chains, n_samples)
    if not n_chains:
        return drawn
    incidence, flat = layout.arrange(tables)
    labels, states = start_chains(layout, node, tables, Workers(1), random, n_chains)
    n_graphs = len(incidence.offsets) - 1
    for chain in range(n_chains):
        fixed = incidence, node, flat, labels[chain], states[chain]
        sample_sweeps(0, n_graphs, *fixed, options.burn_in)
        for row in range(chain, n_samples, n_chains):
            sample_sweeps(0, n_graphs, *fixed, options.thin)
            drawn[row] = labels[chain]
    return drawn


class ApproximateInference(GraphInference):
    """What all approximations share: labellings that are locally best, and samples by Gibbs sampling."""

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int):
        super().__init__(offsets, members, n_labels)
        self.layout = FactorLayout(offsets, members)

    def decode(
        self, node: np.ndarray, factors: Sequence[np.ndarray], workers: Workers | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a good labelling (N,) and its true score per graph (S,).

        Labels of largest marginal, then changed one at a time until none helps. A score of -inf says that no
        allowed labelling was found.
        """
        labels = self.infer(node, factors, workers=workers).node_marginals.argmax(axis=1)
        node, tables, _ = self.check_potentials(node, factors)
        return climb(self.layout, node, tables, labels, workers or Workers(1))

    def sample(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        n_samples: int,
        random: int | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Draw labellings (n_samples, N) by Gibbs sampling: several chains, burn-in, every tenth sweep.

        The draws follow p(y) as far as the chains have mixed; neighbours within a chain are not independent. Use
        Gibbs options for longer chains, and ``infer`` with "gibbs" for diagnostics of mixing.
        """
        node, tables, _ = self.check_potentials(node, factors)
        options = getattr(self, "options", None)
        chosen = options if isinstance(options, Gibbs) else Gibbs()
        return draw_labellings(self.layout, node, tables, n_samples, np.random.default_rng(random), chosen)


def check_options(options: BaseEstimator) -> None:
    """Raise ValueError if an option cannot be used."""
    least = {"tolerance": 0.0, "max_iter": 1, "starts": 1, "chains": 1, "burn_in": 0, "sweeps": 4, "thin": 1}
    for name, value in options.get_params(deep=False).items():
        where = f"{type(options).__name__}: {name}"
        if name == "tolerance" or name == "damping":
            if isinstance(value, bool) or not isinstance(value, float | int | np.number) or not 0 <= value < np.inf:
                raise ValueError(f"{where} must be a finite number of at least 0, got {value!r}")
            if name == "damping" and value >= 1:
                raise ValueError(f"{where} must be below 1, got {value!r}; at 1 messages would never change")
        elif name in least and (
            isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least[name]
        ):
            raise ValueError(f"{where} must be a whole number of at least {least[name]}, got {value!r}")
