"""Samples as feature dicts and lists of feature strings, as positions of sequences are: every estimator of tables."""

import numpy as np
import pytest
from sklearn.feature_extraction import DictVectorizer

from kernelfields import (
    ExponentialFamilyDensity,
    FieldSearchCV,
    KernelClassifier,
    MultiLabelCRF,
)

RANDOM = np.random.default_rng(0)
Y = np.arange(30) % 2
DICTS = [{"word": "cat" if label else "dog", "size": float(RANDOM.normal()), "loud": bool(label)} for label in Y]
STRINGS = [[f"word={row['word']}", *(["loud"] * row["loud"])] for row in DICTS]
TABLE = np.column_stack([Y, RANDOM.permutation(Y)]).astype(float)
EXACT = {"prior_variance": 1.0, "random_state": 0}
ESTIMATORS = {
    "classifier": (KernelClassifier(**EXACT), Y),
    "labels": (MultiLabelCRF(**EXACT), TABLE),
    "search": (
        FieldSearchCV(KernelClassifier(), prior_variances=[1.0, 10.0], cv=2, random_state=0),
        Y,
    ),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_rows_of_named_features_are_those_of_a_vectorizer(name):
    estimator, y = ESTIMATORS[name]
    vectorizer = DictVectorizer(separator=":", sort=False)
    rows = vectorizer.fit_transform(DICTS)
    fitted = estimator.fit(DICTS, y)
    names, answers = [str(each) for each in fitted.feature_names_in_], fitted.predict(DICTS)
    assert sorted(names) == sorted(vectorizer.get_feature_names_out().tolist())
    if name != "search":
        expected = estimator.set_params(kernel="linear").fit(rows, y).predict(rows)
        np.testing.assert_array_equal(answers, expected)
    np.testing.assert_array_equal(
        estimator.fit(STRINGS, y).predict([*STRINGS, ["unheard"], []])[:30], estimator.predict(STRINGS)
    )


def test_named_features_are_kept_in_files_and_explained(tmp_path):
    crf = KernelClassifier(**EXACT).fit(DICTS, Y)
    crf.save(tmp_path / "model")
    read = KernelClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(read.predict_proba(DICTS), crf.predict_proba(DICTS))
    words = str(read.explain(DICTS[1]))
    assert "word:cat" in words


def test_rows_of_another_kind_are_refused():
    crf = KernelClassifier(**EXACT).fit(DICTS, Y)
    with pytest.raises(ValueError, match="this model was fitted on feature dicts, pass the same, got a ndarray"):
        crf.predict(np.zeros((2, 4)))
    with pytest.warns(UserWarning, match="no feature of X is known to this model"):
        crf.predict([{"form": "cat"}])
    for estimator in (ExponentialFamilyDensity(), *(estimator for estimator, _ in ESTIMATORS.values())):
        with pytest.raises(ValueError, match=r"X must be a table \(n, d\) of numbers, and its first row is 'cat'"):
            estimator.fit(["cat", "dog"] * 10, [0, 1] * 10)
    for rows in (DICTS, STRINGS):
        with pytest.raises(ValueError, match=r"X must be a table \(n, d\) of numbers.*DictVectorizer"):
            ExponentialFamilyDensity().fit(rows)
    numeric = KernelClassifier(**EXACT).fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"X must be a table \(n, d\) of numbers"):
        numeric.predict(DICTS)
