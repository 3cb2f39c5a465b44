"""The engine of an estimator, and its memory, reach everything that puts features somewhere."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from kernelfields import (
    ChainCRF,
    ChainCRFCV,
    FieldSearchCV,
    GraphCRF,
    KernelClassifier,
    MultiLabelCRF,
    SkipCliques,
)
from kernelfields.engines import Threads
from kernelfields.estimators import StructureSearch
from kernelfields.kernels import RBF
from kernelfields.models.callbacks import Checkpoint
from tests.samples import labelled_instances, labelled_sequences

X, Y = labelled_sequences(24)
SETTINGS = {"kernel": "rbf", "rank": 10, "tol": 0.01, "random_state": 0}


class Watched(Threads):
    """Threads that note the data put there, and the ways in which features were kept."""

    def __init__(self, memory="1GB"):
        super().__init__(memory)
        self.placed, self.kept = [], []

    def place(self, data, structure, settings):
        """Return data whose plans are noted, too."""
        sample = super().place(data, structure, settings)
        self.placed.append(data.n_positions)
        planned = sample.memory_plan

        def plan(*sizes, **options):
            found = planned(*sizes, **options)
            self.kept.append(found.keep)
            return found

        sample.memory_plan = plan
        return sample


def search_on(engine):
    crf = ChainCRF(engine=engine, **SETTINGS)
    return ChainCRFCV(crf, kernels=["rbf"], prior_variances=(0.1, 1.0), ranks=[10], cv=3)


def positions(sequences):
    return sum(map(len, sequences))


def test_a_fit_and_its_development_set():
    engine = Watched()
    ChainCRF(engine=engine, **SETTINGS).fit(X[6:], Y[6:], X_dev=X[:6], y_dev=Y[:6])
    assert sorted(engine.placed) == sorted([positions(X[6:]), positions(X[:6])])
    assert len(engine.kept) == 2


def test_warm_starts():
    engine = Watched()
    crf = ChainCRF(engine=engine, warm_start=True, **SETTINGS).fit(X, Y)
    engine.placed.clear()
    engine.kept.clear()
    crf.fit(X[6:], Y[6:])
    assert engine.placed == [positions(X[6:])]
    assert len(engine.kept) == 1


def test_fits_taken_up_from_a_checkpoint(tmp_path):
    path = tmp_path / "checkpoint"
    ChainCRF(engine=Threads("1GB"), callbacks=[Checkpoint(path, 0.0)], **SETTINGS).fit(X, Y)
    resumed = ChainCRF.load(path)
    assert resumed.engine.memory == "1GB"
    engine = Watched()
    resumed.set_params(warm_start=True, engine=engine).fit(X, Y)
    assert engine.placed == [positions(X)]
    assert len(engine.kept) == 1


@pytest.mark.slow
def test_cross_validation():
    engine = Watched()
    search = ChainCRFCV(
        ChainCRF(engine=engine, **SETTINGS), kernels=["rbf"], prior_variances=(0.1, 1.0), ranks=[10], cv=3
    )
    search.fit(X, Y)
    # A training and a held-out part of each fold, and the fit of the winner to all sequences.
    assert len(engine.placed) >= 2 * 3 + 1
    assert positions(X) in engine.placed
    assert len(engine.kept) == len(engine.placed)


@pytest.mark.parametrize("kind", ["graph", "several labels", "classifier"])
def test_cross_validation_of_the_other_estimators(kind):
    engine = Watched()
    if kind == "graph":
        graphs = [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in X]
        search, data = FieldSearchCV(GraphCRF(engine=engine, **SETTINGS)), (graphs, Y)
    elif kind == "several labels":
        search, data = FieldSearchCV(MultiLabelCRF(engine=engine, **SETTINGS)), labelled_instances(30)
    else:
        search, data = FieldSearchCV(KernelClassifier(engine=engine, **SETTINGS)), load_iris(return_X_y=True)
    search.set_params(kernels=[RBF(0.1)], prior_variances=[1.0], cv=2).fit(*data)
    # A training and a held-out part of each fold, and all data.
    assert len(engine.placed) == 2 * 2 + 1
    assert len(engine.kept) == len(engine.placed)


def test_laplace_and_evidence():
    engine = Watched()
    crf = ChainCRF(engine=engine, **SETTINGS).fit(X, Y)
    engine.placed.clear()
    crf.laplace(X, Y, n_samples=2)
    assert engine.placed == [positions(X)]
    engine.placed.clear()
    clone(crf).fit(X, Y, optimize="evidence")
    assert engine.placed == [positions(X)]


def test_structure_learning():
    engine = Watched()
    search = StructureSearch([SkipCliques()], max_additions=1, validation=0.25)
    ChainCRF(engine=engine, cliques=search, **SETTINGS).fit(X, Y)
    assert len(engine.placed) >= 2


@pytest.mark.parametrize("kind", ["graph", "several labels", "classifier"])
def test_the_other_estimators_and_their_laplace(kind):
    engine = Watched()
    if kind == "graph":
        graphs = [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in X]
        estimator, data = GraphCRF(engine=engine, **SETTINGS), (graphs, Y)
    elif kind == "several labels":
        estimator, data = MultiLabelCRF(engine=engine, **SETTINGS), labelled_instances(60)
    else:
        estimator, data = KernelClassifier(engine=engine, **SETTINGS), load_iris(return_X_y=True)
    estimator.fit(*data)
    assert len(engine.placed) == 1
    assert engine.kept
    estimator.laplace(*data, n_samples=2)
    assert len(engine.placed) == 2


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
