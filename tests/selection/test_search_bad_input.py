"""Searches that cannot work are refused before any fit; fits that fail do not end a search."""

import numpy as np
import pytest
from search_sequences import search_sequences
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.pipeline import make_pipeline

from kernelfields import ChainCRF, ChainCRFCV
from kernelfields.compat import CRF
from kernelfields.kernels import RBF, Kernel
from kernelfields.selection import search

X, y = search_sequences()
QUICK = {"kernels": [RBF(0.1), RBF(1.0)], "prior_variances": [0.1, 1.0], "random_state": 0}


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"estimator": CRF()}, TypeError, "estimator must be a ChainCRF, got CRF"),
        ({"estimator": make_pipeline(ChainCRF())}, TypeError, "ChainCRFCV as its last step"),
        ({"estimator": ChainCRF}, TypeError, "estimator must be a ChainCRF"),
        ({"estimator": ChainCRF(tol=-1.0)}, ValueError, "tol must be a positive relative gap"),
        ({"estimator": ChainCRF(callbacks=3)}, TypeError, "callbacks must be a list"),
        ({"estimator": ChainCRF(constraints=[("a", "b")])}, ValueError, "'a'"),
        ({"scoring": "f2"}, ValueError, "'accuracy', 'entity_f1', a scorer of scikit-learn or a function, got 'f2'"),
        ({"scoring": None}, ValueError, "scoring must be one of"),
        ({"scoring": "entity_f1"}, ValueError, "needs labels such as 'B-NP', 'I-NP' and 'O', got 0, 1, 2"),
        ({"cv": 25}, ValueError, "cv=25 folds need at least as many sequences, X has 24"),
        ({"prior_variances": [-1.0]}, ValueError, r"prior_variances\[0\] must be a positive number"),
        ({"kernels": ()}, ValueError, "kernels is empty"),
        ({"factor": 1}, ValueError, "factor must be a whole number of at least 2, got 1"),
        ({"factor": 2.5}, ValueError, "factor must be a whole number of at least 2, got 2.5"),
        ({"min_items": 0}, ValueError, "min_items must be a whole number of at least 1 or None"),
        ({"random_state": "seed"}, ValueError, "random_state must be None"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be None"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_any_fit(settings, error, words, monkeypatch):
    monkeypatch.setattr(search.Search, "run", None)
    with pytest.raises(error, match=words):
        ChainCRFCV(**{**QUICK, **settings}).fit(X, y)


@pytest.mark.parametrize(
    ("inputs", "labels", "words"),
    [
        (np.tri(3)[:, :, None], y, "looks padded: sequence 0 ends in 2 rows of zeros"),
        (X[:-1], y, "X has 23 sequences but y has 24"),
        (X, [*y[:-1], y[-1][:-1]], "sequence 23 has"),
        ([*X[:-1], X[-1] * np.nan], y, "sequence 23 holds nan in row 0"),
        (X, [np.zeros_like(each) for each in y], "y holds one class only"),
        ([], [], "at least one sequence is needed"),
        (X[:1], y[:1], "cv=3 folds need at least as many sequences, X has 1"),
    ],
)
def test_sequences_are_checked_as_a_whole(inputs, labels, words):
    with pytest.raises(ValueError, match=words):
        ChainCRFCV(**QUICK).fit(inputs, labels)


def test_weights_are_checked():
    with pytest.raises(ValueError, match="sample_weight holds one number per sequence, 24 here"):
        ChainCRFCV(**QUICK).fit(X, y, np.ones(3))


def test_labels_that_constraints_forbid_are_found_at_once():
    with pytest.raises(ValueError, match="is forbidden"):
        ChainCRFCV(ChainCRF(constraints=[(0, 0)]), **QUICK).fit(X, y)


def test_folds_in_which_nothing_can_be_scored():
    labels = [np.full(len(each), index % 24) for index, each in enumerate(y)]
    with pytest.raises(ValueError, match="each holds a label that the training part of its fold lacks"):
        ChainCRFCV(**QUICK).fit(X, labels)


class Indefinite(Kernel):
    """Not positive semi-definite."""

    def _block(self, X, Z):
        other = X if Z is None else Z
        return -np.ones((len(X), len(other)))

    def _diagonal(self, X):
        return -np.ones(len(X))


def test_a_candidate_that_cannot_be_fitted_is_left_out():
    kernels = [Indefinite(), RBF(0.1)]
    with pytest.warns(FitFailedWarning, match=r"2 candidates could not be fitted .*Indefinite.* because: "):
        found = ChainCRFCV(ChainCRF(rank=12), **{**QUICK, "kernels": kernels}).fit(X, y)
    assert found.best_params_["kernel"] == RBF(0.1)
    results = found.cv_results_
    failed = np.array([isinstance(kernel, Indefinite) for kernel in results["param_kernel"]])
    assert np.all(np.isnan(results["mean_test_score"][failed]))
    assert np.all(results["rank_test_score"][failed] == 3)
    assert str(found.table()).count("failed") == 2


def test_when_every_candidate_fails_the_first_reason_is_given():
    with pytest.raises(ValueError, match=r"every candidate failed, the first with: .*positive semi-definite"):
        ChainCRFCV(ChainCRF(rank=12), **{**QUICK, "kernels": Indefinite()}).fit(X, y)


def test_faults_of_a_scoring_function_come_through():
    with pytest.raises(TypeError, match="must return a number, got None"):
        ChainCRFCV(ChainCRF(rank=12), **QUICK, scoring=lambda estimator, X, y: None).fit(X, y)
    with pytest.raises(ValueError, match="of my own"):
        ChainCRFCV(ChainCRF(rank=12), **QUICK, scoring=complaining).fit(X, y)
    with pytest.raises(ValueError, match="scoring gave NaN for every candidate"):
        ChainCRFCV(ChainCRF(rank=12), **QUICK, scoring=lambda estimator, X, y: np.nan).fit(X, y)


def complaining(estimator, X, y):
    raise ValueError("of my own")


def test_scores_of_minus_infinity_lose():
    def only_small(estimator, X, y):
        return -np.inf if estimator.prior_variance > 0.5 else 1.0

    found = ChainCRFCV(ChainCRF(rank=12), **QUICK, scoring=only_small).fit(X, y)
    assert found.best_params_["prior_variance"] == 0.1
    assert np.isneginf(found.cv_results_["mean_test_score"]).sum() == 2


def test_fits_that_stop_short_are_counted():
    with pytest.warns(ConvergenceWarning, match="fits of the search stopped before tol=1e-09 was reached"):
        found = ChainCRFCV(ChainCRF(rank=12, tol=1e-9, max_iter=1), **QUICK, refit=False).fit(X, y)
    assert np.all(found.cv_results_["n_unconverged"] == 3)
    assert "12 fits stopped short of the tolerance" in str(found.table())
