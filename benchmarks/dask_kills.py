"""Workers of a local Dask cluster killed at random during fits: each must end at the objective of a quiet one.

    python -m benchmarks.dask_kills [--kills 10] [--share 0.005] [--rank 60] [--seed 0]

One quiet fit of netsurfp2-ss3 says how long a fit takes and where it ends. Then each further fit loses one of its
two workers, by SIGKILL, at a moment drawn uniformly between its start and that long after: while data are read,
pivots chosen or steps made. A kill that comes after the end of a fit is not counted, and another fit is made.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from typing import Any

import numpy as np

from benchmarks.fit_parts import parts_of_fit
from benchmarks.protein_windows import field, proteins
from benchmarks.result_files import write_results
from kernelfields.engines import Dask
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.choice import resolve_solver
from kernelfields.solvers.loop import Solution, minimize

TOLERANCE = 1e-6


def fit(client: Any, share: float, rank: int) -> tuple[Solution, float]:
    """Fit on the cluster; return the solution and the seconds it took from the first read to the end."""
    import dask

    read = dask.delayed(proteins, pure=False, nout=2)
    parts = [read(share, part, 2) for part in range(2)]
    begin = time.perf_counter()
    X, y = ([part[number] for part in parts] for number in range(2))
    crf = field(rank, dtype="float64", prior_variance=0.02)
    _, sample, designs = parts_of_fit(crf, X, y, engine=Dask(client))
    posterior = LogPosterior(sample.datafit(designs))
    solution = minimize(posterior, resolve_solver("lbfgs", posterior, TOLERANCE / 4), tol=TOLERANCE / 4, max_iter=500)
    return solution, time.perf_counter() - begin


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


def main() -> None:
    import distributed

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--share", type=float, default=0.005)
    parser.add_argument("--rank", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random = np.random.default_rng(arguments.seed)
    rows: list[dict] = []
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
    )
    with cluster, distributed.Client(cluster) as client:
        fit(client, arguments.share, arguments.rank)  # compile on the workers before the clock starts
        quiet, duration = fit(client, arguments.share, arguments.rank)
        print(f"quiet: {duration:.1f} s, {quiet.iterations} iterations, value {quiet.value:.8f}", flush=True)
        while len(rows) < arguments.kills:
            client.wait_for_workers(2)
            pid = int(random.choice(sorted(client.run(os.getpid).values())))
            killer = Killer(pid, float(random.uniform(0.0, duration)))
            killer.start()
            solution, seconds = fit(client, arguments.share, arguments.rank)
            killer.over.set()
            killer.join()
            if not killer.struck:
                continue
            difference = abs(solution.value / quiet.value - 1.0)
            rows.append(
                {
                    "killed_after": killer.delay,
                    "seconds": seconds,
                    "quiet_seconds": duration,
                    "value": solution.value,
                    "relative_difference": difference,
                    "same": bool(difference <= TOLERANCE),
                }
            )
            print(
                f"killed after {killer.delay:5.1f} s: {seconds:5.1f} s in all, value {solution.value:.8f}, "
                f"relative difference {difference:.1e}",
                flush=True,
            )
    same = sum(row["same"] for row in rows)
    print(f"{same} of {len(rows)} fits ended at the same objective to {TOLERANCE:g}", flush=True)
    write_results("dask_kills.json", rows)


if __name__ == "__main__":
    main()
