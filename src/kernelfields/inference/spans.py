"""Probabilities of spans: that positions start .. stop - 1 are exactly one entity, run or segment of a type.

With the rules of data/spans.py for which neighbours belong to one span,

    p(span)  =  p(no goes_on into start, goes_on at every step inside, no goes_on into stop)

A chain whose neighbours meet is a Markov chain given its inputs, so that all spans follow from the marginals of
neighbours: what has begun at ``start`` with type k and still goes on at t is a vector over labels, moved on step by
step, and dropped when its mass is below what is asked for. Segments have their own marginals. Every other family has
sets of labels by position: what has begun and goes on up to t is a union of at most two of them (the first label joins
or not), a span of four (the last opens or not, too), each one log partition of the family given these labels. With

    run(start, t, k)  =  p(a span of type k begins at start and goes on at least to t - 1)
    p(span)           =  run(start, stop, k) - run(start, stop + 1, k)

runs(start, start + 1, k) follow from marginals of neighbours, and are longer by one position at a time until their
probability is below what is asked for, as that of all longer ones is.

Arrays: starts, stops, types, probabilities (E,), positions packed. Cost: O(N L^2) and O(L^2) a step of each span for
chains; O(N D L) for segments; else a pass of inference over its item for each step of each run. Runs of at least p that
hold a position exclude each other, so that there are at most 1 / p of them.
Raises ValueError where inference is approximate.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from kernelfields.data.spans import SpanRules
from kernelfields.inference.answers import Answers
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.choice import refuse_approximate
from kernelfields.inference.family import LabelFamily, Member
from kernelfields.inference.graphs import GraphFamily
from kernelfields.inference.potentials import EDGE
from kernelfields.inference.segments.family import SegmentFamily, SegmentMember

# Marginals of neighbours, and potentials of items that are inferred given different labels, that are held at once.
_PAIR_VALUES = 2**22


class Spans(NamedTuple):
    """Spans of packed positions, (E,) each, in the order of their starts."""

    starts: np.ndarray
    stops: np.ndarray
    types: np.ndarray
    probabilities: np.ndarray


def likely_spans(answers: Answers, rules: SpanRules, least: float) -> Spans:
    """Return the spans with a probability of at least ``least``, a positive number."""
    refuse_approximate(answers.family, "the probability of a span")
    family = answers.family
    if isinstance(family, SegmentFamily):
        found = _segments(answers, rules, least)
    else:
        exact = _select_spans if isinstance(family, ChainFamily) else partial(_runs, answers)
        parts = [exact(chains, rules, least=least) for chains in _blocks(answers)]
        found = Spans(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    order = np.lexsort((found.types, found.stops, found.starts))
    order = order[found.probabilities[order] >= least]
    return Spans(*(column[order] for column in found))


def span_probabilities(
    answers: Answers, rules: SpanRules, starts: np.ndarray, stops: np.ndarray, types: np.ndarray
) -> np.ndarray:
    """Return the probabilities of some spans of packed positions, (E,)."""
    refuse_approximate(answers.family, "the probability of a span")
    family = answers.family
    if isinstance(family, SegmentFamily):
        return _segment_chances(answers, rules, starts, stops, types)
    if not isinstance(family, ChainFamily):
        return conditional_probabilities(answers, rules, starts, stops, types)
    found = np.zeros(len(starts))
    for chains in _blocks(answers):
        own = np.flatnonzero((starts >= chains.first) & (starts < chains.first + len(chains.node)))
        asked = _select_spans(chains, rules, (starts[own], stops[own], types[own]))
        found[own] = asked.probabilities
    return found


def boundary_probabilities(answers: Answers, rules: SpanRules) -> np.ndarray:
    """Return the probability that a span begins at each position, (N,)."""
    refuse_approximate(answers.family, "the probability of a boundary")
    if isinstance(answers.family, SegmentFamily):
        begun = answers.member.marginals(EDGE).sum(axis=1)
        starts = answers.family.offsets[:-1]
        begun[starts] = answers.marginals[starts]
        return begun[:, rules.types >= 0].sum(axis=1)
    return np.concatenate([_begin_probabilities(chains, rules).sum(axis=1) for chains in _blocks(answers)])


# ---- sequences by the marginals of neighbours


class _Chains(NamedTuple):
    """Some whole sequences: their first packed position, marginals (n, L), of steps (n, L, L), and their ends."""

    first: int
    node: np.ndarray
    pair: np.ndarray
    begins: np.ndarray
    last: np.ndarray


def _blocks(answers: Answers) -> Iterator[_Chains]:
    """Yield blocks of sequences with marginals of neighbours of limited memory."""
    family, offsets = answers.family, answers.family.offsets
    rows = max(1, _PAIR_VALUES // family.n_labels**2)
    begin = 0
    while begin < family.n_items:
        end = max(begin + 1, int(np.searchsorted(offsets, offsets[begin] + rows, side="right")) - 1)
        part, member = family, answers.member if end - begin == family.n_items else None
        if member is None:
            part = family.part(begin, end)
            member = part.distribution(family.arrangement.cut(answers.potentials, begin, end), workers=answers.workers)
        own = offsets[begin : end + 1] - offsets[begin]
        is_begin, is_last = np.zeros((2, int(own[-1])), dtype=bool)
        is_begin[own[:-1]] = is_last[own[1:] - 1] = True
        yield _Chains(int(offsets[begin]), member.marginals(), _pairs(part, member), is_begin, is_last)
        begin = end


def _pairs(family: LabelFamily, member: Member) -> np.ndarray:
    """Return the joint marginals of each label and the previous label, (n, L, L), undefined at starts."""
    if isinstance(family, ChainFamily):
        return member.marginals(EDGE)
    first, second = family.clique_members(EDGE).T
    inner = second == first + 1  # others close rings
    pairs = np.zeros((family.n_positions, family.n_labels, family.n_labels))
    pairs[second[inner]] = member.marginals(EDGE)[inner]
    return pairs


def _begin_probabilities(chains: _Chains, rules: SpanRules) -> np.ndarray:
    """Return p(y_t = b, a span begins at t), (n, L)."""
    begun = np.einsum("tab,ab->tb", chains.pair, ~rules.goes_on)
    begun[chains.begins] = chains.node[chains.begins]
    return begun * (rules.types >= 0)


def _select_spans(
    chains: _Chains,
    rules: SpanRules,
    asked: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    least: float = 0.0,
) -> Spans:
    """Return the requested spans in their order, or all with a probability of at least ``least``."""
    goes_on, begun = rules.goes_on, _begin_probabilities(chains, rules)
    ends = np.ones_like(chains.node)
    ends[:-1] = _share(np.einsum("tab,ab->ta", chains.pair[1:], ~goes_on), chains.node[:-1])
    ends[chains.last] = 1.0
    if asked is None:
        of_type = (rules.types == np.arange(rules.types.max(initial=-1) + 1)[:, None]).astype(np.float64)
        at, types = np.nonzero(begun @ of_type.T >= least)
        number, stops = np.arange(len(at)), None
    else:
        at, types = asked[0] - chains.first, asked[2]
        number, stops = np.arange(len(at)), asked[1] - chains.first
    starts, mass = at.copy(), begun[at] * (rules.types == types[:, None])
    kept: list[tuple[np.ndarray, ...]] = [(number[:0], starts[:0], starts[:0], types[:0], np.empty(0))]
    while len(at):
        chances = np.einsum("sl,sl->s", mass, ends[at])
        done = chances >= least if stops is None else stops[number] == at + 1
        kept.append((number[done], starts[done], at[done] + 1, types[done], chances[done]))
        on = ~chains.last[at] & (np.True_ if stops is None else ~done)
        number, starts, at, types, mass = (column[on] for column in (number, starts, at, types, mass))
        moved = np.einsum("sa,sab->sb", _share(mass, chains.node[at]), chains.pair[at + 1] * goes_on)
        at = at + 1
        on = moved.sum(axis=1) >= least if stops is None else np.ones(len(at), dtype=bool)
        number, starts, at, types, mass = (column[on] for column in (number, starts, at, types, moved))
    number, starts, ended, types, chances = (np.concatenate(column) for column in zip(*kept, strict=True))
    order = np.argsort(number, kind="stable")
    chances = np.clip(chances, 0.0, 1.0)
    return Spans(*(column[order] for column in (starts + chains.first, ended + chains.first, types, chances)))


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return part / whole, zero for a zero whole; the inverse of a probability may overflow."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0.0)


# ---- segments


def _segment_chances(
    answers: Answers, rules: SpanRules, starts: np.ndarray, stops: np.ndarray, types: np.ndarray
) -> np.ndarray:
    """Return the probabilities of segments; each label is a type."""
    member = answers.member
    assert isinstance(member, SegmentMember)
    label_of = np.full(rules.types.max(initial=-1) + 1, -1)
    label_of[rules.types[rules.types >= 0]] = np.flatnonzero(rules.types >= 0)
    return np.exp(np.minimum(member.segment_log_probabilities(starts, stops, label_of[types]), 0.0))


def _segments(answers: Answers, rules: SpanRules, least: float) -> Spans:
    family = answers.family
    assert isinstance(family, SegmentFamily)
    ends = np.repeat(family.offsets[1:], np.diff(family.offsets))
    n_types, every = rules.types.max(initial=-1) + 1, np.arange(family.n_positions)
    parts = [(every[:0], every[:0], every[:0], np.empty(0))]
    for duration in range(1, family.max_duration + 1):
        starts = np.repeat(every[every + duration <= ends], n_types)
        types = np.tile(np.arange(n_types), len(starts) // max(n_types, 1))
        chances = _segment_chances(answers, rules, starts, starts + duration, types)
        kept = chances >= least
        parts.append((starts[kept], starts[kept] + duration, types[kept], chances[kept]))
    return Spans(*(np.concatenate(column) for column in zip(*parts, strict=True)))


# ---- every family


def _runs(answers: Answers, chains: _Chains, rules: SpanRules, least: float) -> Spans:
    """Return all spans of some sequences with a probability of at least ``least``."""
    of_type = (rules.types == np.arange(rules.types.max(initial=-1) + 1)[:, None]).astype(np.float64)
    begun = _begin_probabilities(chains, rules) @ of_type.T
    # Positions count from the first of these sequences.
    starts, types = np.nonzero(begun >= least)
    stops, mass = starts + 1, begun[starts, types]
    kept: list[tuple[np.ndarray, ...]] = [(starts[:0], starts[:0], types[:0], mass[:0])]
    while len(starts):
        longer, inner = np.zeros(len(starts)), np.flatnonzero(~chains.last[stops - 1])
        further = chains.first + starts[inner], chains.first + stops[inner] + 1, types[inner]
        longer[inner] = _set_probabilities(answers, rules, *further, ended=False)
        chances = np.clip(mass - longer, 0.0, 1.0)
        kept.append((starts + chains.first, stops + chains.first, types, chances))
        on = longer >= least
        starts, stops, types, mass = starts[on], stops[on] + 1, types[on], longer[on]
    return Spans(*(np.concatenate(column) for column in zip(*kept, strict=True)))


def conditional_probabilities(
    answers: Answers, rules: SpanRules, starts: np.ndarray, stops: np.ndarray, types: np.ndarray
) -> np.ndarray:
    """Return the probabilities of some spans from log partitions given sets of labels."""
    return np.clip(_set_probabilities(answers, rules, starts, stops, types, ended=True), 0.0, 1.0)


def _set_probabilities(
    answers: Answers, rules: SpanRules, starts: np.ndarray, stops: np.ndarray, types: np.ndarray, *, ended: bool
) -> np.ndarray:
    """Return the probabilities of spans, or of runs that may continue, from probabilities of sets of labels."""
    whole = answers.family
    assert isinstance(whole, GraphFamily)
    offsets, untied = whole.offsets, sum(group.size for group in whole.groups if not group.tied)
    items, found = np.searchsorted(offsets, starts, side="right") - 1, np.zeros(len(starts))
    for joins, opens in product((True, False), (True, False) if ended else (None,)):
        of_type = rules.types == types[:, None]
        first, last = of_type & (rules.joins == joins), of_type & (opens is None or rules.opens == opens)
        several = (first & rules.opens).any(axis=1) & (last & rules.joins).any(axis=1)
        possible = np.where(stops - starts == 1, (first & last).any(axis=1), several)
        for own in _batch_spans(np.flatnonzero(possible), np.diff(offsets)[items] * (untied + whole.n_labels**2)):
            family, potentials = whole.repeat_graphs(items[own], answers.potentials)
            allowed = np.ones((family.n_positions, family.n_labels), dtype=bool)
            moved, bounds = family.offsets[:-1] - offsets[items[own]], set(family.offsets.tolist())
            for span, start, stop in zip(own.tolist(), starts[own] + moved, stops[own] + moved, strict=True):
                _restrict(allowed, rules, of_type[span], int(start), int(stop), joins, opens, bounds)
            with np.errstate(divide="ignore"):
                totals = family.log_partition_given(np.log(allowed), potentials, answers.workers)
            found[own] += np.exp(totals - answers.log_partition[items[own]])
    return found


def _batch_spans(chosen: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    """Split the numbers of some spans into batches for inference, by the sizes of their items."""
    runs = np.cumsum(sizes[chosen]) // _PAIR_VALUES
    return np.split(chosen, np.flatnonzero(np.diff(runs)) + 1) if len(chosen) else []


def _restrict(
    allowed: np.ndarray,
    rules: SpanRules,
    of_type: np.ndarray,
    start: int,
    stop: int,
    joins: bool,
    opens: bool | None,
    bounds: set[int],
) -> None:
    """Restrict the labels of a span, in place: ``joins`` is a property of the first one, ``opens`` of the last.

    Where ``opens`` is None, the last label is any, and so is what follows.
    """
    allowed[start:stop] &= of_type
    allowed[start] &= rules.joins == joins
    allowed[start + 1 : stop] &= rules.joins
    allowed[start : stop - 1] &= rules.opens
    if joins and start not in bounds:
        allowed[start - 1] &= ~(of_type & rules.opens)
    if opens is None:
        return
    allowed[stop - 1] &= rules.opens == opens
    if opens and stop not in bounds:
        allowed[stop] &= ~(of_type & rules.joins)
