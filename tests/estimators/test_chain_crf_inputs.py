"""ChainCRF on dense and sparse inputs: the same field, which takes either kind."""

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
