"""Eight scorers by name over all estimators: what scikit-learn's function says of the folds, or refused in one line."""

import numpy as np
import pytest
from sklearn.inspection import permutation_importance
from sklearn.metrics import get_scorer, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelfields import (
    ChainCRF,
    ConformalField,
    FieldSearchCV,
    KernelClassifier,
    MultiLabelCRF,
    RingCRF,
    SegmentCRF,
    SequenceClassifier,
)
from kernelfields.compat import CRF
from kernelfields.data.ragged import ScoringRefused

NAMES = (
    *("accuracy", "balanced_accuracy", "f1_macro", "f1_weighted", "neg_log_loss", "roc_auc_ovr"),
    *("precision_macro", "recall_macro"),
)
#: Scorers whose metric takes no indicators of several labels.
OF_ONE_LABEL = ("balanced_accuracy", "neg_log_loss")
LINEAR = {"kernel": "linear", "prior_variance": 1.0, "scale": False, "random_state": 0}
FOLDS = KFold(3)
random = np.random.default_rng(5)


def sequences(lengths):
    y = [np.sort(random.permutation(np.arange(length) % 3)) for length in lengths]
    return [np.eye(3)[own] + 0.8 * random.normal(size=(len(own), 3)) for own in y], y


def words(X, y):
    return [[{"word": str(row.argmax())} for row in x] for x in X], [[str(label) for label in own] for own in y]


EQUAL, RAGGED = sequences([6] * 9), sequences([4, 7, 5, 6, 3, 8, 5, 4, 6])
CLASSES = np.arange(9) % 3
# Each class of a sequence is that of most of its rows.
MARKED = [[x + np.eye(3)[own] for x, own in zip(part[0], CLASSES, strict=True)] for part in (EQUAL, RAGGED)]
ROWS = np.concatenate(RAGGED[0]), np.concatenate(RAGGED[1])
TABLE = random.normal(size=(45, 3))
SEVERAL = (TABLE + 0.5 * random.normal(size=TABLE.shape) > 0).astype(int)

POSITIONS = {
    "segments, equal": (SegmentCRF(max_duration=4, **LINEAR), *EQUAL),
    "segments, ragged": (SegmentCRF(max_duration=4, **LINEAR), *RAGGED),
    "rings": (RingCRF(**LINEAR), *EQUAL),
    "named features, equal": (CRF(), *words(*EQUAL)),
    "named features, ragged": (CRF(), *words(*RAGGED)),
    "sets": (ConformalField(ChainCRF(**LINEAR)), *RAGGED),
    "a search": (FieldSearchCV(ChainCRF(**LINEAR), prior_variances=[1.0], cv=2), *RAGGED),
}
ITEMS = {
    "rows": (KernelClassifier(**LINEAR), *ROWS),
    "rows of a pipeline": (make_pipeline(StandardScaler(), KernelClassifier(**LINEAR)), *ROWS),
    "sequences, equal": (SequenceClassifier(**LINEAR), MARKED[0], CLASSES.tolist()),
    "sequences, ragged": (SequenceClassifier(**LINEAR), MARKED[1], np.array(["a", "b", "c"])[CLASSES]),
    "sequences of an array": (SequenceClassifier(**LINEAR), np.stack(MARKED[0]), CLASSES),
}


def take(values, chosen):
    return values[chosen] if isinstance(values, np.ndarray) else [values[each] for each in chosen]


def score_by_hand(name, model, X, y):
    scorer = get_scorer(name)
    if name == "neg_log_loss":
        return -log_loss(y, model.predict_proba(X), labels=np.unique(y))
    if name == "roc_auc_ovr":
        several = np.ndim(y) == 2
        return roc_auc_score(y, model.predict_proba(X), **({"average": "macro"} if several else {"multi_class": "ovr"}))
    return scorer._score_func(y, model.predict(X), **scorer._kwargs)


def score_folds(estimator, X, y, names):
    """Return the scores of each fold by name."""
    found = {name: [] for name in names}
    for train, test in FOLDS.split(np.zeros(len(X))):
        model = estimator.fit(take(X, train), take(y, train))
        for name in names:
            found[name].append(score_by_hand(name, model, take(X, test), take(y, test)))
    return found


def refuse_all(estimator, X, y, name, said):
    for ask in (
        lambda: cross_val_score(estimator, X, y, scoring=name, cv=FOLDS),
        lambda: GridSearchCV(estimator, {}, scoring=name, cv=FOLDS).fit(X, y),
        lambda: learning_curve(estimator, X, y, scoring=name, cv=FOLDS, train_sizes=[6]),
    ):
        with pytest.raises(ScoringRefused) as caught:
            ask()
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)


def agree(estimator, X, y, names):
    expected, n_train = score_folds(estimator, X, y, names), 2 * len(X) // 3
    assert np.isfinite(list(expected.values())).all()
    found = cross_validate(estimator, X, y, scoring=list(names), cv=FOLDS)
    grid = GridSearchCV(estimator, {}, scoring=list(names), cv=FOLDS, refit=False).fit(X, y).cv_results_
    for name in names:
        np.testing.assert_allclose(found[f"test_{name}"], expected[name], atol=1e-12)
        np.testing.assert_allclose(grid[f"mean_test_{name}"], np.mean(expected[name]), atol=1e-12)
        curve = learning_curve(estimator, X, y, scoring=name, cv=FOLDS, train_sizes=[n_train])[2]
        np.testing.assert_allclose(curve[0], expected[name], atol=1e-12)


@pytest.mark.parametrize("case", POSITIONS)
def test_names_are_refused_where_items_have_a_label_at_each_position(case):
    for name in NAMES:
        refuse_all(*POSITIONS[case], name, "scoring=position_scorer(name) of kernelfields.evaluation")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("case", ITEMS)
def test_items_of_one_label_are_counted_as_scikit_learn_counts_them(case):
    agree(*ITEMS[case], NAMES)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_labels_of_instances_are_counted_or_refused():
    estimator = MultiLabelCRF(**LINEAR)
    agree(estimator, TABLE, SEVERAL, [name for name in NAMES if name not in OF_ONE_LABEL])
    fitted = estimator.fit(TABLE, SEVERAL)
    for name in OF_ONE_LABEL:
        for model in (estimator, make_pipeline(StandardScaler(), estimator)):
            refuse_all(model, TABLE, SEVERAL, name, "counts instances with one label each, and these have several")
        with pytest.raises(ScoringRefused, match="such as 'f1_macro'"):
            permutation_importance(fitted, TABLE, SEVERAL, scoring=name, n_repeats=1)
    error = get_scorer("neg_mean_squared_error")(fitted, TABLE, SEVERAL)
    assert error == pytest.approx(-np.mean(fitted.predict(TABLE) != SEVERAL))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("name", NAMES)
def test_permuted_columns_of_rows_are_scored_by_name(name):
    cases = [(KernelClassifier(**LINEAR), *ROWS)]
    if name not in OF_ONE_LABEL:
        cases.append((MultiLabelCRF(**LINEAR), TABLE, SEVERAL))
    for estimator, X, y in cases:
        model = estimator.fit(X, y)
        found = permutation_importance(model, X, y, scoring=name, n_repeats=2, random_state=0).importances
        expected = permutation_importance(
            model,
            X,
            y,
            scoring=lambda fitted, inputs, true: score_by_hand(name, fitted, inputs, true),
            n_repeats=2,
            random_state=0,
        ).importances
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_columns_of_sequences_are_permuted_by_a_table_and_refused_as_a_list():
    for X, y in (EQUAL, RAGGED):
        model = SegmentCRF(max_duration=4, **LINEAR).fit(X, y)
        with pytest.raises(ValueError, match=r"dim 3|inhomogeneous"):
            permutation_importance(model, X, y, scoring="accuracy")
