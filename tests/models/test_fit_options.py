"""Options of a fit: fields and the loop of solvers have the same defaults; rounds of a fit share its iterations."""

import pytest
from sklearn.exceptions import ConvergenceWarning

from kernelfields import ChainCRF
from kernelfields.basis import Gradient
from kernelfields.kernels import RBF
from tests.samples import labelled_sequences

DEFAULTS = {"solver": "auto", "tol": "auto", "max_iter": 1000}


def test_max_iter_is_for_all_rounds_of_a_growing_basis_together():
    X, y = labelled_sequences(8)
    crf = ChainCRF(RBF(gamma=0.3), basis=Gradient(initial=4), rank=16, tol=1e-4, solver="lbfgs", random_state=0)
    whole = crf.fit(X, y).solution_
    fewer = whole.iterations - 1
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        short = crf.set_params(max_iter=fewer).fit(X, y).solution_
    assert short.iterations == fewer
    assert [each.value for each in short.history] == [each.value for each in whole.history[: fewer + 1]]
