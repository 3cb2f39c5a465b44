"""Messages of a pass on a Dask cluster, measured for 2 to 64 shards, and a modelled curve to 64 devices.

    python -m benchmarks.dask_messages [--rank 4096] [--labels 26] [--positions 1e9]

Shards without data stand on two local worker processes. A sum over S shards of an array (rank, labels) is timed as
fits make it, added up by the workers in a tree, and with every array brought to the client; so is a request that is
answered by one number. Seconds are those of the clock, and the CPU seconds of this process, in which client and
scheduler are: these do one thing at a time, and other work on the machine does not count. Bytes that reach the client
are counted: one array, or S of them. The model of a pass with one shard on each of W devices:

    seconds = (products + inference) / W + 2 number(W) + sum(W)

Products and inference are those of the GPU of benchmarks/results/gpu_fit.json for all positions, number(W) and sum(W)
the CPU seconds measured here with W shards. Workers of their own machines work beside the scheduler, and a network adds
latency and the time of rank x labels doubles: neither is in the model.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks.result_files import write_results
from benchmarks.scaling import machines
from kernelfields.engines.dask.shards import SHARD, Shard, ShardGroup, added
from kernelfields.fields.chains import Chains

SIZES = (1, 2, 4, 8, 16, 32, 64)
KINDS = ("number", "sum", "sum_by_client")


def number_of(shard: Shard) -> int:
    """Return what costs a shard nothing."""
    return shard.number


def array_of(shard: Shard, shape: tuple[int, int]) -> list[np.ndarray]:
    """Return an array such as a gradient."""
    return [np.full(shape, float(shard.number))]


def measured(client: Any, n_shards: int, shape: tuple[int, int]) -> dict:
    """Return the seconds of a request for a number, of a sum in a tree and of one by the client, and bytes to it."""
    nothing = Chains(np.empty((0, 1)), np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64))
    shards = [client.submit(Shard, nothing, number, pure=False) for number in range(n_shards)]
    group = ShardGroup(client, shards)
    tree, single = group.total(array_of, SHARD, shape), added(group.ask(array_of, SHARD, shape))
    np.testing.assert_array_equal(tree[0], single[0])
    calls = {
        "number": lambda: group.ask(number_of, SHARD),
        "sum": lambda: group.total(array_of, SHARD, shape),
        "sum_by_client": lambda: added(group.ask(array_of, SHARD, shape)),
    }
    size = 8 * shape[0] * shape[1]
    found: dict[str, Any] = {"shards": n_shards, "bytes": size if n_shards > 4 else n_shards * size}
    for name, call in calls.items():
        times = []
        for _ in range(5):
            begin, spent = time.perf_counter(), time.process_time()
            call()
            times.append((time.perf_counter() - begin, time.process_time() - spent))
        found[name], found[f"{name}_cpu"] = np.median(times, axis=0).tolist()
    return found


def main() -> None:
    """Measure, model, write benchmarks/results/dask_messages.json."""
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rank", type=int, default=4096)
    parser.add_argument("--labels", type=int, default=26)
    parser.add_argument("--positions", type=float, default=1e9)
    given = parser.parse_args()
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        found = [measured(client, size, (given.rank, given.labels)) for size in SIZES]
    name, rates = machines({"flops": 1.0, "inference": 1.0})[-1]
    work = 4 * given.positions * given.rank * given.labels / rates["flops"]
    work += given.positions * given.labels**2 / rates["inference"]
    for row in found:
        row["pass"] = work / row["shards"] + 2 * row["number_cpu"] + row["sum_cpu"]
        row["speed"] = found[0]["pass"] / row["pass"]
        single = 8 * given.rank * given.labels * row["shards"]
        cells = [f"{1e3 * row[f'{kind}_cpu']:.0f} ms of CPU ({1e3 * row[kind]:.0f} ms)" for kind in KINDS]
        print(
            f"{row['shards']:3} shards: a number {cells[0]}, a sum {cells[1]} and {row['bytes'] / 1e6:.2f} MB to the "
            f"client, one by one {cells[2]} and {single / 1e6:.1f} MB; {name}, modelled pass {row['pass']:.3f} s, "
            f"{row['speed']:.1f} times one device"
        )
    write_results("dask_messages.json", {**vars(given), "device": name, "work": work, "rows": found})


if __name__ == "__main__":
    main()
