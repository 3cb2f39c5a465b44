"""Recursions of chains with tables of all labels: vectorized over chains, or compiled.

Functions of one semiring (recursions.py) take and return the same arrays, in the layout of packing.py. Loops are in
step_passes.py, plain.py, scaled_compiled.py and decoding.py; compiled ones are loaded when they are first called. Long
chains are passed in pieces (long.py).
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np

from kernelfields.inference import chain
from kernelfields.inference.chain import step_passes
from kernelfields.inference.chain.step_passes import StepOrder
from kernelfields.inference.packing import LONG, ScaledPasses
from kernelfields.inference.potentials import Potentials
from kernelfields.numerics.threads import Workers


class Layout:
    """The offsets (S + 1,) of packed chains, their positions step by step, and the pieces of long chains."""

    def __init__(self, offsets: np.ndarray):
        self.offsets = offsets
        #: Whether chains forget where they began, so that pieces may be passed side by side.
        self.forgets = True

    @cached_property
    def long_chains(self) -> np.ndarray:
        """The numbers of long chains."""
        return np.flatnonzero(np.diff(self.offsets) > LONG)

    def count_pieces(self, n_threads: int) -> np.ndarray:
        """Return the pieces of each long chain for some threads."""
        if not self.long_chains.size:
            return self.long_chains
        from kernelfields.inference.chain.long import count_pieces

        return count_pieces(np.diff(self.offsets), n_threads if self.forgets else 1)[self.long_chains]

    @cached_property
    def order(self) -> StepOrder:
        """Positions by step."""
        return StepOrder(self.offsets)


def sums_by_steps(
    layout: Layout, potentials: Potentials, transfer: np.ndarray, shift: np.ndarray, workers: Workers
) -> tuple[ScaledPasses, np.ndarray, np.ndarray]:
    """Return scaled passes, log partition functions (S,), and the sequences outside the range of doubles, (S,)."""
    order = layout.order
    node, log_partition = potentials.node[order.permutation], np.empty(order.n_sequences)
    with np.errstate(all="ignore"):  # what doubles do not hold is NaN
        given = order.in_order(transfer), order.in_order(shift)
        passes, terms, low = step_passes.forward_backward(step_passes.NUMPY, node, *given, order)
        if low.any():
            edge = order.in_order(potentials.edge)
            terms[step_passes.find_underflows(step_passes.NUMPY, node, edge, passes.alpha, order)] = np.nan
    log_partition[order.sequences] = order.sums(terms)
    packed = ScaledPasses(transfer, shift, *(array[order.inverse] for array in passes[2:]))
    return packed, log_partition, np.isnan(log_partition)


def compiled_sums(
    layout: Layout, potentials: Potentials, transfer: np.ndarray, shift: np.ndarray, workers: Workers
) -> tuple[ScaledPasses, np.ndarray, np.ndarray]:
    """Return scaled passes, log partition functions (S,), and the sequences outside the range of doubles, (S,)."""
    forward_backward = chain.scaled_compiled.forward_backward
    node, n_sequences = potentials.node, len(layout.offsets) - 1
    passes = ScaledPasses(transfer, shift, *(np.zeros(node.shape) for _ in range(3)))
    # Sums are minus infinity exactly where an entry is: potentials are never plus infinity here.
    has_forbidden = not (np.isfinite(potentials.edge.sum()) and np.isfinite(node.sum()))
    log_partition, troubled = np.empty(n_sequences), np.zeros(n_sequences, dtype=np.bool_)
    shared = layout.offsets, node, has_forbidden, passes, log_partition, troubled
    pieces = dict(zip(layout.long_chains.tolist(), layout.count_pieces(workers.n_threads).tolist(), strict=True))

    def pass_long(sequence: int, own: Workers) -> None:
        from kernelfields.inference.chain.long import cut_chain, pass_long_chain

        begin, end = layout.offsets[sequence : sequence + 2].tolist()
        cuts = cut_chain(begin, end, pieces[sequence])
        log_partition[sequence], fine, forgets = pass_long_chain(cuts, node, passes, own)
        troubled[sequence], layout.forgets = not fine, layout.forgets and forgets

    def run(first: int, last: int) -> None:
        if first not in pieces:
            _fill_exponentials(int(layout.offsets[first]), int(layout.offsets[last]), node, passes.alpha)
            forward_backward(first, last, *shared, _work_space(node))
        elif pieces[first] == 1:
            pass_long(first, Workers(1))

    workers.each(run, _runs_around(layout.long_chains, layout.offsets, node.shape[1], workers))
    for sequence, number in pieces.items():
        if number > 1:
            pass_long(sequence, workers)
    return passes, log_partition, troubled


def _fill_exponentials(first: int, last: int, node: np.ndarray, alpha: np.ndarray) -> None:
    """Fill e^{u_t(b) - top_t} of some positions."""
    rows = alpha[first:last]
    chain.scaled_compiled.scores_below_tops(0, last - first, node[first:last], rows, np.empty(last - first))
    np.exp(rows, out=rows)


def _runs_around(
    long_chains: np.ndarray, offsets: np.ndarray, n_labels: int, workers: Workers
) -> list[tuple[int, int]]:
    """Return runs of sequences as ``workers`` cut them, with each long chain a run of its own."""
    runs = workers.runs(offsets, n_labels)
    if not long_chains.size:
        return runs
    cuts = np.unique(np.concatenate([[first for first, _ in runs], long_chains, long_chains + 1, [len(offsets) - 1]]))
    return list(pairwise(cuts.tolist()))


def tangents_by_steps(
    layout: Layout, passes: ScaledPasses, d_node: np.ndarray, moved: np.ndarray, workers: Workers
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return expected scores of a direction before and after each label, and the change of marginals, each (N, L)."""
    order = layout.order
    ordered = ScaledPasses(*map(order.in_order, passes))
    given = order.in_order(d_node), order.in_order(moved), ordered, order, order.ends, order.ranks
    with np.errstate(all="ignore"):  # labels of probability zero have no expectation
        past, ahead, d_marginals = step_passes.score_expectations(step_passes.NUMPY, *given)
    return past[order.inverse], ahead[order.inverse], d_marginals[order.inverse]


def compiled_tangents(
    layout: Layout, passes: ScaledPasses, d_node: np.ndarray, moved: np.ndarray, workers: Workers
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return expected scores of a direction before and after each label, and the change of marginals, each (N, L)."""
    score_expectations = chain.scaled_compiled.score_expectations
    filled = np.empty_like(d_node), np.empty_like(d_node), np.empty_like(d_node)
    shared = layout.offsets, d_node, moved, passes, *filled
    workers.each(
        lambda first, last: score_expectations(first, last, *shared, _work_space(d_node)),
        workers.runs(layout.offsets, d_node.shape[1]),
    )
    return filled


def best_in_logarithms(layout: Layout, potentials: Potentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
    """Return the best labelling (N,) and its score for each sequence, (S,)."""
    return chain.plain.best_labels(chain.plain.Chains(potentials.node, potentials.edge, layout.offsets))


def compiled_best(layout: Layout, potentials: Potentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
    """Return the best labelling (N,) and its score for each sequence, (S,)."""
    return chain.decoding.viterbi(potentials.node, potentials.edge, layout.offsets, workers)


def compiled_draws(layout: Layout, passes: ScaledPasses, uniforms: np.ndarray, workers: Workers) -> np.ndarray:
    """Return labellings (n, N) from uniform numbers (n, N), the last label of a sequence first."""
    draw_backward = chain.decoding.draw_backward
    labels = np.zeros(uniforms.shape, dtype=np.int64)
    workers.each(
        lambda first, last: draw_backward(first, last, layout.offsets, passes, uniforms, labels),
        workers.runs(layout.offsets, passes.alpha.shape[1]),
    )
    return labels


def _work_space(node: np.ndarray) -> np.ndarray:
    """Return a work array for one run of the scaled passes, (4, L)."""
    return np.empty((4, node.shape[1]))
