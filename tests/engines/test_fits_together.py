"""Processes that share the data of a field say of it what one process says, to rounding, and end when one is lost."""

import functools
import os
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
from conforming_engines import ESTIMATORS, sequences
from fits_together import CHAINS, answers, case, in_parts, posterior_here, posterior_there
from together import Together
from torch import distributed

from benchmarks.fit_parts import parts_of_fit
from kernelfields import AnnotatedCRF, ChainCRF, PartialLabels
from kernelfields.engines import Torch
from kernelfields.engines.choice import Partitions
from kernelfields.engines.together import collective as meeting
from kernelfields.engines.together.collective import Parted
from kernelfields.engines.together.summed import SummedDatafit
from kernelfields.estimators import LabelShares
from kernelfields.kernels import Forest, Kernel
from kernelfields.models.fit import fit_field
from kernelfields.objective.likelihoods.completion import Completion, frozen_posterior
from kernelfields.objective.posterior import LogPosterior


def same(found, expected, tolerance=1e-8):
    """Compare what posteriors say, number by number."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, float | np.ndarray):
            scale = max(1e-4, float(np.abs(value).max(initial=0.0))) if np.size(value) else 1.0
            np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance * scale, err_msg=name)
        elif name == "pivots":
            for mine, theirs in zip(found[name], value, strict=True):
                np.testing.assert_array_equal(mine, theirs)
        else:
            assert found[name] == value, name


expected = functools.cache(lambda name, partly=False: answers(posterior_here(name, partly)))


def said(collective, **given):
    return answers(posterior_there(collective, **given))


@pytest.mark.parametrize("partly", [False, True], ids=["all labels known", "labels partly known"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_says_the_same_in_two_processes(processes, name, partly):
    for found in processes(functools.partial(said, name=name, partly=partly)):
        same(found, expected(name, partly))


@pytest.mark.parametrize("name", [*CHAINS, "graphs", "single labels", "several labels, a table"])
def test_collections_say_what_lists_do(processes, name):
    for found in processes(functools.partial(said, name=name, collected=True)):
        same(found, expected(name))


@pytest.mark.parametrize("name", CHAINS)
def test_columns_pairs_and_rules_are_those_of_all_data(processes, name):
    for found in processes(functools.partial(said, name=name)):
        same(found, expected(name))


@pytest.mark.parametrize("name", ["chains", "chains, edges that see", "single labels", "segments", "raw inputs"])
def test_parts_on_devices_say_the_same(processes, name):
    for found in processes(functools.partial(said, name=name, workers=Torch("cpu"))):
        same(found, expected(name))


def test_weights_of_samples_count_in_parts(processes):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=8)
    here = answers(posterior_here("chains", weights=weights))
    for collected in (False, True):
        for found in processes(functools.partial(said, name="chains", weights=weights, collected=collected)):
            same(found, here)


@pytest.mark.parametrize("name", ["chains, edges that see", "rings", "graphs", "graphs, approximate"])
def test_processes_without_items_of_their_own_fit_all_of_them(processes, name):
    """There is one item, and there are two processes."""
    estimator, X, y = case(name)
    here = _fit(estimator, X[:1], y[:1], "threads").solution.value
    assert processes(functools.partial(one_item, name=name)) == [pytest.approx(here, rel=1e-8)] * 2


def one_item(collective, name):
    estimator, X, y = case(name)
    return _fit(estimator, X[:1], y[:1], Together()).solution.value


def long_and_short(collective, workers=None):
    """Return the value of a fit to short sequences before a long one, which is more than a share."""
    X, y = sequences()
    X, y = [*X[:2], np.concatenate(X * 4)], [*y[:2], np.concatenate(y * 4)]
    engine = "threads" if collective is None else Together(workers)
    crf = ChainCRF("rbf", rank=9, random_state=0, tol=1e-8, dtype="float64", prior_variance=1.0)
    return _fit(crf.set_params(solver="lbfgs"), X, y, engine).solution.value


@pytest.mark.parametrize("workers", [None, Torch("cpu")], ids=["threads", "torch"])
def test_every_process_has_a_part_however_long_single_items_are(processes, workers):
    here = long_and_short(None)
    assert processes(functools.partial(long_and_short, workers=workers)) == [pytest.approx(here, rel=1e-7)] * 2


def rare_label(collective, collected):
    """Return the classes and the value of a fit to a label that the second process alone has seen."""
    X, y = sequences()
    y = [np.where(np.arange(len(own)) == 0, 7 if index > 5 else 0, own) for index, own in enumerate(y)]
    given = [in_parts(each, collective.rank) for each in (X, y)] if collected else [X, y]
    crf = ChainCRF("rbf", rank=9, random_state=0, tol=1e-8, dtype="float64", prior_variance=1.0)
    training, sample, designs = parts_of_fit(crf, *given, None, "threads" if collective is None else Together())
    value = fit_field(
        designs, sample, replace(training.run.options, random=np.random.default_rng(0)), steps=training.run.steps
    ).solution.value
    return training.classes.tolist(), value


def test_labels_that_one_process_alone_has_seen_are_labels_of_all(processes):
    classes, value = rare_label(None, False)
    for collected in (False, True):
        for there in processes(functools.partial(rare_label, collected=collected)):
            assert there == (classes, pytest.approx(value, rel=1e-7))


def with_criteria(collective, name, collected):
    """Return value, gradients and tangent of a field with expectations."""
    estimator, X, y = case(name, partly=True)
    if name != "single labels":
        y = [None, *y[1:-1], None]
    shares = {0: 0.3, 1: 0.7}
    asked = [LabelShares(shares), LabelShares(shares, weight=3.0)]
    estimator.set_params(partial_labels=PartialLabels(expectations=asked, classes=[0, 1, 2]))
    X = np.where(X > 1.0, X, 0.0) if isinstance(X, np.ndarray) else [np.where(x > 1.0, x, 0.0) for x in X]
    given = [in_parts(each, collective.rank) for each in (X, y)] if collected else [X, y]
    engine = "threads" if collective is None else Together()
    training, sample, designs = parts_of_fit(estimator, *given, None, engine)
    posterior = LogPosterior(Completion(sample.datafit(designs)).with_criteria(training.run.steps[0].criteria))
    theta = 0.3 * np.random.default_rng(0).normal(size=posterior.size)
    point, frozen = posterior.make_point(theta), frozen_posterior(posterior, theta).make_point(0.5 * theta)
    line = posterior.make_line(point, type("Straight", (), {"theta": theta, "potentials": None}))
    return {
        "value": point.value,
        "gradient": point.gradient,
        "value at zero": posterior.datafit.group.total(posterior.datafit.likelihood.value_at_zero),
        "tangent": frozen.value,
        "gradient of the tangent": frozen.gradient,
        "line": np.array([*line(0.2)]),
        "far away": name == "chains" and line(1e300)[0] == np.inf,
    }


@pytest.mark.parametrize("collected", [False, True], ids=["lists", "parts"])
@pytest.mark.parametrize("name", ["chains", "rings", "segments", "single labels"])
def test_expectations_are_those_of_all_data(processes, name, collected):
    here = with_criteria(None, name, False)
    for found in processes(functools.partial(with_criteria, name=name, collected=collected)):
        same(found, here)


def fitted(collective, engine):
    """Return the ends of fits by several solvers, of one with l1, and what annotators are believed."""
    X, y = sequences()
    engine = Together() if engine is None else engine
    found = {}
    settings = {"rank": 9, "random_state": 0, "tol": 1e-7, "dtype": "float64", "max_iter": 500, "prior_variance": 1.0}
    for solver in ("lbfgs", "newton-cg", "block-jacobi", "subspace"):
        solution = _fit(ChainCRF("rbf", solver=solver, **settings), X, y, engine).solution
        found[solver] = solution.value
    found["l1"] = _fit(ChainCRF("linear", l1=0.5, **settings), X, y, engine).solution.value
    said = [{"a": own.tolist(), "b": np.where(np.arange(len(own)) % 3, own, 0).tolist()} for own in y]
    annotated = AnnotatedCRF(ChainCRF("rbf", engine=engine, **settings), cv=2, max_steps=3).fit(X, said)
    found["confusions"] = np.concatenate(list(annotated.confusions_.values()))
    found["labels"] = np.concatenate(annotated.consensus_).astype(float)
    evidence = ChainCRF("rbf", engine=engine, **settings).fit(X, y, optimize="evidence")
    found["evidence"] = evidence.solution_.value
    found["laplace"] = evidence.laplace(X, y, n_samples=2, method="exact", random_state=0).value
    held = ChainCRF("rbf", engine=engine, **settings).fit(X[:5], y[:5], X_dev=X[5:], y_dev=y[5:])
    found["development"] = held.dev_log_likelihoods_[0]
    # One sequence, and two processes.
    found["alone"] = _fit(ChainCRF("rbf", **settings), X[2:3], y[2:3], engine).solution.value
    return found


def _fit(crf, X, y, engine):
    training, sample, designs = parts_of_fit(crf, X, y, None, engine)
    return fit_field(
        designs, sample, replace(training.run.options, random=np.random.default_rng(0)), steps=training.run.steps
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fits_end_where_those_of_one_process_do(processes):
    here = fitted(None, "threads")
    for found in processes(functools.partial(fitted, engine=None)):
        same(found, here, 2e-5)


def verbs(collective):
    """Return what the verbs of a group return."""
    own = float(collective.rank + 1)
    return (
        collective.total(own),
        collective.total([np.full((2, 2), own), collective.rank, own]),
        collective.total(np.full(3, own, dtype=np.float32)),
        collective.gather({"rank": collective.rank}),
        collective.largest(own),
        collective.concatenate(np.full(collective.rank + 1, own)),
        collective.find_share([1, 2]),
        collective.gather(np.random.default_rng(collective.rank))[0].random(),
        collective.total([]),
        [collective.broadcast(number + collective.rank) for number in (3, 5)],
        collective.total_and_largest([own, np.ones(2)], -own),
        collective.gather(np.full(1000 + collective.rank, own))[1].sum(),
    )


def test_the_verbs_of_a_group(processes):
    first, second = processes(verbs)
    for rank, (total, totals, narrow, gathered, largest, rows, share, drawn, none, *more) in enumerate((first, second)):
        assert (total, largest, none) == (3.0, 2.0, [])
        np.testing.assert_array_equal(totals[0], np.full((2, 2), 3.0))
        assert totals[1:] == [1, 3.0]
        assert isinstance(totals[1], int)
        assert (narrow.dtype, narrow.tolist()) == (np.float32, [3.0] * 3)
        assert gathered == [{"rank": 0}, {"rank": 1}]
        assert rows.tolist() == [1.0, 2.0, 2.0]
        assert share == slice(rank, rank + 1 + rank)
        assert drawn == np.random.default_rng(0).random()
        (numbers, (sums, furthest), large) = more
        assert numbers == [0, 5]  # that of an earlier sum, and of one that there was not
        assert (sums[0], sums[1].tolist(), furthest, large) == (3.0, [2.0, 2.0], -1.0, 2002.0)


class Counted:
    """Exchanges of a group, counted."""

    def __init__(self, group):
        self.group, self.count = group, 0

    def __getattr__(self, name):
        self.count += name.startswith("all")
        return getattr(self.group, name)


def exchanged(collective):
    """Return how many exchanges there are before a fit by L-BFGS, and in it, with its iterations and trials."""
    counted = collective._group = Counted(collective._group)
    X, y = sequences()
    crf = ChainCRF("rbf", rank=9, random_state=0, tol=1e-6, dtype="float64", prior_variance=1.0, solver="lbfgs")
    training, sample, designs = parts_of_fit(crf, X, y, None, Together())
    evaluate, trials = SummedDatafit.evaluate_with_slope, []
    SummedDatafit.evaluate_with_slope = lambda self, *given: trials.append(1) or evaluate(self, *given)
    before = counted.count
    try:
        solution = fit_field(
            designs, sample, replace(training.run.options, random=np.random.default_rng(0)), steps=training.run.steps
        ).solution
    finally:
        SummedDatafit.evaluate_with_slope = evaluate
    return before, counted.count - before, solution.iterations, len(trials)


def test_a_pass_takes_one_sum_of_the_gradient_and_one_of_each_trial(processes):
    """Checksums and how far potentials move ride along; some few sums begin and end a fit."""
    for before, during, iterations, trials in processes(exchanged):
        assert before <= 8
        assert 5 <= iterations <= trials
        assert during <= iterations + trials + 11


def rounds_otherwise(collective):
    for difference in (1e-16, 1e-15):
        collective.save_iteration(np.full(3, 1.0 + collective.rank * difference))
        collective.total(1.0)


def other_data(collective):
    X, y = sequences(collective.rank)
    parts_of_fit(ChainCRF("rbf", rank=3), X, y, None, Together())


def nothing_there(collective):
    """The second process has partitions without items."""
    X, y = ([[each[:4]], [[]]][collective.rank] for each in sequences())
    given = [Partitions([collective.rank], each) for each in (X, y)]
    parts_of_fit(ChainCRF("rbf", rank=3, prior_variance=1.0, scale=False), *given, None, Together())


def unequal_devices(collective, port):
    """Meet again as processes with devices of different kinds."""
    meeting._identity, identity = lambda device: (f"GPU {collective.rank}", str(collective.rank)), meeting._identity
    try:
        store = distributed.TCPStore("127.0.0.1", port, is_master=False)
        meeting.Collective(store, collective.rank, collective.size)
    finally:
        meeting._identity = identity


def leaves(collective):
    """The first process ends while the second waits for it; return how long that takes."""
    if collective.rank == 0:
        return 0.0
    begin = time.monotonic()
    with pytest.raises(Parted, match="a process that fits together with this one has gone"):
        collective.total(1.0)
    return time.monotonic() - begin


def nobody_comes(collective, port):
    """The first process alone is there; its limit is the shortest."""
    if collective.rank == 0:
        meeting.LONGEST_START, limit = 0.2, meeting.LONGEST_START
        try:
            meeting.Collective(distributed.TCPStore("127.0.0.1", port, is_master=False), 0, 2)
        finally:
            meeting.LONGEST_START = limit


def does_not_answer(collective, port):
    """The second process is there, but sums nothing."""
    store = distributed.TCPStore("127.0.0.1", port, is_master=False)
    again = meeting.Collective(store, collective.rank, collective.size, timeout=0.5)
    if collective.rank == 0:
        with pytest.raises(Parted, match="a process that fits together with this one has gone"):
            again.total(1.0)
    collective.gather(None)
    again.close()


def fails(collective):
    if collective.rank == 0:
        raise IndexError("nothing at 3")
    collective.total(1.0)


def test_processes_that_part_end_with_one_line(processes):
    with pytest.raises(RuntimeError, match="process 1 of the fit has other coefficients than process 0"):
        processes(rounds_otherwise)
    with pytest.raises(ValueError, match="process 1 was given other data than process 0"):
        processes(other_data)
    with pytest.raises(ValueError, match="process 1 of the fit has no sequence that counts"):
        processes(nothing_there)
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with pytest.raises(RuntimeError, match=r"of one kind.*process 0 has GPU 0, process 1 has GPU 1"):
        processes(functools.partial(unequal_devices, port=store.port))
    assert processes(leaves)[1] < 10.0
    stores = [distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) for _ in range(2)]
    with pytest.raises(TimeoutError, match="process 0 of a fit waited 0 seconds for the others: are their workers"):
        processes(functools.partial(nobody_comes, port=stores[0].port))
    processes(functools.partial(does_not_answer, port=stores[1].port))
    with pytest.raises(IndexError, match="nothing at 3"):
        processes(fails)


class Median(Kernel):
    """A kernel with a rule of its own."""

    def __init__(self, width=None):
        self.width = width

    def _from_data(self, X, weights):
        return {} if self.width is not None else {"width": float(np.median(np.abs(X)))}


def built(collective, estimator, collected=True):
    given = [in_parts(each, collective.rank) if collected else each for each in sequences()]
    parts_of_fit(estimator, *given, None, Together())


def test_what_needs_all_data_in_one_place_is_refused(processes):
    refused = {
        "reads its parameters off the data by a rule that needs all": ChainCRF(Median()),
        r"Forest\(\) learns from all inputs of fit": ChainCRF(Forest()),
        "basis='gradient' of clique set 'node'": ChainCRF("rbf", basis="gradient"),
        "basis='all' of clique set 'node'": ChainCRF("rbf", basis="all"),
    }
    for message, estimator in refused.items():
        with pytest.raises(ValueError, match=message):
            processes(functools.partial(built, estimator=estimator))
    processes(functools.partial(built, estimator=ChainCRF(Forest(n_trees=3), rank=4), collected=False))


def goes_on(collective):
    """A fit that ends by itself, and one that begins where that was."""
    ends = []
    for _ in range(2):
        X, y = sequences()
        crf = ChainCRF("rbf", rank=9, random_state=0, tol=1e-8, dtype="float64", prior_variance=1.0)
        collective.known, collective._solver = dict(ends[0][1]) if ends else {}, -1
        solution = _fit(crf, X, y, Together()).solution
        ends.append((solution, dict(collective.known)))
    return [(solution.iterations, solution.value) for solution, _ in ends]


def test_a_fit_goes_on_from_the_coefficients_of_its_journal(processes):
    (first, value), (again, same_value) = processes(goes_on)[0]
    assert again <= 1 < first
    assert same_value == pytest.approx(value, rel=1e-8)


PROGRAM = """
import sys
import numpy as np
from kernelfields import ChainCRF
from kernelfields.engines import Torch

X = np.random.default_rng(0).normal(size=(20, 6, 3))
y = (X[:, :, 0] > 0).astype(int)
crf = ChainCRF("rbf", rank=12, prior_variance=1.0, tol=1e-8, dtype="float64", engine=Torch("cpu", group="env"))
crf.set_params(random_state=0).fit(list(X), list(y))
sys.stdout.write(f"{crf.solution_.value:.9f}\\n")
"""


def test_processes_of_torchrun_fit_together(tmp_path):
    (program := tmp_path / "program.py").write_text(PROGRAM)
    crf = ChainCRF("rbf", rank=12, prior_variance=1.0, tol=1e-8, dtype="float64", random_state=0)
    X = np.random.default_rng(0).normal(size=(20, 6, 3))
    value = crf.fit(list(X), list((X[:, :, 0] > 0).astype(int))).solution_.value
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", str(program)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=dict(os.environ))
    assert run.returncode == 0, run.stderr
    values = [float(line) for line in run.stdout.split()]
    assert values == pytest.approx([value, value], rel=1e-7)
    with pytest.raises(ValueError, match='group must be None, or "env"'):
        Torch("cpu", group="mpi").check()
    with pytest.raises(RuntimeError, match=r'group="env" takes its processes from the environment, and RANK is not'):
        Torch("cpu", group="env").check()
