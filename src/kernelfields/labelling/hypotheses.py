"""Hypotheses about wrong labels: other labellings of windows of given labels, and their gain in probability.

A hypothesis h replaces the given labels y~ of a few positions W by others. Given all labels outside W,

    gain(h) = log p(h_W | x, y~ outside W) - log p(y~_W | x, y~ outside W) = score(y~ with h) - score(y~)

so that no inference is needed, only the scores of two labellings, which every family has (:func:`gains`). In a chain
the difference is a sum over the changed positions and their steps (:func:`chain_gains`), the same numbers faster.

The hypotheses are the errors that people make. How labels write segments (:class:`SegmentLabels`: entities of a scheme,
or runs of equal labels) decides what they are:

    position    one label is another one
    boundary    a segment ends, or begins, one position earlier or later
    segment     a segment has another type, or is none, or one is missing: up to ``LONGEST`` positions outside of
                entities, or where the best labelling has one inside of a given segment of equal labels

Only labels, and types, of a marginal probability of at least ``LEAST`` at each position are tried. Of labels that have
no order, those of graphs and of instances with several labels, positions are tried.

A position's score is the best of its hypotheses, each in nats for every label that it changes, less the logarithm of
how many others of its kind there are (and one more for those of several labels), or of its log-odds without the labels
around it:

    score(h) = (gain(h) - log alternatives(h)) / |W| - [kind(h) is not position]
    score(t) = max( score(h) for h that change t, alone(t) )

The score is a mean over changed labels, because the gain of some alternative grows with the window even for correct
labels. In a run of wrong labels each supports the next, so the mean gain is small, and isolated correct labels would
have larger scores. Runs of equal labels are therefore scored without the labels of neighbours, given the labels more
than ``REACH`` positions away (:func:`marginals_without_neighbours`; p(y~_t | x) in families other than chains), and by
at most ``MOST`` nats, because a field can be wrong with confidence on many positions in a row. Entities have few
positions, and are scored by marginals:

    runs       alone(t) = -log( exp(COST - odds_t) + exp(-MOST) )       odds_t = log((1 - p_t) / p_t)
                                                                        p_t = p(y~_t | x, y~_s for |s - t| > REACH)
    entities   alone(t) = MARGINAL odds_t - MARGINAL_COST               p_t = p(y~_t | x)

The constants were chosen on data with artificial errors that are not used in the published figures
(experiments/label_errors.py).

Arrays: rows and labels (M,) of all changed positions, offsets (H + 1,) of the hypotheses in them, rows rising within
each. Cost: O(N L^2 REACH), and a few hypotheses a position; ``gains`` one pass over the scores of all items for each
hypothesis of the item that has most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kernelfields.data.chains import Chains
from kernelfields.data.constraints import guess_scheme
from kernelfields.data.segments import find_begins, segment_bounds
from kernelfields.evaluation.entities import EntityReader
from kernelfields.inference.answers import Answers
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.numerics.sparse_rows import make_offsets

#: Minimal probability of alternative labels; maximal length of missing entities.
LEAST, LONGEST = 0.01, 8
#: Penalty of changes of several labels; weight and penalty of marginal log-odds of entity labels.
SEVERAL, MARGINAL, MARGINAL_COST = 1.0, 0.5, 4.0
#: Distance of ignored neighbours in runs; penalty of log-odds without them, and their maximum.
REACH, COST, MOST = 8, 2.0, 3.0
#: Kinds of hypotheses, by their numbers.
POSITION, BOUNDARY, SEGMENT = range(3)
#: Lower bound on probabilities of given labels.
_SMALLEST = 1e-300


class SegmentLabels:
    """The types (L,) of labels, and the labels of the first and of later positions of segments.

    ``scheme`` is None where runs of equal labels are the segments: each label is a type. Type 0 is the outside of
    entities. Labels change where a segment is cut or joined: ``opened`` (L,) at its new first position, ``closed`` at
    its last, ``joined`` and ``unclosed`` where one goes on across a former border.
    """

    def __init__(self, classes: Sequence[object]):
        n_labels, self.scheme = len(classes), guess_scheme(classes)
        self._reader = None if self.scheme is None else EntityReader(self.scheme, list(classes))
        same = np.arange(n_labels)
        self.opened, self.joined, self.closed, self.unclosed = (same.copy() for _ in range(4))
        if self.scheme is None:
            self.type_of, self.n_types = same, n_labels
            self._encoded = {kind: (kind, kind, kind, kind) for kind in range(n_labels)}
            return
        parts = [self.scheme.parse(label) for label in classes]
        kinds = ["", *sorted({kind if tag != "O" else "" for tag, kind in parts} - {""})]
        # Entities without a type have one of their own.
        typed = [0 if tag == "O" else kinds.index(kind) if kind else len(kinds) for tag, kind in parts]
        self.type_of, self.n_types = np.array(typed), max(typed) + 1
        number = {(tag, kind): place for place, ((tag, _), kind) in enumerate(zip(parts, typed, strict=True))}
        last, alone = {"bioes": ("E", "S"), "bilou": ("L", "U")}.get(self.scheme.name, ("I", "B"))
        turns = [("opened", "I", "B"), ("opened", last, alone), ("joined", "B", "I"), ("joined", alone, last)]
        if last != "I":
            turns += [("closed", "B", alone), ("closed", "I", last), ("unclosed", alone, "B"), ("unclosed", last, "I")]
        for name, tag, other in turns:
            for kind in range(1, self.n_types):
                if (tag, kind) in number and (other, kind) in number:
                    getattr(self, name)[number[tag, kind]] = number[other, kind]
        outside = number.get(("O", 0))
        self._encoded = {} if outside is None else {0: (outside,) * 4}
        for kind in range(1, self.n_types):
            found = [number.get((tag, kind), -1) for tag in (alone, "B", "I", last)]
            self._encoded[kind] = tuple(found)  # type: ignore[assignment]

    def encode(self, kind: int, length: int) -> np.ndarray | None:
        """Return the labels of a segment of a type, (length,); None if a label is missing."""
        alone, first, inside, last = self._encoded.get(kind, (-1,) * 4)
        labels = np.full(length, inside)
        labels[0], labels[-1] = first, last
        if length == 1:
            labels[0] = alone
        return None if (labels < 0).any() else labels

    def begins(self, labels: np.ndarray) -> np.ndarray:
        """Return a mask (T,) of the positions of one sequence that begin a segment."""
        ends = np.array([0, len(labels)])
        if self._reader is None:
            return find_begins(labels, ends)
        begins = find_begins(self.type_of[labels], ends)
        spans = self._reader.spans(labels, ends)
        begins[spans.starts] = True
        return begins


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """Hypothetical changes of given labels; ``kinds`` and ``alternatives`` (H,) count possible alternatives."""

    rows: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray
    kinds: np.ndarray
    alternatives: np.ndarray

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def sizes(self) -> np.ndarray:
        """The number of changed labels of each hypothesis, (H,)."""
        return np.diff(self.offsets)

    def get_change(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows and the new labels of a hypothesis."""
        entries = slice(self.offsets[number], self.offsets[number + 1])
        return self.rows[entries], self.labels[entries]

    def means(self, values: np.ndarray) -> np.ndarray:
        """Average values (M,) over the changed positions of each hypothesis, (H,)."""
        sums = np.add.reduceat(values, self.offsets[:-1]) if len(self) else np.zeros(0)
        return sums / self.sizes

    def append_runs(self, labels: np.ndarray, firsts: np.ndarray, ends: np.ndarray) -> Hypotheses:
        """Append hypotheses that change the positions from ``firsts`` to before ``ends`` to other labels (N,)."""
        sizes = ends - firsts
        rows = np.repeat(ends - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
        kinds = np.where(sizes > 1, SEGMENT, POSITION)
        joined = ((self.rows, rows), (self.labels, labels[rows]), (self.offsets, self.offsets[-1] + np.cumsum(sizes)))
        added = ((self.kinds, kinds), (self.alternatives, np.ones(len(sizes))))
        return Hypotheses(*(np.concatenate(pair) for pair in (*joined, *added)))


class _Change(NamedTuple):
    rows: np.ndarray
    labels: np.ndarray
    kind: int
    alternatives: float


class Given(NamedTuple):
    """Given labels (N,) with their mask (N,), marginals (N, L) and the best labelling (N,)."""

    labels: np.ndarray
    known: np.ndarray
    marginals: np.ndarray
    best: np.ndarray


def propose_corrections(answers: Answers, given: Given, segments: SegmentLabels) -> Hypotheses:
    """Propose hypothetical changes of given labels."""
    changes: list[_Change] = []
    ordered = isinstance(answers.data, Chains)
    for begin, end in pairwise(answers.family.offsets.tolist()):
        own = Given(*(values[begin:end] for values in given))
        for change in _item_corrections(own, segments, ordered):
            changes.append(change._replace(rows=change.rows + begin))
    rows, labels, kinds, alternatives = zip(*changes, strict=True) if changes else ((),) * 4
    none = np.zeros(0, dtype=np.int64)
    return Hypotheses(
        np.concatenate([none, *rows]),
        np.concatenate([none, *labels]),
        make_offsets(np.array([len(own) for own in rows], dtype=np.int64)),
        np.array(kinds, dtype=np.int64),
        np.array(alternatives, dtype=np.float64),
    )


def _item_corrections(given: Given, segments: SegmentLabels, ordered: bool) -> Iterator[_Change]:
    """Yield hypothetical changes of the labels of one item."""
    labels, known, marginals, _ = given
    likely = (marginals >= LEAST) & known[:, None]
    likely[np.arange(len(labels)), labels] = False
    for row, label in np.argwhere(likely):
        yield _Change(np.array([row]), np.array([label]), POSITION, marginals.shape[1] - 1)
    if ordered and len(labels) > 1:
        yield from _segment_corrections(given, segments)


def _segment_corrections(given: Given, segments: SegmentLabels) -> Iterator[_Change]:
    """Yield segments with another type, without type, moved by one position, and missing segments."""
    labels, known, marginals, best = given
    types, begins = segments.type_of[labels], segments.begins(labels)
    chances = np.zeros((len(labels), segments.n_types))
    np.add.at(chances.T, segments.type_of, marginals.T)
    possible = (chances >= LEAST) & known[:, None]
    bounds = list(zip(*(ends.tolist() for ends in segment_bounds(begins)), strict=True))

    def change(first: int, end: int, kind: int, what: int, joins: int = 0) -> Iterator[_Change]:
        """Yield a segment in place of a window; ``join`` is -1 for the previous segment, 1 for the next, 0 for none."""
        encoded = segments.encode(kind, end - first)
        if encoded is None or not possible[first:end, kind].all():
            return
        first_row, changed = max(first - 1, 0), labels[max(first - 1, 0) : end + 1].copy()
        window = slice(first - first_row, end - first_row)
        changed[window] = encoded
        if joins < 0:
            changed[window.start - 1] = segments.unclosed[changed[window.start - 1]]
            changed[window.start] = segments.joined[changed[window.start]]
        elif first and not begins[first]:
            changed[window.start - 1] = segments.closed[changed[window.start - 1]]
        if joins > 0:
            changed[window.stop - 1] = segments.unclosed[changed[window.stop - 1]]
            changed[window.stop] = segments.joined[changed[window.stop]]
        elif end < len(labels) and not begins[end]:
            changed[window.stop] = segments.opened[changed[window.stop]]
        rows = np.flatnonzero(changed != labels[first_row : end + 1])
        if len(rows) and known[first_row + rows].all():
            yield _Change(first_row + rows, changed[rows], what, 4 if what == BOUNDARY else segments.n_types)

    for (first, end), after in zip(bounds, [*bounds[1:], None], strict=True):
        kind = int(types[first])
        if segments.scheme is not None and kind == 0:
            for start in range(first, end):
                for other in np.flatnonzero(possible[start, 1:]).tolist():
                    for stop in range(start + 1, min(start + LONGEST, end) + 1):
                        yield from change(start, stop, other + 1, SEGMENT)
        else:
            for other in np.flatnonzero(possible[first:end].all(axis=0)).tolist():
                if other != kind:
                    yield from change(first, end, other, SEGMENT)
        if segments.scheme is None:
            inner = np.flatnonzero(np.diff(best[first:end])) + first + 1
            for start, stop in pairwise([first, *inner.tolist(), end]):
                if best[start] != kind and 1 < stop - start < end - first:
                    yield from change(start, stop, int(best[start]), SEGMENT)
        if after is not None:
            # What is outside of entities may become empty.
            outside = segments.scheme is not None
            if end - first > 1 or (outside and kind == 0):
                yield from change(end - 1, end, int(types[end]), BOUNDARY, joins=1)
            if after[1] - end > 1 or (outside and types[end] == 0):
                yield from change(end, end + 1, kind, BOUNDARY, joins=-1)


def gains(answers: Answers, labels: np.ndarray, hypotheses: Hypotheses) -> np.ndarray:
    """Compute the gain in log-score of each hypothesis, (H,); minus infinity for forbidden labellings."""
    family = answers.family
    items, found = family.position_items[hypotheses.rows[hypotheses.offsets[:-1]]], np.empty(len(hypotheses))
    base = answers.label_scores(labels)
    # The first hypothesis of each item at once, then the second of each, and so on.
    order = np.argsort(items, kind="stable")
    firsts = np.searchsorted(items[order], items[order])
    turns = np.empty(len(items), dtype=np.int64)
    turns[order] = np.arange(len(items)) - firsts
    for turn in range(turns.max(initial=-1) + 1):
        own = np.flatnonzero(turns == turn)
        changed = labels.copy()
        for number in own.tolist():
            places = slice(hypotheses.offsets[number], hypotheses.offsets[number + 1])
            changed[hypotheses.rows[places]] = hypotheses.labels[places]
        found[own] = answers.label_scores(changed)[items[own]]
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(found - base[items], nan=-np.inf, posinf=np.inf, neginf=-np.inf)


def chain_gains(answers: Answers, labels: np.ndarray, hypotheses: Hypotheses) -> np.ndarray:
    """Compute the gains of hypotheses about chains as sums over changed positions and steps."""
    family, potentials = answers.family, answers.family.with_base(answers.potentials)
    node, edge, rows, new = potentials.node, potentials.edge, hypotheses.rows, hypotheses.labels
    tied = len(edge) == 1
    is_start = np.zeros(len(labels) + 1, dtype=bool)
    is_start[family.offsets] = True
    first = np.zeros(len(rows), dtype=bool)
    first[hypotheses.offsets[:-1]] = True
    follows = np.zeros(len(rows) + 1, dtype=bool)  # the entry before is the position before, in the same hypothesis
    follows[1:-1] = (rows[1:] == rows[:-1] + 1) & ~first[1:]

    def step(at: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        return edge[0 if tied else at, before, after]

    with np.errstate(invalid="ignore"):
        gained = node[rows, new] - node[rows, labels[rows]]
        inner = ~is_start[rows]
        at, before = rows[inner], labels[rows[inner] - 1]
        changed_before = np.where(follows[:-1][inner], new[np.flatnonzero(inner) - 1], before)
        gained[inner] += step(at, changed_before, new[inner]) - step(at, before, labels[at])
        leaves = ~follows[1:] & ~is_start[rows + 1]
        at, after = rows[leaves] + 1, labels[rows[leaves] + 1]
        gained[leaves] += step(at, new[leaves], after) - step(at, labels[at - 1], after)
        sums = np.add.reduceat(gained, hypotheses.offsets[:-1]) if len(rows) else np.zeros(0)
    return np.nan_to_num(sums, nan=-np.inf, posinf=np.inf, neginf=-np.inf)


def compute_gains(answers: Answers, labels: np.ndarray, hypotheses: Hypotheses) -> np.ndarray:
    """Compute the gain in log-score of each hypothesis, (H,)."""
    fast = type(answers.family) is ChainFamily
    return (chain_gains if fast else gains)(answers, labels, hypotheses)


def score(hypotheses: Hypotheses, gained: np.ndarray) -> np.ndarray:
    """Convert gains (H,) of hypotheses to scores (H,)."""
    per_label = (gained - np.log(hypotheses.alternatives)) / hypotheses.sizes
    return per_label - SEVERAL * (hypotheses.kinds != POSITION)


def marginals_without_neighbours(answers: Answers, labels: np.ndarray) -> np.ndarray:
    """Compute p(y_t | x, labels more than ``REACH`` positions away), (N, L), in chains.

    Of other families, and where the labels far away allow none, p(y_t | x).
    """
    family, marginals = answers.family, answers.marginals
    if type(family) is not ChainFamily:
        return marginals.copy()
    potentials = family.with_base(answers.potentials)
    weights = np.exp(potentials.node - potentials.node.max(axis=1, keepdims=True))
    steps = np.exp(potentials.edge - potentials.edge.max(axis=(1, 2), keepdims=True))
    before = _distant_messages(weights, steps, labels, family.offsets)
    # The same from the other side: the step into a position is that out of it, read backwards.
    turned = (steps if len(steps) == 1 else np.roll(steps[::-1], 1, axis=0)).transpose(0, 2, 1)
    after = _distant_messages(weights[::-1], turned, labels[::-1], len(labels) - family.offsets[::-1])[::-1]
    found = before * weights * after
    totals = found.sum(axis=1, keepdims=True)
    return np.divide(found, totals, out=marginals.copy(), where=totals > 0)


def _distant_messages(weights: np.ndarray, steps: np.ndarray, labels: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return messages (N, L) to each position from the given label ``REACH`` positions before."""
    rows, begins = np.arange(len(labels)), np.repeat(offsets[:-1], np.diff(offsets))
    stride, found = int(len(steps) > 1), np.ones_like(weights)
    fixed = rows[rows - REACH > begins]
    found[fixed] = steps[(fixed - REACH) * stride, labels[fixed - REACH - 1]]
    for distance in range(REACH, 0, -1):
        inside = rows[rows - distance >= begins]
        summed = (found[inside] * weights[inside - distance])[:, None]
        summed = (summed @ (steps[inside - distance + 1] if stride else steps[0]))[:, 0]
        totals = summed.sum(axis=1, keepdims=True)
        found[inside] = np.divide(summed, totals, out=summed, where=totals > 0)
    return found


def independent_scores(likely: np.ndarray, labels: np.ndarray, runs: bool) -> np.ndarray:
    """Score positions (N,) by probabilities (N, L) without the labels of neighbours."""
    given = np.clip(likely[np.arange(len(labels)), labels], _SMALLEST, 1.0)
    with np.errstate(divide="ignore"):
        odds = np.log1p(-given) - np.log(given)
    return -np.logaddexp(COST - odds, -MOST) if runs else MARGINAL * odds - MARGINAL_COST


def find_runs(scores: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return first positions and ends of runs of two or more positive scores within an item."""
    positive = scores > 0
    begins, ends = positive.copy(), positive.copy()
    inner = np.setdiff1d(np.arange(1, len(scores)), offsets)
    begins[inner] &= ~positive[inner - 1]
    ends[inner - 1] &= ~positive[inner]
    firsts, lasts = np.flatnonzero(begins), np.flatnonzero(ends) + 1
    several = lasts - firsts > 1
    return firsts[several], lasts[several]
