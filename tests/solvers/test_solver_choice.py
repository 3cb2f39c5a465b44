"""solver="auto" follows the rules that were measured for it, and says what it chose."""

import numpy as np
import pytest
import scipy.sparse

from kernelfields import ChainCRF


def chains(n_sequences, n_features=4, seed=0):
    random = np.random.default_rng(seed)
    y = [random.integers(4, size=6) for _ in range(n_sequences)]
    return [random.normal(size=(6, n_features)) + labels[:, None] for labels in y], y


def test_few_coefficients_go_to_newton_cg():
    X, y = chains(20)
    assert ChainCRF(rank=10, random_state=0).fit(X, y).solution_.solver == "newton-cg"


def test_raw_dense_inputs_go_to_newton_cg():
    X, y = chains(20, n_features=200)
    model = ChainCRF("linear").fit(X, y)
    assert model.solution_.theta.size > 400
    assert model.solution_.solver == "newton-cg"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:almost never found")
def test_whitened_and_sparse_features_go_to_lbfgs():
    X, y = chains(60, n_features=200)
    assert ChainCRF(rank=300, random_state=0).fit(X, y).solution_.solver == "lbfgs"
    sparse = [scipy.sparse.csr_array(x) for x in X]
    assert ChainCRF("linear", l1=0.0).fit(sparse, y).solution_.solver == "lbfgs"
