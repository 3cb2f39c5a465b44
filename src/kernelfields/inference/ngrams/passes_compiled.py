"""Scaled forward-backward over the arcs of an automaton, and its derivative along a direction; compiled.

Sequences are worked on side by side, in *lanes*, the longest first: a state or an arc is a row of numbers, one for
each lane, and sums of rows run in vector registers. With E(arc) = exp(score - shift), mass and gaps as in automaton.py:

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
from numba import njit

from kernelfields.inference.ngrams.automaton import Arcs
from kernelfields.inference.sums_compiled import REORDER

LEAST_SCALE, MOST_FUTURE = 1e-100, 1e150


class Room(NamedTuple):
    """Arrays to work in; numba takes longer to compile an allocation than a loop."""

    kept: np.ndarray  # (kinds, segments, S, lanes), masses with which a segment begins, and derivatives
    kept_scales: np.ndarray  # (segments, lanes)
    panels: np.ndarray  # (kinds, positions + 1, rows, lanes)
    scales: np.ndarray  # (positions + 1, lanes)
    factors: np.ndarray  # (positions + 1, L, lanes), f
    aheads: np.ndarray  # (kinds, S, lanes), h
    shared: np.ndarray  # (S, lanes)
    betas: np.ndarray  # (kinds, S, lanes)
    more: np.ndarray  # (S, lanes)
    tops: np.ndarray  # (lanes,)
    posterior: np.ndarray  # (L, lanes)
    means: np.ndarray  # (lanes,), E x

    @classmethod
    def of(cls, arcs: Arcs, n_labels: int, n_lanes: int, longest: int, segment: int, kinds: int) -> Room:
        """Return room for lanes of which the longest has so many positions."""
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
            np.empty((n_states, n_lanes)),
            np.zeros((kinds, n_states, n_lanes)),
            np.empty((n_states, n_lanes)),
            np.empty(n_lanes),
            np.empty((n_labels, n_lanes)),
            np.zeros(n_lanes),
        )


# Rows are named by matrix and number: a view of a row would count its references at every step. Four at a time: the
# row that they are added to is read and written once.
@njit(nogil=True, cache=True, fastmath=REORDER)
def _add(active, rows, begin, end, source, out, place):
    """Add rows[begin:end] of source to a row of out."""
    fours = end - (end - begin) % 4
    for i in range(begin, fours, 4):
        one, two, three, four = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        for b in range(active):
            out[place, b] += (source[one, b] + source[two, b]) + (source[three, b] + source[four, b])
    for i in range(fours, end):
        row = rows[i]
        for b in range(active):
            out[place, b] += source[row, b]


@njit(nogil=True, cache=True, fastmath=REORDER)
def _add_arcs(active, arcs, begin, end, transfer, rows, source, out, place):
    """Add E(arc) times the row of source that each of arcs[begin:end] has to a row of out."""
    fours = end - (end - begin) % 4
    for i in range(begin, fours, 4):
        one, two, three, four = arcs[i], arcs[i + 1], arcs[i + 2], arcs[i + 3]
        first, second, third, fourth = transfer[one], transfer[two], transfer[three], transfer[four]
        one, two, three, four = rows[one], rows[two], rows[three], rows[four]
        for b in range(active):
            left = first * source[one, b] + second * source[two, b]
            right = third * source[three, b] + fourth * source[four, b]
            out[place, b] += left + right
    for i in range(fours, end):
        step, row = transfer[arcs[i]], rows[arcs[i]]
        for b in range(active):
            out[place, b] += step * source[row, b]


@njit(nogil=True, cache=True, fastmath=REORDER)
def _fill_panel(active, arcs, panel):
    """Fill totals and the masses of covered arcs, given those of states."""
    n_states, n_parents = len(arcs.fail), len(arcs.parents)
    n_sums = len(arcs.sums.begin) - 1
    for i in range(n_sums):
        # Totals of longer states first: those of shorter ones are made of them.
        place = n_parents - 1 - i if i < n_parents else i
        for b in range(active):
            panel[n_states + place, b] = 0.0
        begin, end = arcs.sums.begin[place], arcs.sums.begin[place + 1]
        _add(active, arcs.sums.items, begin, end, panel, panel, n_states + place)


@njit(nogil=True, cache=True, fastmath=REORDER)
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


@njit(nogil=True, cache=True, fastmath=REORDER)
def _advance(active, arcs, transfer, factors, before, now, scales):
    """Fill the masses of states at t, in the panel ``now``, from the panel before."""
    for b in range(active):
        scales[b] = 0.0
    into = arcs.into
    for s in range(len(arcs.fail)):
        label = arcs.last[s]
        for b in range(active):
            now[s, b] = 0.0
        _add_arcs(active, into.items, into.begin[s], into.begin[s + 1], transfer, arcs.mass, before, now, s)
        for b in range(active):
            now[s, b] *= factors[label, b]
            scales[b] += now[s, b]


@njit(nogil=True, cache=True, fastmath=REORDER)
def _retreat(active, arcs, transfer, ahead, shared, beta):
    """Fill beta_{t-1} from h_t."""
    for q in range(len(arcs.fail)):
        shorter = arcs.fail[q]
        out = shared if arcs.is_parent[q] else beta
        for b in range(active):
            out[q, b] = 0.0 if shorter < 0 else shared[shorter, b]
        begin, end = arcs.ahead.begin[q], arcs.ahead.begin[q + 1]
        _add_arcs(active, arcs.ahead.items, begin, end, transfer, arcs.target, ahead, out, q)
        if arcs.is_parent[q]:
            for b in range(active):
                beta[q, b] = shared[q, b]
            begin, end = arcs.own.begin[q], arcs.own.begin[q + 1]
            _add_arcs(active, arcs.own.items, begin, end, transfer, arcs.target, ahead, beta, q)


@njit(nogil=True, cache=True)
def _active(t, lengths):
    """Return how many lanes are longer than t."""
    n_lanes = len(lengths)
    while n_lanes and lengths[n_lanes - 1] <= t:
        n_lanes -= 1
    return n_lanes


@njit(nogil=True, cache=True, fastmath=REORDER)
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


@njit(nogil=True, cache=True, fastmath=REORDER)
def _advance_along(active, t, starts, d_node, arcs, steps, factors, panels, d_panels, i):
    """Fill da_t and its panel; ``steps`` are E and dE."""
    into, transfer, slopes = arcs.into, steps[0], steps[1]
    before, d_before, mass, out = panels[i], d_panels[i], panels[i + 1], d_panels[i + 1]
    for s in range(len(arcs.fail)):
        label = arcs.last[s]
        for b in range(active):
            out[s, b] = 0.0
        _add_arcs(active, into.items, into.begin[s], into.begin[s + 1], transfer, arcs.mass, d_before, out, s)
        _add_arcs(active, into.items, into.begin[s], into.begin[s + 1], slopes, arcs.mass, before, out, s)
        for b in range(active):
            out[s, b] = out[s, b] * factors[i + 1, label, b] + mass[s, b] * d_node[starts[b] + t, label]
    _fill_panel(active, arcs, out)


@njit(nogil=True, cache=True, fastmath=REORDER)
def _look_back(active, t, i, starts, arcs, panels, betas, means, posterior, largest):
    """Fill the posterior (L, lanes) of the labels at t, or its derivative, and the largest beta of each lane."""
    for b in range(active):
        largest[b] = 0.0
        for y in range(len(posterior)):
            posterior[y, b] = 0.0
    for s in range(len(arcs.fail)):
        label = arcs.last[s]
        for b in range(active):
            largest[b] = max(largest[b], betas[0, s, b])
        if len(panels) == 1:
            for b in range(active):
                posterior[label, b] += panels[0, i, s, b] * betas[0, s, b]
        else:
            for b in range(active):
                change = betas[1, s, b] - means[b] * betas[0, s, b]
                posterior[label, b] += panels[1, i, s, b] * betas[0, s, b] + panels[0, i, s, b] * change


@njit(nogil=True, cache=True, fastmath=REORDER)
def _look_ahead(active, t, starts, d_node, arcs, factors, betas, aheads):
    """Fill h_t and its derivative."""
    for s in range(len(arcs.fail)):
        label = arcs.last[s]
        for b in range(active):
            aheads[0, s, b] = betas[0, s, b] * factors[label, b]
        if len(betas) > 1:
            for b in range(active):
                change = aheads[0, s, b] * d_node[starts[b] + t, label]
                aheads[1, s, b] = betas[1, s, b] * factors[label, b] + change


@njit(nogil=True, cache=True, fastmath=REORDER)
def _count(active, t, i, starts, weights, arcs, transfer, panels, aheads, means, counts, each):
    """Add the weighted posteriors of the arcs into position t, or derivatives, to counts (A,).

    ``each`` (N, A) is filled with those of every position, without weights, if it has rows.
    """
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
        if len(each):
            for b in range(active):
                each[starts[b] + t, arc] = transfer[0, arc] * panels[0, i, mass, b] * aheads[0, target, b]


@njit(nogil=True, cache=True)
def _keep(part, kept, kept_scales, panels, scales):
    """Keep the masses of states with which a segment begins."""
    for b in range(scales.shape[1]):
        kept_scales[part, b] = scales[0, b]
        for kind in range(len(kept)):
            for s in range(kept.shape[2]):
                kept[kind, part, s, b] = panels[kind, 0, s, b]


@njit(nogil=True, cache=True)
def _change_segment(back, part, segment, kept, kept_scales, panels, scales):
    """Begin a segment with what was kept of it, or with the end of the one before, which is kept."""
    for b in range(scales.shape[1]):
        scales[0, b] = kept_scales[part, b] if back else scales[segment, b]
        for kind in range(len(kept)):
            for s in range(kept.shape[2]):
                panels[kind, 0, s, b] = kept[kind, part, s, b] if back else panels[kind, segment, s, b]
    _keep(part, kept, kept_scales, panels, scales)


@njit(nogil=True, cache=True, fastmath=REORDER)
def run_lanes(starts, lengths, weights, arcs, node, d_node, steps, shift, segment, room, results, counts, each):
    """Fill the ``results`` of some sequences and add the weighted posteriors of arcs to counts (A,).

    starts and lengths (lanes,) are those of the sequences, the longest first. steps (1, A) are E, results are log Z
    (lanes,), flags of trouble (lanes,) and marginals (N, L). With steps (2, A), E and dE, and d_node (N, L), marginals
    and counts are derivatives, and the expected score of the direction stands in the place of log Z. ``segment`` is
    for how many positions panels are kept, ``room`` a :class:`Room`. Where a lane is troubled, sums over lanes are not
    to be used.
    """
    log_sums, troubled, marginals = results
    kept, kept_scales, panels, scales, factors, aheads, shared, betas, more, tops, posterior, means = room
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
            _advance(active, arcs, steps[0], factors[i + 1], panels[0, i], panels[0, i + 1], scales[i + 1])
            _fill_panel(active, arcs, panels[0, i + 1])
            if kinds > 1:
                _advance_along(active, t, starts, d_node, arcs, steps, factors, panels[0], panels[1], i)
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
            _look_back(active, t, i + 1, starts, arcs, panels, betas, means, posterior, tops)
            for b in range(active):
                troubled[b] = troubled[b] or not tops[b] < MOST_FUTURE
                for y in range(n_labels):
                    marginals[starts[b] + t, y] = posterior[y, b]
            if t < begin:
                continue
            _look_ahead(active, t, starts, d_node, arcs, factors[i + 1], betas, aheads)
            _count(active, t, i, starts, weights, arcs, steps, panels, aheads, means, counts, each)
            _retreat(active, arcs, steps[0], aheads[0], shared, betas[0])
            if kinds > 1:
                _retreat(active, arcs, steps[0], aheads[1], shared, betas[1])
                _retreat(active, arcs, steps[1], aheads[0], shared, more)
                for s in range(n_states):
                    for b in range(active):
                        betas[1, s, b] += more[s, b]
    if kinds > 1:
        for b in range(n_lanes):
            log_sums[b] = means[b]
