"""Shards answer as threads do, whichever labels meet and whatever is known of them."""

import numpy as np
import pytest
from dask_fits import posterior

from benchmarks.fit_parts import parts_of_fit
from kernelfields import GraphCRF, KernelClassifier, MultiLabelCRF, RingCRF, SegmentCRF
from kernelfields.fields.cliques import EdgeCliques
from kernelfields.fields.segments import DurationCliques, SegmentCliques
from kernelfields.inference.approximate.base import TreeReweighted
from kernelfields.kernels.stationary import RBF

pytest.importorskip("distributed")
DaskHere = pytest.importorskip("shards_here").DaskHere

SHARED = {"rank": 12, "random_state": 0, "dtype": "float64", "prior_variance": 2.0, "scale": False}


def sequences(random):
    y = [np.sort(random.integers(3, size=4 + number % 3)) for number in range(9)]
    return [np.column_stack([own, own == 1]) + random.normal(size=(len(own), 2)) for own in y], y


def graphs(random):
    """Squares with a diagonal, and paths; edges have inputs."""
    X, y = [], []
    for number in range(8):
        edges = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]][: 5 if number % 3 else 3])
        labels = random.integers(2, size=4)
        X.append((labels[:, None] + random.normal(size=(4, 2)), edges, random.normal(size=(len(edges), 2))))
        y.append(labels)
    return X, y


def table(random, n_labels=None):
    y = random.integers(3, size=20) if n_labels is None else random.integers(2, size=(20, n_labels))
    return random.normal(size=(20, 2)) + (y[:, None] if n_labels is None else y[:, :2]), y


def gaps(y, random):
    """Leave out a third of the labels of sequences and graphs, or of those of samples."""
    if isinstance(y, np.ndarray):
        return np.where(random.random(y.shape) < 0.3, None if y.ndim == 1 else np.nan, y)
    return [[None if random.random() < 0.3 else label for label in own] for own in y]


FIELDS = {
    "ring": (RingCRF("rbf", edges=EdgeCliques(RBF(0.5)), **SHARED), sequences),
    "segments": (SegmentCRF("rbf", max_duration=5, segments=SegmentCliques(RBF(0.5)), **SHARED), sequences),
    "linear durations": (
        SegmentCRF("linear", durations=DurationCliques("linear"), max_duration=5, **SHARED),
        sequences,
    ),
    "repeats": (SegmentCRF("rbf", max_duration=3, repeats=True, **SHARED), sequences),
    "graphs": (GraphCRF("rbf", edge_kernel=RBF(0.5), **SHARED), graphs),
    "loopy": (GraphCRF("linear", inference=TreeReweighted(1e-13), **SHARED), graphs),
    "single": (KernelClassifier("rbf", class_weight="balanced", **SHARED), table),
    "instances": (MultiLabelCRF("rbf", edge_kernel="linear", **SHARED), lambda random: table(random, 3)),
    "tree": (MultiLabelCRF("linear", label_graph="tree", **SHARED), lambda random: table(random, 4)),
}


def close(left, right, what):
    np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(right).max()), err_msg=what)


@pytest.mark.parametrize("known", ["all", "some"])
@pytest.mark.parametrize("name", FIELDS)
def test_shards_answer_as_threads_do(name, known):
    estimator, draw = FIELDS[name]
    random = np.random.default_rng(0)
    X, y = draw(random)
    weights = random.uniform(0.5, 2.0, size=len(X)) if known == "all" else None
    y = y if known == "all" else gaps(y, random)
    here, there = (posterior(*parts_of_fit(estimator, X, y, weights, engine)) for engine in ("threads", DaskHere()))
    assert [block.shape for block in here.blocks] == [block.shape for block in there.blocks]
    theta, direction = 0.3 * random.normal(size=(2, here.size))
    expected, found = here.at(theta), there.at(theta)
    close(found.value, expected.value, "value")
    close(found.gradient, expected.gradient, "gradient")
    close(there.value_at_zero, here.value_at_zero, "value at zero")
    close(there.metric, here.metric, "metric")
    assert (there.convex, there.approximation) == (here.convex, here.approximation)
    assert there.datafit.family.method == here.datafit.family.method
    there.datafit.group.lose(0)
    if here.approximation is None:
        product = here.hessian_product(expected, direction)[0]
        close(there.hessian_product(found, direction)[0], product, "Hessian product")
    if not here.convex:
        frozen = [each.frozen(theta).at(0.5 * theta) for each in (here, there)]
        close(frozen[1].gradient, frozen[0].gradient, "gradient of completed labels")


def test_graphs_that_need_approximate_inference_have_it_in_every_shard(monkeypatch):
    """A dense graph is too wide for a junction tree: as on one machine, graphs of other shards are inferred alike."""
    monkeypatch.setattr("kernelfields.inference.junction.plan.available_memory", lambda: 1e4)
    random = np.random.default_rng(0)
    X, y = graphs(random)
    dense = np.argwhere(np.triu(np.ones((12, 12)), 1))
    X[0] = (random.normal(size=(12, 2)), dense, random.normal(size=(len(dense), 2)))
    y[0] = random.integers(2, size=12)
    field = GraphCRF("linear", **SHARED)
    for engine in ("threads", DaskHere()):
        there = posterior(*parts_of_fit(field, X, y, engine=engine))
        assert there.approximation == "trw"
        assert there.datafit.family.exact is False
        assert there.datafit.warnings == []
