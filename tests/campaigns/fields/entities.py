"""Entities of sequences, and prediction sets of all targets, compared with enumeration.

An entity is read off labels here once more: by the scheme "bio" where labels are of it, with strays outside of all
entities, else a run of one label other than "O"; of segments it is a segment. Its probability is that of all labellings
that have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields import ConformalField
from kernelfields.data.label_notations import recognize_scheme
from tests.campaigns.fields.answers import Asked
from tests.campaigns.fields.drawn import Drawn
from tests.campaigns.fields.structures import Segments
from tests.campaigns.fields.tally import Tally
from tests.campaigns.fields.terms import Enumerated

Span = tuple[Any, int, int]
#: Spans of prediction sets that are less probable are never listed.
_LEAST = 1e-3


def spans_of(labels: Sequence, scheme: bool) -> list[Span]:
    """Return type, begin and end of the entities that labels write."""
    found: list[Span] = []
    for place, label in enumerate(labels):
        kind = "X" if scheme and label != "O" else label
        goes_on = label == "I-X" if scheme else place > 0 and labels[place - 1] == label
        if label == "O":
            continue
        if goes_on and found and found[-1][0] == kind and found[-1][2] == place:
            found[-1] = (kind, found[-1][1], place + 1)
        else:
            found.append((kind, place, place + 1))
    return found


def drawn_spans(drawn: Drawn, labels: Sequence[int] | np.ndarray) -> list[Span]:
    """Return the entities that labels of a field, given by numbers, write."""
    scheme = recognize_scheme(list(drawn.classes))
    strays = () if scheme is None or scheme.notation is None else scheme.notation.strays
    names = (drawn.classes[label] for label in labels)
    return spans_of(["O" if name in strays else name for name in names], scheme is not None)


def spans_by_row(drawn: Drawn, whole: Enumerated) -> list[list[Span]]:
    """Return the entities of every labelling, or segmentation, of an item."""
    if whole.cuts is not None:
        named = [[(drawn.classes[label], begin, end) for begin, end, label in cuts] for cuts in whole.cuts]
        return [[span for span in own if span[0] != "O"] for own in named]
    return [drawn_spans(drawn, labels) for labels in whole.labellings.tolist()]


def chances_of(drawn: Drawn, whole: Enumerated) -> Counter:
    """Return the probability of every entity of an item."""
    chances: Counter = Counter()
    for own, chance in zip(spans_by_row(drawn, whole), whole.probabilities.tolist(), strict=True):
        for span in own:
            chances[span] += chance
    return chances


def entities(tally: Tally, drawn: Drawn, asked: Asked, random: np.random.Generator) -> None:
    """Compare entities, those beside them, and where they begin: as items are, and given known labels."""
    check_entities(asked, random)
    hidden = [drawn._hidden(random, drawn.truth(random, item), drawn.n_labels) for item in drawn.new]
    entries, logs = zip(*hidden, strict=True)
    given = [whole.condition(part) for whole, part in zip(asked.wholes, logs, strict=True)]
    check_entities(Asked(tally, drawn, drawn.new, drawn.known_of(entries), given), random)
    with tally.asking("prediction sets of entities"):
        check_sets(tally, drawn, asked, random, "entities")


def check_entities(asked: Asked, random: np.random.Generator) -> None:
    """Compare all that is asked about the entities of some items."""
    tally, drawn, model, told, near = asked.tally, asked.drawn, asked.model, asked.told, asked.near
    least = float(random.choice([0.3, 0.05, 1e-3]))
    found = model.predict_entities(asked.X, least=least, **asked.settings)
    begins = model.predict_boundaries(asked.X, **asked.settings)
    if isinstance(drawn, Segments):
        best = model.predict_segments(asked.X, **asked.settings)
        predicted = [[(label, begin, end) for begin, end, label, _ in own if label != "O"] for own in best]
    else:
        best = drawn.numbers_of(model.predict(asked.X, **asked.settings))
        predicted = [drawn_spans(drawn, labels) for labels in best]
    for whole, own, boundary, inside in zip(asked.wholes, found, begins, predicted, strict=True):
        chances = chances_of(drawn, whole)
        starts = np.zeros(whole.labellings.shape[1])
        for (_, begin, _), chance in chances.items():
            starts[begin] += chance
        tally.near("boundaries" + told, boundary, starts, near)
        tally.check("predicted entities" + told, [entity[:3] for entity in own] == inside, f"{own} of {inside}")
        tally.near("entities" + told, [e.probability for e in own], [chances[entity[:3]] for entity in own], near)
        for entity in own:
            beside = {other[:3]: other.probability for other in entity.alternatives}
            tally.near("alternatives" + told, list(beside.values()), [chances[span] for span in beside], near)
            expected = {
                span
                for span, chance in chances.items()
                if chance >= least and span[1] < entity.end and entity.begin < span[2] and span != entity[:3]
            }
            unsure = {span for span, chance in chances.items() if abs(chance - least) <= near}
            tally.check("listed alternatives" + told, set(beside) ^ expected <= unsure, f"{set(beside) ^ expected}")


def check_sets(tally: Tally, drawn: Drawn, asked: Asked, random: np.random.Generator, target: str) -> None:
    """Compare prediction sets with enumeration, and their coverage with what they hold.

    On its own calibration items a field holds at least the level that was asked for.
    """
    items = [item for item in drawn.new if not any(item is own for own in drawn.items)]
    if len(items) < 3:
        return
    wholes = [whole for item, whole in zip(drawn.new, asked.wholes, strict=True) if any(item is own for own in items)]
    truths = [drawn.truth(random, item) for item in items]
    X, y, level = drawn.x_of(items), drawn.y_of(truths), float(random.choice([0.5, 0.7, 0.9]))
    sets = ConformalField(drawn.model, target=target, confidence_level=level).conformalize(X, y)
    found, coverage = sets.predict_set(X), sets.coverage(X, y)
    threshold = sets.thresholds_["all"]
    shares = []
    for whole, labels, own in zip(wholes, truths, found, strict=True):
        if target == "entities":
            shares.append(check_span_set(tally, drawn, whole, labels, own, threshold, asked.near))
        elif target == "positions":
            held = [drawn.classes[label] in place for label, place in zip(labels, own, strict=True)]
            shares.append(float(np.mean(held)))
        else:
            right = any(drawn.numbers_of([row])[0].tolist() == labels.tolist() for row, _ in own.labellings)
            shares.append(float(right or own.everything))
    tally.near(f"coverage of {target}", coverage.coverage, np.mean(shares), 1e-9)
    tally.check(f"level of {target}", np.mean(shares) >= level - 1e-9, f"{np.mean(shares)} of {level}")


def check_span_set(
    tally: Tally,
    drawn: Drawn,
    whole: Enumerated,
    labels: np.ndarray,
    own: Any,
    threshold: float,
    near: float,
) -> float:
    """Compare a set of entities; return the share of true ones that it holds."""
    chances, listed = chances_of(drawn, whole), {span[:3]: span[3] for span in own.spans}
    limit = max(_LEAST, threshold)
    expected = {span for span, chance in chances.items() if chance >= limit}
    unsure = {span for span, chance in chances.items() if abs(chance - limit) <= near + 1e-9}
    tally.check("prediction set of entities", set(listed) ^ expected <= unsure, f"{set(listed) ^ expected}")
    tally.near("probabilities in a set", list(listed.values()), [chances[span] for span in listed], near)
    if isinstance(drawn, Segments):
        cuts = [(drawn.classes[label], begin, end) for begin, end, label in drawn.runs(labels)]
        true = {span for span in cuts if span[0] != "O"}
    else:
        true = set(drawn_spans(drawn, labels))
    if own.everything or not true:
        return 1.0
    return len(true & set(listed)) / len(true)


def sets_of_labels(tally: Tally, drawn: Drawn, asked: Asked, random: np.random.Generator) -> None:
    """Compare prediction sets of positions and of whole labellings."""
    check_sets(tally, drawn, asked, random, str(random.choice(["positions", "labellings"])))
