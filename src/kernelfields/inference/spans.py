"""Probabilities of spans: that positions start .. stop - 1 are one entity, run or segment of a type, as a whole.

With the rules of fields/spans.py for which neighbours belong to one span,

    p(span)  =  p(no goes_on into start, goes_on at every step inside, no goes_on into stop)

A chain whose neighbours meet is a Markov chain given its inputs, so that all spans follow from the marginals of
neighbours: what has begun at ``start`` with type k and still goes on at t is a vector over labels, moved on step by
step, and dropped when its mass is below what is asked for. Segments have their own marginals. For every other family
the event is a union of at most four sets of labels by position (the first label joins or not, the last opens or not),
each one log partition of the family given these labels; spans are then looked for in the best labellings.

Arrays: starts, stops, types, probabilities (E,), positions packed. Cost: O(N L^2) and O(L^2) a step of each span for
chains; O(N D L) for segments; else a pass of inference for each span of the item that has most of them.
Fails: ValueError where inference is approximate.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from kernelfields.fields.spans import SpanRules, spans_of
from kernelfields.inference.answers import Answers
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.choice import refuse_approximate
from kernelfields.inference.family import EDGE
from kernelfields.inference.segments.family import SegmentFamily, SegmentMember

#: How many best labellings are searched for spans where they cannot all be listed.
_SEARCHED = 32
# Marginals of neighbours that are held at once.
_PAIR_VALUES = 2**22


class Spans(NamedTuple):
    """Spans of packed positions, (E,) each, in the order of their starts."""

    starts: np.ndarray
    stops: np.ndarray
    types: np.ndarray
    probabilities: np.ndarray


def likely_spans(answers: Answers, rules: SpanRules, least: float) -> Spans:
    """Return the spans whose probability is at least ``least``, which is above zero."""
    refuse_approximate(answers.family, "the probability of a span")
    family = answers.family
    if isinstance(family, SegmentFamily):
        found = _segments(answers, rules, least)
    elif isinstance(family, ChainFamily):
        parts = [_from(chains, rules, least=least) for chains in _blocks(answers)]
        found = Spans(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    else:
        listed = _searched(answers, rules)
        found = Spans(*listed, span_probabilities(answers, rules, *listed))
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
        return given_probabilities(answers, rules, starts, stops, types)
    found = np.zeros(len(starts))
    for chains in _blocks(answers):
        own = np.flatnonzero((starts >= chains.first) & (starts < chains.first + len(chains.node)))
        asked = _from(chains, rules, (starts[own], stops[own], types[own]))
        found[own] = asked.probabilities
    return found


def boundary_probabilities(answers: Answers, rules: SpanRules) -> np.ndarray:
    """Return the probability that a span begins at each position, (N,); of chains and segments."""
    refuse_approximate(answers.family, "the probability of a boundary")
    if isinstance(answers.family, SegmentFamily):
        begun = answers.member.marginals(EDGE).sum(axis=1)
        starts = answers.family.offsets[:-1]
        begun[starts] = answers.marginals[starts]
        return begun[:, rules.types >= 0].sum(axis=1)
    if not isinstance(answers.family, ChainFamily):
        raise ValueError(
            "boundaries are read off the marginals of neighbours, and in this field others meet as well: ask "
            "predict_entities"
        )
    return np.concatenate([_begun(chains, rules).sum(axis=1) for chains in _blocks(answers)])


# ---- chains whose neighbours meet


class _Chains(NamedTuple):
    """Some whole sequences: their first packed position, marginals (n, L), of steps (n, L, L), and where they end."""

    first: int
    node: np.ndarray
    pair: np.ndarray
    begins: np.ndarray
    last: np.ndarray


def _blocks(answers: Answers) -> Iterator[_Chains]:
    """Yield blocks of sequences whose marginals of neighbours fit into little memory."""
    family, offsets = answers.family, answers.family.offsets
    rows = max(1, _PAIR_VALUES // family.n_labels**2)
    begin = 0
    while begin < family.n_items:
        end = max(begin + 1, int(np.searchsorted(offsets, offsets[begin] + rows, side="right")) - 1)
        member = family.part(begin, end).at(family.cut(answers.potentials, begin, end), workers=answers.workers)
        own = offsets[begin : end + 1] - offsets[begin]
        is_begin, is_last = np.zeros((2, int(own[-1])), dtype=bool)
        is_begin[own[:-1]] = is_last[own[1:] - 1] = True
        yield _Chains(int(offsets[begin]), member.marginals(), member.marginals(EDGE), is_begin, is_last)
        begin = end


def _begun(chains: _Chains, rules: SpanRules) -> np.ndarray:
    """Return p(y_t = b, a span begins at t), (n, L)."""
    begun = np.einsum("tab,ab->tb", chains.pair, ~rules.goes_on)
    begun[chains.begins] = chains.node[chains.begins]
    return begun * (rules.types >= 0)


def _from(
    chains: _Chains,
    rules: SpanRules,
    asked: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    least: float = 0.0,
) -> Spans:
    """Return the spans asked for, in their order, or all whose probability is at least ``least``."""
    goes_on, begun = rules.goes_on, _begun(chains, rules)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(chains.node > 0.0, 1.0 / chains.node, 0.0)
    ends = np.ones_like(chains.node)
    ends[:-1] = np.einsum("tab,ab->ta", chains.pair[1:], ~goes_on) * inverse[:-1]
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
        moved = np.einsum("sa,sab->sb", mass * inverse[at], chains.pair[at + 1] * goes_on)
        at = at + 1
        on = moved.sum(axis=1) >= least if stops is None else np.ones(len(at), dtype=bool)
        number, starts, at, types, mass = (column[on] for column in (number, starts, at, types, moved))
    number, starts, ended, types, chances = (np.concatenate(column) for column in zip(*kept, strict=True))
    order = np.argsort(number, kind="stable")
    chances = np.clip(chances, 0.0, 1.0)
    return Spans(*(column[order] for column in (starts + chains.first, ended + chains.first, types, chances)))


# ---- segments


def _segment_chances(
    answers: Answers, rules: SpanRules, starts: np.ndarray, stops: np.ndarray, types: np.ndarray
) -> np.ndarray:
    """Return the probabilities of segments; each label is a type of its own."""
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


def _searched(answers: Answers, rules: SpanRules) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the different spans of the best labellings of each item."""
    offsets, found = answers.family.offsets, []
    for item, ranked in enumerate(answers.n_best(_SEARCHED)[0]):
        alone = np.array([0, ranked.shape[1]])
        for labels in ranked:
            columns = spans_of(labels, alone, rules)
            found += list(zip(columns[0] + offsets[item], columns[1] + offsets[item], columns[2], strict=True))
    every = np.array(sorted(set(found)), dtype=np.int64).reshape(-1, 3)
    return every[:, 0], every[:, 1], every[:, 2]


def given_probabilities(
    answers: Answers, rules: SpanRules, starts: np.ndarray, stops: np.ndarray, types: np.ndarray
) -> np.ndarray:
    """Return the probabilities of some spans by log partitions of the family given sets of labels."""
    offsets = answers.family.offsets
    items = np.searchsorted(offsets, starts, side="right") - 1
    order = np.argsort(items, kind="stable")
    turn = np.empty(len(starts), dtype=np.int64)  # which span of its item it is
    turn[order] = np.arange(len(starts)) - np.searchsorted(items[order], items[order])
    found = np.zeros(len(starts))
    for now in range(int(turn.max(initial=-1)) + 1):
        own = np.flatnonzero(turn == now)
        for joins, opens in product((True, False), repeat=2):
            allowed = np.ones((int(offsets[-1]), answers.family.n_labels), dtype=bool)
            for span in own.tolist():
                _restrict(allowed, rules, int(types[span]), int(starts[span]), int(stops[span]), joins, opens, offsets)
            with np.errstate(divide="ignore"):
                chances = answers.log_probability(np.log(allowed.astype(np.float64)))
            found[own] += np.exp(chances[items[own]])
    return np.clip(found, 0.0, 1.0)


def _restrict(
    allowed: np.ndarray,
    rules: SpanRules,
    kind: int,
    start: int,
    stop: int,
    joins: bool,
    opens: bool,
    offsets: np.ndarray,
) -> None:
    """Leave the labels of a span whose first label joins or not, and whose last label opens or not, in place."""
    of_type = rules.types == kind
    allowed[start:stop] &= of_type
    allowed[start] &= rules.joins == joins
    allowed[start + 1 : stop] &= rules.joins
    allowed[stop - 1] &= rules.opens == opens
    allowed[start : stop - 1] &= rules.opens
    if joins and start not in offsets:
        allowed[start - 1] &= ~(of_type & rules.opens)
    if opens and stop not in offsets:
        allowed[stop] &= ~(of_type & rules.joins)
