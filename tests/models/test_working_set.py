"""Working sets: the optimum over all pairs of features and labels, found on few of them."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields import ChainCRF
from kernelfields.models import working_set

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


@pytest.mark.parametrize("many", [1, 10**9])
def test_a_fit_ends_where_its_value_has_settled(monkeypatch, many):
    crf, tight = (fitted(monkeypatch, many, prior_variance=1e4, tol=tol) for tol in ("auto", 1e-4))
    assert crf.solution_.converged
    assert crf.solution_.reason == "settled"
    assert crf.solution_.value <= tight.solution_.value * 1.001
    assert crf.n_iter_ < tight.n_iter_


def test_the_pilot_fit_with_l1_is_where_the_fit_starts():
    X, y = words(200)
    crf = ChainCRF(**{**TIGHT, "prior_variance": "auto", "support": "all", "l1": 0.4}).fit(X, y)
    assert crf.solution_.history[0].coefficient_norm > 0.0
