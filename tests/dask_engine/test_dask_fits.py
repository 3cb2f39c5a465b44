"""Fits on a cluster end where fits on threads do, whichever the solver, and whatever happens to the workers."""

import gc
import os
import signal

import numpy as np
import pytest
from dask_fits import fitted, on_cluster, on_threads, posterior, sequences, wait_for_two
from sklearn.base import clone

from kernelfields import ChainCRF, LabelSymmetry
from kernelfields.engines import Dask
from kernelfields.engines.dask.shards import SHARD
from kernelfields.kernels import RBF, Linear, Polynomial

distributed = pytest.importorskip("distributed")
from_sequence = pytest.importorskip("dask.bag").from_sequence
delayed = pytest.importorskip("dask").delayed
FIELDS = pytest.importorskip("test_every_estimator").FIELDS


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cg", "block-jacobi", "subspace"])
def test_every_solver_finds_the_optimum_of_threads(client, solver):
    crf = ChainCRF("rbf", rank=12, random_state=0, tol=1e-5, solver=solver, dtype="float64", max_iter=500)
    X, y = sequences(20)
    here, there = fitted(crf, *on_threads(crf, X, y)), fitted(crf, *on_cluster(crf, X, y, client))
    assert there.solution.converged
    assert there.solution.value == pytest.approx(here.solution.value, rel=2e-5)
    assert there.rkhs.lower_bound == pytest.approx(here.rkhs.lower_bound, rel=1e-3)
    assert there.solution.passes == pytest.approx(here.solution.passes, rel=0.5)


def test_l1_and_a_sum_of_kernels_end_at_the_same_value(client):
    X, y = sequences()
    for crf in (
        ChainCRF("linear", l1=0.5, tol=1e-5, random_state=0, dtype="float64", max_iter=500),
        ChainCRF(Linear() + Polynomial(3), rank=30, tol=1e-5, random_state=0, dtype="float64", max_iter=500),
    ):
        here, there = fitted(crf, *on_threads(crf, X, y)), fitted(crf, *on_cluster(crf, X, y, client))
        assert there.solution.value == pytest.approx(here.solution.value, rel=2e-5)


@pytest.mark.parametrize("kernel", ["linear", RBF(0.2)])
def test_labels_that_share_weights_end_at_the_same_value(client, kernel):
    X, y = sequences(20)
    ties = LabelSymmetry({0: 1, 1: 0}, [1, 0, 2, 3])
    crf = ChainCRF(kernel, ties=ties, rank=12, random_state=0, tol=1e-5, dtype="float64", scale=False)
    here = crf.set_params(prior_variance=1.0).fit(X, y).solution_
    there = crf.set_params(engine=Dask(client)).fit(from_sequence(X, npartitions=2), from_sequence(y, npartitions=2))
    assert there.solution_.value == pytest.approx(here.value, rel=2e-5)
    table = there.transitions_
    np.testing.assert_allclose(table[[1, 0, 2]][:, [1, 0, 2]], table, atol=1e-12)


@pytest.mark.parametrize("field", [{"kernel": "rbf", "rank": 12}, {"kernel": "linear", "support": "observed"}])
def test_labels_that_are_partly_known_end_at_the_same_value(client, field):
    random = np.random.default_rng(0)
    X, y = sequences(20)
    partly = [[label if random.random() < 0.6 else None for label in labels] for labels in y]
    settings = {"random_state": 0, "tol": 1e-2, "dtype": "float64", "prior_variance": 1.0}
    crf = ChainCRF(**field, **settings)
    here = crf.fit(X, partly).solution_
    crf.set_params(engine=Dask(client)).fit(from_sequence(X, npartitions=2), from_sequence(partly, npartitions=2))
    assert crf.solution_.reason == "stationary"
    assert crf.solution_.value == pytest.approx(here.value, rel=2e-2)
    assert crf.certificate_.completed


def test_an_interrupt_keeps_the_best_estimate(client):
    crf = ChainCRF("rbf", rank=20, random_state=0, tol=1e-9, dtype="float64", solver="lbfgs")

    def interrupt(iteration):
        if iteration.iteration == 3:
            raise KeyboardInterrupt

    found = fitted(crf, *on_cluster(crf, *sequences(), client), watch=interrupt)
    assert found.solution.reason == "interrupted"
    assert found.rkhs.lower_bound < found.solution.value


def test_a_fit_leaves_nothing_behind_on_the_workers(client):
    crf = ChainCRF("rbf", rank=20, random_state=0)
    parts = on_cluster(crf, *sequences(), client)
    fitted(crf, *parts)
    group = posterior(*parts).datafit.group
    keys = {future.key for future in group.futures}
    assert keys <= set(sum(client.has_what().values(), ()))
    del parts, group
    gc.collect()
    for _ in range(100):
        if not keys & set(sum(client.has_what().values(), ())):
            break
        client.run(gc.collect)
    assert not keys & set(sum(client.has_what().values(), ()))


@pytest.mark.parametrize("when", [1, 6])
def test_a_worker_killed_in_the_middle_costs_its_shards_and_nothing_else(client, when):
    wait_for_two(client)
    crf = ChainCRF("rbf", rank=25, random_state=0, tol=1e-8, dtype="float64", solver="lbfgs", max_iter=500)
    X, y = sequences()
    expected = fitted(crf, *on_threads(crf, X, y)).solution.value
    killed = []

    def watch(iteration):
        if iteration.iteration == when and not killed:
            killed.append(sorted(client.run(os.getpid).values())[when % 2])
            os.kill(killed[0], signal.SIGKILL)

    found = fitted(crf, *on_cluster(crf, X, y, client), watch=watch).solution
    assert killed
    assert found.converged
    assert found.value == pytest.approx(expected, rel=1e-6)
    wait_for_two(client)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ring", "segments", "graphs", "single", "instances"])
def test_a_worker_killed_in_a_fit_of_any_kind_changes_nothing(client, name):
    """Eight partitions, so that gradients are added up by the workers; the fit has seen two iterations."""
    wait_for_two(client)
    estimator, draw = FIELDS[name]
    X, y = draw(np.random.default_rng(0))
    parts = [[delayed(part) for part in _cut(each, [1] * 7)] for each in (X, y)]
    killed = []

    def watch(iteration):
        if iteration.iteration == 2 and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    field = clone(estimator).set_params(tol=1e-7, solver="lbfgs", scale=False)
    expected = field.fit(X, y).solution_.value
    found = field.set_params(engine=Dask(client), callbacks=[watch]).fit(*parts).solution_
    assert killed
    assert found.value == pytest.approx(expected, rel=1e-6)
    wait_for_two(client)


@pytest.mark.slow
def test_the_only_worker_may_die_and_come_back():
    crf = ChainCRF("rbf", rank=25, random_state=0, tol=1e-8, dtype="float64", solver="lbfgs", max_iter=500)
    X, y = sequences()
    expected = crf.fit(X, y).solution_.value
    killed = []

    def watch(iteration):
        if iteration.iteration == 2 and not killed:
            killed.append(next(iter(alone.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", memory_limit=0)
    with cluster, distributed.Client(cluster) as alone:
        found = crf.set_params(engine=Dask(alone), callbacks=[watch]).fit(X, y).solution_
    assert killed
    assert found.value == pytest.approx(expected, rel=1e-6)


def _cut(items, sizes):
    ends = np.cumsum([0, *sizes]).tolist()
    return [items[first:last] for first, last in zip(ends, [*ends[1:], None], strict=True)]


def test_a_worker_killed_while_pivots_are_chosen_changes_no_pivot(client):
    from kernelfields.basis import RandomCholesky

    class Dangerous(RandomCholesky):
        """Kills a worker after some panels."""

        def _grow(self, panel, random):
            super()._grow(panel, random)
            if not hasattr(self, "killed") and panel.rank > 30:
                self.killed = next(iter(client.run(os.getpid).values()))
                os.kill(self.killed, signal.SIGKILL)

    wait_for_two(client)
    X, y = sequences(60)
    settings = {"rank": 120, "random_state": 0, "dtype": "float64"}
    here = on_threads(ChainCRF("rbf", basis="random-cholesky", **settings), X, y)[2][0]
    there = on_cluster(ChainCRF("rbf", basis=Dangerous(), **settings), X, y, client)[2][0]
    assert hasattr(there.term.clique.basis, "killed")
    np.testing.assert_array_equal(there.term.subspace.indices, here.term.subspace.indices)
    wait_for_two(client)


def test_an_error_on_a_worker_is_raised_as_it_is(client):
    there = posterior(*on_cluster(ChainCRF("rbf", rank=10, random_state=0), *sequences(), client))
    with pytest.raises(IndexError):
        there.datafit.group.ask(_fail, SHARD)


def _fail(shard):
    raise IndexError(f"nothing at {shard.number}")
