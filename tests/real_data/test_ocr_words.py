"""Kernel fields on real handwriting, where the data set is on the machine (KERNELFIELDS_DATA)."""

import numpy as np
import pytest

from benchmarks.shared_data import DataMissing, ocr_letters
from kernelfields import ChainCRF
from kernelfields.kernels import Polynomial


@pytest.fixture(scope="module")
def words():
    try:
        X, y, fold = ocr_letters()
    except DataMissing as missing:
        pytest.skip(str(missing))
    train, test = np.flatnonzero(fold == 1)[:250], np.flatnonzero(fold == 2)[:250]
    return tuple(([X[i] for i in part], [y[i] for i in part]) for part in (train, test))


@pytest.mark.slow
def test_a_cubic_field_reads_words_better_than_a_linear_one_and_says_how_good_the_fit_is(words):
    train, test = words
    linear = ChainCRF("linear", prior_variance=0.1).fit(*train)
    cubic = ChainCRF(Polynomial(3, gamma=0.06), prior_variance=3.0, rank=500, tol=1e-3, random_state=0).fit(*train)
    assert cubic.certificate_.relative_gap <= 1e-3
    assert cubic.score(*test) > linear.score(*test) + 0.03
    assert cubic.score(*test) > 0.75
    alone = ChainCRF(Polynomial(3, gamma=0.06), prior_variance=3.0, rank=500, random_state=0).fit(
        [row[None] for x in train[0] for row in x], [[label] for labels in train[1] for label in labels]
    )
    letters = ([row[None] for x in test[0] for row in x], [[label] for labels in test[1] for label in labels])
    assert cubic.score(*test) > alone.score(*letters) + 0.03
