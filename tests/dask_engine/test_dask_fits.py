"""Fits that the workers of a cluster run together end where those of threads do, also when workers die."""

import gc
import os
import signal
import time
from contextlib import nullcontext

import numpy as np
import pytest
from dask_fits import Killer, sequences, wait_for_two, wait_until
from sklearn.exceptions import ConvergenceWarning

from kernelfields import (
    AnnotatedCRF,
    ChainCRF,
    ChainCRFCV,
    GraphCRF,
    KernelClassifier,
    MultiLabelCRF,
    RingCRF,
    SegmentCRF,
    SequenceClassifier,
    load,
)
from kernelfields.data import LabelSymmetry
from kernelfields.engines import Dask, Torch
from kernelfields.engines.dask import launch
from kernelfields.kernels import RBF, CallableKernel
from kernelfields.models.callbacks import Checkpoint

distributed = pytest.importorskip("distributed")
torch = pytest.importorskip("torch")
from_sequence = pytest.importorskip("dask.bag").from_sequence
delayed = pytest.importorskip("dask").delayed

SHARED = {"rank": 12, "random_state": 0, "dtype": "float64", "prior_variance": 1.0, "scale": False}
TIGHT = {**SHARED, "tol": 1e-8, "solver": "lbfgs", "max_iter": 500}


def table(n_labels=None):
    random = np.random.default_rng(0)
    y = random.integers(3, size=40) if n_labels is None else random.integers(2, size=(40, n_labels))
    return random.normal(size=(40, 2)) + (y[:, None] if n_labels is None else y[:, :2]), y


def graphs():
    X, y = sequences(24)
    return [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in X], y


def some_known():
    X, y = sequences(24)
    return X, [[None if t % 3 == 2 else int(label) for t, label in enumerate(own)] for own in y]


#: Estimators of each kind, with their data.
KINDS = {
    "chains": lambda: (ChainCRF("rbf", **TIGHT), *sequences(24)),
    "labels partly known": lambda: (ChainCRF("rbf", **TIGHT), *some_known()),
    "rings": lambda: (RingCRF("rbf", **TIGHT), *sequences(24)),
    "segments": lambda: (SegmentCRF("rbf", max_duration=9, **TIGHT), *sequences(24)),
    "graphs": lambda: (GraphCRF("rbf", **TIGHT), *graphs()),
    "single": lambda: (KernelClassifier("rbf", **TIGHT), *table()),
    "instances": lambda: (MultiLabelCRF("rbf", **TIGHT), *table(3)),
}


@pytest.mark.parametrize("form", ["lists", "partitions"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_field_ends_where_threads_do(client, kind, form):
    estimator, X, y = KINDS[kind]()
    here = estimator.fit(X, y).solution_.value
    given = [X, y]
    if form == "partitions":
        given = [[delayed(each[a:b]) for a, b in ((0, 5), (5, 5), (5, 17), (17, None))] for each in given]
    there = estimator.set_params(engine=Dask(client)).fit(*given)
    assert there is estimator
    assert there.solution_.value == pytest.approx(here, rel=1e-7)
    assert isinstance(estimator.engine, Dask)


def test_workers_keep_their_parts_on_devices_and_fit_the_same_twice(client):
    estimator, X, y = KINDS["chains"]()
    here = estimator.fit(X, y).solution_.value
    estimator.set_params(engine=Dask(client, workers=Torch("cpu")))
    fits = [estimator.fit(X, y).solution_ for _ in range(2)]
    assert fits[0].value == pytest.approx(here, rel=1e-8)
    np.testing.assert_array_equal(fits[0].theta, fits[1].theta)  # to the last digit


def test_ties_l1_and_evidence_work_as_on_threads(client):
    X, y = sequences(20)
    ties = LabelSymmetry({0: 1, 1: 0}, [1, 0, 2, 3])
    for crf, more in (
        (ChainCRF(RBF(0.2), ties=ties, **TIGHT), {}),
        (ChainCRF("linear", l1=0.5, tol=1e-6, random_state=0, dtype="float64", max_iter=500), {}),
        (ChainCRF("rbf", **{**SHARED, "tol": 1e-6}), {"optimize": "evidence"}),
        (ChainCRF("rbf", random_state=None, tol=1e-3), {}),  # parameters by pilot fits
    ):
        here = crf.fit(X, y, **more).solution_.value
        there = crf.set_params(engine=Dask(client)).fit(X, y, **more).solution_.value
        assert there == pytest.approx(here, rel=1e-4 if crf.random_state is not None else 0.2)


def test_what_comes_after_a_fit_runs_on_workers_too(client):
    X, y = sequences(20)
    crf = ChainCRF("rbf", **TIGHT)
    evidence = crf.fit(X, y).laplace(X, y, n_samples=2, method="exact", random_state=0).value
    crf.set_params(engine=Dask(client)).fit(X, y)
    assert crf.laplace(X, y, n_samples=2, method="exact", random_state=0).value == pytest.approx(evidence, rel=1e-6)
    assert crf.certify(X, y).lower_bound <= crf.solution_.value
    crf.fit(X[:10], y[:10])
    assert crf.laplace_ is None
    batches = [ChainCRF("rbf", engine=engine, **SHARED) for engine in ("threads", Dask(client))]
    for each in batches:
        each.partial_fit(X[:10], y[:10]).partial_fit(X[10:], y[10:])
    assert batches[1].solution_.value == pytest.approx(batches[0].solution_.value, rel=1e-3)


def test_estimators_around_a_field_run_on_workers(client):
    X, y = sequences(20)
    said = [{"a": own.tolist(), "b": np.where(np.arange(len(own)) % 3, own, 0).tolist()} for own in y]
    fits = []
    for engine in ("threads", Dask(client)):
        field = ChainCRF("rbf", engine=engine, **SHARED)
        annotated = AnnotatedCRF(ChainCRF("rbf", engine=engine, **{**SHARED, "tol": 1e-6}), cv=2, max_steps=3)
        searched = ChainCRFCV(field, prior_variances=(0.1, 1.0), cv=2, random_state=0).fit(X, y)
        classes = SequenceClassifier("rbf", engine=engine, rank=8, prior_variance=1.0, random_state=0)
        annotated.fit(X, said)
        fits.append((annotated.confusions_["b"], searched.best_score_, classes.fit(X, [int(a[0] > 0) for a in y])))
    np.testing.assert_allclose(fits[1][0], fits[0][0], atol=1e-3)
    assert fits[1][1] == pytest.approx(fits[0][1], rel=1e-4)
    np.testing.assert_allclose(fits[1][2].predict_proba(X), fits[0][2].predict_proba(X), atol=0.05)
    assert searched.best_estimator_.callbacks is None, "callbacks of workers stay there"
    unseeded = ChainCRFCV(field, prior_variances=(0.1, 1.0), cv=2).fit(X, y)
    assert np.isfinite(unseeded.best_score_), "workers deal items out to the same folds"


def test_callbacks_see_every_iteration_and_stop_the_fit(client):
    crf, X, y = KINDS["chains"]()
    seen = []
    crf.set_params(engine=Dask(client), callbacks=[lambda each: seen.append(each.iteration)]).fit(X, y)
    assert seen == list(range(crf.solution_.iterations + 1))
    crf.set_params(callbacks=[lambda each: each.iteration == 3]).fit(X, y)
    assert (crf.solution_.reason, crf.solution_.iterations) == ("callback", 3)
    crf.set_params(callbacks=None).fit(X[:12], y[:12], X_dev=X[12:], y_dev=y[12:])
    assert len(crf.dev_log_likelihoods_) > 1


def test_an_interrupted_fit_keeps_its_estimate_and_its_file(client, tmp_path):
    crf, X, y = KINDS["chains"]()

    def interrupt(iteration):
        if iteration.iteration == 3:
            raise KeyboardInterrupt

    path = tmp_path / "field.kfm"
    crf.set_params(engine=Dask(client), callbacks=[Checkpoint(path, seconds=0), interrupt])
    with pytest.warns(ConvergenceWarning, match="fit was interrupted after 3 iterations"):
        crf.fit(X, y)
    for mine, theirs in zip(load(path).predict(X), crf.predict(X), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt, also where this program runs in the background of a shell."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_while_the_client_waits_ends_the_fit(client, monkeypatch, presses):
    """Pressed once, the fit keeps its estimate; pressed again, it is left at once, also by the workers."""
    crf, X, y = KINDS["chains"]()
    crf.set_params(engine=Dask(client), callbacks=[lambda iteration: None])  # for which workers wait
    show, pressed = launch._Attempt._show, []

    def press(attempt, reports):
        show(attempt, reports)
        if attempt.n_reports > 2 and len(pressed) < presses:
            pressed.append(attempt)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(launch._Attempt, "_show", press)
    if presses == 1:
        with pytest.warns(ConvergenceWarning, match="fit was interrupted after"):
            crf.fit(X, y)
        assert len(crf.predict(X)) == len(X)
    else:
        with pytest.raises(KeyboardInterrupt):
            crf.fit(X, y)
    assert len(pressed) == presses
    wait_until(lambda: not any(client.run(_left).values()))


@pytest.mark.parametrize("error", [ValueError, launch.Lost])
def test_a_client_that_leaves_a_fit_sets_its_workers_free(client, error):
    """Also the one that waits for an answer: with an error of a callback, and where a fit starts again."""
    crf, X, y = KINDS["chains"]()
    raised = []

    def fail(iteration):
        if iteration.iteration == 2 and not raised:
            raised.append(time.monotonic())
            raise error("nothing to see")

    crf.set_params(engine=Dask(client), callbacks=[fail])
    with pytest.raises(ValueError, match="nothing to see") if error is ValueError else nullcontext():
        crf.fit(X, y)
    assert crf.fit(X, y).solution_.converged
    assert time.monotonic() - raised[0] < 60.0


@pytest.mark.parametrize("which", [0, 1])
def test_a_worker_killed_in_the_middle_changes_nothing(client, which):
    wait_for_two(client)
    crf, X, y = KINDS["chains"]()
    expected = crf.fit(X, y).solution_.value
    killer = Killer(client, 3, which)
    found = crf.set_params(engine=Dask(client), callbacks=[killer]).fit(X, y).solution_
    assert killer.killed
    assert found.converged
    assert found.value == pytest.approx(expected, rel=1e-8)
    wait_for_two(client)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "chains"])
def test_a_worker_killed_in_a_fit_of_any_kind_changes_nothing(client, kind):
    """Partitions are made again by Dask, and the fit goes on from the coefficients of the last iteration."""
    wait_for_two(client)
    estimator, X, y = KINDS[kind]()
    expected = estimator.fit(X, y).solution_.value
    killer = Killer(client, 2)
    parts = [[delayed(each[a:b]) for a, b in ((0, 5), (5, 17), (17, None))] for each in (X, y)]
    found = estimator.set_params(engine=Dask(client), callbacks=[killer]).fit(*parts).solution_
    assert killer.killed
    assert found.value == pytest.approx(expected, rel=1e-7)
    wait_for_two(client)


@pytest.mark.slow
def test_the_only_worker_may_die_and_come_back():
    crf, X, y = KINDS["chains"]()
    expected = crf.fit(X, y).solution_.value
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", memory_limit=0)
    with cluster, distributed.Client(cluster) as alone:
        killer = Killer(alone, 2)
        found = crf.set_params(engine=Dask(alone), callbacks=[killer]).fit(X, y).solution_
    assert killer.killed
    assert found.value == pytest.approx(expected, rel=1e-8)


def ending(part, path):
    """A partition whose first reader dies."""
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return part


@pytest.mark.slow
def test_the_only_worker_may_die_while_partitions_are_made(tmp_path):
    """Then no worker is there for a moment, and the one that comes has another address."""
    crf, X, y = KINDS["chains"]()
    expected = crf.fit(X, y).solution_.value
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", memory_limit=0)
    with cluster, distributed.Client(cluster) as alone:
        parts = [delayed(ending)(X, tmp_path / "read")], [delayed(y)]
        found = crf.set_params(engine=Dask(alone)).fit(*parts).solution_
    assert found.value == pytest.approx(expected, rel=1e-8)


@pytest.mark.slow
def test_a_cluster_may_shrink_and_grow_during_a_fit():
    crf, X, y = KINDS["chains"]()
    expected = crf.fit(X, y).solution_.value
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0)
    with cluster, distributed.Client(cluster) as client:

        def scale(iteration):
            if iteration.iteration in (2, 5):
                cluster.scale(1 if iteration.iteration == 2 else 2)

        found = crf.set_params(engine=Dask(client), callbacks=[scale]).fit(X, y).solution_
    assert found.converged
    assert found.value == pytest.approx(expected, rel=1e-8)


def test_workers_that_die_again_and_again_end_the_fit(client, monkeypatch):
    monkeypatch.setattr(launch, "_MOST_ATTEMPTS", 2)

    def lose(attempt):
        raise launch.Lost("worker tcp://nowhere")

    monkeypatch.setattr(launch._Attempt, "run", lose)
    crf, X, y = KINDS["chains"]()
    with pytest.raises(RuntimeError, match=r"lost 2 times without progress.*tcp://nowhere"):
        crf.set_params(engine=Dask(client)).fit(X, y)


@pytest.mark.parametrize("error", [MemoryError, torch.OutOfMemoryError])
def test_a_worker_without_memory_is_named(client, error):
    def no_room(X, Z):
        raise error("features need 8 GB")

    crf, X, y = KINDS["chains"]()
    with pytest.raises(MemoryError, match=r"worker tcp://.*: features need 8 GB"):
        crf.set_params(engine=Dask(client), kernel=CallableKernel(no_room)).fit(X, y)


def test_a_fit_leaves_nothing_behind_on_the_workers(client):
    crf, X, y = KINDS["chains"]()
    crf.set_params(engine=Dask(client)).fit(X, y)
    gc.collect()
    assert all(name == [] for name in client.run(_left).values())


def _left():
    from kernelfields.engines.dask.launch import _RUNS

    return list(_RUNS)
