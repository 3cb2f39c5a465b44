"""A field on probabilities of a classifier for the data that it was fitted to warns, and names OutOfFold."""

import warnings

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, OutOfFold
from kernelfields.features.leakage import columns_that_repeat
from tests.samples import labelled_sequences

X, Y = labelled_sequences(n_sequences=40, longest=9, n_labels=3)
ROWS, LABELS = np.vstack(X), np.concatenate(Y)
MEMORY = KNeighborsClassifier(2, weights="distance").fit(ROWS, LABELS)
MESSAGE = r"columns 0 to 2 are probabilities that repeat the labels.*OutOfFold\(classifier\)"


@pytest.mark.parametrize("logarithms", [False, True])
def test_chains_on_probabilities_of_their_own_labels_warn(logarithms):
    seen = [MEMORY.predict_proba(x) for x in X]
    seen = [np.log(np.maximum(p, 1e-3)) for p in seen] if logarithms else seen
    with pytest.warns(UserWarning, match=MESSAGE) as warned:
        ChainCRF("linear").fit(seen, Y)
    assert warned[0].filename == __file__


def test_graphs_and_single_labels_warn():
    seen = MEMORY.predict_proba(ROWS)
    with pytest.warns(UserWarning, match=MESSAGE):
        KernelClassifier("linear").fit(seen, LABELS)
    graphs = [(MEMORY.predict_proba(x), np.array([[i, i + 1] for i in range(len(x) - 1)])) for x in X if len(x) > 1]
    with pytest.warns(UserWarning, match=MESSAGE):
        GraphCRF("linear").fit(graphs, [y for y in Y if len(y) > 1])


def test_out_of_fold_probabilities_readings_and_a_chosen_variance_do_not_warn():
    seen = [MEMORY.predict_proba(x) for x in X]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ChainCRF("linear").fit(OutOfFold(MEMORY).fit_transform(X, Y), Y)
        ChainCRF("linear").fit(X, Y)
        ChainCRF("linear", prior_variance=1.0).fit(seen, Y)


def test_the_columns_are_found_among_others():
    chances = MEMORY.predict_proba(ROWS)
    other = np.random.default_rng(0).normal(size=(len(ROWS), 2))
    assert columns_that_repeat(np.hstack([other, chances]), LABELS, 3) == (2, 5)
    assert columns_that_repeat(np.hstack([other, np.log(np.maximum(chances, 1e-3)), other]), LABELS, 3) == (2, 5)
    turned = chances[:, [1, 2, 0]]
    assert columns_that_repeat(turned.astype(np.float32), LABELS, 3) == (0, 3)
    assert columns_that_repeat(np.hstack([other, other]), LABELS, 3) is None
    assert columns_that_repeat(2.0 * chances, LABELS, 3) is None
    assert columns_that_repeat(chances, np.random.default_rng(0).permutation(LABELS), 3) is None
    assert columns_that_repeat(chances[:, :2], LABELS, 3) is None
