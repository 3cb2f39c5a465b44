"""A budget of memory that is too small is refused wherever features are put."""

import pytest

from kernelfields import ChainCRF, ChainCRFCV
from kernelfields.engines import Threads
from tests.samples import labelled_sequences

X, Y = labelled_sequences(24)
SETTINGS = {"kernel": "rbf", "rank": 10, "tol": 0.01, "random_state": 0}


def search_on(engine):
    crf = ChainCRF(engine=engine, **SETTINGS)
    return ChainCRFCV(crf, kernels=["rbf"], prior_variances=(0.1, 1.0), ranks=[10], cv=3)


SMALL = Threads("10kB")
ROADS = {
    "fit": lambda: ChainCRF(engine=SMALL, **SETTINGS).fit(X, Y),
    "development set": lambda: ChainCRF(engine=SMALL, **SETTINGS).fit(X[12:], Y[12:], X_dev=X[:12], y_dev=Y[:12]),
    "warm start": lambda: ChainCRF(**SETTINGS).fit(X, Y).set_params(engine=SMALL, warm_start=True).fit(X, Y),
    "laplace": lambda: ChainCRF(**SETTINGS).fit(X, Y).set_params(engine=SMALL).laplace(X, Y),
    "cross-validation": lambda: search_on(SMALL).fit(X, Y),
}


@pytest.mark.parametrize("road", ROADS)
def test_a_budget_that_is_too_small_is_refused_on_every_road(road):
    with pytest.raises((MemoryError, ValueError), match="do not fit"):
        ROADS[road]()
