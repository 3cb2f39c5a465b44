"""Workers of a local Dask cluster killed at random during fits: each must end at the objective of a quiet one.

    python -m tests.campaigns.dask_kills [--kills 10] [--kinds proteins ...] [--share 0.005] [--rank 60] [--seed 0]

One quiet fit of each kind, of netsurfp2-ss3 or of generated data, says how long it takes and where it ends. Then
each further fit loses one of its two workers, by SIGKILL, at a moment drawn uniformly between its start and that
long after: while data are read, pivots chosen or steps made. A kill that comes after the end of a fit is not
counted, and another fit is made.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.cluster import field, proteins
from benchmarks.result_files import CAMPAIGNS, merge_results
from kernelfields import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF, SegmentCRF
from kernelfields.engines import Dask
from kernelfields.kernels import RBF
from kernelfields.solvers import Solution

TOLERANCE = 1e-8


def fit(client: Any, share: float, rank: int) -> tuple[Solution, float]:
    """Fit on the cluster; return the solution and the seconds it took from the first read to the end."""
    import dask

    read = dask.delayed(proteins, pure=False, nout=2)
    parts = [read(share, part, 2) for part in range(2)]
    begin = time.perf_counter()
    X, y = ([part[number] for part in parts] for number in range(2))
    crf = field(rank, dtype="float64", prior_variance=0.02, solver="lbfgs", tol=TOLERANCE / 4, max_iter=500)
    return crf.set_params(engine=Dask(client)).fit(X, y).solution_, time.perf_counter() - begin


class Killer(threading.Thread):
    """Ends one worker process after a delay, unless the fit ended before."""

    def __init__(self, pid: int, delay: float):
        super().__init__(daemon=True)
        self.pid, self.delay = pid, delay
        self.over = threading.Event()
        self.struck = False

    def run(self) -> None:
        if not self.over.wait(self.delay):
            os.kill(self.pid, signal.SIGKILL)
            self.struck = True


def generated(kind: str) -> tuple[Any, list, Any]:
    """Return an estimator of a kind with inputs and labels that it can learn something from."""
    random = np.random.default_rng(0)
    y: list = [np.repeat(random.integers(3, size=8), 3) for _ in range(120)]
    X: list = [np.eye(3)[own] + random.normal(size=(len(own), 3)) for own in y]
    settings = {"rank": 40, "prior_variance": 1.0, "tol": TOLERANCE / 4, "dtype": "float64", "random_state": 0}
    steps = np.column_stack([np.arange(23), np.arange(1, 24)])
    if kind == "partly known":
        return (
            ChainCRF(RBF(0.5), **settings),
            X,
            [[int(a) if random.random() < 0.5 else None for a in own] for own in y],
        )
    if kind == "graphs":
        return GraphCRF(RBF(0.5), **settings), [(x, steps) for x in X], y
    if kind == "segments":
        return SegmentCRF(RBF(0.5), max_duration=6, **settings), X, y
    if kind == "several labels":
        together = np.concatenate(X)
        return (
            MultiLabelCRF(RBF(0.5), label_graph="full", **settings),
            together,
            np.concatenate(np.eye(3)[y]).astype(int),
        )
    return KernelClassifier(RBF(0.5), **settings), np.concatenate(X), np.concatenate(y)


KINDS = ("proteins", "partly known", "graphs", "segments", "several labels", "single labels")


def fit_of(kind: str, client: Any, arguments: argparse.Namespace) -> tuple[Solution, float]:
    """Fit a field of a kind on the cluster; return the solution and its seconds."""
    if kind == "proteins":
        return fit(client, arguments.share, arguments.rank)
    estimator, X, y = generated(kind)
    begin = time.perf_counter()
    estimator.set_params(engine=Dask(client)).fit(X, y)
    return estimator.solution_, time.perf_counter() - begin


@contextmanager
def two_workers() -> Iterator[Any]:
    """Return the client of a new cluster: one that has lost many workers may start no more."""
    import distributed

    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


def killed_fits(kind: str, arguments: argparse.Namespace, random: np.random.Generator) -> list[dict]:
    """Return one row for each fit of a kind that lost a worker."""
    with two_workers() as client:
        fit_of(kind, client, arguments)  # compile on the workers before the clock starts
        quiet, duration = fit_of(kind, client, arguments)
    print(f"{kind}, quiet: {duration:.1f} s, {quiet.iterations} iterations, value {quiet.value:.8f}", flush=True)
    rows: list[dict] = []
    while len(rows) < arguments.kills:
        with two_workers() as client:
            pid = int(random.choice(sorted(client.run(os.getpid).values())))
            killer = Killer(pid, float(random.uniform(0.0, duration)))
            killer.start()
            solution, seconds = fit_of(kind, client, arguments)
            killer.over.set()
            killer.join()
        if not killer.struck:
            continue
        difference = abs(solution.value / quiet.value - 1.0)
        rows.append(
            {
                "kind": kind,
                "killed_after": killer.delay,
                "seconds": seconds,
                "quiet_seconds": duration,
                "value": solution.value,
                "relative_difference": difference,
                "same": bool(difference <= TOLERANCE),
            }
        )
    same, worst = sum(row["same"] for row in rows), max(row["relative_difference"] for row in rows)
    print(f"  {same} of {len(rows)} ended at the same objective to {TOLERANCE:g}, worst {worst:.1e}", flush=True)
    return rows


def main() -> None:
    """Fit, kill, print, write results/dask_kills.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--share", type=float, default=0.005)
    parser.add_argument("--rank", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random = np.random.default_rng(arguments.seed)
    for kind in arguments.kinds:
        rows = killed_fits(kind, arguments, random)
        merge_results("dask_kills.json", rows, ("kind", "killed_after"), CAMPAIGNS)


if __name__ == "__main__":
    main()
