"""Questions that some fields answer beside those of all, compared with enumeration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.campaigns.fields.answers import Asked, check_answers
from tests.campaigns.fields.chains import Chain
from tests.campaigns.fields.composed import Annotated, Compat, Frames, Sequences
from tests.campaigns.fields.drawn import Drawn
from tests.campaigns.fields.entities import entities, sets_of_labels
from tests.campaigns.fields.structures import Graph, Instances, Segments, Single
from tests.campaigns.fields.tally import Tally
from tests.campaigns.fields.tied import Tied, tied_objective


def stream(tally: Tally, drawn: Chain, asked: Asked, random: np.random.Generator) -> None:
    """Compare streams: with unlimited lag the whole sequence, with a short one what has been seen so far."""
    if not drawn.streams:
        return
    decode = str(random.choice(["viterbi", "posterior"]))
    for item, whole in zip(drawn.new, asked.wholes, strict=True):
        lag = np.inf if random.random() < 0.6 else drawn.ahead + int(random.integers(0, 3))
        flow = drawn.model.stream(lag, decode=decode)
        rows = [
            item[place : place + 1] if hasattr(item, "shape") else item[place] for place in range(drawn.length(item))
        ]
        answers: list[Any] = []
        try:
            for row in rows:
                answers.append(flow.push(row))
            answers.append(flow.end())
        except ValueError:
            if decode == "posterior" or lag == np.inf:
                raise
            # Labels that were given out cannot be taken back: nothing that has come since may be able to follow them.
            ended = len(answers) == len(rows)
            seen = len(rows) if ended else len(answers) + 1 - drawn.ahead
            possible = _goes_on(drawn, item, seen, answers, ended=ended)
            tally.check("stream that cannot go on", not possible, f"labels given out: {answers}")
            continue
        if decode == "viterbi" and not drawn.ahead:
            # A label is answered as soon as it is settled, with marginals given what has come by then.
            first = 0
            for seen, answer in enumerate(answers[:-1], start=1):
                end = first + len(answer.labels)
                expected = drawn.enumerated_part(item, seen, ended=False).marginals[first:end]
                tally.near("marginals of labels that are settled", answer.marginals, expected, asked.near)
                first = end
        marginals = np.concatenate([answer.marginals for answer in answers])
        labels = np.concatenate([np.asarray(answer.labels) for answer in answers if len(answer.labels)])
        if lag == np.inf:
            waited = np.arange(len(labels)) >= len(labels) - len(answers[-1].labels)  # for the end
            tally.near("stream of unlimited lag", marginals[waited], whole.marginals[waited], asked.near)
            Asked(tally, drawn, [item], None, [whole]).check_decoded(decode, drawn.numbers_of([labels]))
        elif decode == "posterior" and not drawn.ahead:
            length = drawn.length(item)
            for place in range(length):
                seen = min(place + int(lag) + 1, length)
                part = drawn.enumerated_part(item, seen, ended=place + lag >= length)
                tally.near("stream of a short lag", marginals[place], part.marginals[place], asked.near)
        elif decode == "viterbi":
            # The end is not seen by labels that were given out before it.
            possible = _goes_on(drawn, item, len(rows), answers, ended=len(answers[-1].labels) > 0)
            tally.check("labels of a short lag", possible, f"{labels}")


def _goes_on(drawn: Chain, item: Any, seen: int, answers: Sequence[Any], *, ended: bool) -> bool:
    """Return whether some labelling of the first positions of an item begins with the labels of answers."""
    given = [number for own in drawn.numbers_of([answer.labels for answer in answers]) for number in own]
    part = drawn.enumerated_part(item, seen, ended=ended)
    possible = part.labellings[part.scores > -np.inf]
    return bool((possible[:, : len(given)] == given).all(axis=1).any())


def segments_of(tally: Tally, drawn: Segments, asked: Asked, random: np.random.Generator) -> None:
    """Compare best segmentations, as segments, and their probabilities."""
    model = drawn.model
    k = int(random.integers(1, 6))
    best, ranked = model.predict_segments(asked.X), model.predict_nbest(asked.X, k, segments=True)
    for whole, own, several in zip(asked.wholes, best, ranked, strict=True):
        assert whole.cuts is not None
        places = {cuts: number for number, cuts in enumerate(whole.cuts)}
        cuts = drawn.cuts_of([(a, b, label) for a, b, label, _ in own])
        right = cuts in places and whole.logs[places[cuts]] >= whole.logs.max() - asked.near
        tally.check("best segmentation", bool(right), f"{own}")
        for begin, end, label, chance in own:
            number = drawn.classes.index(label)
            expected = sum(p for c, p in zip(whole.cuts, whole.probabilities, strict=True) if (begin, end, number) in c)
            tally.near("probability of a segment", chance, expected, asked.near)
        logs = [log for _, log in several]
        tally.near("n best segmentations", logs, [log for _, log in whole.ranked(k)], asked.near)
        for written, log in several:
            place = places.get(drawn.cuts_of(written))
            tally.check(
                "a segmentation of n best",
                place is not None and abs(whole.logs[place] - log) <= asked.near + 1e-9 * abs(log),
                f"{written}",
            )
    chosen = [whole.cuts[random.choice(np.flatnonzero(whole.scores > -np.inf))] for whole in asked.wholes]
    written = [[(a, b, drawn.classes[label]) for a, b, label in cuts] for cuts in chosen]
    found = model.log_likelihood(asked.X, written, per_item=True)
    for whole, cuts, log in zip(asked.wholes, chosen, found, strict=True):
        tally.near("log-likelihood of a segmentation", log, whole.logs[whole.cuts.index(cuts)], asked.near)


def instances_of(tally: Tally, drawn: Instances, asked: Asked, random: np.random.Generator) -> None:
    """Compare the questions of several labels: the likeliest set, probabilities, log odds."""
    labels, chances = drawn.model.predict_joint(asked.X)
    table, odds = drawn.model.predict_proba(asked.X), drawn.model.decision_function(asked.X)
    asked.check_decoded("viterbi", labels)
    for whole, chance, row, own in zip(asked.wholes, chances, table, odds, strict=True):
        tally.near("probability of the likeliest set", chance, whole.probabilities.max(), asked.near)
        tally.near("probabilities of labels", row, whole.marginals[:, 1], asked.near)
        if (whole.marginals > 1e-9).all():
            expected = np.log(whole.marginals[:, 1]) - np.log(whole.marginals[:, 0])
            tally.near("log odds", own, expected, asked.near / whole.marginals.min())


def single_of(tally: Tally, drawn: Single, asked: Asked, random: np.random.Generator) -> None:
    """Compare the questions of a classifier."""
    table, logs = drawn.model.predict_proba(asked.X), drawn.model.predict_log_proba(asked.X)
    scores = drawn.model.decision_function(asked.X)
    for whole, row, own, score in zip(asked.wholes, table, logs, scores, strict=True):
        tally.near("predict_proba", row, whole.probabilities, asked.near)
        tally.near("predict_log_proba", own, whole.logs, asked.near)
        right = whole.scores[1] - whole.scores[0] if drawn.n_labels == 2 else whole.scores
        tally.near("decision_function", score, right, asked.near)


def annotated(tally: Tally, drawn: Annotated, asked: Asked, random: np.random.Generator) -> None:
    """Compare the field, what follows from what annotators said, and the objective of the fit."""
    model = drawn.model
    for whole, table in zip(asked.wholes, model.predict_marginals(asked.X), strict=True):
        tally.near("marginals of an annotated field", table, whole.marginals, asked.near)
    asked.check_decoded("viterbi", drawn.numbers_of(model.predict(asked.X, decode="viterbi")))
    said = [drawn.draw_said(random, drawn.truth(random, item)) for item in drawn.new]
    if any((np.array(own) < 0).all() for own in said):
        return
    written = drawn.written(said)
    given = [whole.condition(drawn.messages(own)) for whole, own in zip(asked.wholes, said, strict=True)]
    for whole, table in zip(given, model.consensus_marginals(asked.X, written), strict=True):
        tally.near("marginals of the consensus", table, whole.marginals, asked.near)
    Asked(tally, drawn, drawn.new, None, given).check_decoded(
        drawn.decodes, drawn.numbers_of(model.consensus(asked.X, written))
    )
    logs = model.log_likelihood(asked.X, written, per_item=True)
    for whole, free, log in zip(given, asked.wholes, logs, strict=True):
        tally.near("log-likelihood of annotators", log, whole.log_partition - free.log_partition, asked.near)


def framed(tally: Tally, drawn: Frames, asked: Asked, random: np.random.Generator) -> None:
    """Compare the answers about the rows of a table."""
    table, model = drawn.frame(drawn.new), drawn.model
    ends = np.cumsum([len(item) for item in drawn.new])[:-1]

    def parts(column: Any) -> list[np.ndarray]:
        return np.split(np.asarray(column), ends)

    for whole, rows in zip(asked.wholes, parts(model.predict_marginals(table)), strict=True):
        tally.near("marginals of a table", rows, whole.marginals, asked.near)
    for decode in ("viterbi", "posterior"):
        asked.check_decoded(decode, drawn.numbers_of(parts(model.predict(table, decode=decode))))
    hidden = [drawn._hidden(random, drawn.truth(random, item), drawn.n_labels) for item in drawn.new]
    entries, logs = zip(*hidden, strict=True)
    given = [whole.condition(part) for whole, part in zip(asked.wholes, logs, strict=True)]
    told = drawn.frame(drawn.new, entries)
    for whole, rows in zip(given, parts(model.predict_marginals(told, known="label")), strict=True):
        tally.near("marginals of a table given known labels", rows, whole.marginals, asked.near)


def classes_of(tally: Tally, drawn: Sequences, asked: Asked, random: np.random.Generator) -> None:
    """Compare the classes of sequences, and the states within them."""
    model, n_states = drawn.model, drawn.n_states
    table, labels, states = model.predict_proba(asked.X), model.predict(asked.X), model.predict_states(asked.X)
    for whole, row, label, own in zip(asked.wholes, table, labels, states, strict=True):
        classes = whole.labellings[:, 0] // n_states
        chances = np.bincount(classes, whole.probabilities, len(drawn.names))
        tally.near("probabilities of classes", row, chances, asked.near)
        number = drawn.names.index(label if isinstance(label, str) else int(label))
        tally.check("class of a sequence", chances[number] >= chances.max() - asked.near, f"{label} of {chances}")
        within = np.where(classes == number, whole.logs, -np.inf)
        same = (whole.labellings == own + number * n_states).all(axis=1)
        right = same.any() and within[same].max() >= within.max() - asked.near
        tally.check("states of a sequence", bool(right), f"{own} of class {label}")


def compat_of(tally: Tally, drawn: Compat, asked: Asked, random: np.random.Generator) -> None:
    """Compare the answers of CRFsuite's face."""
    asked.check_decoded("viterbi", drawn.numbers_of(drawn.model.predict(drawn.new)))
    for whole, rows in zip(asked.wholes, drawn.model.predict_marginals(drawn.new), strict=True):
        table = [[row[label] for label in drawn.classes] for row in rows]
        tally.near("marginals of compat.CRF", table, whole.marginals, asked.near)


#: What is compared of each kind of field; of others, what all answer.
QUESTIONS: dict[type[Drawn], tuple[Callable[..., None], ...]] = {
    Chain: (check_answers, stream, entities, sets_of_labels),
    Tied: (check_answers, stream, entities),
    Segments: (check_answers, segments_of, entities),
    Graph: (check_answers, sets_of_labels),
    Instances: (check_answers, instances_of),
    Single: (check_answers, single_of),
    Annotated: (annotated,),
    Frames: (framed,),
    Sequences: (classes_of,),
    Compat: (compat_of,),
}
#: What is compared of a fit where it has another objective than the likelihood of labels.
OBJECTIVES: dict[type[Drawn], Callable[..., None]] = {
    Tied: tied_objective,
    Annotated: lambda tally, drawn: None,
    Compat: lambda tally, drawn: None,
}
