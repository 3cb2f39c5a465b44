"""Gibbs sampling: marginals with standard errors for factors of any order.

Each sweep draws every node given the others. Marginals are averages of these conditional distributions (Rao and
Blackwell), those of factors likewise, one member at a time. Several chains start from different labellings; with
batches of sweeps j in all chains, batch means x_j and halves h of chains with n sweeps each:

    standard error   sqrt(Var_j x_j / number of batches)
    split R-hat      sqrt(((n - 1) / n W + B / n) / W),    W = mean_h Var within h,  B = n Var_h of means
    effective size   Var of the conditional probability over sweeps / standard error^2

There is no log partition function: it is NaN, and ``bound`` is None. Sampling one label at a time cannot cross
forbidden combinations: where these cut the labellings into islands, chains stay on theirs, and R-hat says so.

Arrays as in inference/beliefs.py. Cost: O(chains * sweeps * (N + incidences) L) time; memory of the marginals of
all factors, for each chain where that is below ``_SEPARATE`` bytes. Fails: ValueError naming a graph in which no
allowed labelling was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernelfields.inference.approximate.base import (
    ApproximateInference,
    Gibbs,
    start_chains,
)
from kernelfields.inference.beliefs import GraphBeliefs
from kernelfields.numerics.threads import Workers

_BATCHES = 20
_SEPARATE = 2**28
# Above this the halves of chains disagree more than a good estimate allows.
_MIXED = 1.1


class SweepSums(NamedTuple):
    """Sums of conditional distributions over sweeps, which compiled sweeps add to."""

    node: np.ndarray  # (N, L)
    squares: np.ndarray  # (N, L), of the same conditional distributions
    entry_start: np.ndarray  # (F + 1,), marginals of factor f are entries[entry_start[f]] .. [entry_start[f + 1] - 1]
    entries: np.ndarray  # (sum_f L^k_f,), each factor (L, .., L) laid out flat


class GibbsBeliefs(GraphBeliefs):
    """Estimated marginals; ``diagnostics`` has standard_errors (N, L), r_hat (N, L), effective_size (N, L)."""

    _entries: list[np.ndarray]

    def factor_marginals(self, group: int) -> np.ndarray:
        """Return the estimated marginals (M, L, .., L) of the labels at the factors of a group."""
        return self._entries[group]


class GibbsInference(ApproximateInference):
    """Gibbs sampling; see ``Gibbs`` for the options."""

    method = "gibbs"
    bound = None

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int, options: Gibbs):
        super().__init__(offsets, members, n_labels)
        self.options = options
        self.description = (
            f"Gibbs sampling: {options.chains} chains of {options.sweeps} sweeps after {options.burn_in}; "
            "marginals with standard errors, no log partition function"
        )

    def infer(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        *,
        weights: np.ndarray | None = None,
        workers: Workers | None = None,
    ) -> GibbsBeliefs:
        """Estimate marginals; ``weights`` (S,) weigh the graphs in the gradient. ``log_partition`` is NaN."""
        node, tables, tied = self.check_potentials(node, factors)
        weights = self.check_weights(weights)
        chains = _Chains(self.layout, node, tables, workers or Workers(1), self.options)
        sums, squares, batches, entries = chains.run()
        marginals, diagnostics = _summary(sums, squares, batches, self.options)
        _describe(diagnostics, self.node_graphs, self.n_graphs, self.options.sweeps)
        beliefs = GibbsBeliefs(
            self, np.full(self.n_graphs, np.nan), marginals, tied=tied, weights=weights, diagnostics=diagnostics
        )
        beliefs._entries = []
        begin = 0
        for group in range(len(self.members)):
            shape = self.table_shape(group, False)
            size = int(np.prod(shape))
            beliefs._entries.append(entries[begin : begin + size].reshape(shape))
            begin += size
        return beliefs


class _Chains:
    """Chains of one call: their starts, their random states, their sums."""

    def __init__(self, layout, node, tables, workers, options):
        self.layout, self.node, self.workers = layout, node, workers
        self.n_chains = options.chains
        self.burn_in = options.burn_in
        self.n_batches = 2 * max(1, min(_BATCHES, options.sweeps // 2) // 2)
        self.batch = options.sweeps // self.n_batches
        self.incidence, self.tables = layout.arrange(tables)
        random = np.random.default_rng(options.random_state)
        self.labels, self.states = start_chains(layout, node, tables, workers, random, self.n_chains)

    def run(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return sums, squares, squared batch means by half chain (C, 2, N, L), and all marginals of factors."""
        orders = np.diff(self.incidence.start)
        n_labels = self.node.shape[1]
        entry_start = np.concatenate([[0], np.cumsum(n_labels**orders)])
        separate = self.n_chains * entry_start[-1] * 8 <= _SEPARATE
        entries = np.zeros((self.n_chains if separate else 1, entry_start[-1]))
        sums = np.zeros((self.n_chains, 2, *self.node.shape))
        squares, batches = np.zeros_like(sums), np.zeros_like(sums)
        runs = self.layout.runs(self.workers, n_labels * self.batch)

        jobs = [(chain, first, last) for chain in range(self.n_chains) for first, last in runs]

        def work(begin: int, end: int) -> None:
            for chain, first, last in jobs[begin:end]:
                self._follow(chain, first, last, sums, squares, batches, entry_start, entries[chain * separate])

        # Chains that share their sums of entries take turns; others run side by side.
        turn = len(jobs) if separate else len(runs)
        for begin in range(0, len(jobs), turn):
            self.workers.each(work, [(i, i + 1) for i in range(begin, begin + turn)])
        total = self.n_chains * self.n_batches * self.batch
        return sums, squares, batches, entries.sum(axis=0) / total

    def _follow(self, chain, first, last, sums, squares, batches, entry_start, entries):
        """Run one chain on graphs first..last-1 and fill its rows."""
        from kernelfields.inference.approximate.sweeps_compiled import accumulate_sweeps, sample_sweeps

        labels, states = self.labels[chain], self.states[chain]
        fixed = self.incidence, self.node, self.tables, labels, states
        rows = slice(self.incidence.offsets[first], self.incidence.offsets[last])
        sample_sweeps(first, last, *fixed, self.burn_in)
        for number in range(self.n_batches):
            half = 2 * number // self.n_batches
            before = sums[chain, half, rows].copy()
            added = SweepSums(sums[chain, half], squares[chain, half], entry_start, entries)
            accumulate_sweeps(first, last, *fixed, self.batch, added)
            batches[chain, half, rows] += np.square((sums[chain, half, rows] - before) / self.batch)


def _summary(sums, squares, batches, options):
    """Return marginals (N, L) and diagnostics from sums over sweeps and squared batch means, (C, 2, N, L) each."""
    n_batches = 2 * max(1, min(_BATCHES, options.sweeps // 2) // 2)
    n = options.sweeps // n_batches * n_batches // 2
    means = sums / n
    marginals = means.mean(axis=(0, 1))
    count = options.chains * n_batches
    # Rounding can leave a negative variance where a conditional probability never changes.
    spread = np.maximum(batches.sum(axis=(0, 1)) - count * marginals**2, 0.0) / (count - 1)
    errors = np.sqrt(spread / count)
    within = np.maximum(squares / n - means**2, 0.0).mean(axis=(0, 1))
    between = means.var(axis=(0, 1), ddof=1)
    floor = 1e-14
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = np.sqrt(((n - 1) / n * within + between) / within)
        size = np.maximum((squares / n).mean(axis=(0, 1)) - marginals**2, 0.0) / errors**2
    still = within <= floor
    r_hat[still] = np.where(between[still] <= floor, 1.0, np.inf)
    size[spread <= floor] = 2.0 * n * options.chains
    diagnostics = {"standard_errors": errors, "r_hat": r_hat, "effective_size": size}
    return marginals, diagnostics


def _describe(diagnostics, node_graphs, n_graphs, sweeps):
    """Add what every method reports: converged, iterations, change, warnings."""
    worst = np.zeros(n_graphs)
    np.maximum.at(worst, node_graphs, diagnostics["r_hat"].max(axis=1))
    errors = np.zeros(n_graphs)
    np.maximum.at(errors, node_graphs, diagnostics["standard_errors"].max(axis=1))
    apart = np.flatnonzero(worst > _MIXED)
    notes = []
    if apart.size:
        notes.append(
            f"the chains have not mixed on {apart.size} of {n_graphs} graphs, the first is {apart[0]}: split "
            f"R-hat is up to {worst.max():.2f} and should be below {_MIXED}; raise burn_in and sweeps, or use "
            "another method"
        )
    iterations = np.full(n_graphs, sweeps)
    diagnostics.update(converged=worst <= _MIXED, iterations=iterations, change=errors, warnings=notes)
