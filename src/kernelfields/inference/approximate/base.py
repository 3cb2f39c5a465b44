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
nodes. Sweeps over a large graph visit its parts side by side in threads (pair_graph.py); no answer depends on them.

Fails: ValueError for larger factors given to "trw" or "loopy", and for a graph whose labellings are all forbidden,
as far as the method can see.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.inference.graphs import Diagnostics, GraphFamily, GraphPotentials
from kernelfields.inference.packing import end_to_end, grouped
from kernelfields.inference.pair_graph import LEAST_PARTED, Levels, ordered_parts
from kernelfields.numerics.parameters import check_count, check_penalty, declares_parameters, parameter
from kernelfields.numerics.registry import SETTINGS
from kernelfields.numerics.threads import Workers

#: What random numbers are drawn from, as NumPy takes it.
RandomState = int | np.random.Generator | None


class Incidence(NamedTuple):
    """Where nodes and factors meet, as compiled sweeps read it."""

    offsets: np.ndarray  # (S + 1,)
    order: np.ndarray  # (N,), in which sweeps visit the nodes; those of graph i at offsets[i] .. offsets[i + 1] - 1
    node_start: np.ndarray  # (N + 1,), incidences of node v are node_start[v] .. node_start[v + 1] - 1
    factor_of: np.ndarray  # (I,)
    place_of: np.ndarray  # (I,), which axis of the factor's table belongs to the node
    start: np.ndarray  # (F + 1,), nodes of factor f are nodes[start[f]] .. nodes[start[f + 1] - 1]
    nodes: np.ndarray  # (I,)
    table_start: np.ndarray  # (F,), where the factor's table begins; filled per call


class SweepSums(NamedTuple):
    """Sums of conditional distributions over sweeps, which compiled sweeps add to."""

    node: np.ndarray  # (N, L), of the batch of sweeps
    squares: np.ndarray  # (N, L), of the same conditional distributions
    entry_start: np.ndarray  # (F + 1,), marginals of factor f are entries[entry_start[f]] .. [entry_start[f + 1] - 1]
    entries: np.ndarray  # (sum_f L^k_f,), each factor (L, .., L) laid out flat


NO_SUMS = SweepSums(np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(1, np.int64), np.zeros(0))


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
    """Options of tree-reweighted belief propagation.

    Sweeps end when no node's marginals change by more than ``tolerance``, or after ``max_iter``; the bound holds
    whenever they end. None is a tolerance of 1e-6, and of 1e-3 for graphs with 100,000 pairs or more, whose sweeps are
    dear: the bound is flat in the messages where these rest, so that it is hardly higher then. ``damping`` in [0, 1)
    keeps that share of the old messages; a sweep that raises the bound is drawn back anyway. ``warm_start`` begins with
    the messages of the call before, if there was one: the result then depends on it within the tolerance.
    """

    tolerance: float | None = parameter(None, _check_tolerance, first=True)
    damping: float = parameter(0.0, _check_damping, first=True)
    max_iter: int = parameter(500, check_count, first=True)
    warm_start: bool = parameter(True, first=True)


@SETTINGS.register("loopy")
@declares_parameters
class LoopyBelief(BaseEstimator):
    """Options of loopy belief propagation, as those of ``TreeReweighted``.

    ``damping`` sets in only when the changes stop shrinking, so forests stay exact after one sweep.
    """

    tolerance: float | None = parameter(None, _check_tolerance, first=True)
    damping: float = parameter(0.5, _check_damping, first=True)
    max_iter: int = parameter(500, check_count, first=True)
    warm_start: bool = parameter(True, first=True)


def resting_change(options: TreeReweighted | LoopyBelief, n_pairs: float, large: float = 100_000) -> float:
    """Return the change of marginals at which messages rest on graphs of so many pairs each."""
    if options.tolerance is not None:
        return options.tolerance
    return 1e-3 if n_pairs >= large else 1e-6


@SETTINGS.register("mean-field")
@declares_parameters
class MeanField(BaseEstimator):
    """Options of mean field: ascend from ``starts`` distributions and keep the best bound of each graph.

    The first start is the softmax of the node potentials, the second a good labelling, further ones are labellings
    climbed to from chance (``random_state``).
    """

    tolerance: float = parameter(1e-6, check_penalty, first=True)
    max_iter: int = parameter(500, check_count, first=True)
    starts: int = parameter(2, check_count, first=True)
    random_state: RandomState = parameter(0, first=True)


@SETTINGS.register("gibbs")
@declares_parameters
class Gibbs(BaseEstimator):
    """Options of Gibbs sampling: ``chains`` from different starts, each of ``sweeps`` sweeps after ``burn_in``.

    ``sample`` keeps a labelling every ``thin`` sweeps. A whole number as ``random_state`` gives the same numbers
    at every call.
    """

    chains: int = parameter(4, check_count, first=True)
    burn_in: int = parameter(100, partial(check_count, least=0), first=True)
    sweeps: int = parameter(400, partial(check_count, least=4), first=True)
    thin: int = parameter(10, check_count, first=True)
    random_state: RandomState = parameter(0, first=True)


OPTIONS: dict[str, type[BaseEstimator]] = {
    "trw": TreeReweighted,
    "loopy": LoopyBelief,
    "mean-field": MeanField,
    "gibbs": Gibbs,
}


class ApproximateFamily(GraphFamily):
    """What all approximations share: labellings that are locally best, and samples by Gibbs sampling."""

    exact = False
    bound: str | None = None
    fewest_samples = 0
    options: BaseEstimator

    def __init__(
        self,
        offsets: np.ndarray,
        members: Sequence[np.ndarray],
        n_labels: int,
        options: BaseEstimator,
        *,
        least_parted: float = LEAST_PARTED,
        parts: tuple[np.ndarray, dict[int, Levels]] | None = None,
    ):
        super().__init__(offsets, members, n_labels)
        self.options = options
        if parts is None:
            large = np.diff(offsets).max() >= least_parted
            columns = [pair for rows in members for pair in combinations(rows.T, 2)] if large else []
            low, high = np.concatenate([np.zeros((2, 0), np.int64), *columns], axis=1)
            parts = ordered_parts(offsets, low, high, least_parted)
        #: Large graphs that sweeps visit in parts, and the levels of these.
        self.parts = parts[1]
        parted = np.isin(self.position_items, list(self.parts))
        order = np.where(parted, parts[0], np.arange(self.n_positions))
        nodes = np.concatenate([np.zeros(0, np.int64), *(each.ravel() for each in members)])
        orders = np.concatenate([np.zeros(0, np.int64), *(np.full(len(m), m.shape[1]) for m in members)])
        start = np.concatenate([[0], np.cumsum(orders)])
        node_start, by_node = grouped(nodes, self.n_positions)
        factor = np.repeat(np.arange(len(orders)), orders)[by_node]
        self._incidence = Incidence(
            offsets, order, node_start, factor, by_node - start[factor], start, nodes, np.zeros(len(orders), np.int64)
        )

    def _planned_again(self, offsets: np.ndarray, members: Sequence[np.ndarray]) -> ApproximateFamily:
        return type(self)(offsets, members, self.n_labels, self.options)

    def arrange(self, checked: GraphPotentials) -> tuple[Incidence, np.ndarray, np.ndarray]:
        """Return the incidence with the places of all tables, node potentials, and the tables end to end."""
        places, begin = [np.zeros(0, np.int64)], 0
        for members, table, tied in zip(self.members, checked.tables, checked.tied, strict=True):
            size = self.n_labels ** members.shape[1]
            places.append(begin + size * np.arange(len(members)) * (not tied))
            begin += table.size
        incidence = self._incidence._replace(table_start=np.concatenate(places))
        return incidence, checked.node, end_to_end(checked.tables)

    def sweep_runs(self, workers: Workers, n_sweeps: int = 1) -> list[tuple[int, int]]:
        """Cut the graphs, but for those in parts, into runs of about equal work: nodes and incidences."""
        work = self._incidence.node_start[self.offsets] + self.offsets
        return self.without_parts(workers.weighted_pieces(work, 10 * self.n_labels * n_sweeps))

    def without_parts(self, runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return runs of graphs without those that are swept in parts."""
        cuts = [[first - 1, *(g for g in self.parts if first <= g < last), last] for first, last in runs]
        return [(a + 1, b) for places in cuts for a, b in pairwise(places) if a + 1 < b]

    def climb(self, checked: GraphPotentials, labels: np.ndarray, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        """Improve a labelling one node at a time until none helps; return it and its scores (S,).

        Where a forbidden combination remains, a search with growing penalties looks for an allowed labelling; the
        score is -inf if it finds none, which does not prove that there is none.
        """
        from kernelfields.inference.approximate.sweeps_compiled import (
            MOST_CLIMBING_SWEEPS,
            iterated_modes,
            labelling_scores,
            mode_range,
            penalised_search,
            score_range,
        )

        arranged, labels, scores = self.arrange(checked), np.array(labels, dtype=np.int64), np.empty(self.n_items)

        def run(first: int, last: int) -> None:
            iterated_modes(first, last, *arranged, labels)
            labelling_scores(first, last, *arranged, labels, scores)
            penalised_search(first, last, *arranged, labels, scores)

        workers.each(run, self.sweep_runs(workers))
        for g, levels in self.parts.items():
            for _ in range(MOST_CLIMBING_SWEEPS):
                if not any(workers.in_turn(lambda a, b: mode_range(a, b, *arranged, labels), levels)):
                    break
            scores[g] = math.fsum(workers.in_turn(lambda a, b: score_range(a, b, *arranged, labels), levels))
            penalised_search(g, g + 1, *arranged, labels, scores)
        return labels, scores

    def _decode(self, checked: GraphPotentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        """Take the labels of largest marginal, then change them one at a time until none helps."""
        return self.climb(checked, self._member(checked, workers).node_marginals.argmax(axis=1), workers)

    def start_chains(
        self, checked: GraphPotentials, workers: Workers, random: np.random.Generator, n_chains: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return labellings (chains, N) to start from and random states (chains, N), at the first position of a part.

        The first chain starts from a good labelling, the others from chance, mended where something is forbidden.
        """
        states = np.zeros((n_chains, self.n_positions), dtype=np.uint64)
        states[:, self.offsets[:-1]] = random.integers(2**64, size=(n_chains, self.n_items), dtype=np.uint64)
        labels = random.integers(self.n_labels, size=(n_chains, self.n_positions))
        for levels in self.parts.values():
            begins = [first for ranges in levels for first, _ in ranges]
            states[:, begins] = random.integers(2**64, size=(n_chains, len(begins)), dtype=np.uint64)
        labels[0], scores = self.climb(checked, checked.node.argmax(axis=1), workers)
        raise_if_lost(scores, "gibbs")
        for chain in range(1, n_chains if checked.restricted else 1):
            climbed, scores = self.climb(checked, labels[chain], workers)
            labels[chain] = np.where(np.isneginf(scores)[self.position_items], labels[0], climbed)
        return labels, states

    def sample_graphs(
        self, first: int, last: int, workers: Workers, fixed: tuple, n_sweeps: int, sums: SweepSums = NO_SUMS
    ) -> None:
        """Sweep graphs first..last-1 n_sweeps times; workers take the parts of those that are cut, if any is."""
        from kernelfields.inference.approximate.sweeps_compiled import sample_range, sample_sweeps

        for begin, end in self.without_parts([(first, last)]):
            sample_sweeps(begin, end, *fixed, n_sweeps, sums)
        for levels in (levels for g, levels in self.parts.items() if first <= g < last):
            for _ in range(n_sweeps):
                workers.in_turn(
                    lambda begin, end: sample_range(begin, end, *fixed, sums, np.empty((3, self.n_labels))), levels
                )

    def _draw(
        self, checked: GraphPotentials, n_samples: int, random: np.random.Generator, workers: Workers
    ) -> np.ndarray:
        """Draw by Gibbs sampling: several chains, one labelling every ``thin`` sweeps after burn-in.

        The draws follow p(y) as far as the chains have mixed; neighbours within a chain are not independent. Use
        Gibbs options for longer chains, and ``infer`` with "gibbs" for diagnostics of mixing.
        """
        options = self.options if isinstance(self.options, Gibbs) else Gibbs()
        drawn = np.empty((n_samples, self.n_positions), dtype=np.int64)
        n_chains = min(options.chains, n_samples)
        if not n_chains:
            return drawn
        arranged = self.arrange(checked)
        labels, states = self.start_chains(checked, workers, random, n_chains)
        for chain in range(n_chains):
            fixed = *arranged, labels[chain], states[chain]
            self.sample_graphs(0, self.n_items, workers, fixed, options.burn_in)
            for row in range(chain, n_samples, n_chains):
                self.sample_graphs(0, self.n_items, workers, fixed, options.thin)
                drawn[row] = labels[chain]
        return drawn


def raise_if_lost(scores: np.ndarray, method: str) -> None:
    """Raise for the first graph whose score (S,) is -inf: a method that starts from a labelling found none."""
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
