"""Scaled passes over long chains, whose pieces are passed side by side.

    guess      every piece, as if the chain began there
    correct    every piece, from the last row of the piece before, until a row is what the guess has there
    repair     pieces of which no row in the first half was; one after the other

Filtered probabilities forget where they began by a factor at each step. After some hundred positions those of a guess
are those of the chain to the last bit, and so are all that follow: the digits are those of one pass from end to end,
for any pieces and any number of threads, and where labels are forbidden, too. A chain that does not forget, such as one
of two groups of labels without a step between them, is passed from end to end after all, and not cut the next time.
Marginals are passed alike, from the end. Products of the steps of pieces would join these without a guess, at L times
the work.

Arrays: those of scaled_compiled.py. Cost: that of a pass forward and one backward, shared by the threads, and some
hundred positions for each piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from kernelfields.inference import chain
from kernelfields.inference.packing import LONG, ScaledPasses
from kernelfields.numerics.threads import Workers

# Positions of a step, and the fewest of a piece: what a chain needs to forget is to be little of it.
_STRIDE, _LEAST_PIECE = 2**7, 2**12
_PIECES_PER_THREAD = 2
# Positions of which exponentials are taken at once, in a cache.
_AT_ONCE = 2**12

#: A pass over positions first..last-1: whether it begins from a guess, and ends at a row that is already there.
PiecePass: TypeAlias = Callable[[int, int, bool, bool], int]


class LongSums(NamedTuple):
    """The log partition function of a long chain, whether doubles hold it, and whether its pieces have forgotten."""

    log_partition: float
    fine: bool
    forgets: bool


def count_pieces(lengths: np.ndarray, n_threads: int, long: int = LONG) -> np.ndarray:
    """Return the pieces of each chain, (S,), that keep all threads at work: one where whole chains do."""
    share = max(long, int(lengths.sum()) // (n_threads * _PIECES_PER_THREAD))
    cut = (lengths > share) & (n_threads > 1)
    return np.where(cut, -(-lengths // share), 1)


def cut_chain(begin: int, end: int, n_pieces: int, stride: int = _STRIDE, least: int = _LEAST_PIECE) -> list[int]:
    """Return the cuts of a chain, its ends included, into at most ``n_pieces`` pieces of at least two steps each."""
    n_steps = (end - begin) // stride
    n_pieces = max(1, min(n_pieces, n_steps // 2, (end - begin) // least))
    inner = begin + stride * np.linspace(0, n_steps, n_pieces + 1).astype(int)[1:-1]
    return [begin, *inner.tolist(), end]


def pass_long_chain(
    cuts: Sequence[int], node: np.ndarray, passes: ScaledPasses, workers: Workers, stride: int = _STRIDE
) -> LongSums:
    """Fill the scaled passes of one chain, cut into pieces."""
    begin, end = cuts[0], cuts[-1]
    totals, tops = np.zeros(-(-(end - begin) // stride)), np.zeros(len(node))

    def filter_rows(first: int, last: int, guessing: bool, correcting: bool) -> int:
        if guessing:  # the first pass over these rows; their marginals are not needed before the pass backward
            for at in range(first, last, _AT_ONCE):
                _fill_emissions(at, min(at + _AT_ONCE, last), node, passes.marginals, tops)
        given = first if guessing else begin, correcting, stride, passes
        work = np.empty((2, node.shape[1]))
        return chain.scaled_compiled.filter_piece(first, last, *given, totals[(first - begin) // stride :], work)

    def smooth_rows(first: int, last: int, guessing: bool, correcting: bool) -> int:
        given = last if guessing else end, correcting, stride, passes
        return chain.scaled_compiled.smooth_piece(first, last, *given, np.empty((2, node.shape[1])))

    pieces = list(pairwise(cuts))
    middles = [first + max(1, (last - first) // stride // 2) * stride for first, last in pieces]
    halves = [(first, middle) for (first, _), middle in zip(pieces, middles, strict=True)]
    fine, forgets = _pass_pieces(filter_rows, pieces, halves, workers)
    if fine:
        halves = [(middle, last) for (_, last), middle in zip(pieces, middles, strict=True)]
        fine, also = _pass_pieces(smooth_rows, pieces[::-1], halves[::-1], workers)
        forgets = forgets and also
    shift = passes.shift
    shifts = shift[0] * (end - begin - 1) if len(shift) == 1 else shift[begin + 1 : end].sum()
    return LongSums(float(totals.sum() + tops[begin:end].sum() + shifts), fine, forgets)


def _fill_emissions(first: int, last: int, node: np.ndarray, emissions: np.ndarray, tops: np.ndarray) -> None:
    """Fill e^{u_t(b) - top_t} of some positions, zero for forbidden labels alone, and top_t."""
    chain.scaled_compiled.scores_below_tops(first, last, node, emissions, tops)
    rows = emissions[first:last]
    np.exp(rows, out=rows)
    if not rows.all():
        rows[(rows == 0.0) & (node[first:last] > -np.inf)] = np.finfo(np.float64).smallest_subnormal


def _pass_pieces(
    run: PiecePass, pieces: Sequence[tuple[int, int]], halves: Sequence[tuple[int, int]], workers: Workers
) -> tuple[bool, bool]:
    """Pass pieces in order, each from the end of the previous piece; ``halves`` are corrected first.

    Return whether doubles do, and whether most pieces have forgotten their guess.
    """
    loops = chain.scaled_compiled
    each = [(index, index + 1) for index in range(len(pieces))]
    guessed = workers.each(lambda index, _: run(*pieces[index], True, False), each)
    if guessed[0] == loops.TROUBLED:
        return False, True

    def correct(index: int, _: int) -> int:
        # The other half, whose last row the next piece goes on from, is only read meanwhile.
        return run(*halves[index], False, True) if guessed[index] == loops.ENDED else loops.TROUBLED

    corrected = [loops.MET, *(workers.each(correct, each[1:]) if len(each) > 1 else ())]
    changed, repaired = False, 0  # whether the next piece has gone on from another row, and how many were passed again
    for piece, state in zip(pieces, corrected, strict=True):
        if state == loops.MET and not changed:
            continue
        found = run(*piece, False, state == loops.MET)
        if found == loops.TROUBLED:
            return False, True
        changed = found != loops.MET
        repaired += changed
    return True, 2 * repaired < len(pieces)
