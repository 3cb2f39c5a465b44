"""Labels that may be wrong, found out of fold for every estimator of labels."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from kernelfields import (
    ChainCRF,
    ExponentialFamilyDensity,
    FieldSearchCV,
    FrameCRF,
    KernelClassifier,
    RingCRF,
    SegmentCRF,
    SoftTargets,
    find_label_errors,
)
from kernelfields.compat import CRF

SETTINGS = {"kernel": "linear", "prior_variance": 1.0, "tol": 1e-3, "n_jobs": 1, "random_state": 0}
CENTRES = np.array([[2.0, 0.0], [0.0, 2.0], [-2.0, -2.0]])


def sequences(n_items=24, length=7, seed=0):
    """Labels that stay for a while, and inputs near the centre of each."""
    rng = np.random.default_rng(seed)
    y = [np.repeat(rng.integers(3, size=length), rng.integers(1, 4, size=length))[:length] for _ in range(n_items)]
    X = [CENTRES[labels] + 0.4 * rng.normal(size=(len(labels), 2)) for labels in y]
    return X, [np.array(list("abc"))[labels].tolist() for labels in y]


def with_error(y, item=5, position=3):
    given = [list(labels) for labels in y]
    given[item][position] = {"a": "b", "b": "c", "c": "a"}[y[item][position]]
    return given


@pytest.mark.parametrize("kind", [ChainCRF, RingCRF, SegmentCRF])
def test_a_wrong_label_in_a_sequence_comes_first(kind):
    X, y = sequences()
    settings = SETTINGS | ({"max_duration": 8} if kind is SegmentCRF else {})
    errors = find_label_errors(kind(**settings), X, with_error(y), cv=3)
    first = errors.rows[0]
    assert (first.sequence, first.position, first.end) == (5, 3, 4)
    assert first.proposed == (y[5][3],)
    assert first.kind in ("position", "boundary", "segment")
    assert errors.item_scores.argmax() == 5
    assert errors.position_scores[5].argmax() == 3
    assert [len(own) for own in errors.position_scores] == [len(labels) for labels in y]
    assert errors.n_known == sum(map(len, y))
    assert errors.rows == tuple(sorted(errors.rows, key=lambda row: -row.score))


@pytest.mark.slow
def test_pipelines_searches_tables_and_other_faces():
    X, y = sequences(12)
    given = with_error(y)
    plain = find_label_errors(ChainCRF(**SETTINGS), X, given, cv=2)
    piped = find_label_errors(make_pipeline(FunctionTransformer(), ChainCRF(**SETTINGS)), X, given, cv=2)
    np.testing.assert_allclose(piped.item_scores, plain.item_scores)
    search = FieldSearchCV(ChainCRF(**SETTINGS), prior_variances=[1.0], cv=2, random_state=0)
    assert find_label_errors(search, X, given, cv=2).rows[0].sequence == 5
    rows = [
        {"sequence": number, "f0": row[0], "f1": row[1], "label": label}
        for number, (x, labels) in enumerate(zip(X, given, strict=True))
        for row, label in zip(x.tolist(), labels, strict=True)
    ]
    framed = find_label_errors(FrameCRF(ChainCRF(**SETTINGS)), pd.DataFrame(rows), None, cv=2)
    np.testing.assert_allclose(framed.item_scores, plain.item_scores)
    features = [[{"x": float(a), "z": float(b)} for a, b in x] for x in X]
    assert find_label_errors(CRF(c2=1.0), features, given, cv=2).rows[0].sequence == 5


def entities(n_items=30, seed=0):
    rng = np.random.default_rng(seed)
    y = []
    for _ in range(n_items):
        labels = []
        while len(labels) < 9:
            kind, length = ["PER", "LOC"][rng.integers(2)], int(rng.integers(1, 4))
            labels += ["O"] * int(rng.integers(1, 3)) + [f"B-{kind}"] + [f"I-{kind}"] * (length - 1)
        y.append(labels)
    names = ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]
    centres = 2.5 * rng.normal(size=(5, 6))
    X = [centres[[names.index(label) for label in labels]] + 0.3 * rng.normal(size=(len(labels), 6)) for labels in y]
    return X, y


def test_kinds_of_findings_in_entities():
    X, y = entities()
    given = [list(labels) for labels in y]
    spans = [
        next((t, labels[t][2:]) for t in range(len(labels) - 1) if labels[t][0] == "B" and labels[t + 1][0] == "I")
        for labels in (y[0], y[1])
    ]
    (first, kind), (other, _) = spans
    end = next((t for t in range(first + 1, len(y[0])) if y[0][t][0] != "I"), len(y[0]))
    swapped = "LOC" if kind == "PER" else "PER"
    given[0][first:end] = [f"B-{swapped}"] + [f"I-{swapped}"] * (end - first - 1)
    stop = next((t for t in range(other + 1, len(y[1])) if y[1][t][0] != "I"), len(y[1]))
    given[1][other:stop] = ["O"] * (stop - other)
    tokens = [[f"w{number}.{t}" for t in range(len(labels))] for number, labels in enumerate(y)]
    errors = find_label_errors(ChainCRF(**SETTINGS), X, given, cv=3, tokens=tokens, top=2)
    assert len(errors) == 2 <= errors.n_findings
    by_item = {row.sequence: row for row in errors.rows}
    assert by_item[0].kind == by_item[1].kind == "entity"
    assert (by_item[0].position, by_item[0].end) == (first, end)
    assert by_item[0].proposed == tuple(y[0][first:end])
    assert by_item[1].proposed == tuple(y[1][other:stop])
    assert by_item[0].token.split()[0] == f"w0.{first}"
    shown = str(errors)
    assert f"{first}-{end - 1}" in shown
    assert "entity" in shown
    row = errors.to_rows()[0]
    assert list(row) == ["sequence", "position", "end", "kind", "token", "given", "proposed", "score"]
    assert errors.to_dict()["n_known"] == sum(map(len, y))


def test_a_sequence_of_wrong_labels_is_one_finding():
    X, y = sequences()
    given = [list(labels) for labels in y]
    given[4] = [{"a": "b", "b": "c", "c": "a"}[label] for label in y[4]]
    errors = find_label_errors(ChainCRF(**SETTINGS), X, given, cv=3)
    row = next(row for row in errors.rows if row.sequence == 4)
    assert row.kind == "sequence"
    assert (row.position, row.end) == (0, len(y[4]))
    assert row.proposed == tuple(y[4])


def nights(seed, n_items=10, length=200):
    """Labels that stay for long, one in 25 of them alone, and inputs that show them badly."""
    rng = np.random.default_rng(seed)
    centres = 1.2 * rng.normal(size=(5, 3))
    X, y = [], []
    for _ in range(n_items):
        labels = np.repeat(rng.integers(5, size=length), rng.geometric(1 / 20, size=length))[:length]
        alone = rng.random(length) < 0.04
        labels[alone] = rng.integers(5, size=alone.sum())
        X.append(centres[labels] + rng.normal(size=(length, 3)) + 0.5 * rng.normal(size=3))
        y.append(labels)
    return X, y


@pytest.mark.parametrize("seed", [0, 3])
def test_stretches_of_wrong_labels_are_found_among_labels_that_are_alone(seed):
    X, y = nights(seed)
    given, wrong = [labels.copy() for labels in y], [np.zeros(len(labels), dtype=bool) for labels in y]
    for item, (labels, own) in enumerate(zip(given, wrong, strict=True)):
        first = 30 + 10 * item
        around = set(labels[first - 1 : first + 11].tolist())
        labels[first : first + 10] = min(set(range(5)) - around)
        own[first : first + 10] = True
    errors = find_label_errors(ChainCRF(**SETTINGS), X, given, cv=2)
    found = {row.sequence for row in errors.rows[:40] if wrong[row.sequence][row.position : row.end].mean() > 0.5}
    assert len(found) >= 3
    truth, scores = np.concatenate(wrong), np.concatenate(errors.position_scores)
    first = np.argsort(-scores, kind="stable")[: truth.sum()]
    assert truth[first].mean() > 0.35  # 0.05 by chance


@pytest.mark.parametrize("seed", [0, 3])
def test_single_wrong_labels_come_before_those_that_are_right(seed):
    X, y = nights(seed)
    rng = np.random.default_rng(1)
    wrong = [rng.random(len(labels)) < 0.03 for labels in y]
    given = [
        np.where(own, (labels + rng.integers(1, 5, size=len(labels))) % 5, labels)
        for labels, own in zip(y, wrong, strict=True)
    ]
    errors = find_label_errors(ChainCRF(**SETTINGS), X, given, cv=2)
    assert roc_auc_score(np.concatenate(wrong), np.concatenate(errors.position_scores)) > 0.98


def test_positions_that_are_not_known_are_skipped():
    X, y = sequences()
    given = with_error(y)
    given[5][4] = None
    given[6][0] = {"a", "b"}
    errors = find_label_errors(ChainCRF(**SETTINGS), X, given, cv=3)
    assert np.isnan(errors.position_scores[5][4])
    assert np.isnan(errors.position_scores[6][0])
    assert errors.n_unknown == 2
    assert (errors.rows[0].sequence, errors.rows[0].position) == (5, 3)
    assert "2 not given" in errors.heading


def test_folds_keep_groups_together_and_may_be_given():
    X, y = sequences(12)
    groups = np.repeat(np.arange(4), 3)
    grouped = find_label_errors(ChainCRF(**SETTINGS), X, with_error(y), cv=4, groups=groups)
    splits = [(np.flatnonzero(groups != own), np.flatnonzero(groups == own)) for own in range(4)]
    given = find_label_errors(ChainCRF(**SETTINGS), X, with_error(y), cv=splits)
    np.testing.assert_allclose(grouped.item_scores, given.item_scores)


def test_one_split_holds_out_some_items_and_learns_from_those_it_names():
    X, y = sequences(30)
    given = with_error(y, item=25)
    train, test = np.arange(20), np.arange(22, 30)
    errors = find_label_errors(ChainCRF(**SETTINGS), X, given, cv=[(train, test)])
    assert (errors.rows[0].sequence, errors.rows[0].position) == (25, 3)
    assert all(len(own) == 0 for own in errors.position_scores[:22])
    assert errors.n_known == sum(len(labels) for labels in y[22:])
    fitted = ChainCRF(**SETTINGS).fit(X[:20], given[:20])
    judged = find_label_errors(fitted, X[22:], given[22:], cv=None)
    np.testing.assert_allclose(judged.item_scores, errors.item_scores[22:])
    with pytest.raises(ValueError, match="cv must hold out each item once at most"):
        find_label_errors(ChainCRF(**SETTINGS), X, given, cv=[(train, test), (train, test)])


def test_a_fitted_estimator_judges_other_items():
    (X, y), (new, labels) = sequences(), sequences(seed=1)
    crf = ChainCRF(**SETTINGS).fit(X, y)
    for model in (crf, make_pipeline(FunctionTransformer(), ChainCRF(**SETTINGS)).fit(X, y)):
        errors = find_label_errors(model, new, with_error(labels), cv=None, top=3)
        assert (errors.rows[0].sequence, errors.rows[0].position) == (5, 3)
        assert errors.rows[0].proposed == (labels[5][3],)
    with pytest.raises(ValueError, match="100% of these items were in the fit of the estimator: it has learnt"):
        find_label_errors(crf, X, y, cv=None)
    with pytest.raises(NotFittedError, match="cv=None judges labels by a fitted estimator"):
        find_label_errors(ChainCRF(**SETTINGS), new, labels, cv=None)
    rows = [
        {"sequence": number, "f0": row[0], "f1": row[1], "label": label}
        for inputs, truth in ((X, y), (new, with_error(labels)))
        for number, (x, own) in enumerate(zip(inputs, truth, strict=True))
        for row, label in zip(x.tolist(), own, strict=True)
    ]
    table = pd.DataFrame(rows[: sum(map(len, y))])
    framed = FrameCRF(ChainCRF(**SETTINGS)).fit(table)
    found = find_label_errors(framed, pd.DataFrame(rows[len(table) :]), None, cv=None)
    assert (found.rows[0].sequence, found.rows[0].position) == (5, 3)


def test_labels_that_a_fitted_estimator_never_saw_come_first():
    (X, y), (new, labels) = sequences(), sequences(seed=1)
    crf, given = ChainCRF(**SETTINGS).fit(X, y), with_error(labels)
    given[2][4] = "z"
    errors = find_label_errors(crf, new, given, cv=None)
    first, second = errors.rows[:2]
    assert (first.sequence, first.position, first.given, first.proposed) == (2, 4, ("z",), (labels[2][4],))
    assert (second.sequence, second.position) == (5, 3)
    assert errors.n_known == sum(map(len, labels))
    assert "inf" in str(errors).splitlines()[2]
    single = KernelClassifier(**SETTINGS).fit(np.concatenate(X), np.concatenate(y))
    rows, names = np.concatenate(new), np.concatenate(labels)
    names[7] = "z"
    assert find_label_errors(single, rows, names, cv=None).rows[0].given == ("z",)
    with pytest.raises(ValueError, match="the estimator never saw a label of y: it saw 'a', 'b', 'c'"):
        find_label_errors(crf, new, [["z"] * len(own) for own in labels], cv=None)


def test_a_label_of_one_item_alone_is_judged_as_never_learnt():
    X, y = sequences()
    y[2][0] = "d"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        errors = find_label_errors(ChainCRF(**SETTINGS), X, y, cv=3)
    assert errors.rows[0].sequence == 2
    assert errors.rows[0].given[0] == "d"
    with pytest.raises(ValueError, match="holds out every item with the label 'd'"):
        find_label_errors(CRF(), [[{"x": 1.0}] * len(labels) for labels in y], y, cv=3)


def test_constraints_hold_for_proposals():
    X, y = entities()
    given = [list(labels) for labels in y]
    first = next(t for t, label in enumerate(y[3]) if label[0] == "B")
    given[3][first] = "B-LOC" if y[3][first] == "B-PER" else "B-PER"
    if first + 1 < len(y[3]) and given[3][first + 1][0] == "I":
        given[3][first + 1] = "I" + given[3][first][1:]
    for t in range(1, len(given[3])):
        if given[3][t][0] == "I" and given[3][t - 1][2:] != given[3][t][2:]:
            given[3][t] = "I-" + given[3][t - 1][2:]
    errors = find_label_errors(ChainCRF(**SETTINGS, constraints="bio"), X, given, cv=3)
    row = errors.rows[0]
    assert row.sequence == 3
    assert row.proposed == tuple(y[3][row.position : row.end])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": None}, "y must hold labels, got None"),
        ({"cv": 30}, "cv=30 folds need at least as many items, X has 12"),
        ({"cv": 1}, "cv must be at least 2, got 1"),
        ({"top": 0}, "top must be"),
        ({"groups": [1, 2]}, "groups has 2 entries for 12"),
    ],
)
def test_bad_input(change, message):
    X, y = sequences(12)
    settings = {"cv": 2, **change}
    y = settings.pop("y", y)
    with pytest.raises(ValueError, match=message):
        find_label_errors(ChainCRF(**SETTINGS), X, y, **settings)


def test_bad_labels():
    X, y = sequences(8)
    with pytest.raises(ValueError, match="item 3 has no labels"):
        find_label_errors(ChainCRF(**SETTINGS), X, [None if number == 3 else own for number, own in enumerate(y)])
    with pytest.raises(ValueError, match="X has 8 items and y has labels of 7"):
        find_label_errors(ChainCRF(**SETTINGS), X, y[:-1])
    with pytest.raises(ValueError, match="SoftTargets"):
        find_label_errors(ChainCRF(**SETTINGS), X, SoftTargets([], classes=["a", "b"]))
    with pytest.raises(TypeError, match="estimator must be one of labels"):
        find_label_errors(ExponentialFamilyDensity(), np.linspace(0, 1, 8)[:, None], np.arange(8) % 2, cv=2)
