"""Seconds per pass on a local Dask cluster against threads, and the client's memory at two sizes of data.

    python -m benchmarks.dask_passes [--share 1.0] [--rank 500] [--iterations 10]

The field of netsurfp2-ss3 (2.85 million residues, window 15 one-hot): a sparse linear part and a kernel. Threads
are two; the cluster has two workers with one thread each. Both fit by L-BFGS for the same number of iterations,
one after the other in one run, from the same seed, and so from the same pivots. Workers read their own part of the
files: sequences never visit the client. The client's peak memory is that of a fresh process, scheduler included,
with the given share of the data and with a quarter of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.fit_parts import parts_of_fit
from benchmarks.protein_windows import field, proteins
from benchmarks.result_files import CHECKOUT, merge_results
from kernelfields.engines import Dask
from kernelfields.numerics.threads import blas_threads
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.choice import resolve_solver
from kernelfields.solvers.loop import minimize

MEMORY_PROBE = """
import re, sys
sys.path.insert(0, {folder!r})
from benchmarks.dask_passes import on_cluster
if __name__ == "__main__":
    print(on_cluster({share!r}, {rank!r}, 3)["positions"])
    print(1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]))
"""


def solved(posterior: LogPosterior, iterations: int) -> dict:
    """Make some iterations and return what they took."""
    begin, passes = time.perf_counter(), posterior.passes
    solution = minimize(posterior, resolve_solver("lbfgs", posterior, 1e-12), tol=1e-12, max_iter=iterations)
    seconds = time.perf_counter() - begin
    single = []
    for _ in range(3):
        start = time.perf_counter()
        posterior.at(solution.theta)
        single.append(time.perf_counter() - start)
    return {
        "value": solution.value,
        "passes": posterior.passes - passes,
        "seconds_per_pass": seconds / (solution.passes or 1),
        "seconds_per_gradient": float(np.median(single)),
    }


def on_threads(share: float, rank: int, iterations: int) -> dict:
    """Measure the threads engine with two threads."""
    begin = time.perf_counter()
    training, sample, designs = parts_of_fit(field(rank).set_params(n_jobs=2), *proteins(share))
    basis = time.perf_counter() - begin
    posterior = LogPosterior(sample.datafit(designs))
    with blas_threads(1):
        return {"basis_seconds": basis, "positions": training.data.n_positions, **solved(posterior, iterations)}


def on_cluster(share: float, rank: int, iterations: int) -> dict:
    """Measure a local cluster of two workers with one thread each, which read their parts themselves."""
    import dask
    import distributed

    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
    )
    with cluster, distributed.Client(cluster) as client:
        read = dask.delayed(proteins, pure=True, nout=2)
        parts = [read(share, part, 2) for part in range(2)]
        begin = time.perf_counter()
        X, y = ([part[number] for part in parts] for number in range(2))
        training, sample, designs = parts_of_fit(field(rank), X, y, engine=Dask(client))
        basis = time.perf_counter() - begin
        posterior = LogPosterior(sample.datafit(designs))
        positions = training.data.n_positions
        found = {"basis_seconds": basis, "positions": positions, **solved(posterior, iterations)}
        begin = time.perf_counter()
        for _ in range(20):
            posterior.datafit.group.ask(shard_number)
        found["seconds_per_round_trip"] = (time.perf_counter() - begin) / 20
        return found


def shard_number(shard: Any) -> int:
    """Return what costs a shard nothing: its number."""
    return shard.number


def client_memory(share: float, rank: int) -> tuple[int, int]:
    """Return positions and peak bytes of a fresh client process."""
    code = MEMORY_PROBE.format(folder=str(CHECKOUT), share=share, rank=rank)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    positions, peak = map(json.loads, done.stdout.split()[-2:])
    return positions, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--rank", type=int, default=500)
    parser.add_argument("--iterations", type=int, default=10)
    arguments = parser.parse_args()
    share, rank, iterations = arguments.share, arguments.rank, arguments.iterations
    on_threads(0.002, 20, 1)  # compile before the clock starts
    threads, cluster = on_threads(share, rank, iterations), on_cluster(share, rank, iterations)
    ratio = cluster["seconds_per_pass"] / threads["seconds_per_pass"]
    difference = abs(cluster["value"] / threads["value"] - 1.0)
    for name, found in (("threads", threads), ("cluster", cluster)):
        print(
            f"{name}: {found['positions']:,} positions, rank {rank}: basis {found['basis_seconds']:.1f} s, "
            f"{found['passes']:.1f} passes at {found['seconds_per_pass']:.3f} s, "
            f"one gradient {found['seconds_per_gradient']:.3f} s, value {found['value']:.6f}",
            flush=True,
        )
    print(f"a round trip takes {1e3 * cluster['seconds_per_round_trip']:.1f} ms", flush=True)
    print(f"cluster over threads: {ratio:.2f} times per pass; values differ by {difference:.1e}", flush=True)
    sizes = [client_memory(part, rank) for part in (share / 4, share)]
    for positions, peak in sizes:
        print(f"client with {positions:,} positions: peak {peak / 2**20:.0f} MiB", flush=True)
    row = {
        "share": share,
        "rank": rank,
        "threads": threads,
        "cluster": cluster,
        "ratio": ratio,
        "client_memory": [{"positions": positions, "peak_bytes": peak} for positions, peak in sizes],
    }
    merge_results("dask_passes.json", [row], ("share", "rank"))


if __name__ == "__main__":
    main()
