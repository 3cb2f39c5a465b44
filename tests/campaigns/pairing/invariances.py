"""What must not change an answer: order, company, how often an item is given, names, and what all scores share."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.campaigns.pairing.asking import FITTED, ROUNDING, compare, flat, labels_of
from tests.campaigns.pairing.counting import Count
from tests.campaigns.pairing.problems import Batch, Problem


def together(count: Count, problem: Problem, model: Any, random: np.random.Generator) -> None:
    """Ask for items one by one, in another order, and in the company of an item of large values."""
    items, labels = problem.second.items, problem.second.labels
    whole = [np.asarray(own) for own in _tables(problem, model.predict_marginals(problem.X(items)))]
    order = random.permutation(len(items)).tolist()
    moved = _tables(problem, model.predict_marginals(problem.X([items[place] for place in order])))
    for place, own in zip(order, moved, strict=True):
        count.near("marginals in another order", own, whole[place], ROUNDING)
    ones = [_tables(problem, model.predict_marginals(problem.X([item])))[0] for item in items]
    for own, table in zip(ones, whole, strict=True):
        count.near("marginals one by one", own, table, ROUNDING)
    chosen = labels_of(model.predict(problem.X(items)))
    count.same(
        "labels one by one", [label for item in items for label in labels_of(model.predict(problem.X([item])))], chosen
    )
    logs = model.log_likelihood(problem.X(items), problem.y(labels), per_item=True)
    total = model.log_likelihood(problem.X(items), problem.y(labels))
    count.near("sum of log-likelihoods", total, np.sum(logs), ROUNDING * (1 + abs(total)))
    large = _enlarged(items[0], float(random.choice([1e9, 1e14])))
    with count.asking("company"):
        there = _tables(problem, model.predict_marginals(problem.X([*items, large])))[: len(items)]
        for own, table in zip(there, whole, strict=True):
            count.near("marginals in company of large values", own, table, ROUNDING)


def _enlarged(item: Any, size: float) -> Any:
    if isinstance(item, tuple):
        return _enlarged(item[0], size), item[1]
    if item.ndim == 1:
        return item * size
    changed = item.copy()
    changed[:, 1:] *= size
    return changed


def _tables(problem: Problem, answer: Any) -> list[np.ndarray]:
    return [np.asarray(own) for own in answer]


def shifted(count: Count, problem: Problem, model: Any, random: np.random.Generator) -> None:
    """Add a constant to the scores of all labellings of a constant term: probabilities stay."""
    terms = model.field_.terms
    parts = [
        term.fitted(term.coefficients + 0.7)
        if term.is_constant and term.label_factor is None and term.pairs.complete
        else term
        for term in terms
    ]
    if problem.plan.kind == "multi" or all(one is other for one, other in zip(parts, terms, strict=True)):
        return
    moved = copy.deepcopy(model)
    moved.field_ = type(model.field_)(parts, model.field_.spec)
    moved._set_views()
    only = ("marginals", "labels", "entropies", "log-likelihoods", "n best")
    if problem.plan.kind == "segments":
        return  # segmentations have different numbers of steps
    compare(count, problem, moved, model, problem.second.items, problem.second.labels, ROUNDING, only=only)


def refitted(count: Count, problem: Problem, model: Any, random: np.random.Generator) -> None:
    """Fit to the same data in other words: in another order, an item twice, one of weight 0, other names."""
    first, plan = problem.first, problem.plan
    ways: list[tuple[str, Problem, Batch, Any]] = []
    weights = np.ones(len(first.items)) if first.weights is None else first.weights
    if not plan.chooses:
        # An item of weight 0 is not there: among pivots, counts of support and scales.
        kept = np.flatnonzero(weights).tolist()
        more = _joined(first, problem.second, np.concatenate([weights, np.zeros(len(problem.second.items))]))
        apart = not (plan.listed or plan.transformed)
        if apart:
            ways.append(("weight 0", problem, first.part(kept) if first.weights is not None else first, more))
    if plan.settled and "support" not in plan.settings and not plan.more:
        base = replace(first, weights=weights)
        order = random.permutation(len(first.items)).tolist()
        ways.append(("order", problem, base, base.part(order)))
        if not plan.transformed:
            doubled = weights.copy()
            doubled[0] *= 2
            twice = base.part([*range(len(first.items)), 0])
            ways.append(("twice", problem, replace(base, weights=doubled), twice))
    for name, other, one, two in ways:
        with count.trying(f"fit {name}"):
            expected = other.fit(other.estimator(), one)
            found = other.fit(other.estimator(), two)
        with count.asking(name):
            near = FITTED if name != "weight 0" else FITTED / 10
            X = problem.X(problem.second.items)
            count.near(
                f"marginals, {name}", flat(found.predict_marginals(X)), flat(expected.predict_marginals(X)), near
            )
    if (
        plan.settled
        and plan.kind != "multi"
        and "support" not in plan.settings
        and not plan.more
        and plan.names == "letters"
    ):
        _renamed(count, problem, model)


def _joined(one: Batch, other: Batch, weights: np.ndarray) -> Batch:
    told = None if one.told is None or other.told is None else [*one.told, *other.told]
    return Batch([*one.items, *other.items], [*one.labels, *other.labels], told, weights)


def _renamed(count: Count, problem: Problem, model: Any) -> None:
    """Give labels names in the opposite order: columns of marginals are reversed."""
    names = list(reversed(problem.names))
    other = problem.changed(problem.plan, names)
    with count.trying("fit with other names"):
        found = other.fit(other.estimator(), problem.first)
    X = problem.X(problem.second.items)
    for one, two in zip(model.predict_marginals(X), found.predict_marginals(X), strict=True):
        count.near("marginals with other names", np.asarray(two)[..., ::-1], one, FITTED)


INVARIANCES: Sequence[Any] = (together, shifted, refitted)
