"""Passes over the cliques of junction trees, compiled; plan.py has the layout of their tables.

Clique i with label a of its own node and entry j of its separator, children c whose separators are parts of i:

    t_i(a, j)   = u(a) + factors of i + sum_c m_c(part)
    m_i(j)      = log sum_a exp t_i(a, j),   q_i(a | j) = exp(t_i(a, j) - m_i(j))         upward
    S_c         = marginal of q_i S_i on c's separator,   S = 1 at the end of a component    downward

so p(y) is the product of the q_i, and q_i S_i are the beliefs. A direction has, with r_i its own table (u and
factors replaced by their derivatives, messages by E_c),

    E_i(j)      = sum_a q_i(a | j) r_i(a, j)                                               upward
    dB_i(a, j)  = q_i(a | j) ((r_i(a, j) - E_i(j)) S_i(j) + dS_i(j))                       downward
    dS_c        = marginal of dB_i on c's separator,      dS = 0 at the end of a component

The ways up:

    condition_scaled   multiplies numbers between 0 and 1: exponentials of potentials are made before, once per
                       table, so tied tables cost next to none
    condition          adds logarithms, one exponential per entry of a clique's table; cannot fail
    best_labellings    has the maximum over a in place of the sum; the lowest label wins among equals

The k best labellings follow from the maxima t_i, m_i. Given the labels above clique i, another label a there, and the
best labels below it, lose m_i(j) - t_i(a, j) against the best. A labelling departs from a better one at one clique and
is best below it, so that each is found once: the better one has the same labels above, and is best from i on.

``draw_labellings`` draws from q, last clique first. An entry of q(a | j) that underflows to zero is negligible
whatever happens above, as all that depends on j only; an entry of the message m(j) is not. So the scaled pass
gives up, by log Z = NaN, where m(j) gets too small for doubles and is not zero by structure, and the caller runs
the other one on that graph.

Arrays: node (N, L); tables, separators flat; factors all groups' tables, flat, ``item_offset`` the start of each
item's table among them; derivatives and sums are ``Derivatives`` and ``ItemSums`` of family.py. Cost O(entries
of all clique tables) for every pass. first, last: a run of graphs.
"""

from __future__ import annotations

import heapq

import numpy as np

from kernelfields.inference.sums_compiled import collect, shift
from kernelfields.numerics.compiled import njit

# A message is a sum of products of numbers up to one: above this all that counts in it are normal doubles.
TINY = 1e-280


@njit(nogil=True, cache=True)
def largest_table(layout, first, last):
    """Return the number of entries of the largest of some cliques' tables."""
    most = 1
    for i in range(first, last):
        most = max(most, layout.table_start[i + 1] - layout.table_start[i])
    return most


@njit(nogil=True, cache=True)
def _add_part(layout, pattern, part, start, table):
    """Add a part to a table, expanded by its pattern."""
    low = layout.low[layout.low_start[pattern] : layout.low_start[pattern + 1]]
    n_low = len(low)
    x = 0
    for h in range(layout.high_start[pattern], layout.high_start[pattern + 1]):
        base = start + layout.high[h]
        for k in range(n_low):
            table[x + k] += part[base + low[k]]
        x += n_low


@njit(nogil=True, cache=True)
def _multiply_part(layout, pattern, part, start, table):
    """Multiply a table by a part, expanded by its pattern."""
    low_start = layout.low_start[pattern]
    n_low = layout.low_start[pattern + 1] - low_start
    x = 0
    for h in range(layout.high_start[pattern], layout.high_start[pattern + 1]):
        base = start + layout.high[h]
        for k in range(n_low):
            table[x + k] *= part[base + layout.low[low_start + k]]
        x += n_low


@njit(nogil=True, cache=True)
def _sum_part(layout, pattern, table, weight, part, start):
    """Add weight times a table to a part, summed by its pattern."""
    low = layout.low[layout.low_start[pattern] : layout.low_start[pattern + 1]]
    n_low = len(low)
    x = 0
    for h in range(layout.high_start[pattern], layout.high_start[pattern + 1]):
        base = start + layout.high[h]
        for k in range(n_low):
            part[base + low[k]] += weight * table[x + k]
        x += n_low


@njit(nogil=True, cache=True)
def _read_part(layout, pattern, part, start, x):
    """Return the entry of a part for entry x of the clique's table."""
    low_start = layout.low_start[pattern]
    n_low = layout.low_start[pattern + 1] - low_start
    return part[start + layout.high[layout.high_start[pattern] + x // n_low] + layout.low[low_start + x % n_low]]


@njit(nogil=True, cache=True)
def assemble(i, layout, node, factors, item_offset, messages, table):
    """Fill clique i's table with its node, its factors and the messages of its children."""
    n_labels = layout.n_labels
    size = layout.separator_start[i + 1] - layout.separator_start[i]
    v = layout.order[i]
    for a in range(n_labels):
        table[a * size : (a + 1) * size] = node[v, a]
    for k in range(layout.item_start[i], layout.item_start[i + 1]):
        _add_part(layout, layout.item_pattern[k], factors, item_offset[k], table)
    for k in range(layout.child_start[i], layout.child_start[i + 1]):
        c = layout.children[k]
        _add_part(layout, layout.message_pattern[c], messages, layout.separator_start[c], table)


@njit(nogil=True, cache=True)
def _is_possible(i, layout, node, factors, item_offset, messages, x):
    """Whether entry x of clique i's table is positive, underflow aside."""
    size = layout.separator_start[i + 1] - layout.separator_start[i]
    if node[layout.order[i], x // size] == -np.inf:
        return False
    for k in range(layout.item_start[i], layout.item_start[i + 1]):
        if _read_part(layout, layout.item_pattern[k], factors, item_offset[k], x) == 0.0:
            return False
    for k in range(layout.child_start[i], layout.child_start[i + 1]):
        c = layout.children[k]
        if _read_part(layout, layout.message_pattern[c], messages, layout.separator_start[c], x) == 0.0:
            return False
    return True


@njit(nogil=True, cache=True)
def condition_scaled(
    first, last, offsets, layout, node, factors, item_offset, item_shift, tables, messages, log_partition
):
    """Fill tables with q and log_partition from factors: exponentials of potentials less their item's shift."""
    n_labels = layout.n_labels
    inverse = np.empty(largest_table(layout, offsets[first], offsets[last]) // n_labels)
    for graph in range(first, last):
        sums = np.zeros(2)
        fine = True
        for i in range(offsets[graph], offsets[graph + 1]):
            begin = layout.separator_start[i]
            size = layout.separator_start[i + 1] - begin
            table = tables[layout.table_start[i] : layout.table_start[i + 1]]
            v = layout.order[i]
            top = node[v].max()
            if top == -np.inf:
                fine = False
                break
            for a in range(n_labels):
                table[a * size : (a + 1) * size] = np.exp(node[v, a] - top)
            for k in range(layout.item_start[i], layout.item_start[i + 1]):
                _multiply_part(layout, layout.item_pattern[k], factors, item_offset[k], table)
                collect(item_shift[k], sums)
            for k in range(layout.child_start[i], layout.child_start[i + 1]):
                c = layout.children[k]
                _multiply_part(layout, layout.message_pattern[c], messages, layout.separator_start[c], table)
            message = messages[begin : begin + size]
            message[:] = 0.0
            for a in range(n_labels):
                for j in range(size):
                    message[j] += table[a * size + j]
            peak = 0.0
            for j in range(size):
                if message[j] > TINY:
                    inverse[j] = 1.0 / message[j]
                    peak = max(peak, message[j])
                else:
                    inverse[j] = message[j] = 0.0
                    for a in range(n_labels):
                        if _is_possible(i, layout, node, factors, item_offset, messages, a * size + j):
                            fine = False
            if peak == 0.0:
                fine = False
            if not fine:
                break
            for a in range(n_labels):
                for j in range(size):
                    table[a * size + j] *= inverse[j]
            for j in range(size):
                message[j] /= peak
                if 0.0 < message[j] < TINY:
                    fine = False
            collect(top, sums)
            collect(np.log(peak), sums)
        log_partition[graph] = sums.sum() if fine else np.nan


@njit(nogil=True, cache=True)
def condition(first, last, offsets, layout, node, factors, item_offset, tables, messages, log_partition):
    """Fill tables with q and log_partition; minus infinity for a graph without an allowed labelling."""
    n_labels = layout.n_labels
    peaks = np.empty(largest_table(layout, offsets[first], offsets[last]) // n_labels)
    for graph in range(first, last):
        sums = np.zeros(2)
        feasible = True
        for i in range(offsets[graph], offsets[graph + 1]):
            table = tables[layout.table_start[i] : layout.table_start[i + 1]]
            message = messages[layout.separator_start[i] : layout.separator_start[i + 1]]
            assemble(i, layout, node, factors, item_offset, messages, table)
            size = len(message)
            peak = peaks[:size]
            peak[:] = -np.inf
            for a in range(n_labels):
                row = table[a * size : (a + 1) * size]
                for j in range(size):
                    peak[j] = max(peak[j], row[j])
            for j in range(size):
                message[j] = 0.0
                if peak[j] == -np.inf:
                    peak[j] = 0.0
            for a in range(n_labels):
                row = table[a * size : (a + 1) * size]
                for j in range(size):
                    row[j] = np.exp(row[j] - peak[j])
                    message[j] += row[j]
            for j in range(size):
                total = message[j]
                # peak is free after this: it takes the factor that normalises
                if total > 0.0:
                    message[j] = np.log(total) + peak[j]
                    peak[j] = 1.0 / total
                else:
                    message[j] = -np.inf
            for a in range(n_labels):
                row = table[a * size : (a + 1) * size]
                for j in range(size):
                    row[j] *= peak[j]
            feasible = shift(message, sums)
            if not feasible:
                break
        log_partition[graph] = sums.sum() if feasible else -np.inf


@njit(nogil=True, cache=True)
def _separator_entry(i, layout, labels):
    entry = 0
    for k in range(layout.scope_start[i], layout.scope_start[i + 1]):
        entry = entry * layout.n_labels + labels[layout.scopes[k]]
    return entry


@njit(nogil=True, cache=True)
def _upward_maxima(graph, offsets, layout, node, factors, item_offset, scratch, messages, choices):
    """Fill messages with maxima and choices with their labels; return the best score of a graph."""
    sums = np.zeros(2)
    for i in range(offsets[graph], offsets[graph + 1]):
        begin, end = layout.separator_start[i], layout.separator_start[i + 1]
        message, choice = messages[begin:end], choices[begin:end]
        size = end - begin
        table = scratch[: layout.n_labels * size]
        assemble(i, layout, node, factors, item_offset, messages, table)
        message[:] = -np.inf
        choice[:] = 0
        for a in range(layout.n_labels):
            for j in range(size):
                if table[a * size + j] > message[j]:
                    message[j] = table[a * size + j]
                    choice[j] = a
        if not shift(message, sums):
            return -np.inf
    return sums.sum()


@njit(nogil=True, cache=True)
def _label_maxima(i, layout, node, factors, item_offset, messages, entry, maxima):
    """Fill maxima (L,) with the entries of clique i's table for each label of its node, given the other labels."""
    size = layout.separator_start[i + 1] - layout.separator_start[i]
    for a in range(layout.n_labels):
        x = a * size + entry
        maxima[a] = node[layout.order[i], a]
        for k in range(layout.item_start[i], layout.item_start[i + 1]):
            maxima[a] += _read_part(layout, layout.item_pattern[k], factors, item_offset[k], x)
        for k in range(layout.child_start[i], layout.child_start[i + 1]):
            c = layout.children[k]
            maxima[a] += _read_part(layout, layout.message_pattern[c], messages, layout.separator_start[c], x)


@njit(nogil=True, cache=True)
def best_labellings(first, last, offsets, layout, node, factors, item_offset, messages, choices, labels, scores):
    """Fill the k best labellings (k, N) of each graph and their scores (S, k), falling, -inf beyond the last.

    The lowest label wins among equals.
    """
    most = len(labels)
    scratch = np.empty(largest_table(layout, offsets[first], offsets[last]))
    maxima = np.empty(layout.n_labels)
    for graph in range(first, last):
        begin, end = offsets[graph], offsets[graph + 1]
        best = _upward_maxima(graph, offsets, layout, node, factors, item_offset, scratch, messages, choices)
        scores[graph] = -np.inf
        if best == -np.inf:
            continue
        # Candidates by loss and number, and of each the labelling, the clique and the label at which it departs.
        waiting, departures = [(0.0, 0)], [(0, end, 0)]
        least = [0.0]  # the k least losses, negative, so that the largest comes first
        rank = 0
        while rank < most and len(waiting) > 0:
            loss, number = heapq.heappop(waiting)
            origin, place, label = departures[number]
            scores[graph, rank] = best - loss
            for i in range(end - 1, begin - 1, -1):
                v = layout.order[i]
                if i > place:
                    labels[rank, v] = labels[origin, v]
                elif i == place:
                    labels[rank, v] = label
                else:
                    entry = layout.separator_start[i] + _separator_entry(i, layout, labels[rank])
                    labels[rank, v] = choices[entry]
            for i in range(place - 1, begin - 1 if rank + 1 < most else place - 1, -1):
                entry, chosen = _separator_entry(i, layout, labels[rank]), labels[rank, layout.order[i]]
                _label_maxima(i, layout, node, factors, item_offset, messages, entry, maxima)
                for a in range(layout.n_labels):
                    more = loss + (maxima[chosen] - maxima[a])
                    if a != chosen and more < np.inf and (len(least) < most or more < -least[0]):
                        heapq.heappush(waiting, (more, len(departures)))
                        departures.append((rank, i, a))
                        heapq.heappush(least, -more)
                        if len(least) > most:
                            heapq.heappop(least)
            rank += 1


@njit(nogil=True, cache=True)
def draw_labellings(first, last, offsets, layout, tables, uniforms, labels):
    """Fill labels (n, N) with samples, one uniform number per label."""
    n_labels = layout.n_labels
    for n in range(len(labels)):
        for i in range(offsets[last] - 1, offsets[first] - 1, -1):
            size = layout.separator_start[i + 1] - layout.separator_start[i]
            entry = layout.table_start[i] + _separator_entry(i, layout, labels[n])
            v = layout.order[i]
            left = uniforms[n, v]
            chosen = 0
            for a in range(n_labels):
                share = tables[entry + a * size]
                if share > 0.0:
                    chosen = a  # rounding may leave a little at the end: the last possible label takes it
                    left -= share
                    if left < 0.0:
                        break
            labels[n, v] = chosen


@njit(nogil=True, cache=True)
def _belief(i, layout, tables, separators, belief):
    """Return belief(a, j) = q(a | j) S(j)."""
    table = tables[layout.table_start[i] : layout.table_start[i + 1]]
    separator = separators[layout.separator_start[i] : layout.separator_start[i + 1]]
    size = len(separator)
    for a in range(layout.n_labels):
        for j in range(size):
            belief[a * size + j] = table[a * size + j] * separator[j]


@njit(nogil=True, cache=True)
def downward(first, last, offsets, layout, tables, separators, node_marginals):
    """Fill separators, initially zero, with S, and the marginals of nodes."""
    scratch = np.empty(largest_table(layout, offsets[first], offsets[last]))
    for i in range(offsets[last] - 1, offsets[first] - 1, -1):
        begin = layout.separator_start[i]
        size = layout.separator_start[i + 1] - begin
        if layout.parent[i] < 0:
            separators[begin] = 1.0
        belief = scratch[: layout.n_labels * size]
        _belief(i, layout, tables, separators, belief)
        v = layout.order[i]
        for a in range(layout.n_labels):
            node_marginals[v, a] = belief[a * size : (a + 1) * size].sum()
        for k in range(layout.child_start[i], layout.child_start[i + 1]):
            c = layout.children[k]
            _sum_part(layout, layout.message_pattern[c], belief, 1.0, separators, layout.separator_start[c])


@njit(nogil=True, cache=True)
def _deliver(i, layout, belief, weight, sums):
    """Sum a clique's table into the tables of its factors, as ``sums``, an ``ItemSums``, describes."""
    for k in range(layout.item_start[i], layout.item_start[i + 1]):
        if sums.start[k] >= 0:
            target = sums.by_group if sums.tied[k] else sums.by_factor
            _sum_part(layout, layout.item_pattern[k], belief, weight, target, sums.start[k])


@njit(nogil=True, cache=True)
def _is_wanted(i, layout, sums):
    """Whether a sum over some factor of clique i is requested."""
    wanted = False
    for k in range(layout.item_start[i], layout.item_start[i + 1]):
        wanted = wanted or sums.start[k] >= 0
    return wanted


@njit(nogil=True, cache=True)
def factor_sums(first, last, offsets, layout, tables, separators, weights, sums):
    """Add the marginals of factors, times the weights of their graphs, to ``sums``."""
    scratch = np.empty(largest_table(layout, offsets[first], offsets[last]))
    for graph in range(first, last):
        for i in range(offsets[graph], offsets[graph + 1]):
            if _is_wanted(i, layout, sums):
                belief = scratch[: layout.table_start[i + 1] - layout.table_start[i]]
                _belief(i, layout, tables, separators, belief)
                _deliver(i, layout, belief, weights[graph], sums)


@njit(nogil=True, cache=True)
def score_expectations(first, last, offsets, layout, d_node, d_factors, item_offset, tables, derivatives):
    """Fill tables of ``derivatives`` with r, and expected with E less its mean, which would grow with the graph."""
    responses, expected, centres = derivatives.tables, derivatives.expected, derivatives.centres
    for i in range(offsets[first], offsets[last]):
        begin, end = layout.table_start[i], layout.table_start[i + 1]
        table, response = tables[begin:end], responses[begin:end]
        assemble(i, layout, d_node, d_factors, item_offset, expected, response)
        mean = expected[layout.separator_start[i] : layout.separator_start[i + 1]]
        size = len(mean)
        mean[:] = 0.0
        for a in range(layout.n_labels):
            for j in range(size):
                mean[j] += table[a * size + j] * response[a * size + j]
        centres[i] = mean.mean()
        mean -= centres[i]


@njit(nogil=True, cache=True)
def belief_responses(first, last, offsets, layout, tables, separators, derivatives, weights, sums):
    """Replace r by dB; fill separators (initially zero) and node of ``derivatives``, and add to ``sums``."""
    responses, expected, centres, d_separators, d_marginals = derivatives
    for graph in range(first, last):
        weight = weights[graph]
        for i in range(offsets[graph + 1] - 1, offsets[graph] - 1, -1):
            begin, end = layout.table_start[i], layout.table_start[i + 1]
            table, response = tables[begin:end], responses[begin:end]
            begin, end = layout.separator_start[i], layout.separator_start[i + 1]
            size = end - begin
            mean, separator, moved = expected[begin:end], separators[begin:end], d_separators[begin:end]
            v, centre = layout.order[i], centres[i]
            for a in range(layout.n_labels):
                total = 0.0
                for j in range(size):
                    x = a * size + j
                    response[x] = table[x] * ((response[x] - centre - mean[j]) * separator[j] + moved[j])
                    total += response[x]
                d_marginals[v, a] = weight * total
            for k in range(layout.child_start[i], layout.child_start[i + 1]):
                c = layout.children[k]
                _sum_part(layout, layout.message_pattern[c], response, 1.0, d_separators, layout.separator_start[c])
            _deliver(i, layout, response, weight, sums)
