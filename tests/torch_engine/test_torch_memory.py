"""Features that a device has no room for: where they go, and that the fit stays the same."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kernelfields import ChainCRF, KernelClassifier  # noqa: E402
from kernelfields.engines import Torch  # noqa: E402
from kernelfields.engines.torch.memory import PartPanel, plan_on_device  # noqa: E402
from kernelfields.engines.torch.rows import SubspaceRows  # noqa: E402
from kernelfields.engines.torch.tables import TorchHostTable, TorchRecomputedTable, TorchTable  # noqa: E402
from kernelfields.kernels import RBF  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA"))]


def labelled(n_sequences=40, seed=0):
    random = np.random.default_rng(seed)
    y = [random.integers(3, size=length) for length in random.integers(1, 9, size=n_sequences)]
    return [np.eye(3)[labels] + 0.8 * random.normal(size=(len(labels), 3)) for labels in y], y


def planned(budget, monkeypatch=None, n_rows=10_000, rank=100, free=10**12):
    if monkeypatch is not None:
        monkeypatch.setattr("kernelfields.engines.torch.memory.available_memory", lambda: free)
    return plan_on_device(n_rows, rank, panel_bytes=4, stored_bytes=2, other_bytes=10**6, budget=budget)


def test_features_go_where_there_is_room_for_them(monkeypatch):
    assert planned(None).keep == "panel"
    assert planned(7 * 10**6, monkeypatch).keep == "panel"
    kept = planned(6 * 10**6, monkeypatch)
    assert kept.keep == "device"
    assert 200 <= kept.part < 10_000
    assert planned(2 * 10**6, monkeypatch).keep == "host"
    assert planned(2 * 10**6, monkeypatch, free=10**6).keep == "recomputed"
    assert planned(1, monkeypatch).part == 200


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("keep", ["host", "recomputed"])
def test_a_budget_changes_no_fit(device, keep, monkeypatch):
    X, y = labelled()
    if keep == "recomputed":
        monkeypatch.setattr("kernelfields.engines.torch.memory.available_memory", lambda: 0)
    n_rows = sum(map(len, X))
    settings = {"rank": n_rows // 2 + 1, "prior_variance": 2.0, "tol": 1e-9, "dtype": "float64", "random_state": 0}
    reference = ChainCRF(RBF(0.3), engine=Torch(device), **settings).fit(X, y)
    small = ChainCRF(RBF(0.3), engine=Torch(device, memory=1000), **settings).fit(X, y)
    # All inputs are candidates here, so the pivots are the same.
    assert np.array_equal(small.basis_["node"].indices, reference.basis_["node"].indices)
    assert small.solution_.value == pytest.approx(reference.solution_.value, rel=1e-9)
    assert small.rkhs_certificate_.relative_gap == pytest.approx(reference.rkhs_certificate_.relative_gap, rel=1e-5)
    for ours, theirs in zip(small.predict_marginals(X), reference.predict_marginals(X), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_a_part_of_the_inputs_gives_pivots_of_all(device):
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    engine = Torch(device, memory=5 * 8 * 14 * 400)
    classifier = KernelClassifier(RBF(0.5), rank=30, engine=engine, dtype="float64", random_state=0).fit(X, y)
    basis = classifier.basis_["node"]
    np.testing.assert_array_equal(X[basis.indices], basis.pivots)
    assert classifier.score(X, y) > 0.9


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("storage", ["float64", "float32", "half"])
def test_tables_elsewhere_multiply_as_those_on_the_device(device, storage):
    random = np.random.default_rng(1)
    inputs = random.normal(size=(300, 4))
    panel = PartPanel(RBF(0.4), inputs, 40, np.float64, torch.device(device), 300)
    panel.extend(np.arange(40))
    rows = SubspaceRows(panel.subspace(), inputs, torch.device(device), np.dtype(np.float64))
    here, there, nowhere = TorchTable(rows, storage, device), TorchHostTable(rows, storage), TorchRecomputedTable(rows)
    V, R = random.normal(size=(panel.rank, 3)), random.normal(size=(300, 3))
    accuracy = {"float64": 1e-11, "float32": 2e-3, "half": 2e-3}[storage]
    for table, tolerance in ((there, 1e-12), (nowhere, accuracy)):
        scale = np.sqrt(panel.rank)
        np.testing.assert_allclose(table.product(V).cpu(), here.product(V).cpu(), atol=scale * tolerance)
        on_device = torch.tensor(R, device=device)
        ours, theirs = (each.transposed_product(on_device) for each in (table, here))
        np.testing.assert_allclose(ours, theirs, atol=20 * scale * tolerance)
        np.testing.assert_allclose(table[np.array([5, 2])], here[np.array([5, 2])], atol=10 * tolerance)
        np.testing.assert_allclose(
            *(each.gram(slice(1, None, 7)).cpu() for each in (table, here)), atol=300 * tolerance
        )
        assert table.mean_square() == pytest.approx(here.mean_square(), rel=max(1e-12, tolerance))
        weights = random.random(300)
        np.testing.assert_allclose(table.weighted_gram(weights), here.weighted_gram(weights), atol=300 * tolerance)


def test_a_host_that_pins_no_memory_has_features_recomputed(monkeypatch):
    def no_room(table, width):
        raise RuntimeError("CUDA error: out of memory")

    X, y = labelled()
    monkeypatch.setattr(TorchHostTable, "_room", no_room)
    settings = {"rank": 30, "dtype": "float64", "random_state": 0, "engine": Torch("cpu", memory=1000)}
    crf = ChainCRF(RBF(0.3), **settings).fit(X, y)
    assert crf.score(X, y) > 0.6


def test_a_device_that_is_lost_ends_the_fit_in_one_line(monkeypatch):
    def lost(*arguments):
        raise RuntimeError("CUDA error: unspecified launch failure\nand more")

    X, y = labelled()
    monkeypatch.setattr("kernelfields.inference.chain.step_passes.forward_backward", lost)
    with pytest.raises(RuntimeError, match=r"cpu was lost during inference of .*: fit again") as caught:
        ChainCRF(RBF(0.3), rank=5, engine=Torch("cpu")).fit(X, y)
    assert "\n" not in str(caught.value)


def test_what_needs_all_columns_is_refused_in_words():
    X, y = labelled()
    crf = ChainCRF(RBF(0.3), basis="gradient", rank=30, engine=Torch("cpu", memory=1000), random_state=0)
    with pytest.raises(MemoryError, match="basis='gradient' needs the features of all"):
        crf.fit(X, y)
    with pytest.raises(ValueError, match="memory must be a number of bytes"):
        ChainCRF(RBF(0.3), engine=Torch("cpu", memory="much")).fit(X, y)
