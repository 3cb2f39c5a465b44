"""All answers of a model as flat columns, to compare those of two models, and the questions that laws are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.campaigns.fields.answers import Asked
from tests.campaigns.pairing.counting import Count, Unlawful
from tests.campaigns.pairing.laws import law_of
from tests.campaigns.pairing.problems import Batch, Problem

#: What answers of the same coefficients may be off by where sums are in another order.
ROUNDING = 1e-8
#: What answers of two fits of the same convex objective, each ended at a gap of 1e-9, may be off by.
FITTED = 2e-3


def flat(answer: Any) -> np.ndarray:
    """Return tables of items as one column of numbers."""
    if isinstance(answer, tuple):
        return np.concatenate([flat(part) for part in answer])
    if isinstance(answer, np.ndarray):
        return answer.ravel().astype(float)
    return np.concatenate([np.zeros(0), *(np.asarray(own, dtype=float).ravel() for own in answer)])


def labels_of(answer: Any) -> list:
    """Return labels of items as one list."""
    if isinstance(answer, np.ndarray):
        return answer.ravel().tolist()
    return [label for own in answer for label in np.asarray(own, dtype=object).ravel().tolist()]


def spans_of(answer: Any) -> list:
    """Return entities as places and types, without probabilities."""
    return [(number, *own[:3]) for number, item in enumerate(answer) for own in item]


Question = tuple[str, Callable[[], Any]]


def questions(problem: Problem, model: Any, items: Sequence[Any], labels: Sequence[np.ndarray]) -> list[Question]:
    """Return the questions that a model of a plan answers: the name, and what asks and flattens."""
    X, kind = problem.X(items), problem.plan.kind
    asked: list[Question] = [
        ("marginals", lambda: flat(model.predict_marginals(X))),
        ("labels", lambda: labels_of(model.predict(X))),
        ("entropies", lambda: flat([model.entropy(X)])),
        ("n best", lambda: flat([log for _, log in own] for own in model.predict_nbest(X, 3))),
        ("log-likelihoods", lambda: flat([model.log_likelihood(X, problem.y(labels), per_item=True)])),
        ("draws", lambda: labels_of(model.sample(X, 2, random_state=3))),
    ]
    if kind in ("chain", "ring", "segments"):
        asked += [("entities", lambda: [str(own) for own in spans_of(model.predict_entities(X))])]
    if kind == "chain" or kind == "ring":
        asked += [("marginals of edges", lambda: flat(model.predict_marginals(X, cliques="edge")[1]))]
    if kind == "segments":
        asked += [("segments", lambda: [str(own[:3]) for item in model.predict_segments(X) for own in item])]
    if kind in ("single", "multi"):
        asked += [("proba", lambda: flat(model.predict_proba(X)))]
    if kind == "single":
        asked += [("log proba", lambda: flat(model.predict_log_proba(X)))]
    return asked


def compare(
    count: Count,
    problem: Problem,
    one: Any,
    other: Any,
    items: Sequence[Any],
    labels: Sequence[np.ndarray],
    atol: float | None = None,
    only: Sequence[str] = (),
) -> None:
    """Compare all answers of two models, bit for bit, or numbers within ``atol``."""
    pairs = zip(questions(problem, one, items, labels), questions(problem, other, items, labels), strict=True)
    for (name, ask), (_, ask_other) in pairs:
        if only and name not in only:
            continue
        with count.asking(name):
            expected = _or_error(ask_other)
            if isinstance(expected, Exception):
                found = _or_error(ask)
                count.check(
                    f"{name}, no answer", type(found) is type(expected), f"{found!r:.200}, expected {expected!r:.200}"
                )
            elif atol is None or not isinstance(expected, np.ndarray):
                count.same(name, ask(), expected)
            else:
                count.near(name, ask(), expected, atol)


def _or_error(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (ValueError, TypeError) as error:
        return error


def check_law(
    count: Count,
    problem: Problem,
    model: Any,
    batches: Sequence[Batch],
    random: np.random.Generator,
    scaled: Batch | None = None,
) -> None:
    """Compare all answers about new items with enumeration, first as they are, then given known labels.

    ``scaled`` is the batch that columns were scaled by, the first by default.
    """
    with count.asking("law"):
        try:
            law = law_of(problem, model, batches)
            law.scaled = batches[0] if scaled is None else scaled
            if problem.plan.kind != "multi":
                count.same("classes", np.asarray(model.classes_).tolist(), law.classes)
            items = [item for item in problem.new if possible(law, item)]
            if not items:
                return
            wholes = [law.enumerated(item) for item in items]
            Asked(count, law, items, None, wholes).all(random)
            if random.random() < 0.5:
                entries, logs = zip(
                    *(law._hidden(random, law.truth(random, own), law.n_labels) for own in items), strict=True
                )
                given = [whole.condition(part) for whole, part in zip(wholes, logs, strict=True)]
                Asked(count, law, items, law.known_of(entries), given).all(random)
        except Unlawful:
            return


def possible(law: Any, item: Any) -> bool:
    """Whether an item has a labelling."""
    return bool((law.unscored(item)[1] > -np.inf).any())
