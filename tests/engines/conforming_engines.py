"""The engines of the conformance suite, and one small problem on each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.fit_parts import parts_of_fit
from kernelfields import (
    ChainCRF,
    EdgeCliques,
    GraphCRF,
    KernelClassifier,
    LabelDictionary,
    LabelNgrams,
    MultiLabelCRF,
    NodeCliques,
    RingCRF,
    SegmentCRF,
    SkipCliques,
)
from kernelfields.engines import Threads
from kernelfields.kernels import RBF
from kernelfields.objective import LogPosterior

ENGINES = [
    "threads",
    "features in a file",
    "torch on the processor",
    "torch on CUDA",
    "torch with features on the host",
    "torch with features recomputed",
]
#: Relative agreement in float64.
EXACT = 1e-10
N_LABELS = 3


def engine_named(name):
    """Return an engine, or skip the test where it cannot run."""
    if name == "threads":
        return Threads()
    if name.startswith("features"):
        return ThreadsWithFile()
    torch = pytest.importorskip("torch")
    from kernelfields.engines import Torch

    if name.startswith("torch with"):
        return torch_elsewhere(name.split()[-1])
    if name == "torch on CUDA" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return Torch("cuda" if name == "torch on CUDA" else "cpu")


def torch_elsewhere(keep):
    """Return the torch engine with features kept in one way, however little memory they would take."""
    import torch

    from kernelfields.engines import Torch
    from kernelfields.engines.torch.memory import DevicePlan

    class TorchElsewhere(Torch):
        def place(self, data, spec, settings):
            sample = super().place(data, spec, settings)
            sample._plan = lambda inputs, rank, precision: DevicePlan(keep, inputs.shape[0])
            return sample

    return TorchElsewhere("cuda" if torch.cuda.is_available() else "cpu")


class ThreadsWithFile(Threads):
    """Threads with features in a file, however little memory they would take."""

    def __init__(self):
        super().__init__(memory="1GB")

    def place(self, data, structure, settings):
        """Return labelled data whose features are kept elsewhere."""
        sample = super().place(data, structure, settings)
        plan = sample.memory.plan
        sample.memory.plan = lambda *sizes: replace(plan(*sizes), keep="file")
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


# ---- every estimator

#: Engines on which every estimator is fitted, beside threads.
DEVICES = [
    "torch on the processor",
    "torch on CUDA",
    "torch with features on the host",
    "torch with features recomputed",
]
KERNEL = {"kernel": RBF(0.3), "rank": 8}
TIGHT = {"prior_variance": 1.0, "dtype": "float64", "tol": 1e-10, "max_iter": 3000, "n_jobs": 1, "random_state": 0}
NODES = NodeCliques(RBF(0.3), rank=8)


def hidden(labels):
    """Return labels of which every third is not known, and every fifth may be another one, too."""
    rest = [{int(label), (int(label) + 1) % N_LABELS} if t % 5 == 1 else int(label) for t, label in enumerate(labels)]
    return [None if t % 3 == 2 else label for t, label in enumerate(rest)]


def on_sequences(estimator, column=None):
    """Return an estimator of sequences and its data; ``column`` holds 0 for the first label, 1 for others."""
    X, y = sequences()
    if column is not None:
        for rows, labels in zip(X, y, strict=True):
            rows[:, column] = labels > 0
    return estimator, X, y, [hidden(labels) for labels in y]


def on_graphs(estimator, *, cycles):
    """Return an estimator of graphs and its data: stars, or circles."""
    X, y = sequences()
    graphs = []
    for rows in X:
        others = np.arange(1, len(rows))
        edges = np.column_stack([others - 1, others] if cycles else [np.zeros_like(others), others])
        closing = np.array([[0, len(rows) - 1]] if cycles and len(rows) > 2 else []).reshape(-1, 2)
        graphs.append((rows, np.concatenate([edges, closing]).astype(np.int64)))
    return estimator, graphs, y, [hidden(labels) for labels in y]


def on_samples(estimator):
    """Return a classifier of single inputs and its data."""
    X, y = sequences()
    labels = np.concatenate(y).tolist()
    partly = [None if t % 3 == 2 else label for t, label in enumerate(labels)]
    return estimator, np.concatenate(X), labels, partly


def on_instances(**settings):
    """Return an estimator of four yes-or-no labels and its data."""
    random = np.random.default_rng(0)
    X = random.normal(size=(24, 4))
    y = (X + random.normal(size=(24, 1)) + 0.5 * random.normal(size=(24, 4)) > 0).astype(float)
    partly = y.copy()
    partly[::3, 1] = partly[1::4, 3] = np.nan
    return MultiLabelCRF(**KERNEL, **TIGHT, **settings), X, y.astype(int), partly


#: Functions that return an estimator, X, y, and y of which some is not known.
ESTIMATORS = {
    "chains": lambda: on_sequences(ChainCRF(**KERNEL, **TIGHT)),
    "chains, edges that see": lambda: on_sequences(ChainCRF(**KERNEL, **TIGHT, edges=EdgeCliques(RBF(0.2), rank=6))),
    "chains, sparse weights": lambda: on_sequences(ChainCRF("linear", **TIGHT, support="observed")),
    "chains, allowed labels": lambda: on_sequences(
        ChainCRF(**KERNEL, **TIGHT, allowed=LabelDictionary(0, min_count=1)), column=0
    ),
    "n-grams": lambda: on_sequences(ChainCRF(cliques=[NODES, EdgeCliques(), LabelNgrams(n=3, support="all")], **TIGHT)),
    "far apart": lambda: on_sequences(ChainCRF(cliques=[NODES, EdgeCliques(), SkipCliques(lag=2)], **TIGHT)),
    "rings": lambda: on_sequences(RingCRF(**KERNEL, **TIGHT)),
    "segments": lambda: on_sequences(SegmentCRF(**KERNEL, **TIGHT, max_duration=9)),
    "trees": lambda: on_graphs(GraphCRF(**KERNEL, **TIGHT), cycles=False),
    "graphs": lambda: on_graphs(GraphCRF(**KERNEL, **TIGHT), cycles=True),
    "graphs, approximate": lambda: on_graphs(GraphCRF(**KERNEL, **TIGHT, inference="trw"), cycles=True),
    "single labels": lambda: on_samples(KernelClassifier(**KERNEL, **TIGHT)),
    "several labels, a tree": lambda: on_instances(label_graph="tree"),
    "several labels, a table": lambda: on_instances(label_graph="full"),
    "several labels, edges that see": lambda: on_instances(label_graph="full", edges=EdgeCliques(RBF(0.2))),
    "several labels, apart": lambda: on_instances(label_graph="none"),
}


def problem_of(engine, name, *, partly):
    """Return the posterior of an estimator on an engine, all labels known or some of them."""
    estimator, X, y, some = ESTIMATORS[name]()
    _, sample, designs = parts_of_fit(estimator, X, some if partly else y, None, engine)
    return LogPosterior(sample.datafit(designs))
