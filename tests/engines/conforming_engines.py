"""The engines of the conformance suite, and one small problem on each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.fit_parts import parts_of_fit
from kernelfields import ChainCRF
from kernelfields.engines.threads import Threads
from kernelfields.objective.posterior import LogPosterior

ENGINES = [
    "threads",
    "features in a file",
    "features recomputed",
    "torch on the processor",
    "torch on CUDA",
    "dask",
]
#: Relative agreement in float64.
EXACT = 1e-10
N_LABELS = 3


def engine_named(name):
    """Return an engine, or skip the test where it cannot run."""
    if name == "threads":
        return Threads()
    if name.startswith("features"):
        return ThreadsElsewhere(name.split()[-1])
    if name == "dask":
        return dask_engine_here()
    torch = pytest.importorskip("torch")
    from kernelfields.engines.torch.engine import Torch

    if name == "torch on CUDA" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return Torch("cuda" if name == "torch on CUDA" else "cpu")


def dask_engine_here():
    """Return the engine of a cluster of two workers in this process."""
    distributed = pytest.importorskip("distributed")
    from kernelfields.engines.dask.engine import Dask

    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=False
    )
    return Dask(distributed.Client(cluster))


def close(engine):
    """End what an engine has started."""
    client = getattr(engine, "client", None)
    if client is not None:
        client.close()
        client.cluster.close()


class ThreadsElsewhere(Threads):
    """Threads with features kept in one way, however little memory they would take."""

    def __init__(self, keep):
        super().__init__(memory="1GB")
        self.keep = keep

    def place(self, data, structure, settings):
        """Return labelled data whose features are kept elsewhere."""
        sample = super().place(data, structure, settings)
        plan = sample.memory_plan
        sample.memory_plan = lambda *sizes: replace(plan(*sizes), keep=self.keep)
        return sample


def sequences(seed=0):
    """Return ragged sequences, one of them of length one, with labels that follow the inputs."""
    random = np.random.default_rng(seed)
    lengths = [5, 1, 7, 3, 6, 2, 4, 9]
    centres = random.normal(size=(N_LABELS, 4))
    y = [random.integers(N_LABELS, size=length) for length in lengths]
    return [centres[labels] + random.normal(size=(len(labels), 4)) for labels in y], y


def problem(engine, cliques):
    """Return the posterior of a field on an engine, and its designs; sequences have weights."""
    X, y = sequences()
    weights = np.array([1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 1.0, 0.25])
    crf = ChainCRF(cliques=cliques, tol=1e-12, dtype="float64", random_state=0)
    _, sample, designs = parts_of_fit(crf, X, y, weights, engine)
    return LogPosterior(sample.datafit(designs)), designs
