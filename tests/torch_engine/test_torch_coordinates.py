"""The coordinates of a metric and the pairs of L-BFGS on a device are those of the host."""

import numpy as np
import pytest

from benchmarks.fit_parts import posterior_of_fit
from kernelfields import ChainCRF
from kernelfields.engines import Torch
from kernelfields.objective import coordinates
from kernelfields.solvers.lbfgs import StepPairs
from samples import labelled_sequences

torch = pytest.importorskip("torch")
on_device = pytest.importorskip("kernelfields.engines.torch.step_pairs")
TorchTable = pytest.importorskip("kernelfields.engines.torch.tables").TorchTable

X, y = labelled_sequences(n_sequences=30, n_features=4)
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("storage", ["float64", "float32", "half"])
@pytest.mark.parametrize("stride", [1, 3])
def test_gram_matrices_are_those_of_the_stored_rows(device, storage, stride):
    features = np.random.default_rng(0).normal(size=(50, 5)).astype(np.float32)
    table = TorchTable(features, storage, device, summed_rows=8)
    rows = table[np.arange(0, 50, stride)]
    expected = stride * rows.T @ rows
    np.testing.assert_allclose(table.gram(slice(0, None, stride)).cpu().numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_pairs_on_a_device_answer_as_those_of_the_host(monkeypatch, device):
    monkeypatch.setattr(coordinates, "SAMPLE_RATIO", 10**6)
    crf = ChainCRF("rbf", rank=8, prior_variance=3.0, dtype="float64", random_state=0)
    host, remote = posterior_of_fit(crf, X, y), posterior_of_fit(crf, X, y, engine=Torch(device))
    assert len(host.metric.dense_sets) == len(remote.metric.dense_sets) == 1
    metric = host.metric.at_start
    here = StepPairs(3, host.metric.coordinates(metric, np.dtype(np.float64)))
    there = remote.metric.memory(3, metric)
    rng = np.random.default_rng(0)
    for _ in range(5):
        step, change = rng.normal(size=(2, host.size))
        change += 5 * step
        for pairs in (here, there):
            pairs.add(step, change, float(step @ change))
        vector = rng.normal(size=host.size)
        some = np.ones(host.size, dtype=bool)
        some[host.metric.dense_sets[0].rows.stop :: 2] = False
        for free in (None, some):
            expected = here.inverse_product(vector, free)
            np.testing.assert_allclose(there.inverse_product(vector, free), expected, rtol=1e-4, atol=1e-4)


def test_a_metric_for_which_there_is_no_room_is_left_out(monkeypatch):
    def full(self, stride=1):
        raise torch.OutOfMemoryError("CUDA out of memory")

    settings = {"kernel": "rbf", "rank": 8, "prior_variance": 3.0, "tol": 1e-7, "dtype": "float64", "random_state": 0}
    measured = ChainCRF(engine=Torch("cpu"), **settings).fit(X, y)
    monkeypatch.setattr(TorchTable, "gram", full)
    plain = ChainCRF(engine=Torch("cpu"), **settings).fit(X, y)
    assert plain.solution_.converged
    assert plain.solution_.value == pytest.approx(measured.solution_.value, rel=1e-6)


def test_errors_that_are_not_of_memory_are_raised(monkeypatch):
    monkeypatch.setattr(on_device.torch.linalg, "cholesky_ex", lambda matrix: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ChainCRF("rbf", rank=8, prior_variance=3.0, engine=Torch("cpu"), solver="lbfgs", random_state=0).fit(X, y)
