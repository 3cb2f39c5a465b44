"""The likelihood on a torch device against that on threads: values, derivatives, weights, constraints."""

import json
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kernelfields.data import Chains, resolve_constraints  # noqa: E402
from kernelfields.engines.torch.family import TorchChainFamily  # noqa: E402
from kernelfields.inference import EDGE, BaseMeasure, ChainFamily, Placement, Potentials  # noqa: E402
from kernelfields.objective import choose_objective  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA"))]
MASKS = resolve_constraints({"transitions": [(1, 0)], "start": [1], "end": [2], "labels": [3]}, np.arange(5))


def random_chains(seed=0, weighted=False, lengths=None):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, size=40) if lengths is None else np.asarray(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = rng.integers(0, 5, size=offsets[-1])
    weights = rng.choice([0.0, 0.5, 1.0, 2.5], size=len(lengths)) if weighted else None
    return Chains(np.zeros((offsets[-1], 1)), offsets, labels, weights)


class Pair:
    """The same likelihood on threads and on a device."""

    def __init__(self, chains, tied, masks=None, device="cpu"):
        self.chains, self.tied = chains, tied
        settings = {"tied": tied, "base": BaseMeasure(chains.offsets, 5, masks)}
        self.threads = choose_objective(ChainFamily(chains.offsets, 5, **settings), chains)
        self.family = TorchChainFamily(chains.offsets, 5, **settings, device=device)
        self.device = choose_objective(self.family, chains)

    def potentials(self, seed, spread=1.0):
        rng = np.random.default_rng(seed)
        n_positions = self.chains.n_positions
        edges = 1 if self.tied else n_positions
        node, edge = spread * rng.normal(size=(n_positions, 5)), spread * rng.normal(size=(edges, 5, 5))
        given = Potentials(node, {EDGE: edge})
        return given, self.family.arrangement.place_potentials(given)

    def assert_equal(self, tensors, arrays, atol=1e-10):
        for mine, yours in zip(tensors.arrays, arrays.arrays, strict=True):
            np.testing.assert_allclose(mine.cpu().numpy(), yours, rtol=0, atol=atol)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("spread", [1.0, 2000.0])
@pytest.mark.parametrize("masks", [None, MASKS], ids=["free", "constrained"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tied", [True, False])
def test_values_and_derivatives_equal_those_on_threads(tied, weighted, masks, spread, device):
    pair = Pair(random_chains(weighted=weighted, lengths=[3, 1, 2, 3, 7, 1, 5, 4]), tied, masks, device)
    (here, there), (direction, moved) = pair.potentials(1, spread), pair.potentials(2)
    ours, theirs = pair.device.evaluate(there), pair.threads.evaluate(here)
    np.testing.assert_allclose(ours.value, theirs.value, rtol=1e-12)
    assert isinstance(ours.value, float)
    pair.assert_equal(ours.residual, theirs.residual)
    response = pair.device.hessian_response(ours, moved)
    pair.assert_equal(response, pair.threads.hessian_response(theirs, direction))
    assert (ours.member.rescued is not None) == (spread == 2000.0)


def test_evaluating_leaves_the_potentials_and_the_marginals_alone():
    pair = Pair(random_chains(), True, MASKS)
    _, there = pair.potentials(5)
    copies = [each.clone() for each in there.arrays]
    evaluation = pair.device.evaluate(there)
    assert all(torch.equal(each, copy) for each, copy in zip(there.arrays, copies, strict=True))
    np.testing.assert_allclose(evaluation.member.marginals().sum(dim=1), 1, atol=1e-13)


def test_the_rows_of_a_set_are_copied_to_the_device_once():
    pair = Pair(random_chains(), False)
    steps = Placement(2, EDGE, np.flatnonzero(~pair.chains.is_start), False)
    group = pair.family.arrangement.group(EDGE)
    assert pair.family.arrangement._rows(group, steps) is pair.family.arrangement._rows(group, steps)


@pytest.mark.parametrize("device", DEVICES)
def test_potentials_form_a_vector_space(device):
    pair = Pair(random_chains(), False, device=device)
    (one, mine), (other, yours) = pair.potentials(1), pair.potentials(2)
    pair.assert_equal(mine.plus(0.5, yours), one.plus(0.5, other), 1e-15)
    np.testing.assert_allclose(mine.dot(yours), one.dot(other), rtol=1e-12)
    assert mine.largest == one.largest
    assert isinstance(mine.dot(yours), float)
    mine.scale(2.0)
    mine.add(-2.0, pair.family.arrangement.place_potentials(one))
    assert mine.largest == 0.0
    assert mine.is_finite
    assert len(yours.tables) == 1
    for broken in (np.nan, np.inf):
        yours.edge[3, 1, 2] = broken
        assert not yours.is_finite


def test_the_library_does_not_load_torch():
    code = "import json, sys, kernelfields.engines; print(json.dumps('torch' in sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(run.stdout) is False
