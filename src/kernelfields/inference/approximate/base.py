"""Approximate inference on packed graphs: the methods, their options, and their common layout of factors.

    "trw"         TreeReweighted   pairs only; log partition from above, marginals are the gradient of the bound
    "loopy"       LoopyBelief      pairs only; Bethe's value, no bound; exact on forests, as the one above
    "mean-field"  MeanField        any factors; log partition from below

Options are plain objects with ``get_params``, so that they can be searched over. All methods decode to a labelling
that no change of a single label improves, and return its true score; where that is -inf, no allowed labelling was
found. All draw samples by Gibbs sampling. Diagnostics of beliefs have ``converged``, ``iterations``, ``change``,
(S,) each, and ``warnings``, a list of sentences that is empty if all went well.

Methods that look at one node at a time read an ``Incidence``: the factors that meet at a node, of any order.

    conditional score of label b at v given the others = node[v, b] + sum_{factors at v} table[.., b, ..]

Arrays: F factors of all groups one after the other, I = sum of their orders incidences. Tables are laid end to end
in one array, tied ones once; a single group is not copied. Cost: O(I) memory once, O(I L) time per sweep over the
nodes. Graphs are shared out among threads; no answer depends on them.

Raises ValueError for larger factors given to "trw" or "loopy", and for a graph whose labellings are all forbidden,
as far as the method can see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.inference import approximate
from kernelfields.inference.approximate.gibbs import CHAINS, FIRST_TRIAL, sample_gibbs
from kernelfields.inference.approximate.perfect import sample_perfectly
from kernelfields.inference.family import Labellings, RankedLabellings, warn_of_inference
from kernelfields.inference.graphs import Diagnostics, GraphFamily, GraphLabellings, GraphPotentials
from kernelfields.inference.packed_graphs import concatenate, group_places
from kernelfields.numerics.parameters import check_count, check_penalty, declares_parameters, parameter
from kernelfields.numerics.registry import SETTINGS
from kernelfields.numerics.threads import Workers


class Incidence(NamedTuple):
    """The incidence of nodes and factors, for compiled sweeps."""

    offsets: np.ndarray  # (S + 1,)
    node_start: np.ndarray  # (N + 1,), incidences of node v are node_start[v] .. node_start[v + 1] - 1
    factor_of: np.ndarray  # (I,)
    find_place: np.ndarray  # (I,), which axis of the factor's table belongs to the node
    start: np.ndarray  # (F + 1,), nodes of factor f are nodes[start[f]] .. nodes[start[f + 1] - 1]
    nodes: np.ndarray  # (I,)
    table_start: np.ndarray  # (F,), where the factor's table begins; filled per call


def _check_damping(value: float, name: str) -> None:
    check_penalty(value, name)
    if value >= 1:
        raise ValueError(f"{name} must be below 1, got {value!r}; at 1 messages would never change")


def _check_tolerance(value: float | None, name: str) -> None:
    if value is not None:
        check_penalty(value, name)


@SETTINGS.register("trw")
@declares_parameters
class TreeReweighted(BaseEstimator):
    """Set tree-reweighted belief propagation: log partitions are bounded from above.

    It is for graphs whose factors are pairs. The bound holds whenever sweeps end; it is flat in the messages where
    these rest, so that it is hardly higher with a larger tolerance.

    Parameters
    ----------
    tolerance : float, optional
        Sweeps end when no marginals of a node change by more; by default 1e-6, and 1e-3 for graphs with 100,000 pairs
        or more, whose sweeps are dear.
    damping : float, default 0.0
        The share of the old messages that is kept, in [0, 1); a sweep that raises the bound is drawn back anyway.
    max_iter : int, default 500
        The largest number of sweeps.
    warm_start : bool, default True
        Whether to begin with the messages of the call before, if there was one: the result then depends on it within
        the tolerance.

    See Also
    --------
    LoopyBelief : Has no bound, and is often closer.
    MeanField : Bounds log partitions from below.

    References
    ----------
    Wainwright, Jaakkola and Willsky (2005), A new class of upper bounds on the log partition function.

    Examples
    --------
    >>> from kernelfields import GraphCRF
    >>> from kernelfields.inference import TreeReweighted
    >>> triangle = ([[0.0], [1.0], [1.0]], [[0, 1], [1, 2], [2, 0]])
    >>> crf = GraphCRF("linear", prior_variance=1.0, scale=False, inference=TreeReweighted())
    >>> crf.fit([triangle], [["a", "b", "b"]]).predict([triangle])[0]
    ['a', 'b', 'b']
    """

    tolerance: float | None = parameter(None, _check_tolerance, first=True)
    damping: float = parameter(0.0, _check_damping, first=True)
    max_iter: int = parameter(500, check_count, first=True)
    warm_start: bool = parameter(True, first=True)


@SETTINGS.register("loopy")
@declares_parameters
class LoopyBelief(BaseEstimator):
    """Set loopy belief propagation: log partitions are Bethe's value, without a bound.

    It is for graphs whose factors are pairs, and exact on forests.

    Parameters
    ----------
    tolerance : float, optional
        Sweeps end when no marginals of a node change by more; by default 1e-6, and 1e-3 for graphs with 100,000 pairs
        or more, whose sweeps are dear.
    damping : float, default 0.5
        The share of the old messages that is kept, in [0, 1), once changes stop shrinking: forests stay exact after one
        sweep.
    max_iter : int, default 500
        The largest number of sweeps.
    warm_start : bool, default True
        Whether to begin with the messages of the call before, if there was one: the result then depends on it within
        the tolerance.

    See Also
    --------
    TreeReweighted : Bounds log partitions from above.

    References
    ----------
    Murphy, Weiss and Jordan (1999), Loopy belief propagation for approximate inference: an empirical study.

    Examples
    --------
    >>> from kernelfields import GraphCRF
    >>> from kernelfields.inference import LoopyBelief
    >>> triangle = ([[0.0], [1.0], [1.0]], [[0, 1], [1, 2], [2, 0]])
    >>> crf = GraphCRF("linear", prior_variance=1.0, scale=False, inference=LoopyBelief())
    >>> crf.fit([triangle], [["a", "b", "b"]]).predict([triangle])[0]
    ['a', 'b', 'b']
    """

    tolerance: float | None = parameter(None, _check_tolerance, first=True)
    damping: float = parameter(0.5, _check_damping, first=True)
    max_iter: int = parameter(500, check_count, first=True)
    warm_start: bool = parameter(True, first=True)


def convergence_threshold(options: TreeReweighted | LoopyBelief, n_pairs: float, large: float = 100_000) -> float:
    """Return the change of marginals below which messages have converged, by the numbers of pairs of graphs."""
    if options.tolerance is not None:
        return options.tolerance
    return 1e-3 if n_pairs >= large else 1e-6


@SETTINGS.register("mean-field")
@declares_parameters
class MeanField(BaseEstimator):
    """Mean field inference: a lower bound of log partitions.

    It is for factors of any size. It ascends from two distributions and keeps the best bound of each graph: the softmax
    of the node potentials, and a good labelling; that alone if something is forbidden.

    Parameters
    ----------
    tolerance : float, default 1e-6
        Sweeps end when no marginal changes by more.
    max_iter : int, default 500
        The largest number of sweeps.

    See Also
    --------
    TreeReweighted : Bounds log partitions from above.

    References
    ----------
    Wainwright and Jordan (2008), Graphical models, exponential families, and variational inference.

    Examples
    --------
    >>> from kernelfields import GraphCRF
    >>> from kernelfields.inference import MeanField
    >>> triangle = ([[0.0], [1.0], [1.0]], [[0, 1], [1, 2], [2, 0]])
    >>> crf = GraphCRF("linear", prior_variance=1.0, scale=False, inference=MeanField())
    >>> crf.fit([triangle], [["a", "b", "b"]]).predict([triangle])[0]
    ['a', 'b', 'b']
    """

    tolerance: float = parameter(1e-6, check_penalty, first=True)
    max_iter: int = parameter(500, check_count, first=True)


OPTIONS: dict[str, type[BaseEstimator]] = {
    "trw": TreeReweighted,
    "loopy": LoopyBelief,
    "mean-field": MeanField,
}


class ApproximateLabellings(GraphLabellings):
    """Locally best labellings, and draws by Gibbs sampling, or exact draws with ``method="perfect"``.

    A warning says where chains of Gibbs sampling have not mixed; perfect sampling raises ValueError where it cannot do
    without error.
    """

    fewest_samples = 0

    def _perfect(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        graphs = self.family.offsets, self.family.members
        return sample_perfectly(*graphs, self.checked, n_samples, random, self.workers)[0]


class ApproximateFamily(GraphFamily):
    """The common part of all approximations: local search for labellings, and Gibbs sampling."""

    exact = False
    bound: str | None = None
    _labellings_type: type[Labellings] = ApproximateLabellings
    options: BaseEstimator

    def __init__(
        self,
        offsets: np.ndarray,
        members: Sequence[np.ndarray],
        n_labels: int,
        options: BaseEstimator,
    ):
        super().__init__(offsets, members, n_labels)
        self.options = options
        nodes = np.concatenate([np.zeros(0, np.int64), *(each.ravel() for each in members)])
        orders = np.concatenate([np.zeros(0, np.int64), *(np.full(len(m), m.shape[1]) for m in members)])
        start = np.concatenate([[0], np.cumsum(orders)])
        node_start, by_node = group_places(nodes, self.n_positions)
        factor = np.repeat(np.arange(len(orders)), orders)[by_node]
        self._incidence = Incidence(
            offsets, node_start, factor, by_node - start[factor], start, nodes, np.zeros(len(orders), np.int64)
        )

    def _with_other_graphs(self, offsets: np.ndarray, members: Sequence[np.ndarray]) -> ApproximateFamily:
        return type(self)(offsets, members, self.n_labels, self.options)

    def arrange(self, checked: GraphPotentials) -> tuple[Incidence, np.ndarray, np.ndarray]:
        """Return the incidence with the places of all tables, node potentials, and concatenated tables."""
        places, begin = [np.zeros(0, np.int64)], 0
        for members, table, tied in zip(self.members, checked.tables, checked.tied, strict=True):
            size = self.n_labels ** members.shape[1]
            places.append(begin + size * np.arange(len(members)) * (not tied))
            begin += table.size
        incidence = self._incidence._replace(table_start=np.concatenate(places))
        return incidence, checked.node, concatenate(checked.tables)

    def sweep_runs(self, workers: Workers, n_sweeps: int = 1) -> list[tuple[int, int]]:
        """Split the graphs into runs of about equal work: nodes and incidences."""
        work = self._incidence.node_start[self.offsets] + self.offsets
        return workers.weighted_pieces(work, 10 * self.n_labels * n_sweeps)

    def climb(self, checked: GraphPotentials, labels: np.ndarray, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        """Improve a labelling one node at a time to a local optimum; return it and its scores (S,).

        Where a forbidden combination remains, a search with growing penalties looks for an allowed labelling; the
        score is -inf if it finds none, which does not prove that there is none.
        """
        compiled = approximate.sweeps_compiled
        arranged, labels, scores = self.arrange(checked), np.array(labels, dtype=np.int64), np.empty(self.n_items)

        def run(first: int, last: int) -> None:
            compiled.iterated_modes(first, last, *arranged, labels)
            compiled.labelling_scores(first, last, *arranged, labels, scores)
            compiled.penalised_search(first, last, *arranged, labels, scores)

        workers.each(run, self.sweep_runs(workers))
        return labels, scores

    def _decode(self, checked: GraphPotentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        """Improve the labels of largest marginal one at a time to a local optimum."""
        return self.climb(checked, self._member(checked, workers).node_marginals.argmax(axis=1), workers)

    def _ranked(self, checked: GraphPotentials, k: int, workers: Workers) -> RankedLabellings:
        raise ValueError(
            f"the n best labellings need exact inference, and these graphs are inferred by {self.method!r}, which "
            f"is approximate ({self.description}): use sample to draw labellings"
        )

    def _draw(
        self, checked: GraphPotentials, n_samples: int, random: np.random.Generator, workers: Workers
    ) -> np.ndarray:
        if not n_samples:
            return np.empty((0, self.n_positions), dtype=np.int64)
        labels, states = self._start_chains(checked, workers, random)
        runs = self.sweep_runs(workers, CHAINS * FIRST_TRIAL + n_samples)
        drawn, doubts = sample_gibbs(self.arrange(checked), labels, states, n_samples, runs, workers)
        warn_of_inference(doubts)
        return drawn

    def _start_chains(
        self, checked: GraphPotentials, workers: Workers, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return initial labellings (chains, N) and random states (chains, S).

        They are far apart, so that chains which never leave what they start in disagree: a good labelling, chance, and
        one label at all nodes, two of them; these are mended where something is forbidden.
        """
        states = random.integers(2**64, size=(CHAINS, self.n_items), dtype=np.uint64)
        labels = random.integers(self.n_labels, size=(CHAINS, self.n_positions))
        labels[2:] = random.permutation(self.n_labels)[[0, -1], None]
        labels[0], scores = self.climb(checked, checked.node.argmax(axis=1), workers)
        raise_if_lost(scores, "sampling")
        for chain in range(1, CHAINS if checked.has_forbidden else 1):
            climbed, scores = self.climb(checked, labels[chain], workers)
            labels[chain] = np.where(np.isneginf(scores)[self.position_items], labels[0], climbed)
        return labels, states


def raise_if_lost(scores: np.ndarray, method: str) -> None:
    """Raise for the first graph with a score (S,) of -inf: there is no initial labelling."""
    lost = np.flatnonzero(np.isneginf(scores))
    if lost.size:
        raise ValueError(
            f"graph {lost[0]}: no allowed labelling was found, so {method!r} has nowhere to start; check which "
            'potentials of this graph are -inf, or use "junction", which finds one if there is one'
        )


def diagnose(report: np.ndarray, method: str, advice: str) -> Diagnostics:
    """Return the diagnostics of sweeps from their report, (S, 4): value, sweeps, change, converged."""
    slow, notes = np.flatnonzero(report[:, 3] == 0), []
    if slow.size:
        notes.append(
            f"{method} has not converged on {slow.size} of {len(report)} graphs, the first is {slow[0]}: marginals "
            f"still change by {report[slow, 2].max():.1e}; {advice}"
        )
    return {
        "converged": report[:, 3] > 0,
        "iterations": report[:, 1].astype(np.int64),
        "change": report[:, 2].copy(),
        "warnings": notes,
    }
