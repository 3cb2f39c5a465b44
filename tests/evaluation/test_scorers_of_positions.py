"""Scores by the names of scikit-learn count positions, or are refused in one line: never another number, never NaN."""

import pickle

import numpy as np
import pytest
from sklearn.inspection import permutation_importance
from sklearn.metrics import get_scorer, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score, cross_validate, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelfields import ChainCRF, FieldSearchCV, FrameCRF, GraphCRF, KernelClassifier, SegmentCRF, Sequencewise
from kernelfields.compat import CRF, metrics
from kernelfields.data.ragged import ScoringRefused
from kernelfields.evaluation import PositionScorer, position_scorer

#: Scorers by name, four of labels with other counts, and those of probabilities.
NAMES = (
    *("accuracy", "balanced_accuracy", "f1_macro", "precision_micro", "recall_weighted", "jaccard_macro"),
    *("neg_log_loss", "roc_auc_ovr"),
)
SETTINGS = {"prior_variance": 1.0, "scale": False, "window": 1, "random_state": 0}
random = np.random.default_rng(5)
FOLDS = KFold(3)


def sequences(lengths, n_labels=3):
    y = [np.sort(random.permutation(np.arange(length) % n_labels)) for length in lengths]
    return [np.eye(n_labels)[own] + 0.8 * random.normal(size=(len(own), n_labels)) for own in y], y


EQUAL, RAGGED = sequences([6] * 9), sequences([4, 7, 5, 6, 3, 8, 5, 4, 6])
SHAPES = {"equal": EQUAL, "ragged": RAGGED, "an array": (np.stack(EQUAL[0]), np.stack(EQUAL[1]))}


def field(**settings):
    return ChainCRF("linear", **{**SETTINGS, **settings})


def by_hand(name, model, X, y):
    """Return the score of scikit-learn's function for the positions, end to end."""
    scorer, true = get_scorer(name), np.concatenate(list(y))
    if name == "roc_auc_ovr":
        found, given = np.concatenate(list(model.predict_marginals(X))), {"multi_class": "ovr"}
    elif name == "neg_log_loss":
        found, given = np.concatenate(list(model.predict_marginals(X))), {}
    else:
        found, given = np.concatenate(list(model.predict(X))), {}
    settings = {key: value for key, value in scorer._kwargs.items() if key not in given} | given
    return scorer._sign * scorer._score_func(true, found, **settings)


def parts(values, chosen):
    return values[chosen] if isinstance(values, np.ndarray) else [values[each] for each in chosen]


def fold_scores(name, X, y, folds=FOLDS, **settings):
    scores = []
    for train, test in folds.split(np.zeros(len(X))):
        model = field(**settings).fit(parts(X, train), parts(y, train))
        scores.append(by_hand(name, model, parts(X, test), parts(y, test)))
    return np.array(scores)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_scores_of_positions_are_those_of_their_labels_end_to_end(shape, name):
    X, y = SHAPES[shape]
    scoring, expected = position_scorer(name), fold_scores(name, X, y)
    np.testing.assert_allclose(cross_val_score(field(), X, y, scoring=scoring, cv=FOLDS), expected, atol=1e-12)
    grid = {"prior_variance": [0.01, 1.0]}
    search = GridSearchCV(field(), grid, scoring=scoring, cv=FOLDS).fit(X, y)
    means = [fold_scores(name, X, y, prior_variance=variance).mean() for variance in grid["prior_variance"]]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], means, atol=1e-12)
    assert search.best_index_ == int(np.argmax(means))
    _, _, curve = learning_curve(field(), X, y, scoring=scoring, cv=FOLDS, train_sizes=[6])
    np.testing.assert_allclose(curve[0], expected, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_names_alone_are_refused_in_one_line_and_never_nan(shape, name):
    X, y = SHAPES[shape]
    asked = [
        lambda: cross_val_score(field(), X, y, scoring=name, cv=FOLDS),
        lambda: cross_validate(field(), X, y, scoring=[name, "f1_micro"], cv=FOLDS),
        lambda: GridSearchCV(field(), {"prior_variance": [0.01, 1.0]}, scoring=name, cv=FOLDS).fit(X, y),
        lambda: learning_curve(field(), X, y, scoring=name, cv=FOLDS, train_sizes=[6]),
        lambda: get_scorer(name)(field().fit(X, y), X, y),
    ]
    for ask in asked:
        with pytest.raises(ScoringRefused) as caught:
            ask()
        said = str(caught.value)
        assert "\n" not in said
        assert "scoring=position_scorer(name) of kernelfields.evaluation" in said


def graphs_of(X):
    return [(x, [[place, place + 1] for place in range(len(x) - 1)]) for x in X]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", ["equal", "ragged"])
def test_nodes_of_graphs_are_counted_and_names_alone_are_refused(shape, name):
    X, y = SHAPES[shape]
    graphs, crf = graphs_of(X), GraphCRF("linear", prior_variance=1.0, scale=False, random_state=0)
    found = cross_val_score(crf, graphs, y, scoring=position_scorer(name), cv=FOLDS)
    for (train, test), score in zip(FOLDS.split(graphs), found, strict=True):
        model = crf.fit(parts(graphs, train), parts(y, train))
        assert score == pytest.approx(by_hand(name, model, parts(graphs, test), parts(y, test)), abs=1e-12)
    for ask in (
        lambda: cross_val_score(crf, graphs, y, scoring=name, cv=FOLDS),
        lambda: GridSearchCV(crf, {"prior_variance": [1.0]}, scoring=name, cv=FOLDS).fit(graphs, y),
        lambda: learning_curve(crf, graphs, y, scoring=name, cv=FOLDS, train_sizes=[6]),
    ):
        with pytest.raises(ScoringRefused, match="position_scorer"):
            ask()


def test_probabilities_of_nodes_are_their_marginals():
    X, y = RAGGED
    graphs = graphs_of(X)
    crf = GraphCRF("linear", prior_variance=1.0, scale=False, random_state=0).fit(graphs, y)
    known = [[own[0], *[None] * (len(own) - 1)] for own in y]
    for settings in ({}, {"known": known}):
        for own, marginals in zip(
            crf.predict_proba(graphs, **settings), crf.predict_marginals(graphs, **settings), strict=True
        ):
            np.testing.assert_array_equal(own, marginals)


def frame(X, y):
    pd = pytest.importorskip("pandas")
    rows = np.repeat(np.arange(len(X)), [len(x) for x in X])
    table = pd.DataFrame(np.concatenate(list(X)), columns=["a", "b", "c"]).assign(sequence=rows)
    return table, np.concatenate(list(y)), rows


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", ["equal", "ragged"])
def test_rows_of_a_table_are_counted_by_the_name_of_a_scorer(shape, name):
    X, y = SHAPES[shape]
    table, labels, groups = frame(X, y)
    whole = [
        np.flatnonzero(np.isin(np.arange(len(X)), groups[test]))
        for _, test in GroupKFold(3).split(table, groups=groups)
    ]
    splits = [(np.setdiff1d(np.arange(len(X)), test), test) for test in whole]
    expected = []
    for train, test in splits:
        model = field().fit(parts(X, train), parts(y, train))
        expected.append(by_hand(name, model, parts(X, test), parts(y, test)))
    cut = {"groups": groups, "cv": GroupKFold(3)}
    found = cross_val_score(FrameCRF(field()), table, labels, scoring=name, **cut)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    grid = GridSearchCV(FrameCRF(field()), {"estimator__prior_variance": [1.0]}, scoring=name, cv=GroupKFold(3))
    grid.fit(table, labels, groups=groups)
    np.testing.assert_allclose(grid.cv_results_["mean_test_score"], np.mean(expected), atol=1e-12)
    model = FrameCRF(field(), sort=True).fit(table, labels)  # the ids are permuted, too
    named = permutation_importance(model, table, labels, scoring=name, n_repeats=2, random_state=0)

    def flat(fitted, inputs, true):
        sequences = fitted.sequences(inputs)
        own = [true[groups == number] for number in range(len(X))]
        return by_hand(name, fitted.estimator_, sequences.X, own)

    features = ["a", "b", "c"]
    plain = permutation_importance(
        model, table[[*features, "sequence"]], labels, scoring=flat, n_repeats=2, random_state=0
    )
    np.testing.assert_allclose(named.importances[:3], plain.importances[:3], atol=1e-12)
    assert np.isfinite(named.importances).all()


def test_permutations_of_columns_of_sequences_are_refused_by_scikit_learn_itself():
    for X, y in SHAPES.values():
        with pytest.raises(ValueError, match=r"dim 3|inhomogeneous"):
            permutation_importance(field().fit(X, y), X, y, scoring=position_scorer("accuracy"))


def test_wrong_names_are_refused_at_once():
    with pytest.raises(ValueError, match="'f2' is not a valid scoring value"):
        position_scorer("f2")


def test_two_labels_and_text():
    X, y = sequences([5, 6, 4, 7], n_labels=2)
    words = [np.array(["no", "yes"])[own] for own in y]
    model = field().fit(X, words)
    for name in ("roc_auc", "average_precision"):
        numbers = field().fit(X, y)
        assert np.isfinite(position_scorer(name)(numbers, X, y))
    flat, chances = np.concatenate(words), np.concatenate(model.predict_proba(X))[:, 1]
    from sklearn.metrics import roc_auc_score

    assert position_scorer("roc_auc")(model, X, words) == pytest.approx(roc_auc_score(flat, chances))


def test_positions_without_a_known_label_do_not_count():
    X, y = RAGGED
    model = field().fit(X, y)
    partly = [[label if place != 1 else None for place, label in enumerate(own)] for own in y]
    rows = np.concatenate([np.arange(len(own)) != 1 for own in y])
    true, found = np.concatenate(y)[rows], np.concatenate(model.predict(X))[rows]
    assert position_scorer("accuracy")(model, X, partly) == pytest.approx(np.mean(true == found))
    assert position_scorer("accuracy")(model, X, partly) == pytest.approx(model.score(X, partly))


def test_weights_of_items_weigh_their_positions():
    X, y = RAGGED
    model, weights = field().fit(X, y), np.arange(1.0, 10.0)
    found = position_scorer("accuracy")(model, X, y, sample_weight=weights)
    assert found == pytest.approx(model.score(X, y, weights))


def test_classes_that_are_not_among_the_labels_are_classes_of_the_loss():
    X, y = RAGGED
    model = field().fit(X, y)
    own = [x[labels < 2] for x, labels in zip(X, y, strict=True)], [labels[labels < 2] for labels in y]
    chances = np.concatenate(model.predict_proba(own[0]))[np.arange(sum(map(len, own[1]))), np.concatenate(own[1])]
    assert position_scorer("neg_log_loss")(model, *own) == pytest.approx(np.log(chances).mean())


def test_pipelines_segments_graphs_and_searches_have_positions():
    X, y = RAGGED
    scoring = position_scorer("f1_macro")
    for model in (
        make_pipeline(Sequencewise(StandardScaler()), field()),
        SegmentCRF("linear", **SETTINGS),
        FieldSearchCV(field(), prior_variances=[1.0], cv=2, random_state=0),
    ):
        assert scoring(model.fit(X, y), X, y) == pytest.approx(by_hand("f1_macro", model, X, y))
    graphs = [(x, [[place, place + 1] for place in range(len(x) - 1)]) for x in X]
    model = GraphCRF("linear", prior_variance=1.0, scale=False, random_state=0).fit(graphs, y)
    assert scoring(model, graphs, y) == pytest.approx(by_hand("f1_macro", model, graphs, y))
    assert position_scorer("neg_log_loss")(model, graphs, y) < 0.0
    with pytest.raises(ScoringRefused):
        get_scorer("accuracy")(make_pipeline(Sequencewise(StandardScaler()), field()).fit(X, y), X, y)


def test_searches_of_ours_count_positions_by_name():
    X, y = RAGGED
    search = FieldSearchCV(field(), prior_variances=[0.1, 1.0], cv=FOLDS, scoring="f1_macro", halving=False)
    search.fit(X, y)
    expected = [fold_scores("f1_macro", X, y, prior_variance=variance).mean() for variance in (0.1, 1.0)]
    np.testing.assert_allclose(np.sort(search.cv_results_["mean_test_score"]), np.sort(expected), atol=0.02)


def test_metrics_that_take_lists_are_not_refused():
    X, y = RAGGED
    scores = cross_val_score(field(), X, y, scoring=make_scorer(metrics.flat_accuracy_score), cv=FOLDS)
    np.testing.assert_allclose(scores, fold_scores("accuracy", X, y))
    words = [[{"word": str(label)} for label in own] for own in y]
    names = [[str(label) for label in own] for own in y]
    assert np.isfinite(cross_val_score(CRF(), words, names, scoring=metrics.flat_accuracy, cv=2)).all()
    with pytest.raises(ScoringRefused):
        cross_val_score(CRF(), words, names, scoring="accuracy", cv=2)


@pytest.mark.parametrize("name", NAMES)
def test_positions_of_named_features_are_counted(name):
    X, y = RAGGED
    words = [[{"word": str(row.argmax())} for row in x] for x in X]
    names = [[str(label) for label in own] for own in y]
    model = CRF().fit(words, names)
    score = position_scorer(name)(model, words, names)
    assert score == pytest.approx(by_hand(name, model.chain_, words, names), abs=1e-12)
    for own, rows in zip(model.predict_marginals(words), model.predict_proba(words), strict=True):
        np.testing.assert_allclose([list(position.values()) for position in own], rows, atol=1e-12)


def test_single_labels_are_counted_as_ever():
    inputs, labels = np.concatenate(RAGGED[0]), np.concatenate(RAGGED[1])
    model = KernelClassifier("linear", prior_variance=1.0, random_state=0).fit(inputs, labels)
    assert get_scorer("accuracy")(model, inputs, labels) == model.score(inputs, labels)
    with pytest.raises(TypeError, match="pass the name of the scorer itself"):
        position_scorer("accuracy")(model, inputs, labels)


def test_scorers_travel_to_other_processes():
    scoring = pickle.loads(pickle.dumps(position_scorer("f1_macro")))
    assert scoring == PositionScorer("f1_macro")
    assert scoring.__name__ == "f1_macro"
