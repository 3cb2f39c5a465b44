"""Development sets: the fit stops when they no longer improve, and keeps what was best there."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields import ChainCRF
from kernelfields.basis import Gradient


def noisy_chains(n, seed, n_features=60):
    """Many features that mean nothing, so that a weak prior overfits."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = random.integers(0, 3, size=int(random.integers(3, 9)))
        inputs = random.normal(size=(len(labels), n_features))
        inputs[:, 0] += labels
        X.append(inputs)
        y.append(labels)
    return X, y


TRAIN, DEV = noisy_chains(25, 0), noisy_chains(40, 1)
KINDS = {
    "dense": ({"kernel": "linear"}, lambda x: x),
    "sparse": ({"kernel": "linear"}, sp.csr_array),
    "observed": ({"kernel": "linear", "support": "observed"}, lambda x: sp.csr_array(np.where(x > 0.5, x, 0.0))),
    "pivots": ({"kernel": "rbf", "rank": 50, "random_state": 0}, lambda x: x),
    "words": (
        {"kernel": "linear", "support": "observed", "l1": 0.01},
        lambda x: [[f"{j}" for j in np.flatnonzero(row > 1)] for row in x],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_on_the_development_set_is_kept(kind):
    parameters, convert = KINDS[kind]
    X, X_dev = [convert(x) for x in TRAIN[0]], [convert(x) for x in DEV[0]]
    field = ChainCRF(prior_variance=1e4, solver="lbfgs", tol=1e-9, max_iter=500, **parameters)
    field.fit(X, TRAIN[1], X_dev=X_dev, y_dev=DEV[1])
    scores = field.dev_log_likelihoods_
    assert field.solution_.reason == "early"
    assert len(scores) == field.solution_.iterations + 1
    best = int(np.argmax(scores))
    assert best == len(scores) - 6
    assert field.log_likelihood(X_dev, DEV[1]) == pytest.approx(scores[best], rel=1e-9)
    assert field.solution_.value == field.solution_.history[best].value


def test_a_fit_that_converges_first_is_not_stopped():
    field = ChainCRF("linear", prior_variance=1e-3)
    field.fit(*TRAIN, X_dev=DEV[0], y_dev=DEV[1])
    assert field.solution_.converged
    assert ChainCRF("linear").fit(*TRAIN).dev_log_likelihoods_ is None


def test_development_sets_that_cannot_be_used():
    with pytest.raises(ValueError, match="both X_dev and y_dev"):
        ChainCRF("linear").fit(*TRAIN, X_dev=DEV[0])
    with pytest.raises(ValueError, match="development set: unknown label 7"):
        ChainCRF("linear").fit(*TRAIN, X_dev=DEV[0], y_dev=[np.full(len(labels), 7) for labels in DEV[1]])
    with pytest.raises(ValueError, match="development set: X has 59 features"):
        ChainCRF("linear").fit(*TRAIN, X_dev=[x[:, 1:] for x in DEV[0]], y_dev=DEV[1])
    with pytest.raises(ValueError, match="cannot be stopped by a development set"):
        ChainCRF("rbf", basis=Gradient(40)).fit(*TRAIN, X_dev=DEV[0], y_dev=DEV[1])
