"""Fits that the workers of a cluster run together: against threads, against one device, and what they exchange.

    python -m benchmarks.cluster processes [--share 0.1] [--rank 500] [--iterations 10] [--repeats 5]
    python -m benchmarks.cluster communication [--sizes 2 4]
    python -m benchmarks.cluster devices [--sequences 50000] [--rank 4096] [--workers 1 2] [--device cuda]

*processes*: two worker processes with one thread each against two threads of one process, by L-BFGS for the same number
of iterations: netsurfp2-ss3 (window 15 one-hot, a sparse linear part and a kernel) and OCR letters (cubic kernel).
Workers read their own part of the proteins; letters are lists. Both ways fit by turns, and the least seconds of each
count. Workers choose their pivots among 20,000 inputs and threads among all of them, so that the values differ; with
the same candidates they are equal to rounding.

*communication*: milliseconds of a sum of 2 and of 4,096 x 26 doubles between processes of this machine (the
quickest tenth of 1,000, since other programs disturb them), and the model

    t(W, n) = latency log2(W) + 2 (W - 1) / W  8 (n + 3 W) / bandwidth
    pass    = pass of one device / W + t(W, r q) + 1.5 t(W, 2)

with latency and bandwidth of the sizes that have a core for each process, or given by --latency (seconds) and
--bandwidth (bytes a second), for 10^8 and 10^9 positions at rank 4,096 and 26 labels, a pass of 10^6 of which takes
20 ms on an H200. 3 W numbers ride along with every sum. A fit of 29.5 passes by two workers took 72 sums between its
begin and its end.

*devices*: chains of benchmarks/gpu_fit.py on one GPU: ``Torch("cuda")``, then workers that share the device, whose
partitions are there already; the second fit of each process counts.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.measuring import seconds
from benchmarks.result_files import merge_results
from benchmarks.shared_data import ocr_letters, token_columns
from kernelfields import ChainCRF
from kernelfields.engines import Dask, Torch
from kernelfields.kernels import RBF, Linear, Polynomial
from kernelfields.numerics.threads import available_cores

LETTERS = "ACDEFGHIKLMNPQRSTVWYX"
#: Doubles of a gradient: rank 4,096, 26 labels.
N_NUMBERS = 4096 * 26
#: Sums of two numbers in a pass, beside that of the gradient.
SHORT_SUMS = 1.5
#: Seconds of a pass of 10^6 positions at that rank on one H200 (benchmarks/results/gpu_fit.json).
DEVICE_PASS = 0.020


def proteins(share: float = 1.0, part: int = 0, n_parts: int = 1) -> tuple[list, list]:
    """Return one-hot inputs (T, 21) as CSR and labels C, H, E of a share of all proteins, cut into runs."""
    files = (token_columns("netsurfp2-ss3", f"{name}.tsv.gz") for name in ("train", "valid", "test"))
    chains = [chain for file in files for chain in file]
    chains = chains[: max(n_parts, round(share * len(chains)))]
    ends = np.cumsum([len(chain) for chain in chains])
    first, last = np.searchsorted(ends, np.array([part, part + 1]) / n_parts * ends[-1])
    chains = chains[first : last if part + 1 < n_parts else None]
    X = [one_hot([row[0] for row in chain]) for chain in chains]
    return X, [np.array([row[1] for row in chain]) for chain in chains]


def one_hot(residues: list[str]) -> scipy.sparse.csr_array:
    """Return a row with a single one for each residue; unknown ones count as X."""
    known = {letter: column for column, letter in enumerate(LETTERS)}
    columns = np.array([known.get(residue, len(LETTERS) - 1) for residue in residues])
    ones = np.ones(len(columns), dtype=np.float32)
    return scipy.sparse.csr_array((ones, columns, np.arange(len(columns) + 1)), shape=(len(columns), len(LETTERS)))


def field(rank: int, **settings: Any) -> ChainCRF:
    """Return the field: an exact linear part and a kernel of the given rank, window 15."""
    settings = {"prior_variance": 1.0, "random_state": 0, **settings}
    return ChainCRF(Linear() + RBF(0.05), window=15, rank=rank, **settings)


def measured(crf: ChainCRF, X: Any, y: Any, processor: Callable[[], float]) -> dict:
    """Fit once; return what it took. ``processor`` returns the seconds of processors that its processes had."""
    before = processor()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so many iterations are not a fit to the end
        spent = seconds(lambda: crf.fit(X, y))
    solution = crf.solution_
    return {
        "seconds": spent,
        "processor_seconds": processor() - before,
        "value": solution.value,
        "passes": solution.passes,
        "seconds_per_pass": solution.seconds / solution.passes,
    }


@contextmanager
def workers(number: int, n_threads: int = 1, *, profiled: bool = False) -> Iterator[Any]:
    """Return the client of a local cluster of worker processes, ``profiled`` by Dask or not."""
    import dask
    import distributed

    with dask.config.set({"distributed.worker.profile.enabled": profiled}):
        cluster = distributed.LocalCluster(
            n_workers=number, threads_per_worker=n_threads, processes=True, dashboard_address=":0", memory_limit=0
        )
    with cluster, distributed.Client(cluster) as client:
        yield client


def letters(rank: int, **settings: Any) -> ChainCRF:
    """Return the field of OCR letters: a cubic kernel."""
    settings = {"prior_variance": 3.0, "random_state": 0, **settings}
    return ChainCRF(Polynomial(3, gamma=0.06), rank=rank, **settings)


def compare_processes(share: float, rank: int, iterations: int, repeats: int) -> Iterator[dict]:
    """Yield one row for proteins and one for letters: the least of fits by turns, after one of each."""
    import dask

    settings: dict[str, Any] = {"solver": "lbfgs", "tol": 1e-12, "max_iter": iterations}
    for data in ("netsurfp2-ss3", "OCR letters"):
        make = field if data == "netsurfp2-ss3" else letters
        X, y = proteins(share) if make is field else ocr_letters()[:2]
        with workers(2) as client:
            parts: Any = [X, y]
            if make is field:
                read = dask.delayed(proteins, pure=True, nout=2)
                pairs = [read(share, part, 2) for part in range(2)]
                parts = [client.persist([pair[number] for pair in pairs]) for number in range(2)]
            here, there = make(rank, n_jobs=2, **settings), make(rank, engine=Dask(client), **settings)
            rows: tuple[list[dict], list[dict]] = ([], [])
            for _ in range(repeats + 1):
                rows[0].append(measured(here, X, y, time.process_time))
                rows[1].append(measured(there, *parts, lambda: sum(client.run(time.process_time).values())))
        least = [{name: min(row[name] for row in own[1:]) for name in own[0]} for own in rows]
        ratio = least[0]["seconds_per_pass"] / least[1]["seconds_per_pass"]
        row = {"what": "processes", "data": data, "positions": sum(map(len, y)), "rank": rank, "ratio": ratio}
        difference = abs(least[1]["value"] / least[0]["value"] - 1.0)
        yield {**row, "threads": least[0], "processes": least[1], "difference": difference}


def _sums(rank: int, size: int, port: int, pipe: Any) -> None:
    """Measure sums in one of several processes; the first sends the seconds."""
    from torch import distributed

    from kernelfields.engines.together.collective import Collective

    store = distributed.TCPStore("127.0.0.1", port, is_master=False)
    group = Collective(store, rank, size)
    found = {}
    for count in (2, N_NUMBERS):
        values = np.ones(count)
        for _ in range(10):
            group.total(values)
        times = []
        for _ in range(1000):
            begin = time.perf_counter()
            group.total(values)
            times.append(time.perf_counter() - begin)
        found[count] = float(np.quantile(times, 0.1))
    if rank == 0:
        pipe.send(found)
    group.gather(None)
    group.close()


def measure_sums(size: int) -> dict[int, float]:
    """Return the seconds of a sum of two numbers and of a gradient between processes."""
    from torch import distributed

    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    arguments = [(rank, size, store.port, there) for rank in range(size)]
    running = [context.Process(target=_sums, args=each) for each in arguments]
    for process in running:
        process.start()
    found = here.recv()
    for process in running:
        process.join()
    return found


def modelled_sum(n_workers: int, count: int, latency: float, bandwidth: float) -> float:
    """Return the modelled seconds of a sum of doubles between workers, with what rides along."""
    sent = 2 * (n_workers - 1) / n_workers * 8 * (count + 3 * n_workers)
    return latency * np.log2(n_workers) + sent / bandwidth


def modelled_pass(n_workers: int, positions: float, latency: float, bandwidth: float) -> float:
    """Return the modelled seconds of a pass: a sum of a gradient's size, and some of two numbers."""
    own = DEVICE_PASS * positions / 1e6 / n_workers
    if n_workers == 1:
        return own
    few, many = (modelled_sum(n_workers, count, latency, bandwidth) for count in (2, N_NUMBERS))
    return own + many + SHORT_SUMS * few


def compare_communication(sizes: list[int], latency: float | None, bandwidth: float | None) -> dict:
    """Return measured and modelled sums, and the curve of passes up to 256 devices."""
    found = {size: measure_sums(size) for size in sizes}
    # Processes that share a core wait for each other's turns, which is no cost of the exchange.
    fitted = {size: times for size, times in found.items() if size <= max(available_cores(), min(sizes))}
    if latency is None:
        latency = float(np.mean([times[2] / np.log2(size) for size, times in fitted.items()]))
    if bandwidth is None:
        longer = [(size, times[N_NUMBERS] - times[2]) for size, times in fitted.items()]
        bandwidth = float(np.mean([2 * (size - 1) / size * 8 * N_NUMBERS / more for size, more in longer]))
    curve = []
    for n_workers in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        row: dict[str, Any] = {"devices": n_workers, "ms": 1e3 * modelled_sum(n_workers, N_NUMBERS, latency, bandwidth)}
        for positions in (1e8, 1e9):
            alone = modelled_pass(1, positions, latency, bandwidth)
            row[f"{positions:.0e}"] = alone / modelled_pass(n_workers, positions, latency, bandwidth) / n_workers
        row["weak"] = DEVICE_PASS / modelled_pass(n_workers, 1e6 * n_workers, latency, bandwidth)
        curve.append(row)
    measured = [
        {"processes": size, "short_ms": 1e3 * times[2], "ms": 1e3 * times[N_NUMBERS]} for size, times in found.items()
    ]
    return {"what": "communication", "measured": measured, "latency": latency, "bandwidth": bandwidth, "curve": curve}


def nccl_sum() -> float:
    """Return the seconds of a sum of a gradient's size by NCCL, in a group of this process alone."""
    import torch
    from torch import distributed

    from kernelfields.engines.together.collective import nccl_group

    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    group, there = nccl_group(store, 0, 1, 60.0), torch.ones(N_NUMBERS, dtype=torch.float64, device="cuda")
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        work = group.allreduce([there])
        while not work.is_completed():
            pass
        times.append(time.perf_counter() - begin)
    group.abort()
    return float(np.median(times))


def compare_devices(n_sequences: int, rank: int, numbers: list[int], device: str = "cuda") -> Iterator[dict]:
    """Yield a row for the device alone, and one for workers that share it; the second fit of each counts."""
    from benchmarks.gpu_fit import KERNEL, SETTINGS, VARIANCE, chains

    if device == "cuda":
        print(f"a gradient's sum by NCCL in one process: {1e3 * nccl_sum():.2f} ms", flush=True)
    X, y = chains(n_sequences)
    settings = {**SETTINGS, "rank": rank, "prior_variance": VARIANCE}

    def fitted(crf: ChainCRF, X: Any, y: Any) -> dict:
        first = seconds(lambda: crf.fit(X, y))
        print(f"  first fit {first:.2f} s, its solver {crf.solution_.seconds:.2f} s", flush=True)
        spent, solution = seconds(lambda: crf.fit(X, y)), crf.solution_
        found = {"seconds": spent, "solver_seconds": solution.seconds, "passes": solution.passes}
        return {**found, "value": solution.value, "relative_gap": solution.relative_gap}

    alone = fitted(ChainCRF(KERNEL, engine=Torch(device), **settings), X, y)
    size = {"data": "chains", "positions": sum(map(len, y)), "rank": rank}
    yield {"what": f"{device} alone", **size, **alone}
    for number in numbers:
        with workers(number, max(1, available_cores() // number)) as client:
            addresses = sorted(client.nthreads())
            cuts = np.linspace(0, len(X), number + 1).astype(int)
            there: list[list[Any]] = [[], []]
            for (first, last), address in zip(pairwise(cuts), addresses, strict=True):
                for futures, values in zip(there, (X, y), strict=True):
                    futures += client.scatter([list(values[first:last])], workers=[address], hash=False)
            row = fitted(ChainCRF(KERNEL, engine=Dask(client, workers=Torch(device)), **settings), *there)
        whole, solver = alone["seconds"] / row["seconds"], alone["solver_seconds"] / row["solver_seconds"]
        yield {"what": f"{number} on one {device}", **size, **row, "whole_ratio": whole, "solver_ratio": solver}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["processes", "communication", "devices"])
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--rank", type=int, default=None)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--latency", type=float, default=None)
    parser.add_argument("--bandwidth", type=float, default=None)
    parser.add_argument("--sequences", type=int, default=50_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    rows: list[dict] = []
    if asked.what == "processes":
        for row in compare_processes(asked.share, asked.rank or 500, asked.iterations, asked.repeats):
            rows.append(row)
            both = row["threads"], row["processes"]
            each = [
                f"{own['seconds_per_pass']:.3f} s a pass, {own['processor_seconds']:.1f} of processor" for own in both
            ]
            print(
                f"{row['data']}, {row['positions']:,} positions, rank {row['rank']}: two threads {each[0]}, two "
                f"processes {each[1]}, ratio {row['ratio']:.2f}; values differ by {row['difference']:.1e}",
                flush=True,
            )
    elif asked.what == "communication":
        row = compare_communication(asked.sizes, asked.latency, asked.bandwidth)
        merge_results("communication.json", [row], ("what",))
        for each in row["measured"]:
            print(
                f"{each['processes']} processes: two numbers {each['short_ms']:.2f} ms, a gradient {each['ms']:.2f} ms"
            )
        print(f"latency {1e3 * row['latency']:.3f} ms, bandwidth {row['bandwidth'] / 1e9:.2f} GB/s")
        for each in row["curve"]:
            shares = [f"{positions} positions {each[positions]:.3f}" for positions in ("1e+08", "1e+09")]
            print(
                f"{each['devices']} devices: a gradient {each['ms']:.2f} ms; share of the speed of as many alone: "
                f"{', '.join(shares)}, 10^6 on each {each['weak']:.3f}"
            )
    else:
        for row in compare_devices(asked.sequences, asked.rank or 4096, asked.workers, asked.device):
            merge_results("cluster.json", [row], ("what", "data"))
            ratios = "" if "whole_ratio" not in row else f", ratios {row['whole_ratio']:.2f}, {row['solver_ratio']:.2f}"
            print(
                f"{row['what']}: {row['positions']:,} x {row['rank']}: whole fit {row['seconds']:.2f} s, solver "
                f"{row['solver_seconds']:.2f} s, {row['passes']:.1f} passes, value {row['value']:.6f}{ratios}",
                flush=True,
            )
    if rows:
        merge_results("cluster.json", rows, ("what", "data"))


if __name__ == "__main__":
    main()
