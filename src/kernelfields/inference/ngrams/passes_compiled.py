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
    aheads: np.ndarray  # (kinds, positions, S, lanes), h
    shared: np.ndarray  # (S, lanes)
    betas: np.ndarray  # (kinds, S, lanes)
    more: np.ndarray  # (S, lanes)
    tops: np.ndarray  # (lanes,)
    posterior: np.ndarray  # (L, lanes)
    means: np.ndarray  # (lanes,), E x
    n_active: np.ndarray  # (positions,)

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
            np.empty((kinds, positions, n_states, n_lanes)),
            np.empty((n_states, n_lanes)),
            np.zeros((kinds, n_states, n_lanes)),
            np.empty((n_states, n_lanes)),
            np.empty(n_lanes),
            np.empty((n_labels, n_lanes)),
            np.zeros(n_lanes),
            np.empty(positions, dtype=np.int64),
        )


@njit(nogil=True, cache=True, fastmath=REORDER)
def _add(active, rows, begin, end, source, out):
    """Add rows[begin:end] of source to out."""
    for i in range(begin, end):
        row = source[rows[i]]
        for b in range(active):
            out[b] += row[b]


@njit(nogil=True, cache=True, fastmath=REORDER)
def _add_arcs(active, arcs, begin, end, transfer, rows, source, out):
    """Add E(arc) times the row of source that each of arcs[begin:end] has to out."""
    for i in range(begin, end):
        step, row = transfer[arcs[i]], source[rows[arcs[i]]]
        for b in range(active):
            out[b] += step * row[b]


@njit(nogil=True, cache=True, fastmath=REORDER)
def _fill_panel(active, arcs, panel):
    """Fill totals and the masses of covered arcs, given those of states."""
    n_states, n_parents = len(arcs.fail), len(arcs.parents)
    n_sums = len(arcs.sums.begin) - 1
    for i in range(n_sums):
        # Totals of longer states first: those of shorter ones are made of them.
        place = n_parents - 1 - i if i < n_parents else i
        row = panel[n_states + place]
        for b in range(active):
            row[b] = 0.0
        _add(active, arcs.sums.items, arcs.sums.begin[place], arcs.sums.begin[place + 1], panel, row)


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
        row, factor = now[s], factors[arcs.last[s]]
        for b in range(active):
            row[b] = 0.0
        _add_arcs(active, into.items, into.begin[s], into.begin[s + 1], transfer, arcs.mass, before, row)
        for b in range(active):
            row[b] *= factor[b]
            scales[b] += row[b]


@njit(nogil=True, cache=True, fastmath=REORDER)
def _retreat(active, arcs, transfer, ahead, shared, beta):
    """Fill beta_{t-1} from h_t."""
    for q in range(len(arcs.fail)):
        shorter = arcs.fail[q]
        row = shared[q] if arcs.is_parent[q] else beta[q]
        if shorter < 0:
            for b in range(active):
                row[b] = 0.0
        else:
            above = shared[shorter]
            for b in range(active):
                row[b] = above[b]
        begin, end = arcs.ahead.begin[q], arcs.ahead.begin[q + 1]
        _add_arcs(active, arcs.ahead.items, begin, end, transfer, arcs.target, ahead, row)
        if arcs.is_parent[q]:
            out = beta[q]
            for b in range(active):
                out[b] = row[b]
            begin, end = arcs.own.begin[q], arcs.own.begin[q + 1]
            _add_arcs(active, arcs.own.items, begin, end, transfer, arcs.target, ahead, out)


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
    into = arcs.into
    for s in range(len(arcs.fail)):
        label, row, mass = arcs.last[s], d_panels[i + 1, s], panels[i + 1, s]
        factor = factors[i + 1, label]
        for b in range(active):
            row[b] = 0.0
        _add_arcs(active, into.items, into.begin[s], into.begin[s + 1], steps[0], arcs.mass, d_panels[i], row)
        _add_arcs(active, into.items, into.begin[s], into.begin[s + 1], steps[1], arcs.mass, panels[i], row)
        for b in range(active):
            row[b] = row[b] * factor[b] + mass[b] * d_node[starts[b] + t, label]
    _fill_panel(active, arcs, d_panels[i + 1])


@njit(nogil=True, cache=True, fastmath=REORDER)
def _look_back(active, t, i, starts, arcs, panels, betas, means, posterior, largest):
    """Fill the posterior (L, lanes) of the labels at t, or its derivative, and the largest beta of each lane."""
    for b in range(active):
        largest[b] = 0.0
        for y in range(len(posterior)):
            posterior[y, b] = 0.0
    for s in range(len(arcs.fail)):
        mass, future, share = panels[0, i, s], betas[0, s], posterior[arcs.last[s]]
        for b in range(active):
            largest[b] = max(largest[b], future[b])
        if len(panels) == 1:
            for b in range(active):
                share[b] += mass[b] * future[b]
        else:
            d_mass, d_future = panels[1, i, s], betas[1, s]
            for b in range(active):
                share[b] += d_mass[b] * future[b] + mass[b] * (d_future[b] - means[b] * future[b])


@njit(nogil=True, cache=True, fastmath=REORDER)
def _look_ahead(active, t, starts, d_node, arcs, factors, betas, aheads, i):
    """Fill h_t and its derivative."""
    for s in range(len(arcs.fail)):
        label = arcs.last[s]
        out, future, factor = aheads[0, i, s], betas[0, s], factors[label]
        for b in range(active):
            out[b] = future[b] * factor[b]
        if len(betas) > 1:
            d_out, d_future = aheads[1, i, s], betas[1, s]
            for b in range(active):
                d_out[b] = d_future[b] * factor[b] + out[b] * d_node[starts[b] + t, label]


@njit(nogil=True, cache=True, fastmath=REORDER)
def _count(first, steps, starts, lengths, weights, arcs, transfer, panels, aheads, means, n_active, counts, each):
    """Add the weighted posteriors of arcs at positions first .. first + steps - 1, or derivatives, to counts (A,).

    ``each`` (N, A) is filled with those of every position, without weights, if it has rows.
    """
    for i in range(steps):
        n_active[i] = _active(first + i, lengths)
    for arc in range(transfer.shape[1]):
        mass, target, total = arcs.mass[arc], arcs.target[arc], 0.0
        step, slope = transfer[0, arc], 0.0
        for i in range(steps):
            before, after = panels[0, i, mass], aheads[0, i, target]
            if len(panels) == 1:
                for b in range(n_active[i]):
                    total += weights[b] * before[b] * after[b]
            else:
                d_before, d_after = panels[1, i, mass], aheads[1, i, target]
                for b in range(n_active[i]):
                    total += weights[b] * (d_before[b] * after[b] + before[b] * (d_after[b] - means[b] * after[b]))
                    slope += weights[b] * before[b] * after[b]
            if len(each):
                for b in range(n_active[i]):
                    each[starts[b] + first + i, arc] = step * before[b] * after[b]
        counts[arc] += total * step
        if len(panels) > 1:
            counts[arc] += slope * transfer[1, arc]


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
    kept, kept_scales, panels, scales, factors, aheads, shared, betas, more, tops, posterior, means, n_active = room
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
            _look_ahead(active, t, starts, d_node, arcs, factors[i + 1], betas, aheads, i)
            _retreat(active, arcs, steps[0], aheads[0, i], shared, betas[0])
            if kinds > 1:
                _retreat(active, arcs, steps[0], aheads[1, i], shared, betas[1])
                _retreat(active, arcs, steps[1], aheads[0, i], shared, more)
                for s in range(n_states):
                    row, added = betas[1, s], more[s]
                    for b in range(active):
                        row[b] += added[b]
        _count(begin, end - begin, starts, lengths, weights, arcs, steps, panels, aheads, means, n_active, counts, each)
    if kinds > 1:
        for b in range(n_lanes):
            log_sums[b] = means[b]
