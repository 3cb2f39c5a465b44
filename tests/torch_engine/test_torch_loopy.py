"""Loopy belief propagation on a device against the sweeps of the host, and against enumeration where it is exact."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kernelfields import GraphCRF  # noqa: E402
from kernelfields.engines import Torch  # noqa: E402
from kernelfields.engines.torch.loopy import TorchLoopyFamily  # noqa: E402
from kernelfields.inference import LoopyBelief, Potentials  # noqa: E402
from kernelfields.inference.approximate.belief_propagation import PropagationFamily  # noqa: E402
from kernelfields.kernels import RBF  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA"))]
OPTIONS = LoopyBelief(tolerance=1e-11, max_iter=1000)


def two_graphs(tied, n_labels=3):
    """Return a ring of four nodes with a chord in another group, beside a chain of three."""
    random = np.random.default_rng(3)
    members = [np.array([[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [6, 5]]), np.array([[0, 2]])]
    family = PropagationFamily(np.array([0, 4, 7]), members, n_labels, OPTIONS)
    tables = [0.5 * random.normal(size=(1 if tied else len(pairs), n_labels, n_labels)) for pairs in members]
    tables[0][0, 0, 1] = -np.inf
    node = random.normal(size=(7, n_labels))
    node[5, 2] = -np.inf
    return family, Potentials(node, {"0": tables[0], "1": tables[1]})


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("weights", [None, np.array([2.0, 0.5])])
@pytest.mark.parametrize("tied", [True, False])
def test_beliefs_are_those_of_the_host(device, tied, weights):
    family, potentials = two_graphs(tied)
    there = TorchLoopyFamily.from_host(family, torch.device(device))
    ours = there.distribution(there.arrangement.place_potentials(potentials), there.arrangement.place_array(weights))
    host = family.distribution(potentials, weights)
    np.testing.assert_allclose(ours.log_partition.cpu(), host.log_partition, rtol=1e-9)
    for group in (None, "0", "1"):
        np.testing.assert_allclose(ours.marginals(group).cpu(), host.marginals(group), atol=1e-9)
    for mine, theirs in zip(ours.mean().arrays, host.mean().arrays, strict=True):
        np.testing.assert_allclose(mine.cpu(), theirs, atol=1e-8)
    assert not ours.warnings
    with pytest.raises(TypeError, match="Hessian products need exact inference"):
        ours.covariance_product(ours.mean())


@pytest.mark.parametrize("device", DEVICES)
def test_it_is_exact_on_forests_and_begins_with_the_last_messages(device):
    random = np.random.default_rng(0)
    family = PropagationFamily(np.array([0, 5]), [np.array([[0, 1], [1, 2], [3, 1]])], 3, OPTIONS)
    there = TorchLoopyFamily.from_host(family, torch.device(device))
    potentials = Potentials(random.normal(size=(5, 3)), {"0": random.normal(size=(1, 3, 3))})
    labels = np.indices((3,) * 5).reshape(5, -1)
    scores = potentials.node[np.arange(5)[:, None], labels].sum(axis=0)
    for u, v in family.members[0]:
        scores += potentials.tables["0"][0][labels[u], labels[v]]
    for _ in range(2):
        value = there.distribution(there.arrangement.place_potentials(potentials)).log_partition
        assert float(value[0]) == pytest.approx(np.logaddexp.reduce(scores), rel=1e-11)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_impossible_or_does_not_settle_is_reported(device):
    family, potentials = two_graphs(True)
    potentials.node[5] = -np.inf
    there = TorchLoopyFamily.from_host(family, torch.device(device))
    with pytest.raises(ValueError, match="graph 1"):
        there.distribution(there.arrangement.place_potentials(potentials))
    family, potentials = two_graphs(True)
    family.options = LoopyBelief(tolerance=1e-12, max_iter=1)
    there = TorchLoopyFamily.from_host(family, torch.device(device))
    assert (
        "has not converged on 2 of 2 graphs"
        in there.distribution(there.arrangement.place_potentials(potentials)).warnings[0]
    )


@pytest.mark.parametrize("device", DEVICES)
def test_fits_of_grids_agree_with_threads(device):
    random = np.random.default_rng(1)
    nodes = np.arange(16).reshape(4, 4)
    across, down = (
        np.column_stack([a.ravel(), b.ravel()]) for a, b in ((nodes[:, :-1], nodes[:, 1:]), (nodes[:-1], nodes[1:]))
    )
    edges = np.concatenate([across, down])
    y = [random.integers(2, size=16) for _ in range(4)]
    X = [(np.eye(2)[labels] + random.normal(size=(16, 2)), edges) for labels in y]
    settings = {"inference": OPTIONS, "rank": 12, "prior_variance": 1.0, "tol": 1e-6, "dtype": "float64"}
    ours, theirs = (
        GraphCRF(RBF(0.3), engine=engine, random_state=0, **settings).fit(X, y) for engine in (Torch(device), "threads")
    )
    assert ours.solution_.value == pytest.approx(theirs.solution_.value, rel=1e-8)
    for mine, other in zip(ours.predict_marginals(X), theirs.predict_marginals(X), strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-4)
