"""ChainCRF on each kind of input and label: the same data in another form gives the same field."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields import ChainCRF
from kernelfields.kernels import RBF
from tests.samples import labelled_sequences

X, y = labelled_sequences()
TIGHT = {"tol": 1e-10, "max_iter": 1000, "random_state": 0, "n_jobs": 1}


def marginals(crf, X):
    return np.concatenate(crf.predict_marginals(X))


@pytest.mark.parametrize("kernel", ["linear", RBF(gamma=0.3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_and_sparse_inputs_give_the_same_field(kernel, dtype):
    dense = [x.astype(dtype) for x in X]
    sparse = [sp.csr_array(x) for x in dense]
    one = ChainCRF(kernel, basis="all", dtype="float64", **TIGHT).fit(dense, y)
    other = ChainCRF(kernel, basis="all", dtype="float64", **TIGHT).fit(sparse, y)
    assert one.n_features_in_ == other.n_features_in_ == 3
    np.testing.assert_allclose(marginals(one, dense), marginals(other, sparse), atol=2e-5)
    assert one.solution_.value == pytest.approx(other.solution_.value, rel=1e-6 if dtype == np.float32 else 1e-9)
    # A model takes the other kind too: it is converted to what it was fitted on.
    np.testing.assert_allclose(marginals(one, sparse), marginals(one, dense), atol=1e-12)
    np.testing.assert_allclose(marginals(other, dense), marginals(other, sparse), atol=1e-12)


def test_lists_of_feature_strings():
    words = [["the", "cat", "sat"], ["the", "dog", "sat", "down"], ["sat", "the", "cat"]]
    tags = [["D", "N", "V"], ["D", "N", "V", "P"], ["V", "D", "N"]]
    strings = [[[f"w={word}", f"last={word[-1]}"] for word in sentence] for sentence in words]
    dicts = [[{"w=" + word: 1.0, "last=" + word[-1]: 1.0} for word in sentence] for sentence in words]
    crf = ChainCRF("linear", prior_variance=10.0, **TIGHT).fit(strings, tags)
    assert [list(labels) for labels in crf.predict(strings)] == tags
    same = ChainCRF("linear", prior_variance=10.0, **TIGHT).fit(dicts, tags)
    np.testing.assert_allclose(marginals(crf, strings), marginals(same, dicts), atol=1e-9)
    # Names that were not seen are ignored; a position may hold none at all.
    unseen = crf.predict_marginals([[["w=the"], ["w=unicorn"], []]])[0]
    np.testing.assert_allclose(unseen, crf.predict_marginals([[["w=the"], [], []]])[0], atol=1e-12)
    assert len(crf.predict([[[], []]])[0]) == 2


def test_a_window_is_the_neighbours_side_by_side():
    joined = []
    for x in X:
        padded = np.vstack([np.zeros((1, 3)), x, np.zeros((1, 3))])
        joined.append(np.hstack([padded[:-2], padded[1:-1], padded[2:]]))
    window = ChainCRF(RBF(gamma=0.1), basis="all", window=3, **TIGHT).fit(X, y)
    by_hand = ChainCRF(RBF(gamma=0.1), basis="all", **TIGHT).fit(joined, y)
    np.testing.assert_allclose(marginals(window, X), marginals(by_hand, joined), atol=1e-9)
    before = ChainCRF("linear", window=(1, 0), **TIGHT).fit(X, y)
    assert before.coef_["node"].shape == (6, 3)


def test_float32_features_stay_close_to_float64():
    fine = ChainCRF(RBF(gamma=0.3), rank=20, random_state=0, tol=1e-4, dtype="float64").fit(X, y)
    coarse = ChainCRF(RBF(gamma=0.3), rank=20, random_state=0, tol=1e-4, dtype="float32").fit(X, y)
    explicit = ChainCRF("linear", tol=1e-4, dtype="float32").fit(X, y)
    assert coarse.solution_.value == pytest.approx(fine.solution_.value, rel=2e-4)
    assert explicit.solution_.converged
