"""What scores need again and again is kept with the fitted field: made once, the plain answers, never old ones."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from kernelfields import ChainCRF
from kernelfields.basis import GreedyCholesky
from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.subspace import PivotSubspace
from kernelfields.kernels import RBF
from tests.models.small_fields import FIELDS, QUICK, X, Y, assert_plain


@pytest.fixture
def solves(monkeypatch):
    """The subspaces whose dual coefficients were solved for, in order."""
    asked, plain = [], PivotSubspace.dual_coefficients

    def counted(subspace, coefficients):
        asked.append(subspace)
        return plain(subspace, coefficients)

    monkeypatch.setattr(PivotSubspace, "dual_coefficients", counted)
    return asked


@pytest.fixture(scope="module")
def chain():
    return ChainCRF(**QUICK).fit(X, Y)


def marginals(model, inputs=X):
    return np.concatenate(model.predict_marginals(inputs))


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_solves_once_and_scores_as_features_do(name, solves):
    make, inputs, labels, n_subspaces = FIELDS[name]
    model = make().fit(inputs, labels)
    solves.clear()
    model.predict(inputs)
    assert len(solves) == n_subspaces
    model.predict(inputs[:1])
    model.score(inputs, labels)
    assert len(solves) == n_subspaces
    assert_plain(model, inputs)
    assert_plain(model, inputs[:1])


def test_answers_of_all_kinds_share_one_solve(chain, solves):
    crf = pickle.loads(pickle.dumps(chain))
    crf.predict_marginals(X[:1])
    crf.log_likelihood(X, Y)
    crf.predict_nbest(X[:2], 2)
    crf.sample(X[:1], 2, random_state=0)
    assert len(solves) == 1


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


def test_a_new_array_of_coefficients_is_seen(chain):
    crf = copy.deepcopy(chain)
    before = marginals(crf)
    term = next(term for term in crf.field_.terms if term.has_pivots)
    term.coefficients = -term.coefficients
    assert_plain(crf)
    assert np.abs(marginals(crf) - before).max() > 0.1
    term.subspace = PivotSubspace(RBF(2.0), term.subspace.pivots, np.eye(term.subspace.rank), term.subspace.indices)
    assert_plain(crf)


def test_files_pickles_and_clones_carry_nothing_of_it(tmp_path, solves):
    fresh = ChainCRF(**QUICK).fit(X, Y)
    size = len(pickle.dumps(fresh))
    fresh.save(tmp_path / "before.kfm")
    fresh.predict(X)
    assert len(pickle.dumps(fresh)) == size
    fresh.save(tmp_path / "after.kfm")
    assert (tmp_path / "after.kfm").stat().st_size == (tmp_path / "before.kfm").stat().st_size
    solves.clear()
    for other in (ChainCRF.load(tmp_path / "after.kfm"), pickle.loads(pickle.dumps(fresh)), copy.deepcopy(fresh)):
        np.testing.assert_array_equal(marginals(other), marginals(fresh))
        assert_plain(other)
    assert len(solves) == 3
    assert not hasattr(clone(fresh), "field_")


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
