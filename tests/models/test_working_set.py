"""Working sets: the optimum over all pairs of features and labels, found on few of them."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields import ChainCRF
from kernelfields.models import working_set
from kernelfields.reports.progress import describe
from kernelfields.solvers import Iteration
from kernelfields.solvers.loop import has_settled

TIGHT = {"kernel": "linear", "prior_variance": 2.0, "l1": 0.4, "support": "all", "random_state": 0}


def words(n_sentences=60, n_features=80, density=0.05, seed=0):
    """Sentences of features that are there or not; some labels are never seen with some features."""
    random = np.random.default_rng(seed)
    y = [np.repeat(random.integers(4, size=4), 2) for _ in range(n_sentences)]
    X = []
    for labels in y:
        present = random.random((len(labels), n_features)) < density
        present[np.arange(len(labels)), labels + 4 * random.integers(2, size=len(labels))] = True
        X.append(sp.csr_array(present.astype(float)))
    return X, y


def fitted(monkeypatch, many, **settings):
    monkeypatch.setattr(working_set, "_MANY", many)
    X, y = words()
    return ChainCRF(**{**TIGHT, **settings}).fit(X, y)


def test_the_optimum_and_its_certificate_are_those_of_all_pairs(monkeypatch):
    whole, sets = (fitted(monkeypatch, many, tol=1e-7) for many in (10**9, 1))
    assert sets.solution_.value == pytest.approx(whole.solution_.value, rel=1e-6)
    assert sets.solution_.relative_gap <= 1e-7
    for name, weights in whole.coef_.items():
        assert sets.coef_[name] == pytest.approx(weights, abs=1e-2)
    X, y = words()
    certificate = sets.certify(X, y)
    assert certificate.value == pytest.approx(sets.solution_.value, rel=1e-9)
    assert certificate.relative_gap <= 1e-5


def test_weights_of_pairs_that_were_never_seen_are_found(monkeypatch):
    monkeypatch.setattr(working_set, "_MANY", 1)
    X, y = words(density=0.01)
    crf = ChainCRF(**{**TIGHT, "l1": 0.1, "tol": 1e-6}).fit(X, y)
    seen = sum(x.T @ np.eye(4)[labels] for x, labels in zip(X, y, strict=True)) > 0
    weights = np.asarray(crf.coef_["node"])
    assert np.any(weights[~seen] < 0.0)


def test_iterations_count_on_and_can_be_limited(monkeypatch):
    seen = []
    crf = fitted(monkeypatch, 1, tol=1e-6, callbacks=[seen.append])
    numbers = [iteration.iteration for iteration in crf.solution_.history]
    assert numbers == sorted(numbers)
    assert crf.n_iter_ == numbers[-1]
    assert len(seen) >= len(numbers)
    with pytest.warns(UserWarning, match="max_iter"):
        short = fitted(monkeypatch, 1, tol=1e-6, max_iter=5)
    assert short.n_iter_ <= 5


@pytest.mark.parametrize("variance", [10.0, 1e4])
def test_a_bound_once_proved_stays_and_is_the_same_everywhere(monkeypatch, variance):
    seen = []
    crf = fitted(monkeypatch, 1, prior_variance=variance, tol="auto", callbacks=[seen.append])
    least = fitted(monkeypatch, 10**9, prior_variance=variance, tol=1e-6).solution_.value
    for rows in (seen, crf.solution_.history):
        bounds = np.array([row.lower_bound for row in rows])
        assert np.all(np.diff(bounds) >= 0)
        assert np.all(bounds <= least)
    last, solution, certificate = seen[-1], crf.solution_, crf.certificate_
    assert last == solution.history[-1]
    assert last.working_gap is None, "the last row is about all pairs"
    assert (last.value, last.lower_bound) == (solution.value, solution.lower_bound)
    assert (last.value, last.lower_bound) == (certificate.value, certificate.lower_bound)
    assert crf.summary().certificates[0] == certificate
    assert solution.relative_gap <= 0.03


def test_iterations_on_a_working_set_show_its_own_gap_beside_that_of_all_pairs(monkeypatch):
    seen = []
    crf = fitted(monkeypatch, 1, tol=1e-4, callbacks=[seen.append])
    rounds = [row for row in seen if row.working_gap is not None]
    assert rounds, "iterations of a working set"
    # A bound of all pairs is one of the working set, too.
    assert all(row.working_gap <= row.relative_gap * (1 + 1e-9) for row in rounds)
    numbers = [row.iteration for row in rounds]
    assert len(set(numbers)) == len(numbers), "each iteration is shown once, and once more with the bound of its round"
    assert "in the working set" in describe(rounds[0])
    assert "in the working set" not in describe(seen[-1])
    assert crf.solution_.passes == seen[-1].passes


@pytest.mark.parametrize("many", [1, 10**9])
def test_a_fit_whose_value_has_settled_ends_within_three_per_cent(monkeypatch, many):
    weak = {"prior_variance": 1e4, "l1": 0.1}
    crf, tight = (fitted(monkeypatch, many, **weak, tol=tol) for tol in ("auto", 1e-4))
    assert crf.solution_.reason == "settled"
    assert crf.solution_.converged
    assert crf.solution_.relative_gap <= 0.03
    assert crf.solution_.value <= tight.solution_.value * 1.001
    assert crf.n_iter_ < tight.n_iter_


def row(value, lower_bound):
    return Iteration(10, 10.0, 1.0, value, lower_bound, 1.0, 1.0)


def test_a_bound_that_still_moves_is_waited_for_and_one_that_is_stuck_is_not():
    settled = partial(has_settled, tol=1e-3, enough=10.0)
    assert not settled(row(1002.0, 0.0), row(1000.0, 0.0)), "the value falls"
    assert settled(row(1000.5, 500.0), row(1000.0, 980.0)), "the gap is small"
    assert not settled(row(1000.5, 500.0), row(1000.0, 600.0)), "the gap falls"
    assert not settled(row(1000.5, 50.0), row(1000.0, 60.0)), "the bound rises"
    assert settled(row(1000.5, 500.0), row(1000.0, 510.0)), "the gap is stuck"
    assert settled(row(1000.5, 0.0), row(1000.0, 0.0)), "there is no bound"
    assert not has_settled(row(1000.5, 500.0), row(1000.0, 980.0), tol=1e-3, enough=0.0), "a number for tol"


def test_the_pilot_fit_with_l1_is_where_the_fit_starts():
    X, y = words(200)
    crf = ChainCRF(**{**TIGHT, "prior_variance": "auto", "support": "all", "l1": 0.4}).fit(X, y)
    assert crf.solution_.history[0].coefficient_norm > 0.0
