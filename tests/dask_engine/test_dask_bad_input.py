"""What cannot work on a cluster says so before the work starts, and what to do about it."""

import importlib.metadata
import subprocess
import sys

import numpy as np
import pytest
from dask_fits import sequences
from sklearn.base import clone

from kernelfields import AnnotatedCRF, ChainCRF, ChainCRFCV, EdgeCliques, LabelDictionary, MultiLabelCRF, SkipCliques
from kernelfields.engines import Dask, Torch
from kernelfields.engines.dask.engine import Worker, get_connected_client
from kernelfields.selection import StructureSearch

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")

CRF = ChainCRF("rbf", rank=10, random_state=0)


def parts(*lists):
    """Each list as a Delayed."""
    return [dask.delayed(list)(each) for each in lists]


def refused(client, X, y, match, crf=CRF, weights=None, error=ValueError):
    crf = clone(crf).set_params(engine=Dask(client))
    if crf.prior_variance == "auto":
        crf.set_params(prior_variance=1.0, scale=False)
    with pytest.raises(error, match=match):
        crf.fit(X, y, weights)


def test_without_a_client_or_with_a_closed_one():
    with pytest.raises(TypeError, match=r"must be a distributed\.Client, got str"):
        get_connected_client("localhost")
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster:
        with (
            distributed.Client(cluster, set_as_default=False) as empty,
            pytest.raises(ValueError, match="no workers"),
        ):
            get_connected_client(empty)
        with pytest.raises(ValueError, match="Client is closed"):
            get_connected_client(empty)


def test_no_client_at_all(monkeypatch):
    def none():
        raise ValueError("No clients found")

    monkeypatch.setattr(distributed, "default_client", none)
    with pytest.raises(ValueError, match="found no distributed\\.Client: start one with"):
        get_connected_client()


def test_workers_with_other_versions_without_torch_or_in_one_process(client, monkeypatch):
    engine = Dask(client, workers=Torch("cpu"))
    engine.check()
    cannot = r"Dask worker tcp://.* cannot take part in a fit: device='cuda:99'"
    with pytest.raises(RuntimeError, match=cannot):
        Dask(client, workers=Torch("cuda:99")).check()
    with pytest.raises(TypeError, match="workers must be None, Torch"):
        Dask(client, workers="cuda").check()
    own = importlib.metadata.version("kernelfields")
    found = {"a": Worker(own, "2.1", ("host", 1)), "b": Worker(own, "2.2", ("host", 2))}
    monkeypatch.setattr(client, "run", lambda *_, **__: found)
    with pytest.raises(RuntimeError, match=r"different versions of torch, 2\.1, 2\.2: worker a has 2\.1"):
        engine.check()
    found["b"] = Worker(own, "2.1", ("host", 1))
    with pytest.raises(RuntimeError, match="Dask workers share a process, and a fit needs one for each"):
        engine.check()
    found["b"] = Worker(own + ".1", "2.1", ("host", 2))
    with pytest.raises(RuntimeError, match=r"another version of the package: worker b has kernelfields .*\.1, the"):
        engine.check()
    found["b"] = ImportError("engine='torch' needs PyTorch: pip install 'kernelfields[torch]'")
    with pytest.raises(RuntimeError, match="Dask worker b cannot take part in a fit: engine='torch' needs PyTorch"):
        engine.check()
    found["b"] = ModuleNotFoundError("No module named 'kernelfields'")
    with pytest.raises(RuntimeError, match="Dask worker b has no kernelfields"):
        engine.check()
    found["b"] = OSError("gone")  # others outlive it
    engine.check()
    with pytest.raises(ValueError, match="n_devices must be"):
        Dask.local_devices(0, "cpu")


DEVICES = """
import os
import numpy as np
from distributed import Client, default_client
from kernelfields import ChainCRF
from kernelfields.engines import Dask
if __name__ == "__main__":
    X = np.random.default_rng(0).normal(size=(20, 6, 3))
    crf = ChainCRF("rbf", rank=12, random_state=0, prior_variance=1.0)
    with Dask.local_devices(2, "cpu") as engine:
        seen = engine.client.run(os.getenv, "CUDA_VISIBLE_DEVICES")
        crf.set_params(engine=engine).fit(list(X), list((X[:, :, 0] > 0).astype(int)))
        alone = crf.solution_.value
        with Client(n_workers=0, processes=False, dashboard_address=":0") as client:
            crf.fit(list(X), list((X[:, :, 0] > 0).astype(int)))
            assert default_client() is client
    print(*sorted(seen.values()), engine.client.status, crf.solution_.value == alone)
"""


def test_devices_of_this_machine_are_a_silent_cluster(tmp_path):
    """In a process of their own, without a default client and with one that has no workers.

    Each worker has one device, and nobody logs what goes well.
    """
    pytest.importorskip("torch")
    (program := tmp_path / "program.py").write_text(DEVICES)
    run = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300, check=False)
    assert (run.stdout, run.returncode) == ("0 1 closed True\n", 0), run.stderr
    assert " - INFO - " not in run.stderr


SCHEDULER = """
import os, signal, subprocess, sys, time
import numpy as np
from distributed import Client
from kernelfields import ChainCRF
from kernelfields.engines import Dask
if __name__ == "__main__":
    dask = [sys.executable, "-m", "distributed.cli."]
    start = lambda name, *options: subprocess.Popen(
        [*dask[:2], dask[2] + name, "--scheduler-file", sys.argv[1], "--no-dashboard", *options],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    scheduler = start("dask_scheduler", "--port", "0")
    worker = start("dask_worker", "--no-nanny", "--nthreads", "1")
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.1)
    client = Client(scheduler_file=sys.argv[1])
    client.wait_for_workers(1)
    X = np.random.default_rng(0).normal(size=(20, 6, 3))
    gone = [lambda iteration: scheduler.kill() if iteration.iteration == 2 else None]
    crf = ChainCRF("rbf", rank=12, random_state=0, prior_variance=1.0, tol=1e-8, engine=Dask(client), callbacks=gone)
    try:
        crf.fit(list(X), list((X[:, :, 0] > 0).astype(int)))
    except RuntimeError as error:
        print(error, flush=True)
    worker.kill()
    os._exit(0)
"""


@pytest.mark.slow
def test_a_scheduler_that_goes_away_ends_a_fit_with_one_line(tmp_path):
    (program := tmp_path / "program.py").write_text(SCHEDULER)
    command = [sys.executable, program, tmp_path / "scheduler.json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.stdout.startswith("the scheduler of the Dask cluster"), run.stderr
    assert run.stdout.count("\n") == 1


def test_partitions_that_do_not_fit_together(client):
    X, y = sequences(6)
    narrow = [x[:, :2] for x in X[:2]]
    refused(client, parts(X, narrow), parts(y, y[:2]), "partition 1 has 2 features per position but partition 0 has 4")
    refused(client, parts([], []), parts([], []), "all 2 partitions of X are empty")
    refused(client, parts(X, X), parts(y), "X has 2, y has 1")
    refused(client, parts(X, X[:2]), parts(y, y[:1]), "partition 1: X has 2 sequences but y has 1")
    refused(client, parts(X, X), parts(y, [list("a" * len(x)) for x in X]), "mix strings and numbers: partition 0")
    refused(client, parts(X), parts([np.zeros(len(x), dtype=int) for x in X]), "one class only, 0")
    refused(client, parts(X, [[{"a": 1}]]), parts(y, [[0]]), "partition 1 holds feature dicts but partition 0")
    refused(client, parts(X), y, "must be Dask bags", error=TypeError)
    refused(client, X, parts(y), "must be Dask bags", error=TypeError)
    refused(client, parts(X), parts(y), "zero for every sequence", weights=parts([0.0] * 6))


def test_what_is_wrong_with_a_sequence_names_its_partition(client):
    X, y = sequences(6)
    broken = [*X[:3], np.full((len(X[3]), 4), np.nan)]
    refused(client, parts(X, broken), parts(y, y[:4]), "partition 1: sequence 3 holds nan in row 0, column 0")
    crf = ChainCRF("rbf", constraints=[(0, 1)], random_state=0)
    forbidden = [np.array([2, 1, 0, 1])], [np.zeros((4, 4))]
    refused(
        client,
        parts([x[:1] for x in X], forbidden[1]),
        parts([labels[:1] for labels in y], forbidden[0]),
        "partition 1: sequence 0, position 3: label 1 is forbidden after 0",
        crf,
    )
    short = [y[0][:-1], *y[1:]]
    refused(client, parts(X), parts(short), "partition 0: sequence 0 has .* rows in X but .* labels in y")


def test_what_a_cluster_does_not_know(client):
    X, y = sequences(10)
    refused(client, X, y, "basis='gradient' of clique set 'node'", ChainCRF("rbf", basis="gradient"))
    refused(client, X, y, "basis='all' of clique set 'node'", ChainCRF("rbf", basis="all"))
    rule = ChainCRF("rbf", allowed=LabelDictionary(0))
    refused(client, parts(X), parts(y), "allowed is for data of this process", rule)
    pairs = ChainCRF(edges=EdgeCliques("rbf"))
    refused(client, [x[:1] for x in X], [labels[:1] for labels in y], "no 'edge' cliques", pairs)
    array = pytest.importorskip("dask.array")
    refused(client, array.zeros((5, 2)), parts(y), "sequences_of_rows", error=TypeError)


@pytest.mark.parametrize("engine", ["auto", "dask"])
@pytest.mark.parametrize(
    ("around", "words"),
    [
        (ChainCRFCV, "a search deals sequences out to folds in this process"),
        (AnnotatedCRF, "labels of annotators are read in this process"),
        (lambda crf: StructureSearch(crf, [SkipCliques()]), "a StructureSearch needs sequences of this process"),
        (lambda crf: StructureSearch(MultiLabelCRF(engine=crf.engine)), "a StructureSearch needs instances of this"),
    ],
)
def test_estimators_around_a_field_refuse_collections_without_a_cluster(engine, around, words):
    X, y = sequences(6)
    with pytest.raises((ValueError, TypeError), match=words):
        around(ChainCRF("rbf", engine=engine)).fit(parts(X), parts(y))


def test_columns_of_data_frames_are_those_of_all_partitions(client):
    pandas = pytest.importorskip("pandas")
    X, y = sequences(12)
    frames = [pandas.DataFrame(x, columns=list("abcd")) for x in X]
    crf = clone(CRF).set_params(engine=Dask(client), prior_variance=1.0, scale=False)
    crf.fit(parts(frames[:5], frames[5:]), parts(y[:5], y[5:]))
    assert list(crf.feature_names_in_) == list("abcd")
    turned = [frame[list("dcba")] for frame in frames]
    refused(client, parts(frames[:5], turned[5:]), parts(y[:5], y[5:]), "columns of partition 1 do not have the names")
    refused(client, parts([*frames[:4], turned[4]]), parts(y[:5]), "partition 0: the columns of sequence 4 are not")
