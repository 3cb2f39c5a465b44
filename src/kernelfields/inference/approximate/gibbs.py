"""Gibbs sampling: marginals with standard errors for factors of any order.

Each sweep draws every node given the others. Marginals are averages of these conditional distributions (Rao and
Blackwell), those of factors likewise, one member at a time. Several chains start from different labellings; with
batches of sweeps j in all chains, batch means x_j and halves h of chains with n sweeps each:

    standard error   sqrt(Var_j x_j / number of batches)
    split R-hat      sqrt(((n - 1) / n W + B / n) / W),    W = mean_h Var within h,  B = n Var_h of means
    effective size   Var of the conditional probability over sweeps / standard error^2

There is no log partition function: it is NaN, and ``bound`` is None. Sampling one label at a time cannot cross
forbidden combinations: where these cut the labellings into islands, chains stay on theirs, and R-hat says so.

Arrays as in inference/graphs.py. Cost: O(chains * sweeps * (N + incidences) L) time; memory of the marginals of
all factors, for each chain where that is below ``_SEPARATE`` bytes. Fails: ValueError naming a graph in which no
allowed labelling was found.
"""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np

from kernelfields.inference.approximate.base import ApproximateFamily, Gibbs, SweepSums
from kernelfields.inference.graphs import Diagnostics, GraphMember, GraphPotentials
from kernelfields.inference.packing import in_shapes
from kernelfields.inference.pair_graph import LEAST_PARTED
from kernelfields.numerics.threads import Workers

_BATCHES = 20
_SEPARATE = 2**28
# Above this the halves of chains disagree more than a good estimate allows.
_MIXED = 1.1


class GibbsMember(GraphMember):
    """Estimated marginals; ``diagnostics`` has standard_errors (N, L), r_hat (N, L), effective_size (N, L)."""

    _entries: list[np.ndarray]

    def _table_marginals(self, group: int) -> np.ndarray:
        """Return the estimated marginals (M, L, .., L) of the labels at the factors of a group."""
        return self._entries[group]


class GibbsFamily(ApproximateFamily):
    """Gibbs sampling; see ``Gibbs`` for the options."""

    method = "gibbs"
    options: Gibbs

    def __init__(self, offsets, members, n_labels, options, *, least_parted=LEAST_PARTED):
        super().__init__(offsets, members, n_labels, options, least_parted=least_parted)
        self.description = (
            f"Gibbs sampling: {options.chains} chains of {options.sweeps} sweeps after {options.burn_in}; "
            "marginals with standard errors, no log partition function"
        )

    def _member(self, checked: GraphPotentials, workers: Workers) -> GibbsMember:
        marginals, entries, found = _Chains(self, checked, workers).run()
        diagnostics = self._described(found)
        beliefs = GibbsMember(self, checked, np.full(self.n_items, np.nan), marginals, workers, diagnostics)
        shapes = [self.table_shape(group, False) for group in range(len(self.members))]
        beliefs._entries = in_shapes(entries, shapes)
        return beliefs

    def _described(self, found: dict[str, np.ndarray]) -> Diagnostics:
        """Return diagnostics with what every method reports: converged, iterations, change, warnings."""
        worst, errors = (
            np.maximum.reduceat(found[name].max(axis=1), self.offsets[:-1]) for name in ("r_hat", "standard_errors")
        )
        apart = np.flatnonzero(worst > _MIXED)
        notes = []
        if apart.size:
            notes.append(
                f"the chains have not mixed on {apart.size} of {self.n_items} graphs, the first is {apart[0]}: split "
                f"R-hat is up to {worst.max():.2f} and should be below {_MIXED}; raise burn_in and sweeps, or use "
                "another method"
            )
        iterations = np.full(self.n_items, self.options.sweeps)
        return {**found, "converged": worst <= _MIXED, "iterations": iterations, "change": errors, "warnings": notes}


class _Chains:
    """Chains of one call: their starts, their random states, their sums."""

    def __init__(self, family: GibbsFamily, checked: GraphPotentials, workers: Workers):
        self.family, self.options, self.workers = family, family.options, workers
        options = self.options
        self.n_batches = 2 * max(1, min(_BATCHES, options.sweeps // 2) // 2)
        self.batch = options.sweeps // self.n_batches
        self.arranged = family.arrange(checked)
        random = np.random.default_rng(options.random_state)
        self.labels, self.states = family.start_chains(checked, workers, random, options.chains)

    def run(self) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Return marginals (N, L), those of factors end to end, and diagnostics."""
        family, n_chains, workers = self.family, self.options.chains, self.workers
        entry_start = np.concatenate([[0], np.cumsum(family.n_labels ** np.diff(self.arranged[0].start))])
        separate = n_chains * entry_start[-1] * 8 <= _SEPARATE
        entries = np.zeros((n_chains if separate else 1, entry_start[-1]))
        shape = family.n_positions, family.n_labels
        sums, squares, batches = (np.zeros((n_chains, 2, *shape)) for _ in range(3))
        fresh = np.zeros((n_chains, *shape))
        runs = family.sweep_runs(workers, self.batch)
        jobs = [(chain, first, last) for chain in range(n_chains) for first, last in runs]

        def follow(chain: int, first: int, last: int) -> None:
            place = chain * separate
            self._follow(chain, first, last, fresh, sums, squares, batches, entry_start, entries[place])

        def work(begin: int, end: int) -> None:
            for job in jobs[begin:end]:
                follow(*job)

        # Chains that share their sums of entries take turns; others run side by side.
        turn = max(1, len(jobs) if separate else len(runs))
        for begin in range(0, len(jobs), turn):
            workers.each(work, [(i, i + 1) for i in range(begin, begin + turn)])
        for g, chain in product(family.parts, range(n_chains)):
            follow(chain, g, g + 1)
        names, found = ("marginals", "standard_errors", "r_hat", "effective_size"), np.empty((4, *shape))

        def summarise(first: int, last: int) -> None:
            rows = np.s_[..., first:last, :]
            found[rows] = self._summary(sums[rows], squares[rows], batches[rows])

        def average(first: int, last: int) -> None:
            entries[0, first:last] = entries[:, first:last].sum(axis=0) / (n_chains * self.n_batches * self.batch)

        workers.each(summarise, workers.pieces(family.n_positions, sums.size))
        workers.each(average, workers.pieces(entries.shape[1], entries.size))
        diagnostics = dict(zip(names, found, strict=True))
        return diagnostics.pop("marginals"), entries[0], diagnostics

    def _follow(self, chain, first, last, fresh, sums, squares, batches, entry_start, entries):
        """Run one chain on graphs first..last-1 and fill its rows of sums, squares and squared batch means."""
        from kernelfields.inference.approximate.sweeps_compiled import close_batch

        family, workers, options = self.family, self.workers, self.options
        fixed = *self.arranged, self.labels[chain], self.states[chain]
        begin, end = family.offsets[[first, last]].tolist()
        # A run of graphs is in a thread already; the parts of one are not.
        pieces = workers.pieces(end - begin, sums.size) if first in family.parts else [(0, end - begin)]
        rows = [(begin + a, begin + b) for a, b in pieces]
        family.sample_graphs(first, last, workers, fixed, options.burn_in)
        for number in range(self.n_batches):
            half = 2 * number // self.n_batches
            added = SweepSums(fresh[chain], squares[chain, half], entry_start, entries)
            family.sample_graphs(first, last, workers, fixed, self.batch, added)
            totals = self.batch, fresh[chain], sums[chain, half], batches[chain, half]
            workers.each(partial(close_batch, *totals), rows)

    def _summary(self, sums, squares, batches):
        """Return marginals (N, L), standard errors, R-hat, effective sizes from sums by half chain, (C, 2, N, L)."""
        n = self.batch * self.n_batches // 2
        means = sums / n
        marginals = means.mean(axis=(0, 1))
        count = self.options.chains * self.n_batches
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
        size[spread <= floor] = 2.0 * n * self.options.chains
        return marginals, errors, r_hat, size
