"""Explanations of segments: which positions, durations and transitions moved the label of each.

A segment (b, e, y) is compared with the segmentation in which its positions have another label o. Where neighbours may
not have the same label, it joins those beside it that have o already:

    kept     a a a [b b] a a c           (0, 3, a) (3, 5, b) (5, 7, a)          of which two durations and steps
    rival    a a a [a a] a a c           (0, 7, a)                              give way to one duration

    difference = score(kept) - score(rival) = log p(kept | x) - log p(rival | x)

Every term is linear in its potentials, so the difference falls apart into one amount per term, and per feature where
features are explicit: with C (T, L) the counts of kept labels less those of rival ones, a term gives
sum_t C_t . f(x_t), and its feature f  sum_t z_tf C_t . w_f.
Cost: the potentials of the sequence, and O(T r L) for explicit features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kernelfields.data.chains import UNLISTED
from kernelfields.data.segments import DURATION, SegmentedChains, bounds_of
from kernelfields.estimators.inspecting.explanations import (
    broken_rule,
    coordinate_names,
    dense,
    listed,
    pivots_note,
    rival_labels,
)
from kernelfields.inference.answers import Answers
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.segments.family import SegmentFamily
from kernelfields.models.field import Field
from kernelfields.numerics.parameters import check_count, is_whole
from kernelfields.numerics.threads import Workers
from kernelfields.numerics.wording import counted
from kernelfields.objective.term import Term
from kernelfields.reports.inspection import Contribution, Explanation, PositionExplanation


@dataclass(frozen=True, eq=False)
class Comparison:
    """A segment ``begin`` .. ``end`` and what takes its place: segments (begin, end, label) of the same stretch."""

    begin: int
    end: int
    label: int
    other: int
    kept: list[tuple[int, int, int]]
    rival: list[tuple[int, int, int]]
    before: int | None
    after: int | None

    def steps(self, segments: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """Return the steps into, within and out of a stretch: position, label before, label after."""
        bounded = [] if self.before is None else [(segments[0][0], self.before, segments[0][2])]
        bounded += [(b[0], a[2], b[2]) for a, b in pairwise(segments)]
        if self.after is not None:
            bounded.append((segments[-1][1], segments[-1][2], self.after))
        return bounded

    def durations(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return durations and labels of the kept segments, and of the rival ones."""
        kept, rival = ([(end - begin, label) for begin, end, label in own] for own in (self.kept, self.rival))
        return kept, rival

    def weights(self, shape: tuple[int, int]) -> np.ndarray:
        """Return C (T, L): how much more the kept segments take of the score of a label at a position."""
        weights = np.zeros(shape)
        for sign, segments in ((1.0, self.kept), (-1.0, self.rival)):
            for begin, end, label in segments:
                weights[begin:end, label] += sign
        return weights

    def broken_rules(self, spec: FamilySpec, data: SegmentedChains, classes: Sequence[object]) -> Iterator[str]:
        """Yield why the rival segmentation is impossible, where it is."""
        masks, name = spec.masks, classes[self.other]
        longest = max(end - begin for begin, end, _ in self.rival)
        rules = [(longest > spec.max_duration, f"as {name} is no longer than {spec.max_duration} positions")]
        if masks is not None:
            last = self.end == data.n_positions
            rules += [
                (masks.label[self.other], f"as {name} is forbidden everywhere"),
                (self.begin == 0 and masks.start[self.other], f"as {name} is forbidden at the first position"),
                (last and masks.end[self.other], f"as {name} is forbidden at the last position"),
            ]
        for _, a, b in self.steps(self.rival):
            rules.append((spec.step_penalties[a, b], f"as {classes[b]} is forbidden after {classes[a]}"))
        barred = np.flatnonzero(data.barred(np.full(data.n_positions, self.other))[self.begin : self.end])
        rules += [(True, f"as {UNLISTED} of position {self.begin + t}") for t in barred[:1].tolist()]
        yield from (f"{name} is impossible here, {why}" for broken, why in rules if broken)


class SegmentSettings(NamedTuple):
    """What an explanation is to hold: see :meth:`SegmentCRF.explain`."""

    top: int
    against: object
    top_positions: int
    positions: frozenset[int]

    def check(self) -> None:
        """Raise ValueError if a number cannot be used."""
        check_count(self.top, "top")
        if not is_whole(self.top_positions) or self.top_positions < 0:
            raise ValueError(f"top_positions must be a whole number of at least 0, got {self.top_positions!r}")


def explain_segments(
    field: Field, answers: Answers, classes: list, names: Sequence[str], settings: SegmentSettings
) -> Explanation:
    """Return what moved the segments of one sequence, those of its labels or the best; see SegmentCRF.explain."""
    settings.check()
    data, spec, family = answers.data, field.spec, answers.family
    assert isinstance(family, SegmentFamily)
    if data.labels is None:
        labels, mask = family.best_segmentation(answers.potentials, answers.workers)
    else:
        labels, mask = data.labels, data.begins | data.is_start
    begins, ends = bounds_of(mask)
    segments = list(zip(begins.tolist(), ends.tolist(), labels[begins].tolist(), strict=True))
    shares = np.add.reduceat(answers.marginals, begins) / (ends - begins)[:, None]
    rivals: Sequence[int | None] = [None] * len(segments)
    if settings.against is not None:
        tail = f"there are {len(segments)} segments: give one label, or one for each"
        rivals = rival_labels(classes, settings.against, len(segments), tail)
    potentials = {term.name: term.scores(data, Workers(1)) for term in field.terms}
    explained = []
    for place, (begin, end, _) in enumerate(segments):
        if settings.positions.isdisjoint(range(begin, end)):
            continue
        chosen = _compared(segments, place, spec, shares[place], classes, rivals[place], data)
        amounts = [
            amount
            for term in field.terms
            for amount in _contributions(
                term, potentials[term.name], data, chosen, names, classes, settings.top_positions
            )
        ]
        rules = chosen.broken_rules(spec, data, classes)
        amounts += [broken_rule(words) for words in rules]
        explained.append(
            PositionExplanation(
                chosen.begin,
                None,
                classes[chosen.label],
                classes[chosen.other],
                float(shares[place, chosen.label]),
                float(shares[place, chosen.other]),
                *listed(amounts, settings.top),
                end=chosen.end,
            )
        )
    return Explanation(tuple(explained))


def _compared(
    segments: list[tuple[int, int, int]],
    place: int,
    spec: FamilySpec,
    shares: np.ndarray,
    classes: list,
    against: int | None,
    data: SegmentedChains,
) -> Comparison:
    """Return a segment and its rival: with the requested label, else the most probable that is possible."""
    own = segments[place][2]
    if against is not None and against != own:
        return _exchanged(segments, place, against, spec.repeats)
    order = [label for label in np.argsort(-shares, kind="stable").tolist() if label != own]
    comparisons = [_exchanged(segments, place, other, spec.repeats) for other in order]
    possible = (own for own in comparisons if not any(own.broken_rules(spec, data, classes)))
    return next(possible, comparisons[0])


def _exchanged(segments: list[tuple[int, int, int]], place: int, other: int, repeats: bool) -> Comparison:
    """Return a segment with another label, joined with neighbours that have it unless segments may repeat."""
    begin, end, label = segments[place]
    first, last = place, place
    if not repeats and place > 0 and segments[place - 1][2] == other:
        first -= 1
    if not repeats and place + 1 < len(segments) and segments[place + 1][2] == other:
        last += 1
    before = segments[first - 1][2] if first > 0 else None
    after = segments[last + 1][2] if last + 1 < len(segments) else None
    rival = [(segments[first][0], segments[last][1], other)]
    return Comparison(begin, end, label, other, segments[first : last + 1], rival, before, after)


def _contributions(
    term: Term,
    scores: np.ndarray,
    data: SegmentedChains,
    compared: Comparison,
    names: Sequence[str],
    classes: list,
    count: int,
) -> Iterator[Contribution]:
    """Yield the amounts of one term in the difference."""
    if term.group == DURATION:
        yield from _duration_amounts(term, scores, compared, classes)
    elif term.labels_per_clique == 2:
        yield from _step_amounts(term, scores, compared, classes)
    else:
        weights = compared.weights((data.n_positions, len(classes)))
        if term.has_pivots:
            yield _kernel_amount(term, scores, weights, count)
        else:
            yield from _feature_amounts(term, data, weights, names)


def _duration_amounts(term: Term, scores: np.ndarray, compared: Comparison, classes: list) -> Iterator[Contribution]:
    for (duration, label), count in _more_often(*compared.durations()):
        if duration <= len(scores):
            name = f"{counted(duration, 'position')} of {classes[label]}"
            amount = count * float(scores[duration - 1, label])
            yield Contribution("duration", term.name, _counted(name, count, "not "), amount)


def _step_amounts(term: Term, scores: np.ndarray, compared: Comparison, classes: list) -> Iterator[Contribution]:
    own_name = f" ({term.name})" if term.name != term.clique.default_name else ""
    tied = term.tied_everywhere
    # Cliques of steps stand at all positions but the first.
    kept, rival = (
        [(0 if tied else place - 1, a, b) for place, a, b in compared.steps(segments)]
        for segments in (compared.kept, compared.rival)
    )
    for (row, a, b), count in _more_often(kept, rival):
        name = _counted(f"transition from {classes[a]} to {classes[b]}{own_name}", count, "no ")
        amount = count * float(scores[row, a * len(classes) + b])
        yield Contribution("transition" if tied else "kernel", term.name, name, amount)


def _more_often(kept: list[tuple], rival: list[tuple]) -> list[tuple[tuple, int]]:
    """Return what two lists do not have in common, and how many times more it is in the first."""
    counts = Counter(kept)
    counts.subtract(rival)
    return [(entry, count) for entry, count in counts.items() if count]


def _counted(name: str, count: int, negative: str) -> str:
    return f"{negative if count < 0 else ''}{name}{f', {abs(count)} times' if abs(count) > 1 else ''}"


def _kernel_amount(term: Term, scores: np.ndarray, weights: np.ndarray, count: int) -> Contribution:
    """Return what a kernel contributes, with the positions that contribute most."""
    amounts = np.einsum("tl,tl->t", scores, weights)
    involved = np.flatnonzero(np.any(weights != 0.0, axis=1))
    largest = involved[np.argsort(-np.abs(amounts[involved]), kind="stable")][:count]
    listed = largest[np.argsort(-amounts[largest], kind="stable")].tolist()
    parts = [Contribution("position", term.name, f"position {t}", float(amounts[t])) for t in listed]
    left = len(involved) - len(parts)
    if parts and left:
        rest = float(amounts.sum() - amounts[largest].sum())
        parts.append(Contribution("rest", term.name, counted(left, "other position"), rest))
    return Contribution(
        "kernel", term.name, f"{term.name}: {pivots_note(term)}", float(amounts.sum()), None, tuple(parts)
    )


def _feature_amounts(
    term: Term, data: SegmentedChains, weights: np.ndarray, names: Sequence[str]
) -> Iterator[Contribution]:
    """Yield the amounts of explicit features over all positions of a comparison, those of zero left out."""
    features, table = term.features(data), term.label_coefficients
    assert features is not None, "a constant term has no features"
    amounts = np.einsum("fl,fl->f", dense(features.T @ weights), dense(table))
    named = coordinate_names(term, names)
    for i in np.flatnonzero(amounts).tolist():
        yield Contribution("feature", term.name, named[i], float(amounts[i]))
