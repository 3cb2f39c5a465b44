"""Inputs and labels in other forms: a fit to them is compared with the fit to arrays and labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kernelfields import PartialLabels, SoftTargets, TextFeatures
from kernelfields.estimators import LabelShares
from tests.campaigns.cells.features import feature
from tests.campaigns.cells.questions import gaps
from tests.campaigns.cells.subjects import Points, Subject
from tests.campaigns.cells.verdicts import Inexpressible, check, close, same

_INPUTS, _LABELS = "inputs", "labels"
_FIT = 2e-3


def answers(s: Subject, model: Any, X: Any = None) -> np.ndarray:
    """Return the probabilities of all labels of the new items, or log densities, in one array."""
    if isinstance(s, Points):
        return model.score_samples(s.X_new if X is None else X)
    tables = s.marginals(model, X)
    if not s.labelled:
        # Which cluster is the first is chance.
        tables = [np.sort(table, axis=1) for table in tables]
    return np.concatenate([table.ravel() for table in tables])


def agree(s: Subject, model: Any, X: Any = None, other: Any = None, tolerance: float = _FIT) -> None:
    """Raise unless a model answers as the one that was fitted to arrays."""
    expected = answers(s, s.model if other is None else other)
    close(answers(s, model, X), expected, max(tolerance, s.coarseness), "answers after the fit")


def _names(s: Subject) -> dict[str, Any]:
    """Return the settings by which names of features have the weights that columns have.

    Fields of annotators leave out those of names that a label was not seen with.
    """
    return {"support": "all"} if s.name == "AnnotatedCRF" else {}


def _in_form(s: Subject, form: str, tolerance: float = _FIT) -> None:
    model = s.fit(form=form, **_names(s))
    agree(s, model, s.pack(s.new, form), tolerance=tolerance)


@feature(_INPUTS, "arrays, plain lists")
def arrays(s: Subject) -> None:
    """Fit to nested lists of numbers."""
    if s.name in ("FrameCRF", "compat.CRF"):
        raise Inexpressible("takes tables or feature dicts")
    if s.name.startswith("GraphCRF"):
        X, new = ([(item.x.tolist(), item.edges) for item in items] for items in (s.items, s.new))
    elif s.rows:
        X, new = (s.pack(items).tolist() for items in (s.items, s.new))
    else:
        X, new = ([item.x.tolist() for item in items] for items in (s.items, s.new))
    agree(s, s.fit_to(s.make(), X, [item.labels for item in s.items], {}), new)
    if not s.rows and not s.name.startswith("GraphCRF"):
        found = s.model.predict(np.concatenate([item.x for item in s.new]), lengths=[len(item.x) for item in s.new])
        own = s.model.predict(s.X_new)
        same(list(found), list(own) if isinstance(own, np.ndarray) else [label for labels in own for label in labels])


@feature(_INPUTS, "float32")
def float32(s: Subject) -> None:
    """Fit to single precision."""
    _in_form(s, "float32", 1e-2)


@feature(_INPUTS, "sparse")
def sparse(s: Subject) -> None:
    """Fit to sparse rows."""
    _in_form(s, "sparse")


@feature(_INPUTS, "feature dicts")
def dicts(s: Subject) -> None:
    """Fit to dicts of named numbers."""
    if s.name == "FrameCRF":
        model, new = s.fit(form="dicts"), s.pack(s.new, "dicts")
        close([table.sum(axis=1)[0] for table in s.marginals(model, new)], np.ones(len(s.new)), words="sums")
        return
    _in_form(s, "dicts")


@feature(_INPUTS, "feature strings")
def strings(s: Subject) -> None:
    """Fit to lists of names, and compare with zeros and ones."""
    binary = [replace(item, x=(item.x > 0).astype(float)) for item in s.items]
    new = [replace(item, x=(item.x > 0).astype(float)) for item in s.new]
    model = s.fit(binary, form="strings", **_names(s))
    if s.name == "compat.CRF":
        other = s.fit(binary, form="dicts")
        close(answers(s, model, s.pack(new, "strings")), answers(s, other, s.pack(new, "dicts")), _FIT, "answers")
        return
    close(answers(s, model, s.pack(new, "strings")), answers(s, s.fit(binary), s.pack(new)), _FIT, "answers")


@feature(_INPUTS, "words")
def words(s: Subject) -> None:
    """Fit to words, and compare with lists of their features."""
    X, new = s.pack(s.items, "words"), s.pack(s.new, "words")
    labels, made = [item.labels for item in s.items], TextFeatures()
    model = s.fit_to(s.make(), X, labels, {})
    other = s.fit_to(s.make(), made.fit_transform(X), labels, {})
    close(answers(s, model, new), answers(s, other, made.transform(new)), _FIT, "answers")


@feature(_INPUTS, "data frames")
def frames(s: Subject) -> None:
    """Fit to data frames with names of columns."""
    _in_form(s, "frames")


@feature(_INPUTS, "feature_names_in_")
def feature_names(s: Subject) -> None:
    """Look for the names of columns."""
    model = s.fit(form="dicts" if s.name == "compat.CRF" else "frames")
    names = model.attributes_ if s.name == "compat.CRF" else list(model.feature_names_in_)
    check(sorted(names) == [f"f{column}" for column in range(s.items[0].x.shape[1])], f"names {names}")


@feature(_INPUTS, "an empty item among others")
def empty_item(s: Subject) -> None:
    """Predict an item without positions between others."""
    if s.rows:
        raise Inexpressible("a row cannot be empty")
    if s.name == "FrameCRF":
        raise Inexpressible("a sequence without rows is not in the table")
    nothing = replace(s.new[0], x=s.new[0].x[:0], labels=[], edges=np.zeros((0, 2), dtype=np.int64))
    X = s.pack([s.new[0], nothing, s.new[1]])
    predicted = s.labels(s.model.predict(X))
    full = s.labels(s.model.predict(s.X_new))
    # A class of its own is predicted even of a sequence that shows nothing.
    middle = predicted[1] if s.name == "SequenceClassifier" else []
    check(predicted == [full[0], middle, full[1]], f"predicted {predicted}")


@feature(_INPUTS, "no items")
def no_items(s: Subject) -> None:
    """Predict nothing."""
    if isinstance(s, Points):
        raise Inexpressible("a density of no points")
    answer = s.model.predict(s.pack([]))
    check(len(answer) == 0, f"predicted {answer}")


@feature(_INPUTS, "one item")
def one_item(s: Subject) -> None:
    """Ask for the answers of one item alone."""
    X = s.pack(s.new[:1])
    if isinstance(s, Points):
        close(s.model.score_samples(X), s.model.score_samples(s.X_new)[:1])
        return
    answer = np.asarray(getattr(s.model, s.probabilities)(X))
    if s.name == "compat.CRF":
        answer = s.tables(answer)[0]
    close(answer.reshape(-1, len(s.classes)), s.marginals(s.model)[0], words="marginals of one item")


# ---- labels


@feature(_LABELS, "labels of text or numbers")
def other_labels(s: Subject) -> None:
    """Fit to labels of the other kind: numbers for text."""
    if not s.labelled:
        raise Inexpressible("there are no labels")
    if s.name == "MultiLabelCRF":
        from pandas import DataFrame

        table = DataFrame(s.y, columns=["red", "green", "blue"])
        agree(s, s.make().fit(s.X, table))
        return
    numbers = [[10 * s.classes.index(label) for label in item.labels] for item in s.items]
    if s.name == "AnnotatedCRF":
        said = s.pack_labels([item.labels for item in s.items])
        coded = [{name: [10 * s.classes.index(x) for x in own] for name, own in each.items()} for each in said]
        agree(s, s.make().fit(s.X, coded))
        return
    agree(s, s.fit(labels=numbers))


def _with_gaps(s: Subject, replace_label: Any) -> list[list]:
    """Return the labels of the fit, every fifth of them replaced."""
    count = 0
    labels = []
    for item in s.items:
        own = []
        for label in item.labels:
            count += 1
            own.append(replace_label(label) if count % 5 == 0 else label)
        labels.append(own)
    return labels


def _evidence(s: Subject, model: Any, labels: list[list]) -> float:
    """Return the log-probability of what is known of labels, by enumeration."""
    total = 0.0
    for item, own in zip(s.items, labels, strict=True):
        allowed = [_weights_of(s, label) for label in own]
        total += s.law(model, item).log_evidence(np.array(allowed))
    return total


def _weights_of(s: Subject, label: Any) -> list[float]:
    if label is None:
        return [1.0] * len(s.classes)
    if isinstance(label, dict):
        largest = max(label.values())
        return [label.get(other, 0.0) / largest for other in s.classes]
    return [float(other in label if isinstance(label, set) else other == label) for other in s.classes]


def _partial(s: Subject, replace_label: Any) -> Any:
    if not s.labelled:
        raise Inexpressible("there are no labels")
    labels = _with_gaps(s, replace_label)
    settings = {} if s.name in ("compat.CRF", "SequenceClassifier") else {"partial_labels": PartialLabels()}
    if "partial_labels" not in s.kind._get_param_names():
        settings = {}
    model = s.fit(labels=labels, **settings)
    if s.name == "AnnotatedCRF":
        return model
    if s.name == "SequenceClassifier":
        value = s.squares(model) / 2 - _evidence(s, model, labels)
        close(model.solution_.value, value, 1e-5, "objective of partly known classes")
        return model
    if s.exact:
        value = s.squares(model) / 2 - _evidence(s, model, labels)
        close(s.field(model).solution_.value, value, 1e-5, "objective of partly known labels")
    check(s.field(model).stationarity_ < 1e-3, f"stationarity {s.field(model).stationarity_}")
    return model


@feature(_LABELS, "None for unknown labels")
def unknown_labels(s: Subject) -> None:
    """Fit with gaps, and compare the objective with enumeration."""
    _partial(s, lambda label: None)


@feature(_LABELS, "sets of labels")
def sets(s: Subject) -> None:
    """Fit with sets of two labels, and compare the objective with enumeration."""
    _partial(s, lambda label: {label, next(other for other in s.classes if other != label)})


@feature(_LABELS, "weights of labels")
def weighted_labels(s: Subject) -> None:
    """Fit with weights of labels, and compare the objective with enumeration."""
    _partial(s, lambda label: {label: 1.0, next(other for other in s.classes if other != label): 0.25})


@feature(_LABELS, "log_likelihood of gaps")
def partial_likelihood(s: Subject) -> None:
    """Compare the log-probability of what is known."""
    if isinstance(s, Points):
        raise Inexpressible("there are no labels")
    known, allowed = gaps(s)
    expected = [s.law(s.model, item).log_evidence(own) for item, own in zip(s.new, allowed, strict=True)]
    close(s.model.log_likelihood(s.X_new, s.known(known), per_item=True), expected, words="log-likelihoods")


@feature(_LABELS, "SoftTargets")
def soft_targets(s: Subject) -> None:
    """Fit to targets that are one at the labels, and compare with the fit to the labels."""
    if not s.labelled:
        raise Inexpressible("there are no labels")
    tables = [np.array([[float(label == other) for other in s.classes] for label in item.labels]) for item in s.items]
    nodes: Any = np.concatenate(tables) if s.rows or s.name == "SequenceClassifier" else tables
    agree(s, s.make().fit(s.X, SoftTargets(nodes, classes=s.classes)))


@feature(_LABELS, "expected shares")
def expectations(s: Subject) -> None:
    """Fit to an expected share of a label, and compare the share of the field with it."""
    shares = LabelShares({s.classes[0]: 0.6}, weight=1e4)
    if s.name == "MultiLabelCRF":
        shares = LabelShares({0: 0.6}, weight=1e4)
    model = s.fit(partial_labels=PartialLabels(expectations=[shares]), tol=1e-6)
    tables = np.concatenate(s.marginals(model, s.X))
    if s.name == "MultiLabelCRF":
        tables = tables.reshape(len(s.items), -1, 2)[:, 0, ::-1]
    close(tables[:, 0].mean(), 0.6, 0.02, "share of the label")


@feature(_LABELS, "sample_weight")
def sample_weight(s: Subject) -> None:
    """Compare a weight of two with an item that is there twice."""
    twice = [*s.items, *s.items[:4]]
    weights = [2.0 if number < 4 else 1.0 for number in range(len(s.items))]
    model = s.fit(fitting={"sample_weight": s.weights_of(s.items, weights)})
    agree(s, model, other=s.fit(twice))


@feature(_LABELS, "class_weight")
def class_weight(s: Subject) -> None:
    """Compare a weight of two for every label with a sample weight of two."""
    if not s.labelled:
        raise Inexpressible("there are no labels")
    model = s.fit(class_weight=dict.fromkeys(s.classes, 2.0))
    agree(s, model, other=s.fit(fitting={"sample_weight": s.weights_of(s.items, [2.0] * len(s.items))}))
