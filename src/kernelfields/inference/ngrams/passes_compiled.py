"""Scaled forward-backward over the arcs of an automaton, and its derivative along a direction; compiled.

Sequences are worked on side by side, in *lanes*, the longest first: a state or an arc is a row of numbers, one for
each lane, and sums of rows run in vector registers. With E(arc) = exp(score - shift), mass and gaps as in automaton.py,
and where edges differ from position to position E_t(arc) = E(arc) exp(edge_t - top of edge_t) in its place:

    f_t(y)      = exp(u_t(y) - top_t) / scale_{t-1}                      1 in the place of scale_0
    a_t(s)      = f_t(last label of s) sum over arcs into s of E(arc) mass_{t-1}(arc)
    scale_t     = sum_s a_t(s),   log Z = sum_t (log scale_t + top_t) + (T - 1) shift
    h_t(s)      = f_t(last label of s) beta_t(s)
    beta_t-1(q) = shared(q) + sum over covered arcs of q of E(arc) h_t(target)                1 / scale_T at the end
    shared(q)   = shared(fail[q]) + sum of E(arc) h_t(target) over other arcs of q, and arcs of fail[q] with a gap at q
    p_t(s)      = a_t(s) beta_t(s),     p_t(arc) = mass_{t-1}(arc) E(arc) h_t(target)         posteriors

Derivatives follow each line by the rules of calculus, with scales held: dE = E dscore, df = f du. With the expected
score of a direction, E x = sum_s da_T(s) beta_T(s), dp = da beta + a dbeta - p E x.

What underflows in a is lost for good: a sequence is flagged as troubled where a scale is below LEAST_SCALE or some beta
above MOST_FUTURE, and the caller does it in logarithms. Panels of masses are kept for as many positions as there is
room, a for the first of each such segment.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kernelfields.inference.ngrams.automaton import Arcs
from kernelfields.numerics.compiled import INLINED, REORDER, njit

LEAST_SCALE, MOST_FUTURE = 1e-100, 1e150


class Edges(NamedTuple):
    """Edges of each position: a row for each but the first of a sequence; no rows if all positions share them."""

    values: np.ndarray  # (M, L^2), their exponentials, one at most
    changes: np.ndarray  # (M, L^2), the direction, or without rows
    posterior: np.ndarray  # (M, L^2), to be filled, or without rows
    starts: np.ndarray  # (lanes,), the row into position t is that much before row t


class Room(NamedTuple):
    """Scratch arrays: numba compiles a loop faster than an allocation."""

    kept: np.ndarray  # (kinds, segments, S, lanes), masses with which a segment begins, and derivatives
    kept_scales: np.ndarray  # (segments, lanes)
    panels: np.ndarray  # (kinds, positions + 1, rows, lanes)
    scales: np.ndarray  # (positions + 1, lanes)
    factors: np.ndarray  # (positions + 1, L, lanes), f
    aheads: np.ndarray  # (kinds, S, lanes), h
    betas: np.ndarray  # (kinds, 2 S + 1, lanes), of states, what they share, and zeros
    more: np.ndarray  # (2 S + 1, lanes)
    tops: np.ndarray  # (lanes,)
    posterior: np.ndarray  # (L, lanes)
    means: np.ndarray  # (lanes,), E x
    edges: np.ndarray  # (kinds, L^2 or none, lanes), of one position
    zero: np.ndarray  # (1, lanes)

    @classmethod
    def allocate(
        cls, arcs: Arcs, n_labels: int, n_lanes: int, longest: int, segment: int, kinds: int, own_edges: bool
    ) -> Room:
        """Allocate scratch arrays for lanes of a number of positions; edges may differ by position."""
        n_states, positions = len(arcs.fail), min(segment, longest)
        n_segments = max(1, (longest - 2 + segment) // segment)
        n_rows = n_states + len(arcs.sums.begin) - 1
        return cls(
            np.empty((kinds, n_segments, n_states, n_lanes)),
            np.empty((n_segments, n_lanes)),
            np.empty((kinds, positions + 1, n_rows, n_lanes)),
            np.empty((positions + 1, n_lanes)),
            np.empty((positions + 1, n_labels, n_lanes)),
            np.empty((kinds, n_states, n_lanes)),
            np.zeros((kinds, 2 * n_states + 1, n_lanes)),
            np.zeros((2 * n_states + 1, n_lanes)),
            np.empty(n_lanes),
            np.empty((n_labels, n_lanes)),
            np.zeros(n_lanes),
            np.empty((kinds, n_labels**2 if own_edges else 0, n_lanes)),
            np.zeros((1, n_lanes)),
        )


# Rows are named by matrix and number: a view of a row would count its references at every step. A call, or the start of
# a loop over lanes, costs as much as dozens of lanes: one call for all sums of a step, and four rows at a time.
@njit(**INLINED, fastmath=REORDER)
def _fill_panel(active, arcs, panel):
    """Fill totals and the masses of covered arcs, given the masses of states."""
    n_states, n_parents = len(arcs.fail), len(arcs.parents)
    n_sums, rows = len(arcs.sums.begin) - 1, arcs.sums.items
    for i in range(n_sums):
        # Totals of longer states first: those of shorter ones are made of them.
        place = n_parents - 1 - i if i < n_parents else i
        begin, end, out = arcs.sums.begin[place], arcs.sums.begin[place + 1], n_states + place
        left = 1 + (end - begin - 1) % 4
        one = rows[begin]
        if left == 1:
            for b in range(active):
                panel[out, b] = panel[one, b]
        elif left == 2:
            two = rows[begin + 1]
            for b in range(active):
                panel[out, b] = panel[one, b] + panel[two, b]
        elif left == 3:
            two, three = rows[begin + 1], rows[begin + 2]
            for b in range(active):
                panel[out, b] = panel[one, b] + panel[two, b] + panel[three, b]
        else:
            two, three, four = rows[begin + 1], rows[begin + 2], rows[begin + 3]
            for b in range(active):
                panel[out, b] = (panel[one, b] + panel[two, b]) + (panel[three, b] + panel[four, b])
        for k in range(begin + left, end, 4):
            one, two, three, four = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
            for b in range(active):
                panel[out, b] += (panel[one, b] + panel[two, b]) + (panel[three, b] + panel[four, b])


@njit(**INLINED, fastmath=REORDER)
def _sum_arcs(active, sums, transfer, rows, source, bases, outs, edge_of, edges):
    """Fill rows of outs with rows of bases plus E(arc) times the source rows of arcs.

    Times the rows of their edges, too, where those have rows (L^2, lanes) of their own.
    """
    arcs = sums.items
    for i in range(len(sums.out)):
        begin, end, out, base = sums.begin[i], sums.begin[i + 1], sums.out[i], sums.base[i]
        if len(edges):
            for b in range(active):
                outs[out, b] = bases[base, b]
            for k in range(begin, end):
                first, one, edge = transfer[arcs[k]], rows[arcs[k]], edge_of[arcs[k]]
                for b in range(active):
                    outs[out, b] += first * source[one, b] * edges[edge, b]
            continue
        left = (end - begin) % 4
        if left == 0:
            for b in range(active):
                outs[out, b] = bases[base, b]
        elif left == 1:
            first, one = transfer[arcs[begin]], rows[arcs[begin]]
            for b in range(active):
                outs[out, b] = bases[base, b] + first * source[one, b]
        else:
            first, one = transfer[arcs[begin]], rows[arcs[begin]]
            second, two = transfer[arcs[begin + 1]], rows[arcs[begin + 1]]
            third = transfer[arcs[begin + 2]] if left == 3 else 0.0
            three = rows[arcs[begin + 2]] if left == 3 else two
            for b in range(active):
                more = second * source[two, b] + third * source[three, b]
                outs[out, b] = bases[base, b] + first * source[one, b] + more
        for k in range(begin + left, end, 4):
            first, one = transfer[arcs[k]], rows[arcs[k]]
            second, two = transfer[arcs[k + 1]], rows[arcs[k + 1]]
            third, three = transfer[arcs[k + 2]], rows[arcs[k + 2]]
            fourth, four = transfer[arcs[k + 3]], rows[arcs[k + 3]]
            for b in range(active):
                more = first * source[one, b] + second * source[two, b]
                outs[out, b] += more + (third * source[three, b] + fourth * source[four, b])


@njit(**INLINED, fastmath=REORDER)
def _weights(active, t, starts, node, scales, factors, tops):
    """Fill f_t (L, lanes) and top_t, given scale_{t-1}."""
    for b in range(active):
        row = node[starts[b] + t]
        top = -math.inf
        for y in range(len(row)):
            top = max(top, row[y])
        tops[b] = top
        inverse = 1.0 / scales[b] if scales[b] > LEAST_SCALE and top > -math.inf else 0.0
        for y in range(len(row)):
            factors[y, b] = math.exp(row[y] - top) * inverse if inverse > 0.0 else 0.0


@njit(**INLINED, fastmath=REORDER)
def _advance(active, arcs, transfer, factors, before, now, scales, edges, zero):
    """Fill the masses of states at t, in the panel ``now``, from the previous panel."""
    _sum_arcs(active, arcs.into, transfer, arcs.mass, before, zero, now, arcs.edges, edges)
    for b in range(active):
        scales[b] = 0.0
    for s in range(len(arcs.fail)):
        label = arcs.last[s]
        for b in range(active):
            now[s, b] *= factors[label, b]
            scales[b] += now[s, b]


@njit(**INLINED, fastmath=REORDER)
def _retreat(active, arcs, transfer, ahead, beta, edges):
    """Fill beta_{t-1} from h_t."""
    _sum_arcs(active, arcs.back, transfer, arcs.target, ahead, beta, beta, arcs.edges, edges)


@njit(**INLINED, fastmath=REORDER)
def _add_states(active, n_states, more, out):
    """Add the rows of all states."""
    for s in range(n_states):
        for b in range(active):
            out[s, b] += more[s, b]


@njit(nogil=True, cache=True)
def _active(t, lengths):
    """Count the lanes that are longer than t."""
    n_lanes = len(lengths)
    while n_lanes and lengths[n_lanes - 1] <= t:
        n_lanes -= 1
    return n_lanes


@njit(**INLINED, fastmath=REORDER)
def _start(starts, node, arcs, factors, panel, scales, tops):
    """Fill the panel of the first positions."""
    n_lanes = len(starts)
    for b in range(n_lanes):
        scales[b] = 1.0
    _weights(n_lanes, 0, starts, node, scales, factors, tops)
    for b in range(n_lanes):
        scales[b] = 0.0
    for s in range(len(arcs.fail)):
        row = panel[s]
        for b in range(n_lanes):
            row[b] = factors[s, b] if s < node.shape[1] else 0.0
            scales[b] += row[b]
    _fill_panel(n_lanes, arcs, panel)


@njit(**INLINED, fastmath=REORDER)
def _advance_derivatives(active, t, starts, d_node, arcs, steps, factors, panels, d_panels, i, edges, zero, more):
    """Fill da_t and its panel; ``steps`` are E and dE, edges the edges into t and their derivatives."""
    into, rows, pairs, transfer, slopes = arcs.into, arcs.mass, arcs.edges, steps[0], steps[1]
    before, mass, out = panels[i], panels[i + 1], d_panels[i + 1]
    _sum_arcs(active, into, transfer, rows, d_panels[i], zero, out, pairs, edges[0])
    _sum_arcs(active, into, slopes, rows, before, zero, more, pairs, edges[0])
    _add_states(active, len(arcs.fail), more, out)
    if edges.shape[1]:
        _sum_arcs(active, into, transfer, rows, before, zero, more, pairs, edges[1])
        _add_states(active, len(arcs.fail), more, out)
    for s in range(len(arcs.fail)):
        label = arcs.last[s]
        for b in range(active):
            out[s, b] = out[s, b] * factors[i + 1, label, b] + mass[s, b] * d_node[starts[b] + t, label]
    _fill_panel(active, arcs, out)


@njit(**INLINED, fastmath=REORDER)
def _fill_posterior(active, i, arcs, panels, betas, means, posterior):
    """Fill the posterior (L, lanes) of the labels at a position, or its derivative."""
    for y in range(len(posterior)):
        for b in range(active):
            posterior[y, b] = 0.0
    for s in range(len(arcs.fail)):
        label = arcs.last[s]
        if len(panels) == 1:
            for b in range(active):
                posterior[label, b] += panels[0, i, s, b] * betas[0, s, b]
        else:
            for b in range(active):
                change = betas[1, s, b] - means[b] * betas[0, s, b]
                posterior[label, b] += panels[1, i, s, b] * betas[0, s, b] + panels[0, i, s, b] * change


@njit(**INLINED, fastmath=REORDER)
def _fill_futures(active, t, starts, d_node, arcs, factors, betas, aheads, largest):
    """Fill h_t and its derivative, and the largest beta of each lane."""
    for b in range(active):
        largest[b] = 0.0
    for s in range(len(arcs.fail)):
        label = arcs.last[s]
        for b in range(active):
            aheads[0, s, b] = betas[0, s, b] * factors[label, b]
            largest[b] = max(largest[b], betas[0, s, b])
        if len(betas) > 1:
            for b in range(active):
                change = aheads[0, s, b] * d_node[starts[b] + t, label]
                aheads[1, s, b] = betas[1, s, b] * factors[label, b] + change


@njit(**INLINED, fastmath=REORDER)
def _count(active, i, weights, arcs, transfer, panels, aheads, means, counts):
    """Add the weighted posteriors of the arcs into position t, or derivatives, to counts (A,)."""
    for arc in range(transfer.shape[1]):
        mass, target, total, slope = arcs.mass[arc], arcs.target[arc], 0.0, 0.0
        if len(panels) == 1:
            for b in range(active):
                total += weights[b] * panels[0, i, mass, b] * aheads[0, target, b]
        else:
            for b in range(active):
                before, after = weights[b] * panels[0, i, mass, b], aheads[0, target, b]
                total += weights[b] * panels[1, i, mass, b] * after
                total += before * (aheads[1, target, b] - means[b] * after)
                slope += before * after
            slope *= transfer[1, arc]
        counts[arc] += total * transfer[0, arc] + slope


@njit(**INLINED, fastmath=REORDER)
def _fill_edges(active, t, given, edges):
    """Fill the edges into position t, (L^2, lanes), and their derivatives."""
    for b in range(active if edges.shape[1] else 0):
        row = given.starts[b] + t
        for e in range(edges.shape[1]):
            edges[0, e, b] = given.values[row, e]
            if len(edges) > 1:
                edges[1, e, b] = given.values[row, e] * given.changes[row, e]


@njit(**INLINED, fastmath=REORDER)
def _count_edges(active, t, i, given, weights, arcs, transfer, panels, aheads, edges, means, counts):
    """Add the weighted posteriors of arcs as ``_count`` does, for edges that differ by position."""
    for b in range(active if len(given.posterior) else 0):
        for e in range(edges.shape[1]):
            given.posterior[given.starts[b] + t, e] = 0.0
    for arc in range(transfer.shape[1]):
        mass, target, edge, total = arcs.mass[arc], arcs.target[arc], arcs.edges[arc], 0.0
        for b in range(active):
            step = transfer[0, arc] * edges[0, edge, b]
            share = panels[0, i, mass, b] * aheads[0, target, b] * step
            if len(panels) > 1:
                slope = transfer[1, arc] * edges[0, edge, b] + transfer[0, arc] * edges[1, edge, b]
                share = panels[0, i, mass, b] * (step * aheads[1, target, b] + slope * aheads[0, target, b]) - (
                    means[b] * share
                )
                share += panels[1, i, mass, b] * aheads[0, target, b] * step
            total += weights[b] * share
            if len(given.posterior):
                given.posterior[given.starts[b] + t, edge] += share
        counts[arc] += total


@njit(nogil=True, cache=True)
def _keep(part, kept, kept_scales, panels, scales):
    """Store the masses of states at the begin of a segment."""
    for b in range(scales.shape[1]):
        kept_scales[part, b] = scales[0, b]
        for kind in range(len(kept)):
            for s in range(kept.shape[2]):
                kept[kind, part, s, b] = panels[kind, 0, s, b]


@njit(nogil=True, cache=True)
def _change_segment(back, part, segment, kept, kept_scales, panels, scales):
    """Begin a segment with its stored masses, or with the end of the previous one, and store them."""
    for b in range(scales.shape[1]):
        scales[0, b] = kept_scales[part, b] if back else scales[segment, b]
        for kind in range(len(kept)):
            for s in range(kept.shape[2]):
                panels[kind, 0, s, b] = kept[kind, part, s, b] if back else panels[kind, segment, s, b]
    _keep(part, kept, kept_scales, panels, scales)


@njit(nogil=True, cache=True, fastmath=REORDER)
def run_lanes(starts, lengths, weights, arcs, node, d_node, given, steps, shift, segment, room, results, counts):
    """Fill the ``results`` of some sequences and add the weighted posteriors of arcs to counts (A,).

    starts and lengths (lanes,) are those of the sequences, the longest first. steps (1, A) are E, results are log Z
    (lanes,), flags of trouble (lanes,) and marginals (N, L). With steps (2, A), E and dE, and d_node (N, L), marginals
    and counts are derivatives, and the expected score of the direction stands in the place of log Z. ``segment`` is
    for how many positions panels are kept, ``room`` a :class:`Room`, ``given`` the :class:`Edges`; what their tops are
    is left out of log Z. Where a lane is troubled, sums over lanes are not to be used.
    """
    log_sums, troubled, marginals = results
    kept, kept_scales, panels, scales, factors, aheads, betas, more, tops, posterior, means, edges, zero = room
    n_lanes, longest, n_labels, n_states, kinds = len(starts), lengths[0], node.shape[1], len(arcs.fail), len(steps)
    n_segments = len(kept_scales)
    _start(starts, node, arcs, factors[0], panels[0, 0], scales[0], tops)
    for b in range(n_lanes):
        log_sums[b] = tops[b] + (math.log(scales[0, b]) if scales[0, b] > 0.0 else 0.0)
        troubled[b] = not scales[0, b] > LEAST_SCALE
    if kinds > 1:
        for s in range(n_states):
            for b in range(n_lanes):
                panels[1, 0, s, b] = panels[0, 0, s, b] * d_node[starts[b], s] if s < n_labels else 0.0
        _fill_panel(n_lanes, arcs, panels[1, 0])
    for turn in range(2 * n_segments - 1):
        # Up to the last segment, then back: the panels of the others are made again.
        part = turn if turn < n_segments else 2 * n_segments - 2 - turn
        begin, end = 1 + part * segment, min(longest, 1 + (part + 1) * segment)
        if turn > 0:
            _change_segment(turn >= n_segments, part, segment, kept, kept_scales, panels, scales)
            for kind in range(kinds):
                _fill_panel(n_lanes, arcs, panels[kind, 0])
        elif n_segments > 1:
            _keep(part, kept, kept_scales, panels, scales)
        for t in range(begin, end):
            i, active = t - begin, _active(t, lengths)
            _weights(active, t, starts, node, scales[i], factors[i + 1], tops)
            _fill_edges(active, t, given, edges)
            before, now = panels[0, i], panels[0, i + 1]
            _advance(active, arcs, steps[0], factors[i + 1], before, now, scales[i + 1], edges[0], zero)
            _fill_panel(active, arcs, panels[0, i + 1])
            if kinds > 1:
                _advance_derivatives(
                    active, t, starts, d_node, arcs, steps, factors, panels[0], panels[1], i, edges, zero, more
                )
            for b in range(active if turn < n_segments else 0):
                if scales[i + 1, b] > LEAST_SCALE:
                    log_sums[b] += math.log(scales[i + 1, b]) + tops[b] + shift
                else:
                    troubled[b] = True
        if turn < n_segments - 1:
            continue
        # The first position has no step into it: its posterior alone is left to do.
        for t in range(end - 1, begin - 1 if part else begin - 2, -1):
            i, active = t - begin, _active(t, lengths)
            for b in range(_active(t + 1, lengths), active):
                inverse = 1.0 / scales[i + 1, b] if scales[i + 1, b] > LEAST_SCALE else 0.0
                for s in range(n_states):
                    betas[0, s, b] = inverse
                    if kinds > 1:
                        means[b] += panels[1, i + 1, s, b] * inverse
            _fill_posterior(active, i + 1, arcs, panels, betas, means, posterior)
            _fill_futures(active, t, starts, d_node, arcs, factors[i + 1], betas, aheads, tops)
            for b in range(active):
                troubled[b] = troubled[b] or not tops[b] < MOST_FUTURE
                for y in range(n_labels):
                    marginals[starts[b] + t, y] = posterior[y, b]
            if t < begin:
                continue
            if edges.shape[1]:
                _fill_edges(active, t, given, edges)
                _count_edges(active, t, i, given, weights, arcs, steps, panels, aheads, edges, means, counts)
            else:
                _count(active, i, weights, arcs, steps, panels, aheads, means, counts)
            _retreat(active, arcs, steps[0], aheads[0], betas[0], edges[0])
            if kinds > 1:
                _retreat(active, arcs, steps[0], aheads[1], betas[1], edges[0])
                _retreat(active, arcs, steps[1], aheads[0], more, edges[0])
                _add_states(active, n_states, more, betas[1])
                if edges.shape[1]:
                    _retreat(active, arcs, steps[0], aheads[0], more, edges[1])
                    _add_states(active, n_states, more, betas[1])
    if kinds > 1:
        for b in range(n_lanes):
            log_sums[b] = means[b]
