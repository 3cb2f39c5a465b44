"""Which engine a fit gets, and what is said, before any work, when it cannot have it."""

import re
import sys

import numpy as np
import pytest
from conforming_engines import sequences
from scipy.sparse import csr_array
from sklearn.base import clone

from kernelfields import ChainCRF, EdgeCliques, NodeCliques, RingCRF
from kernelfields.data import Chains, OrderCliques, SkipCliques
from kernelfields.engines import Threads, Torch, named
from kernelfields.engines.choice import Partitions, resolve_engine
from kernelfields.engines.together.placing import DataInParts
from kernelfields.kernels import Linear
from kernelfields.numerics.group import ALONE

X, y = sequences()
IN_PARTS = DataInParts(Chains(np.eye(2), np.array([0, 2])), 2, ALONE, lambda reader, numbers: None)


def test_names_stand_for_engines():
    assert isinstance(resolve_engine("auto"), Threads)
    assert isinstance(resolve_engine("threads"), Threads)
    engine = Threads(memory=10**9)
    assert resolve_engine(engine) is engine


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine": "gpu"}, "engine must be one of 'auto', 'threads', 'torch', 'dask'"),
        ({"engine": 3}, "engine must be one of"),
        ({"engine": Threads}, "engine must be one of"),
        ({"engine": Threads(memory="lots")}, "memory must be a number of bytes or text such as '8GB'"),
        ({"engine": Threads(memory="0B")}, "memory must be at least one byte"),
    ],
)
def test_what_cannot_be_meant_is_an_error_before_any_work(settings, message):
    with pytest.raises(ValueError, match=message):
        ChainCRF(**settings).fit(X, y)


def test_torch_and_dask_that_are_not_installed_say_how_to_install_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'kernelfields\[torch\]'"):
        ChainCRF(engine="torch").fit(X, y)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"kernelfields\[dask\]"):
        ChainCRF(engine="dask").fit(X, y)


@pytest.mark.parametrize(
    ("settings", "anywhere"),
    [
        ({}, True),
        ({"support": "observed"}, False),
        ({"edges": EdgeCliques(support="observed")}, True),
        ({"cliques": [NodeCliques(), EdgeCliques()]}, True),
        ({"cliques": [NodeCliques("linear", support="observed"), EdgeCliques()]}, False),
        ({"cliques": [NodeCliques(), SkipCliques(lag=2)]}, False),
    ],
)
def test_auto_looks_for_a_device_only_for_fields_that_it_can_fit(monkeypatch, settings, anywhere):
    asked = []
    monkeypatch.setattr(named, "_device_pays", lambda: asked.append(True))
    crf = ChainCRF(kernel="linear", rank=None, prior_variance=1.0, **settings)
    crf._engine(Chains(np.zeros((20_000, 1)), np.arange(0, 20_001, 100)))
    assert asked == [True] * anywhere


@pytest.mark.parametrize(("kernel", "anywhere"), [("auto", False), ("linear", False), (Linear(), False), ("rbf", True)])
def test_auto_leaves_features_that_stay_sparse_to_threads(monkeypatch, kernel, anywhere):
    asked = []
    monkeypatch.setattr(named, "_device_pays", lambda: asked.append(True))
    chains = Chains(csr_array((20_000, 4)), np.arange(0, 20_001, 100))
    ChainCRF(kernel=kernel, rank=None)._engine(chains)
    assert asked == [True] * anywhere


@pytest.mark.parametrize(
    ("estimator", "rank", "length", "name"),
    [
        (ChainCRF, 100, 2 * 10**6, "threads"),
        (ChainCRF, 1000, 2 * 10**6, "threads"),
        (ChainCRF, 1000, 100_000, "torch"),
        (ChainCRF, 100, 20, "torch"),
        (RingCRF, 100, 2 * 10**6, "torch"),
    ],
)
def test_auto_takes_no_device_for_chains_whose_steps_would_cost_more_than_features_save(
    monkeypatch, estimator, rank, length, name
):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(Torch, "check", lambda self: None)
    offsets = np.arange(0, 2 * 10**6 + 1, length)
    chains = Chains(np.broadcast_to(0.0, (2 * 10**6, 1)), offsets)
    assert estimator("rbf", rank=rank)._engine(chains).name == name


def test_auto_takes_a_device_only_for_large_features(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(Torch, "check", lambda self: None)
    assert isinstance(resolve_engine("auto", n_values=10**7), Threads)
    assert isinstance(resolve_engine("auto", n_values=10**9), Torch)
    assert isinstance(resolve_engine(Threads("1GB"), n_values=10**9), Threads)
    monkeypatch.setattr(named, "find_spec", lambda name: None)
    assert isinstance(resolve_engine("auto", n_values=10**9), Threads)


def test_devices_that_are_not_there(monkeypatch):
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="device must be a name such as 'cuda'"):
        ChainCRF(engine=Torch("graphics")).fit(X, y)
    with pytest.raises(ValueError, match="inference needs float64"):
        ChainCRF(engine=Torch("meta")).fit(X, y)
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(RuntimeError, match=r"has no CUDA\. Install one that does, or use device='cpu'"):
        ChainCRF(engine=Torch("cuda")).fit(X, y)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(RuntimeError, match="no CUDA device is there"):
        ChainCRF(engine=Torch("cuda")).fit(X, y)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(RuntimeError, match="there are CUDA devices 0 to 1 only"):
        ChainCRF(engine=Torch("cuda:2")).fit(X, y)


def test_a_field_fitted_with_torch_predicts_and_is_saved_without_it(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    crf = ChainCRF("rbf", rank=10, engine=Torch("cpu"), random_state=0).fit(X, y)
    there = crf.predict_marginals(X)
    crf.save(tmp_path / "field.kf")
    assert ChainCRF.load(tmp_path / "field.kf").engine.get_params() == {"device": "cpu", "memory": None, "group": None}
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.warns(UserWarning, match=r"engine=Torch\(device='cpu'\) is not here, 'auto' takes its place"):
        loaded = ChainCRF.load(tmp_path / "field.kf")
    assert loaded.engine == "auto"
    for ours, theirs in zip(loaded.predict_marginals(X), there, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_clones_share_their_engine():
    engine = Threads(memory="1GB")
    assert clone(ChainCRF(engine=engine)).engine is engine


def test_a_field_under_a_budget_is_the_same_field():
    ours = ChainCRF("rbf", rank=20, random_state=0, tol=1e-9, max_iter=500).fit(X, y)
    theirs = ChainCRF("rbf", rank=20, random_state=0, tol=1e-9, max_iter=500, engine=Threads("100MB")).fit(X, y)
    assert theirs.solution_.value == pytest.approx(ours.solution_.value, rel=1e-9)
    with pytest.raises(MemoryError, match="clique set 'node': features of 37 positions at rank 20 do not fit"):
        ChainCRF("rbf", rank=20, engine=Threads("10kB")).fit(X, y)


def test_the_memory_that_a_refusal_advises_is_enough_for_clique_sets_that_share_it():
    """Each of three sets gets a third of 1 MB, and coefficients of three labels that meet take the solver more."""
    cliques = [NodeCliques("rbf", rank=3), EdgeCliques("rbf", rank=3), OrderCliques("rbf", order=2, rank=10)]
    with pytest.raises(MemoryError, match="into memory of 1 MB, of which 333 kB are theirs") as refused:
        ChainCRF(cliques=cliques, engine=Threads("1MB")).fit(X, y)
    advised = str(refused.value).split("memory='")[1].split("'")[0]
    assert advised != "1MB"
    assert ChainCRF(cliques=cliques, engine=Threads(advised)).fit(X, y).solution_.converged


@pytest.mark.parametrize(("n_values", "name"), [(99_999_999, "threads"), (100_000_000, "torch")])
def test_a_device_pays_from_a_hundred_million_values(monkeypatch, n_values, name):
    pytest.importorskip("torch")
    torch_engine = pytest.importorskip("kernelfields.engines.torch.engine")
    monkeypatch.setattr(torch_engine, "has_cuda", lambda: True)
    monkeypatch.setattr(torch_engine.Torch, "check", lambda self: None)
    assert resolve_engine("auto", n_values=n_values).name == name
    monkeypatch.setattr(torch_engine, "has_cuda", lambda: False)
    assert resolve_engine("auto", n_values=n_values).name == "threads"


@pytest.mark.parametrize("engine", ["threads", "torch", Threads()], ids=str)
def test_data_that_lie_on_a_cluster_are_not_for_other_engines(engine):
    message = f"X is a Dask collection: use engine='dask' or 'auto', or pass X.compute(), got engine={engine!r}"
    for given in ((Partitions([0], [X]), y), (X, Partitions([0], [y]))):
        with pytest.raises(ValueError, match=re.escape(message)):
            ChainCRF(engine=engine).fit(*given)


def test_automatic_choice_takes_the_cluster_where_data_lie():
    assert IN_PARTS.engine("auto") == IN_PARTS.engine("dask") == "dask"
