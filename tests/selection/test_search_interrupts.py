"""Ctrl-C during a search: the best candidate so far is kept, and a warning says so."""

from dataclasses import replace

import numpy as np
import pytest
from search_sequences import per_token, search_sequences
from sklearn.exceptions import ConvergenceWarning

from kernelfields import ChainCRF, ChainCRFCV
from kernelfields.kernels import RBF
from kernelfields.selection import variance_path

X, y = search_sequences(60)


class InterruptAt:
    """A scoring function that is interrupted at its n-th call."""

    def __init__(self, number):
        self.number, self.calls = number, 0

    def __call__(self, estimator, X, y):
        self.calls += 1
        if self.calls == self.number:
            raise KeyboardInterrupt
        return per_token(estimator, X, y)


def search(number, **settings):
    kernels = [RBF(0.01), RBF(0.1), RBF(1.0)]
    return ChainCRFCV(
        ChainCRF(rank=12),
        kernels=kernels,
        prior_variances=[0.1, 1.0],
        scoring=InterruptAt(number),
        random_state=0,
        **settings,
    )


@pytest.mark.slow
def test_the_best_candidate_so_far_is_kept():
    found = search(14, halving=False)
    with pytest.warns(ConvergenceWarning, match="search was interrupted after 12 of 18 fits; the best candidate so"):
        found.fit(X, y)
    assert found.interrupted_
    # The third kernel was not done: its candidates have no say.
    assert list(found.cv_results_["param_kernel"]) == [RBF(0.01)] * 2 + [RBF(0.1)] * 2
    complete = search(0, halving=False).fit(X, y)
    assert not complete.interrupted_
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], complete.cv_results_["mean_test_score"][:4])
    assert found.best_score_ == max(found.cv_results_["mean_test_score"])
    assert len(found.predict(X)) == len(X)
    assert found.solution_.converged


def test_nothing_is_kept_before_the_first_candidate_is_done():
    found = search(2)
    with pytest.raises(KeyboardInterrupt):
        found.fit(X, y)
    assert not hasattr(found, "cv_results_")


def test_an_interrupt_within_a_fit_ends_the_search(monkeypatch):
    calls = []

    def interrupted(designs, sample, options, **settings):
        calls.append(1)
        if len(calls) != 9:
            return fit_field(designs, sample, options, **settings)

        def watch(iteration):
            raise KeyboardInterrupt

        return fit_field(designs, sample, replace(options, watch=watch), **settings)

    fit_field = variance_path.fit_field
    monkeypatch.setattr(variance_path, "fit_field", interrupted)
    found = search(0, halving=False)
    with pytest.warns(ConvergenceWarning, match="search was interrupted after 6 of 18 fits"):
        found.fit(X, y)
    assert set(found.cv_results_["param_kernel"]) == {RBF(0.01)}
