"""Automata of label n-grams: the contexts of a chain, and their successors by label.

A context (a *state*) is a label, or a proper prefix of an n-gram that is in the field: the longest one that ends a
history is all that later n-grams can ask of it. Of a state s and a label y

    arc(s, y)      scores edge(last label of s, y) + the weights of all n-grams that end s y
    target(s, y)   the longest state that ends s y

depend on the longest suffix q of s alone for which some n-gram or state ends with q y. Only such pairs are *arcs*
(q, y) with an entry of their own; all others back off to the arc of a shorter suffix. ``fail[s]`` is the longest proper
suffix of s that is a state; arcs are closed under it: with (q, y) there is (fail[q], y). Then, with children the
states of one ``fail``,

    mass of arc (q, y) = mass of q + sum over children c of q without an arc (c, y) of total(c)     sums only: nothing
    total(q)           = mass of q + sum over children c of q of total(c)                           is subtracted

If no child of q has an arc with y, the mass is total(q); else the arc is *covered*, and its *gaps* are the children
without one. Arrays: S states, shorter ones first (the L labels, in order), A arcs sorted by state and label; a pass
takes S + A + gaps operations for each position, at most S L, in place of L^n. Building: a few sorts of them.

    labellings     numbers of n-grams, a L^2 + b L + c for three labels, sorted
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse

from kernelfields.inference.packed_graphs import group_places

#: Bytes of arcs, gaps and their work space up to which automata are made.
MOST_BYTES = 2.0**32
_BYTES_PER_ARC = 150.0
_LARGEST_NUMBER = 2**62


class Lists(NamedTuple):
    """Concatenated lists of integers: list i is items[begin[i] : begin[i + 1]]."""

    begin: np.ndarray
    items: np.ndarray


class Sums(NamedTuple):
    """Sums of arcs in the order of computation: row out[i] is row base[i] plus the arcs of list i."""

    begin: np.ndarray
    items: np.ndarray
    out: np.ndarray
    base: np.ndarray


class Arcs(NamedTuple):
    """The arrays of an automaton for compiled passes; all integers.

    Masses are rows of a panel: those of the S states, the totals of the states with children, and the masses of the
    covered arcs.
    """

    fail: np.ndarray  # (S,), -1 for single labels
    last: np.ndarray  # (S,), the last label of each state
    target: np.ndarray  # (A,), state
    mass: np.ndarray  # (A,), row of the panel
    parents: np.ndarray  # states with children, shorter ones first, in the order of their totals
    sums: Lists  # for totals, those of longer states first, and then covered arcs: the rows to add up
    into: Sums  # (S), arcs by target; the base is a row of zeros
    back: Sums  # rows of beta, then of what states share with those that back off to them, then one of zeros
    ahead: Lists  # (S), arcs that count for a state and for all states that back off to it
    own: Lists  # (S), arcs that count for a state alone: the covered ones
    edges: np.ndarray  # (A,), the edge that each arc scores, a L + b


class TooManyNgrams(MemoryError):
    """The automaton of all n-grams does not fit in memory."""


class NgramAutomaton:
    """The automaton of n-grams: ``ngrams`` are (length, labellings) pairs, None for all labellings.

    An n-gram has at least three labels; weights of all pairs are those of the arcs between single labels.
    """

    def __init__(self, n_labels: int, ngrams: Sequence[tuple[int, np.ndarray | None]], most: float = MOST_BYTES):
        self.n_labels = n_labels
        self._refuse_too_many(ngrams, most)
        self.ngrams = [(length, _labellings(n_labels, length, some)) for length, some in ngrams]
        self._levels = self._find_states()
        self._first = np.cumsum([0, *map(len, self._levels)])
        self.n_states = int(self._first[-1])
        self.arcs = self._find_arcs()
        self.n_arcs = len(self.arcs.target)

    def _refuse_too_many(self, ngrams: Sequence[tuple[int, np.ndarray | None]], most: float) -> None:
        for length, some in ngrams:
            if self.n_labels**length > _LARGEST_NUMBER:
                raise TooManyNgrams(f"{length} of {self.n_labels} labels in a row have no numbers: lower the order")
            arcs = float(self.n_labels) ** length if some is None else len(some) * float(length)
            if arcs * _BYTES_PER_ARC > most:
                raise TooManyNgrams(
                    f"n-grams of {length} labels among {self.n_labels} make about {arcs:,.0f} arcs, "
                    f"{arcs * _BYTES_PER_ARC / 2**30:,.1f} GiB: lower the order, use support='observed', or a "
                    "number: the least times that an n-gram occurs"
                )

    def _find_states(self) -> list[np.ndarray]:
        """Return the numbers of the states of each length, from one on, sorted."""
        longest = max((length for length, _ in self.ngrams), default=2)
        levels = [np.arange(self.n_labels, dtype=np.int64)]
        for size in range(2, longest):
            parts = [some // self.n_labels ** (length - size) for length, some in self.ngrams if length > size]
            levels.append(np.unique(np.concatenate(parts)))
        return levels

    def _find_by_number(self, numbers: np.ndarray, size: int) -> np.ndarray:
        """Return the states with these numbers and this many labels, or -1."""
        if not 1 <= size <= len(self._levels):
            return np.full(len(numbers), -1, dtype=np.int64)
        return np.where(
            (places := find_places(self._levels[size - 1], numbers)) >= 0, places + self._first[size - 1], -1
        )

    def _longest_state(self, numbers: np.ndarray, size: int) -> np.ndarray:
        """Return the longest states at the end of sequences of ``size`` labels with these numbers."""
        found = np.full(len(numbers), -1, dtype=np.int64)
        for shorter in range(size, 0, -1):
            states = self._find_by_number(numbers % self.n_labels**shorter, shorter)
            found = np.where(found < 0, states, found)
        return found

    def _find_arcs(self) -> Arcs:
        n_labels, first = self.n_labels, self._first
        numbers = np.concatenate(self._levels)
        fail = np.full(self.n_states, -1, dtype=np.int64)
        for size in range(2, len(self._levels) + 1):
            level = slice(first[size - 1], first[size])
            fail[level] = self._longest_state(numbers[level] % n_labels ** (size - 1), size - 1)
        # Arcs by the number of labels of their states, longest first: each asks for one of a shorter state.
        asked = [np.zeros(0, dtype=np.int64) for _ in self._levels]
        for size in range(len(self._levels), 0, -1):
            own = [some for length, some in self.ngrams if length == size + 1]
            own += [self._levels[size]] if size < len(self._levels) else []
            ends = [self._find_by_number(some // n_labels, size) * n_labels + some % n_labels for some in own]
            asked[size - 1] = np.unique(np.concatenate([asked[size - 1], *ends]))
            if size > 1:
                shorter = fail[asked[size - 1] // n_labels] * n_labels + asked[size - 1] % n_labels
                lengths = np.searchsorted(first, shorter // n_labels, side="right")
                for length in range(1, size):
                    asked[length - 1] = np.concatenate([asked[length - 1], shorter[lengths == length]])
        asked[0] = np.arange(n_labels**2, dtype=np.int64)
        keys = np.concatenate(asked)
        source, label = np.divmod(keys, n_labels)
        self._arc_sizes = np.cumsum([0, *map(len, asked)])
        # Numbers of the arcs' labels in a row, of one more label than their states have.
        self._arc_numbers = numbers[source] * n_labels + label
        target = np.empty(len(keys), dtype=np.int64)
        for size in range(1, len(self._levels) + 1):
            part = slice(self._arc_sizes[size - 1], self._arc_sizes[size])
            target[part] = self._longest_state(self._arc_numbers[part], size + 1)
        self.arc_begin = np.searchsorted(source, np.arange(self.n_states + 1))
        self.arc_states, self.arc_labels = source, label
        covered, gap_arc, gap_child = self._find_gaps(fail, keys, source, label)
        return self._panel(fail, numbers % n_labels, target, covered, gap_arc, gap_child)

    def _find_gaps(
        self, fail: np.ndarray, keys: np.ndarray, source: np.ndarray, label: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the mask of covered arcs, (A,), and the gaps as arcs and children, sorted by arc."""
        longer = fail[source] >= 0
        below = np.searchsorted(keys, fail[source[longer]] * self.n_labels + label[longer])
        covered = np.zeros(len(keys), dtype=np.bool_)
        covered[below] = True
        first_child, children = group_places(fail[self.n_labels :], self.n_states)
        children = children + self.n_labels
        arcs = np.flatnonzero(covered)
        counts = np.diff(first_child)[source[arcs]]
        gap_arc = np.repeat(arcs, counts)
        within = np.arange(len(gap_arc)) - np.repeat(np.cumsum(counts) - counts, counts)
        gap_child = children[first_child[source[gap_arc]] + within]
        open_ = find_places(keys, gap_child * self.n_labels + label[gap_arc]) < 0
        return covered, gap_arc[open_], gap_child[open_]

    def _panel(
        self,
        fail: np.ndarray,
        last: np.ndarray,
        target: np.ndarray,
        covered: np.ndarray,
        gap_arc: np.ndarray,
        gap_child: np.ndarray,
    ) -> Arcs:
        """Return the arcs with the numbers of their rows in the panel of passes."""
        n_states, source = self.n_states, self.arc_states
        parents = np.unique(fail[self.n_labels :])
        total = np.arange(n_states)  # the row of each state's total: its own without children
        total[parents] = n_states + np.arange(len(parents))
        arcs = np.flatnonzero(covered)
        mass = total[source]
        mass[arcs] = n_states + len(parents) + np.arange(len(arcs))
        rows = np.concatenate([total[parents], total[fail[self.n_labels :]], mass[arcs], mass[gap_arc]])
        added = np.concatenate([parents, total[self.n_labels :], source[arcs], total[gap_child]])
        sums = _lists(rows - n_states, added, len(parents) + len(arcs))
        plain = np.flatnonzero(~covered)
        ahead = _lists(np.concatenate([source[plain], gap_child]), np.concatenate([plain, gap_arc]), n_states)
        own = _lists(source[arcs], arcs, n_states)
        states = np.arange(n_states)
        into = Sums(*_lists(target, np.arange(len(target)), n_states), states, np.zeros_like(states))
        back = _back(fail, parents, ahead, own)
        edges = last[source] * self.n_labels + self.arc_labels
        return Arcs(fail, last, target, mass, parents, sums, into, back, ahead, own, edges)

    @cached_property
    def incidence(self) -> scipy.sparse.csr_array:
        """The n-grams of all lists that end with each arc: (A, P) of ones."""
        rows, columns, begin = [], [], 0
        for length, some in self.ngrams:
            for size in range(length - 1, len(self._levels) + 1):
                part = slice(self._arc_sizes[size - 1], self._arc_sizes[size])
                places = find_places(some, self._arc_numbers[part] % self.n_labels**length)
                found = np.flatnonzero(places >= 0)
                rows.append(found + part.start)
                columns.append(places[found] + begin)
            begin += len(some)
        places_of = [np.concatenate([np.zeros(0, np.int64), *each]) for each in (rows, columns)]
        ones = np.ones(len(places_of[0]))
        return scipy.sparse.csr_array((ones, tuple(places_of)), shape=(self.n_arcs, begin))

    @cached_property
    def arc_table(self) -> np.ndarray:
        """The arc of every state and label, (S, L)."""
        table = np.full((self.n_states, self.n_labels), -1, dtype=np.int64)
        for first, last in zip(self._first[:-1].tolist(), self._first[1:].tolist(), strict=True):
            if first:
                table[first:last] = table[self.arcs.fail[first:last]]
            own = slice(self.arc_begin[first], self.arc_begin[last])
            table[self.arc_states[own], self.arc_labels[own]] = np.arange(own.start, own.stop)
        return table

    def arc_scores(self, edge: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the scores of arcs, (A,), for edges (L^2,) and the weights of all n-grams, (P,)."""
        return edge[self.arcs.edges] + self.incidence @ weights

    def split(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return sums over arcs (A,) as sums over edges (L^2,) and over n-grams (P,)."""
        return np.bincount(self.arcs.edges, counts, minlength=self.n_labels**2), self.incidence.T @ counts


def _lists(owner: np.ndarray, items: np.ndarray, n_owners: int) -> Lists:
    begin, order = group_places(owner, n_owners)
    return Lists(begin, items[order])


def _back(fail: np.ndarray, parents: np.ndarray, ahead: Lists, own: Lists) -> Sums:
    """Return the sums of a backward step: the shared part of a state, if others back off to it, and its beta."""
    n_states = len(fail)
    states, shares = np.arange(n_states), np.zeros(n_states, dtype=np.bool_)
    shares[parents] = True
    first = states + np.cumsum(shares) - shares
    owner = np.concatenate([np.repeat(first, np.diff(ahead.begin)), np.repeat(first + 1, np.diff(own.begin))])
    out, base = np.empty((2, n_states + len(parents)), dtype=np.int64)
    out[first], base[first] = np.where(shares, n_states + states, states), n_states + fail
    base[first[fail < 0]] = 2 * n_states
    out[first[parents] + 1], base[first[parents] + 1] = parents, n_states + parents
    return Sums(*_lists(owner, np.concatenate([ahead.items, own.items]), len(out)), out, base)


def _labellings(n_labels: int, length: int, some: np.ndarray | None) -> np.ndarray:
    if length < 3:
        raise ValueError(f"n-grams have at least three labels, got {length}")
    return np.arange(n_labels**length, dtype=np.int64) if some is None else np.asarray(some, dtype=np.int64)


def find_places(ordered: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the places of numbers in a sorted array, or -1."""
    if not len(ordered):
        return np.full(len(wanted), -1, dtype=np.int64)
    places = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return np.where(ordered[places] == wanted, places, -1)
