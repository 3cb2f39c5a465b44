"""What scores need again and again is kept with the fitted field: the plain answers, never old ones."""

import copy

import numpy as np
import pytest

from kernelfields import ChainCRF
from kernelfields.basis import GreedyCholesky, PanelCholesky
from kernelfields.kernels import RBF
from tests.models.small_fields import FIELDS, QUICK, X, Y, assert_plain


@pytest.fixture(scope="module")
def chain():
    return ChainCRF(**QUICK).fit(X, Y)


def marginals(model, inputs=X):
    return np.concatenate(model.predict_marginals(inputs))


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_scores_as_features_do(name):
    make, inputs, labels = FIELDS[name]
    model = make().fit(inputs, labels)
    for asked in (inputs, inputs[:1], inputs):
        assert_plain(model, asked)


def test_a_refit_answers_for_the_new_data(chain):
    crf = copy.deepcopy(chain)
    before = marginals(crf)
    crf.fit(X, [(labels + 1) % 3 for labels in Y])
    assert_plain(crf)
    assert np.abs(marginals(crf) - before).max() > 0.1


def test_a_warm_start_answers_for_the_new_coefficients(chain):
    crf = copy.deepcopy(chain).set_params(warm_start=True, prior_variance=0.01)
    before, subspace = marginals(crf), crf.basis_["node"]
    crf.fit(X, Y)
    assert crf.basis_["node"] is subspace
    assert_plain(crf)
    assert np.abs(marginals(crf) - before).max() > 0.1


def test_parameters_set_after_the_fit_leave_the_fitted_field_alone():
    crf = ChainCRF(**{**QUICK, "kernel": RBF(0.3)}).fit(X, Y)
    before = marginals(crf)
    crf.set_params(kernel__gamma=5.0, prior_variance=0.01, rank=3, n_jobs=1)
    np.testing.assert_array_equal(marginals(crf), before)
    assert_plain(crf)
    crf.fit(X, Y)
    assert_plain(crf)
    assert np.abs(marginals(crf) - before).max() > 0.1


@pytest.mark.parametrize("gamma", [1e-3, 0.1])
def test_dual_coefficients_round_as_the_solve_does_where_pivots_are_close(gamma):
    inputs = np.random.default_rng(0).normal(size=(150, 2))
    panel = PanelCholesky(RBF(gamma), inputs, 80)
    GreedyCholesky().select(panel, np.random.default_rng(0))
    subspace, new = panel.subspace(), np.random.default_rng(1).normal(size=(40, 2))
    assert np.linalg.cond(subspace.factor) > 1e5
    coefficients = np.random.default_rng(2).normal(size=(subspace.rank, 3))
    wide, factor = subspace.kernel(subspace.pivots, new).astype(np.longdouble), subspace.factor.astype(np.longdouble)
    for i in range(subspace.rank):
        wide[i] = (wide[i] - factor[i, :i] @ wide[:i]) / factor[i, i]
    exact = wide.T @ coefficients
    errors = [
        np.abs(scores - exact).max() / np.abs(exact).max()
        for scores in (subspace.apply(new, coefficients), subspace.features(new) @ coefficients)
    ]
    assert max(errors) < 1e-8
    assert errors[0] < 10 * errors[1]
