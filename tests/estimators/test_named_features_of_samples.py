"""Samples as feature dicts, lists of feature strings or words: every estimator of tables refuses them."""

import numpy as np
import pytest

from kernelfields import ExponentialFamilyDensity, FieldSearchCV, KernelClassifier, MultiLabelCRF

DICTS = [{"word": "cat", "size": 1.0}, {}, {"word": "dog"}] * 4
STRINGS = [["word=cat", "loud"], [], ["word=dog"]] * 4
LABELS, TABLE = [0, 1, 0] * 4, np.eye(2)[[0, 1, 0] * 4]


@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (KernelClassifier(), LABELS),
        (MultiLabelCRF(), TABLE),
        (FieldSearchCV(KernelClassifier(), cv=2), LABELS),
        (ExponentialFamilyDensity(), None),
    ],
    ids=["classifier", "labels", "search", "density"],
)
@pytest.mark.parametrize("rows", [DICTS, STRINGS, ["cat", "dog", "cat"] * 4], ids=["dicts", "strings", "words"])
def test_rows_of_words_are_refused(estimator, y, rows):
    with pytest.raises(ValueError, match=r"X must be a table \(n, d\) of numbers, .*DictVectorizer makes numbers"):
        estimator.fit(rows, y)


def test_rows_of_words_are_refused_after_a_fit():
    numeric = KernelClassifier(prior_variance=1.0).fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"X must be a table \(n, d\) of numbers"):
        numeric.predict(DICTS)
