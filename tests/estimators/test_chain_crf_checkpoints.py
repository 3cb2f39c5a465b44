"""Checkpoints: models written during a fit, from which a killed fit goes on to the same optimum."""

import os

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from kernelfields import ChainCRF, EdgeCliques
from kernelfields.estimators import Checkpoint
from tests.samples import labelled_sequences

X, y = labelled_sequences(20)
X_dev, y_dev = labelled_sequences(6, seed=1)
TIGHT = {"tol": 1e-10, "max_iter": 500, "random_state": 0}


class EveryState(Checkpoint):
    """A checkpoint that keeps each snapshot beside the file."""

    def __init__(self, path):
        super().__init__(path, 0.0)
        self.seen = []

    def end(self, estimator):
        self.seen.append(estimator)
        super().end(estimator)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("edge_kernel", [None, "linear"])
def test_every_snapshot_is_the_field_of_its_iteration(tmp_path, kernel, edge_kernel):
    states = EveryState(tmp_path / "model")
    crf = ChainCRF(kernel, edges=EdgeCliques(edge_kernel), rank=15, tol=1e-6, random_state=0)
    crf.set_params(callbacks=[states]).fit(X, y)
    *during, last = states.seen
    assert last is crf
    assert len(during) == crf.solution_.iterations + 1
    for state, iteration in zip(during, crf.solution_.history, strict=True):
        assert state.solution_.value == iteration.value
        assert state.solution_.lower_bound == iteration.lower_bound
        assert state.solution_.history[-1] == iteration
        assert state.certify(X, y, scope="span").value == pytest.approx(iteration.value, rel=1e-9)
        assert state.rkhs_certificate_.lower_bound <= crf.solution_.value


@pytest.mark.parametrize("settings", [{"kernel": "rbf", "rank": 15}, {"kernel": "linear", "support": "observed"}])
@pytest.mark.parametrize("cut", [0, 2, 5])
def test_a_fit_goes_on_from_a_checkpoint_to_the_same_optimum(tmp_path, settings, cut):
    path = tmp_path / "model"
    fully = ChainCRF(**settings, **TIGHT).fit(X, y)
    crf = ChainCRF(**settings, **{**TIGHT, "max_iter": max(cut, 1)}, callbacks=[Checkpoint(path)])
    with pytest.warns(ConvergenceWarning):
        crf.fit(X, y)
    continued = ChainCRF.load(path).set_params(warm_start=True, **TIGHT).fit(X, y)
    assert continued.solution_.converged
    assert continued.solution_.history[0].value == pytest.approx(crf.solution_.value, rel=1e-12)
    assert continued.solution_.value == pytest.approx(fully.solution_.value, rel=1e-9)


def test_with_a_development_set_the_best_one_there_is_written(tmp_path):
    states = EveryState(tmp_path / "model")
    crf = ChainCRF("linear", prior_variance=100.0, **TIGHT)
    crf.set_params(callbacks=[states])
    crf.fit(X, y, X_dev=X_dev, y_dev=y_dev)
    assert crf.dev_log_likelihoods_[-1] < max(crf.dev_log_likelihoods_)
    best = [state.log_likelihood(X_dev, y_dev) for state in states.seen]
    np.testing.assert_allclose(best[:-1], np.maximum.accumulate(crf.dev_log_likelihoods_), rtol=1e-9)


def test_an_interrupted_fit_leaves_its_last_state(tmp_path):
    def interrupt(iteration):
        if iteration.iteration == 2:
            raise KeyboardInterrupt

    crf = ChainCRF(rank=15, callbacks=[interrupt, Checkpoint(tmp_path / "model", 3600)], **TIGHT)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        crf.fit(X, y)
    assert ChainCRF.load(tmp_path / "model").solution_.value == crf.solution_.value


def test_a_file_that_cannot_be_written_warns_and_the_fit_goes_on(tmp_path):
    (tmp_path / "model").mkdir()
    crf = ChainCRF(rank=15, random_state=0, callbacks=[Checkpoint(tmp_path / "model")])
    with pytest.warns(RuntimeWarning, match="no checkpoint was written, the fit goes on: .*model"):
        crf.fit(X, y)
    assert crf.solution_.converged


def test_bad_checkpoints_are_named_before_the_fit(tmp_path):
    def fit(*arguments, **settings):
        ChainCRF(callbacks=[Checkpoint(*arguments)], **settings).fit(X, y)

    with pytest.raises(FileNotFoundError, match=r"there is no folder .*absent; create it first"):
        fit(tmp_path / "absent" / "model")
    with pytest.raises(ValueError, match="seconds between checkpoints must be a number of at least 0, got -1"):
        fit(tmp_path / "model", -1)
    with pytest.raises(ValueError, match="grows by the gradient cannot be taken up again from a checkpoint"):
        fit(tmp_path / "model", basis="gradient")
    assert os.listdir(tmp_path) == []


def test_estimators_with_checkpoints_can_be_cloned(tmp_path):
    crf = clone(ChainCRF(rank=15, random_state=0, callbacks=[Checkpoint(tmp_path / "model", 5.0)]))
    assert (crf.callbacks[0].path, crf.callbacks[0].seconds) == (tmp_path / "model", 5.0)
