"""Fields on probabilities of a classifier for the data that it was fitted to warn where new ones are less certain."""

import warnings

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, OutOfFold
from kernelfields.features.leakage import find_repeated_labels
from tests.samples import labelled_sequences

X, Y = labelled_sequences(n_sequences=40, longest=9, n_labels=3)
NEW, TRUE = labelled_sequences(n_sequences=40, longest=9, n_labels=3, seed=5)
ROWS, LABELS = np.vstack(X), np.concatenate(Y)
MEMORY = KNeighborsClassifier(2, weights="distance").fit(ROWS, LABELS)
MESSAGE = r"columns 0 to 2 are probabilities that repeat the labels.* 1\.000 for the .* 0\.8.*OutOfFold\(classifier\)"


def probabilities(sequences, logarithms=False):
    seen = [MEMORY.predict_proba(x) for x in sequences]
    return [np.log(np.maximum(p, 1e-3)) for p in seen] if logarithms else seen


@pytest.mark.parametrize("logarithms", [False, True])
@pytest.mark.parametrize("scale", ["auto", True])
def test_chains_on_probabilities_of_their_own_labels_warn_when_new_ones_are_less_certain(logarithms, scale):
    seen = probabilities(X, logarithms)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chain = ChainCRF("linear", scale=scale).fit(seen, Y)
        chain.predict(seen)
    with pytest.warns(UserWarning, match=MESSAGE):
        chain.predict(probabilities(NEW, logarithms))


def test_graphs_and_single_labels_warn():
    classifier = KernelClassifier("linear").fit(MEMORY.predict_proba(ROWS), LABELS)
    with pytest.warns(UserWarning, match=MESSAGE):
        classifier.predict_proba(MEMORY.predict_proba(np.vstack(NEW)))

    def graphs(sequences):
        return [
            (MEMORY.predict_proba(x), np.array([[i, i + 1] for i in range(len(x) - 1)]).reshape(-1, 2))
            for x in sequences
        ]

    field = GraphCRF("linear").fit(graphs(X), Y)
    with pytest.warns(UserWarning, match=MESSAGE):
        field.score(graphs(NEW), TRUE)


def test_a_development_set_warns_during_the_fit():
    with pytest.warns(UserWarning, match=MESSAGE):
        ChainCRF("linear").fit(probabilities(X), Y, X_dev=probabilities(NEW), y_dev=TRUE)


def test_out_of_fold_probabilities_readings_and_a_chosen_variance_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_pipeline(OutOfFold(MEMORY), ChainCRF("linear")).fit(X, Y).predict(NEW)
        ChainCRF("linear").fit(X, Y).predict(NEW)
        ChainCRF("linear", prior_variance=1.0).fit(probabilities(X), Y).predict(probabilities(NEW))


def test_the_columns_are_found_among_others():
    chances = MEMORY.predict_proba(ROWS)
    other = np.random.default_rng(0).normal(size=(len(ROWS), 2))
    doubt = pytest.approx(1.0 - chances.max(axis=1).mean())
    found = find_repeated_labels(np.hstack([other, chances]), LABELS, 3)
    assert (found.first, found.last, found.logarithms, found.doubt) == (2, 5, False, doubt)
    found = find_repeated_labels(np.hstack([other, np.log(np.maximum(chances, 1e-3)), other]), LABELS, 3)
    assert (found.first, found.last, found.logarithms, found.doubt) == (2, 5, True, doubt)
    turned = chances[:, [1, 2, 0]]
    found = find_repeated_labels(turned.astype(np.float32), LABELS, 3)
    assert (found.first, found.last) == (0, 3)
    assert find_repeated_labels(np.hstack([other, other]), LABELS, 3) is None
    assert find_repeated_labels(2.0 * chances, LABELS, 3) is None
    assert find_repeated_labels(chances, np.random.default_rng(0).permutation(LABELS), 3) is None
    assert find_repeated_labels(chances[:, :2], LABELS, 3) is None
