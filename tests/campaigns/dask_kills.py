"""Workers of a local Dask cluster killed at random during fits: each must end at the objective of a quiet one.

    python -m tests.campaigns.dask_kills [--kills 10] [--kinds chains ...] [--seed 0]

A quiet fit of each kind, of generated data in four partitions, says how long it takes and where it ends. Then each
further fit loses one of its two workers, by SIGKILL, at a moment drawn uniformly between its start and that long after:
while partitions are made, pivots chosen or steps taken. A kill that comes after the end of a fit is not counted, and
another fit is made. The cluster stays for all fits as long as its nannies start new workers, which are forked from a
process that has loaded the package already.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.cluster import workers
from benchmarks.result_files import CAMPAIGNS, merge_results
from kernelfields import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF, SegmentCRF
from kernelfields.engines import Dask
from kernelfields.kernels import RBF
from kernelfields.solvers import Solution

TOLERANCE = 1e-8


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
    if kind == "chains":
        return ChainCRF(RBF(0.5), **settings), X, y
    if kind == "partly known":
        known = [[int(label) if random.random() < 0.5 else None for label in own] for own in y]
        return ChainCRF(RBF(0.5), **settings), X, known
    if kind == "graphs":
        return GraphCRF(RBF(0.5), **settings), [(x, steps) for x in X], y
    if kind == "segments":
        return SegmentCRF(RBF(0.5), max_duration=24, **settings), X, y
    if kind == "several labels":
        field = MultiLabelCRF(RBF(0.5), label_graph="full", **settings)
        return field, np.concatenate(X), np.concatenate(np.eye(3, dtype=int)[y])
    return KernelClassifier(RBF(0.5), **settings), np.concatenate(X), np.concatenate(y)


KINDS = ("chains", "partly known", "graphs", "segments", "several labels", "single labels")


def fit_of(kind: str, client: Any) -> tuple[Solution, float]:
    """Fit a field of a kind on the cluster; return the solution and its seconds."""
    import dask

    estimator, *given = generated(kind)
    cuts = np.linspace(0, len(given[0]), 5).astype(int)
    parts = [[dask.delayed(each[begin:end], pure=False) for begin, end in pairwise(cuts)] for each in given]
    begin = time.perf_counter()
    estimator.set_params(engine=Dask(client)).fit(*parts)
    return estimator.solution_, time.perf_counter() - begin


def killed_fits(kind: str, client: Any, n_kills: int, random: np.random.Generator) -> list[dict]:
    """Return one row for each fit of a kind that lost a worker; fewer where the cluster has no more workers."""
    fit_of(kind, client)  # compile on the workers before the clock starts
    quiet, duration = fit_of(kind, client)
    print(f"{kind}, quiet: {duration:.1f} s, {quiet.iterations} iterations, value {quiet.value:.8f}", flush=True)
    rows: list[dict] = []
    while len(rows) < n_kills:
        try:
            client.wait_for_workers(2, timeout=120)
        except TimeoutError:
            print("  a nanny has given up: another cluster is needed", flush=True)
            break
        pid = int(random.choice(sorted(client.run(os.getpid).values())))
        killer = Killer(pid, float(random.uniform(0.0, duration)))
        killer.start()
        solution, seconds = fit_of(kind, client)
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
        print(f"  killed after {killer.delay:.2f} s, ended after {seconds:.1f}: {difference:.1e}", flush=True)
    return rows


def fork_workers() -> None:
    """Have workers start at once: from a server with all modules, and not each by itself."""
    import dask

    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    from distributed.utils import get_mp_context

    get_mp_context().set_forkserver_preload(["distributed", "torch.distributed", "benchmarks.cluster"])


def main() -> None:
    """Fit, kill, print, write results/dask_kills.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random = np.random.default_rng(arguments.seed)
    fork_workers()
    left = dict.fromkeys(arguments.kinds, arguments.kills)
    while any(left.values()):
        with workers(2) as client:
            for kind in [kind for kind, number in left.items() if number]:
                rows = killed_fits(kind, client, left[kind], random)
                merge_results("dask_kills.json", rows, ("kind", "killed_after"), CAMPAIGNS)
                same = sum(row["same"] for row in rows)
                worst = max((row["relative_difference"] for row in rows), default=0.0)
                print(f"  {kind}: {same} of {len(rows)} the same to {TOLERANCE:g}, worst {worst:.1e}", flush=True)
                left[kind] -= len(rows)
                if left[kind]:
                    break


if __name__ == "__main__":
    main()
