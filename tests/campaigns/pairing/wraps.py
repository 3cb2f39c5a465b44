"""Wrappers around a fitted field: what they pass on is the field's answer, what they change follows from its answers.

CalibratedField    q(y) proportional to exp(s log p(y) + b) over the labels that are possible, all questions alike
ConformalField     the labels whose probability reaches the threshold, and the likeliest; alone as in a batch
FrameCRF           the answers of the field for the sequences of a table
FieldSearchCV      the field that has the chosen parameters, fitted to all
a pipeline         the field of what its steps make
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelfields import (
    ChainCRFCV,
    ConformalField,
    FieldSearchCV,
    FrameCRF,
    evaluate,
    find_label_errors,
    rank_for_labelling,
)
from kernelfields.features import Sequencewise
from kernelfields.models.wrapped_field import get_field
from kernelfields.uncertainty.calibrated_field import calibrate
from tests.campaigns.pairing.asking import FITTED, ROUNDING, compare, flat, labels_of, spans_of
from tests.campaigns.pairing.continuing import through_file
from tests.campaigns.pairing.counting import Count
from tests.campaigns.pairing.problems import Problem


def _begun(problem: Problem, model: Any, random: np.random.Generator) -> Any:
    """Return the model, or one that was fitted as a first batch, where there can be further ones."""
    told = problem.all_told()
    if random.random() < 0.5:
        return model
    try:
        return told.go_on(told.estimator(), told.first)
    except (AttributeError, ValueError):
        return model


def calibrated(count: Count, problem: Problem, model: Any, random: np.random.Generator) -> None:
    """Calibrate by held-out items, and compare all answers with those of the field, mapped by hand."""
    model = _begun(problem, model, random)
    held, asked = problem.held, problem.second
    method = str(random.choice(["temperature", "isotonic"]))
    with count.trying("calibrate"):
        wrapped = calibrate(model, problem.X(held.items), problem.y(held.labels), method=method)
    _check_calibrated(count, problem, wrapped, model, method, random)
    count.stage += ", file"
    loaded = through_file(count, wrapped)
    if loaded is not None:
        X = problem.X(asked.items)
        count.same("marginals", flat(loaded.predict_marginals(X)), flat(wrapped.predict_marginals(X)))


def _check_calibrated(
    count: Count, problem: Problem, wrapped: Any, model: Any, method: str, random: np.random.Generator
) -> None:
    asked, kind = problem.second, problem.plan.kind
    X, ways = problem.X(asked.items), wrapped.maps_["positions"]
    settings: list[dict[str, Any]] = [{}]
    if kind not in ("single", "multi"):
        settings.append(
            {"known": [[None if random.random() < 0.6 else label for label in own] for own in problem.y(asked.labels)]}
        )
    for given in settings:
        name = "given known labels" if given else "alone"
        try:
            model.predict(X, **given)
        except ValueError:  # what is known has no labelling under the rules of the plan
            continue
        with count.asking(f"marginals {name}"):
            plain = [np.atleast_2d(own) for own in model.predict_marginals(X, **given)]
            found = [np.atleast_2d(own) for own in wrapped.predict_marginals(X, **given)]
            for before, after in zip(plain, found, strict=True):
                count.near(f"sum {name}", after.sum(axis=-1), np.ones(after.shape[:-1]), ROUNDING)
                count.same(f"possible {name}", after[before == 0], before[before == 0])
                if method == "temperature" and kind != "multi":
                    with np.errstate(divide="ignore"):
                        logs = np.where(
                            before > 0, ways.slopes * np.log(np.maximum(before, 1e-300)) + ways.biases, -np.inf
                        )
                    count.near(f"map {name}", after, softmax(logs, axis=-1), ROUNDING)
        with count.asking(f"labels {name}"):
            count.same(f"labels {name}", labels_of(wrapped.predict(X, **given)), labels_of(model.predict(X, **given)))
    if kind in ("single", "multi"):
        with count.asking("proba"):
            table = np.asarray(wrapped.predict_marginals(X))
            expected = table[..., 1] if kind == "multi" else table
            count.near("proba", wrapped.predict_proba(X), expected, ROUNDING)
    if kind == "single":
        with count.asking("log proba"):
            count.near("log proba", np.exp(wrapped.predict_log_proba(X)), wrapped.predict_proba(X), ROUNDING)
    if kind in ("chain", "ring", "segments"):
        with count.asking("entities"), count.trying("entities"):
            before, after = model.predict_entities(X), wrapped.predict_entities(X)
            count.same("entities", [str(own) for own in spans_of(after)], [str(own) for own in spans_of(before)])
    with count.asking("passed on"):
        with count.trying("log_likelihood"):
            found = wrapped.log_likelihood(X, problem.y(asked.labels), per_item=True)
        count.same(
            "log-likelihoods", flat([found]), flat([model.log_likelihood(X, problem.y(asked.labels), per_item=True)])
        )
    _check_unchanged(count, problem, wrapped)


def _check_unchanged(count: Count, problem: Problem, wrapped: Any) -> None:
    """A batch for a wrapper is refused, or makes the wrapper another one that knows of it."""
    own = copy.deepcopy(wrapped)
    with count.asking("batch of a wrapper"), count.trying("batch of a wrapper"):
        out = own.partial_fit(problem.X(problem.second.items), problem.y(problem.second.labels))
        count.check("batch of a wrapper", out is own, f"returned a {type(out).__name__}")


def conformal(count: Count, problem: Problem, model: Any, random: np.random.Generator) -> None:
    """Compare sets with the thresholds, one by one, and through a file."""
    model = _begun(problem, model, random)
    held, asked = problem.held, problem.second
    level, empty = float(random.choice([0.5, 0.7])), bool(random.random() < 0.5)
    with count.trying("conformalize"):
        wrapped = ConformalField(model, confidence_level=level, allow_empty=empty)
        wrapped.conformalize(problem.X(held.items), problem.y(held.labels))
    # Items of the calibration lie on the threshold.
    items = [*asked.items, *held.items]
    with count.asking("sets"):
        sets = wrapped.predict_set(problem.X(items))
        tables = [np.atleast_2d(own) for own in model.predict_marginals(problem.X(items))]
        names, limit = np.asarray(model.classes_).tolist(), next(iter(wrapped.thresholds_.values()))
        single = problem.plan.kind == "single"
        if problem.plan.kind != "multi":
            for own, table in zip(sets, tables, strict=True):
                for found, row in zip([own] if single else own, table, strict=True):
                    sure = {names[n] for n in np.flatnonzero(row > limit + ROUNDING)}
                    at_most = {names[n] for n in np.flatnonzero(row >= limit - ROUNDING)}
                    if not empty:
                        at_most |= {names[n] for n in np.flatnonzero(row >= row.max() - ROUNDING)}
                    right = sure <= set(found) <= at_most and (empty or len(found) > 0)
                    count.check("set", right, f"{found} of {row} at {limit}", len(row))
        ones = [wrapped.predict_set(problem.X([item]))[0] for item in items]
        count.check("sets one by one", repr(ones) == repr(list(sets)), _difference(ones, sets), len(ones))
        count.same("labels", labels_of(wrapped.predict(problem.X(items))), labels_of(model.predict(problem.X(items))))
    _check_unchanged(count, problem, wrapped)
    count.stage += ", file"
    loaded = through_file(count, wrapped)
    if loaded is not None:
        count.check("sets", repr(loaded.predict_set(problem.X(items))) == repr(sets), "differ", len(items))


def _difference(ones: list, sets: list) -> str:
    return next(
        (f"{one!r:.200}, together {own!r:.200}" for one, own in zip(ones, sets, strict=True) if repr(one) != repr(own)),
        "",
    )


def table_of(
    problem: Problem, items: list, labels: list[np.ndarray] | None = None, order: tuple[str, ...] = ()
) -> pd.DataFrame:
    """Return sequences as one table with a row for each position."""
    table = pd.DataFrame(np.vstack(items), columns=["w", "f0", "f1"])
    table["sequence"] = np.repeat(np.arange(len(items)), [len(item) for item in items])
    if labels is not None:
        table["label"] = pd.Series([problem.names[label] for own in labels for label in own.tolist()], dtype=object)
    return table[[*order, *(name for name in table.columns if name not in order)]]


def framed(count: Count, problem: Problem, model: Any, random: np.random.Generator) -> None:
    """Compare a FrameCRF with the field of the lists, then calibrate it, and go on with it."""
    if problem.plan.kind not in ("chain", "ring", "segments") or problem.plan.form not in ("array", "frames"):
        return
    plain = problem.changed(problem.plan).all_told()
    first, asked, held = plain.first, plain.second, plain.held
    table, new, late = (table_of(problem, own.items, own.labels) for own in (first, asked, held))
    weights = {} if first.weights is None else {"sample_weight": first.weights}
    with count.trying("frame"):
        frame = FrameCRF(plain.estimator()).fit(table, **weights)
    with count.asking("frame"):
        field = plain.fit(plain.estimator(), first)
        X = plain.X(asked.items)
        near = ROUNDING
        count.near("marginals", flat([frame.predict_marginals(new)]), flat(field.predict_marginals(X)), near)
        count.same("labels", labels_of(np.asarray(frame.predict(new), dtype=object)), labels_of(field.predict(X)))
        # Predicted labels are ones that the rules of the field allow together, which labels as drawn need not be.
        told = [label if random.random() < 0.4 else None for label in frame.predict(new)]
        # Large labels beside missing ones must not become floats on the way.
        known = new.assign(told=pd.Series(told, index=new.index, dtype=object))
        entries = [own.told.tolist() for _, own in known.groupby("sequence")]
        given = field.predict_marginals(X, known=entries)
        count.near(
            "marginals given known labels", flat([frame.predict_marginals(known, known="told")]), flat(given), near
        )
    with count.trying("calibrate a frame"):
        ways = calibrate(frame, late, late.label) if random.random() < 0.5 else calibrate(frame, late, None)
    with count.asking("calibrated frame"):
        other = calibrate(field, plain.X(held.items), plain.y(held.labels))
        count.near("calibrated", flat([ways.predict_marginals(new)]), flat(other.predict_marginals(X)), 1e-5)
        given = other.predict_marginals(X, known=entries)
        count.near(
            "calibrated given known labels", flat([ways.predict_marginals(known, known="told")]), flat(given), 1e-5
        )
    with count.asking("calibrated frame, edges"):
        edges = flat(ways.predict_marginals(new, cliques="edge")[1])
        count.near("marginals of edges", edges, flat(other.predict_marginals(X, cliques="edge")[1]), 1e-5)
    with count.trying("warm frame"):
        warm = copy.deepcopy(frame)
        warm.estimator.set_params(warm_start=True)
        one = copy.deepcopy(warm).fit(new)
    with count.asking("warm frame"):
        moved = table_of(problem, asked.items, asked.labels, order=("f1", "label", "f0"))
        two = warm.fit(moved)
        count.near(
            "columns in another order", flat([two.predict_marginals(moved)]), flat([one.predict_marginals(new)]), near
        )
    _searched_frame(count, plain, table, late, random)


def _searched_frame(count: Count, problem: Problem, table: Any, late: Any, random: np.random.Generator) -> None:
    """Ask a FrameCRF around a search what its best field answers."""
    if random.random() < 0.6 or problem.plan.partial:
        return
    search = FieldSearchCV(problem.estimator(), prior_variances=(0.1, 1.0), cv=2, halving=False, random_state=0)
    with count.trying("frame of a search"):
        frame = FrameCRF(search).fit(table)
    questions = {
        "predict": lambda: frame.predict(late),
        "calibrate": lambda: calibrate(frame, late, late.label).predict_marginals(late),
        "conformalize": lambda: (
            ConformalField(frame, confidence_level=0.6).conformalize(late, late.label).predict_set(late)
        ),
        "rank": lambda: rank_for_labelling(frame, late),
        "label errors": lambda: find_label_errors(frame, late, None, cv=None),
        "evaluate": lambda: evaluate(frame, late),
    }
    for name, ask in questions.items():
        with count.asking(f"{name} of a frame of a search"):
            ask()
            count.check(f"{name} of a frame of a search", True)


def searched(count: Count, problem: Problem, model: Any, random: np.random.Generator) -> None:
    """Compare the best field of a search with one that has its parameters, and calibrate both."""
    if problem.plan.partial or problem.plan.kind in ("multi",):
        return
    first, asked, held = problem.first, problem.second, problem.held
    kind = ChainCRFCV if problem.plan.kind == "chain" else FieldSearchCV
    estimator = problem.estimator()
    search = kind(estimator, prior_variances=(0.1, 1.0), cv=2, halving=False, random_state=0)
    with count.trying("search"):
        search.fit(
            problem.X(first.items),
            problem.given(first),
            **({} if first.weights is None else {"sample_weight": first.weights}),
        )
    with count.asking("search"):
        best, chosen = search.best_estimator_, clone(search.best_estimator_)
        by_hand = problem.fit(chosen, first)
        X = problem.X(asked.items)
        count.near("marginals by hand", flat(best.predict_marginals(X)), flat(by_hand.predict_marginals(X)), FITTED)
        if problem.plan.settings.get("window") == "auto" and problem.plan.settings["kernel"] != "auto":
            own = clone(estimator).set_params(prior_variance=best.prior_variance)
            fitted = problem.fit(own, first)
            count.check(
                "windows", best._reader.steps.settings == fitted._reader.steps.settings, "of the search are other ones"
            )
        count.same("labels", labels_of(search.predict(X)), labels_of(best.predict(X)))
        compare(count, problem, search, best, asked.items, asked.labels)
    with count.trying("calibrate a search"):
        pair = [calibrate(each, problem.X(held.items), problem.y(held.labels)) for each in (search, best)]
    with count.asking("calibrated search"):
        one, two = (each.predict_marginals(X) for each in pair)
        count.same("calibrated", flat(one), flat(two))
        errors = [evaluate(each, X, problem.y(asked.labels)).calibration.expected_error.value for each in pair]
        count.same("calibration error", errors[0], errors[1])


def piped(count: Count, problem: Problem, model: Any, random: np.random.Generator) -> None:
    """Compare a pipeline with the field of what its first step makes, by hand."""
    if problem.plan.kind not in ("chain", "ring", "segments") or problem.plan.form != "array" or problem.plan.listed:
        return
    first, asked = problem.first, problem.second
    step = Sequencewise(StandardScaler())
    pipe = make_pipeline(clone(step), problem.estimator())
    weights = {} if first.weights is None else {f"{pipe.steps[-1][0]}__sample_weight": first.weights}
    with count.trying("pipeline"):
        pipe.fit(problem.X(first.items), problem.given(first), **weights)
    with count.asking("pipeline"):
        made = clone(step).fit(problem.X(first.items))
        field = problem.estimator().fit(
            made.transform(problem.X(first.items)), problem.given(first), sample_weight=first.weights
        )
        X, new = problem.X(asked.items), made.transform(problem.X(asked.items))
        answers = get_field(pipe)
        count.same("labels", labels_of(pipe.predict(X)), labels_of(field.predict(new)))
        count.same("marginals", flat(answers.predict_marginals(X)), flat(field.predict_marginals(new)))
        count.same(
            "n best",
            [log for own in answers.predict_nbest(X, 2) for _, log in own],
            [log for own in field.predict_nbest(new, 2) for _, log in own],
        )
        count.stage += ", file"
        loaded = through_file(count, answers)
        if loaded is not None:
            count.same("marginals", flat(loaded.predict_marginals(X)), flat(field.predict_marginals(new)))


def entities(count: Count, problem: Problem, model: Any, random: np.random.Generator) -> None:
    """Compare the positions that entities cover with the labels of ``predict``."""
    if problem.plan.kind not in ("chain", "ring", "segments") or problem.plan.names != "outside":
        return
    X = problem.X(problem.second.items)
    with count.asking("entities"):
        for labels, spans in zip(model.predict(X), model.predict_entities(X), strict=True):
            covered = ["O"] * len(labels)
            for own in spans:
                covered[own.begin : own.end] = [own.label] * (own.end - own.begin)
            count.same("entities of labels", covered, np.asarray(labels, dtype=object).tolist())
