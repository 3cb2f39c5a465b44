"""A model of the time of a fit on a cluster, checked on 1, 2 and 4 local workers, and told of 100 machines.

    python -m benchmarks.scaling [--positions 60000] [--rank 500] [--labels 10]

Per pass with N positions, rank r, q label coordinates, W workers of rate F (float32 products, flop/s) that have C
cores to share, latency t of a round trip and bandwidth B of the client:

    seconds = 4 N r q / (F min(W, C)) + inference N L^2 / (G min(W, C)) + 3 t(W) + 2 W r q 8 / B
    basis   = 2 N r (d + r/2) / (F min(W, C)) + 2 (r / b) t(W)          b pivots to a panel

F and G are taken from one worker, t(W) from empty round trips, B from copies of a large array to a worker. Rows
compare the model with measured passes; the last table extrapolates to 10^9 positions on 100 machines.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks.result_files import read_results, write_results
from kernelfields.engines import Dask, SampleSettings
from kernelfields.fields.chains import Chains
from kernelfields.fields.cliques import EdgeCliques, NodeCliques
from kernelfields.fields.constraints import resolve_constraints
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.family import EDGE, Potentials
from kernelfields.kernels.stationary import RBF
from kernelfields.models.build import build_designs, name_cliques
from kernelfields.numerics.threads import Workers, available_cores
from kernelfields.objective.posterior import LogPosterior

N_INPUTS, LENGTH, PIVOTS_AT_ONCE = 20, 20, 62


def seconds_of(call: Any, repeats: int = 5) -> float:
    """Return the median time of a call, after one that is not counted."""
    call()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def problem(n_positions: int, n_labels: int) -> Chains:
    """Return labelled chains of one length."""
    random = np.random.default_rng(0)
    n_positions -= n_positions % LENGTH
    labels = random.integers(n_labels, size=n_positions)
    centres = random.normal(size=(n_labels, N_INPUTS))
    inputs = (centres[labels] + random.normal(size=(n_positions, N_INPUTS))).astype(np.float32)
    return Chains(inputs, np.arange(0, n_positions + 1, LENGTH), labels)


def measured(chains: Chains, n_labels: int, rank: int, n_workers: int) -> dict:
    """Return the seconds of a basis, a pass and an empty round trip on a local cluster."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None, memory_limit=0) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(n_workers)
        spec = FamilySpec("chain", n_labels, resolve_constraints(None, np.arange(n_labels)))
        sample = Dask(client).place(chains, spec, SampleSettings(np.dtype("float32")))
        cliques = name_cliques([NodeCliques(RBF(0.05), rank=rank), EdgeCliques()])
        begin = time.perf_counter()
        posterior = LogPosterior(sample.datafit(build_designs(cliques, sample, np.random.default_rng(0))))
        theta = 0.01 * np.random.default_rng(1).normal(size=posterior.size)
        basis = time.perf_counter() - begin
        posterior.at(theta)
        one_pass = seconds_of(lambda: posterior.at(theta + 1e-9 * np.random.default_rng(2).random()))
        workers = list(client.scheduler_info(n_workers=-1)["workers"])
        trip = seconds_of(
            lambda: client.gather(
                [client.submit(_nothing, worker, workers=[worker], pure=False) for worker in workers]
            ),
            20,
        )
        block = np.random.default_rng(3).random(2**21)
        copy = seconds_of(lambda: client.submit(len, block, pure=False).result())
        return {
            "workers": n_workers,
            "basis": basis,
            "pass": one_pass,
            "trip": trip,
            "bandwidth": block.nbytes / copy,
        }


def _nothing(worker: str) -> int:
    return len(worker)


def inference_rate(n_labels: int) -> float:
    """Return positions times labels squared per second of forward-backward on one thread."""
    chains = problem(40_000, n_labels)
    random = np.random.default_rng(0)
    node, edge = random.normal(size=(chains.n_positions, n_labels)), random.normal(size=(1, n_labels, n_labels))
    family, potentials = ChainFamily(chains.offsets, n_labels), Potentials(node, {EDGE: edge})
    spent = seconds_of(lambda: family.at(potentials, workers=Workers(1)))
    return chains.n_positions * n_labels**2 / spent


def model(n: float, r: float, q: float, labels: float, d: float, cores: float, rates: dict, workers: int) -> dict:
    """Return the parts of a pass and of the basis in seconds."""
    products = 4 * n * r * q / (rates["flops"] * cores)
    inference = n * labels**2 / (rates["inference"] * cores)
    latency = 3 * rates["trip"]
    network = 2 * workers * r * q * 8 / rates["bandwidth"]
    rounds = 2 * r / PIVOTS_AT_ONCE
    basis = 2 * n * r * (d + r / 2) / (rates["flops"] * cores) + rounds * rates["trip"]
    return {
        "products": products,
        "inference": inference,
        "latency": latency,
        "network": network,
        "pass": products + inference + latency + network,
        "basis": basis,
        "rounds": rounds,
    }


def machines(rates: dict) -> list[tuple[str, dict]]:
    """Return rates of machines: many cores like ours, and the GPU that benchmarks/gpu_fit.py was run on."""
    kinds = [
        ("32 such cores each", {"flops": 32 * rates["flops"], "inference": 32 * rates["inference"]}),
    ]
    for row in read_results("gpu_fit.json"):
        if row["rank"] == 8192:
            spent = row["gradient"]["milliseconds"]
            products = (spent["product"] + spent["transposed product"]) / 1e3
            inference = spent["forward-backward and residual"] / 1e3
            flops = 4 * row["n_positions"] * row["rank"] * 26 / products
            kinds.append(
                (
                    f"one {row['device']} each",
                    {"flops": flops, "inference": row["n_positions"] * 26**2 / inference},
                )
            )
    return kinds


def extrapolated(name: str, rates: dict) -> dict:
    """Print and return what the model says of 10^9 positions on 100 machines, a client with 10 Gbit/s."""
    n, rank, labels = 1e9, 4096, 26
    expected = model(n, rank, labels, labels, 128, 100, rates, 100)
    memory = 2 * n * rank / 100
    print(
        f"10^9 positions, rank 4,096, 26 labels, 100 machines, {name}: pass {expected['pass']:.2f} s "
        f"(products {expected['products']:.2f}, inference {expected['inference']:.2f}, "
        f"latency {expected['latency']:.2f}, network {expected['network']:.2f}); "
        f"basis {expected['basis']:.0f} s in {expected['rounds']:.0f} round trips; "
        f"features {memory / 1e9:.0f} GB a machine in half precision"
    )
    return {"machines": name, "rates": rates, "model": expected, "feature_bytes_per_machine": memory}


def main() -> None:
    """Measure, compare, extrapolate, write benchmarks/results/scaling.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--positions", type=int, default=60_000)
    parser.add_argument("--rank", type=int, default=500)
    parser.add_argument("--labels", type=int, default=10)
    arguments = parser.parse_args()
    labels, rank = arguments.labels, arguments.rank
    chains = problem(arguments.positions, labels)
    n = chains.n_positions
    found = [measured(chains, labels, rank, workers) for workers in (1, 2, 4)]
    rates = {"inference": inference_rate(labels), "bandwidth": found[0]["bandwidth"], "trip": found[0]["trip"]}
    rates["flops"] = 1.0  # the rest of a pass of one worker is products
    rest = found[0]["pass"] - model(n, rank, labels, labels, N_INPUTS, 1, {**rates, "flops": np.inf}, 1)["pass"]
    rates["flops"] = 4 * n * rank * labels / rest
    print(
        f"one worker: {rates['flops'] / 1e9:.1f} Gflop/s, inference {rates['inference'] / 1e6:.0f} M, "
        f"{rates['bandwidth'] / 1e6:.0f} MB/s"
    )
    cores, rows = available_cores(), []
    for row in found:
        own = {**rates, "trip": row["trip"]}
        expected = model(n, rank, labels, labels, N_INPUTS, min(row["workers"], cores), own, row["workers"])
        rows.append({**row, "positions": n, "rank": rank, "labels": labels, "model": expected})
        print(
            f"{row['workers']} workers: pass {row['pass']:.3f} s, model {expected['pass']:.3f}; basis "
            f"{row['basis']:.2f} s, model {expected['basis']:.2f}; round trip {1e3 * row['trip']:.1f} ms"
        )
    # Round trips cost the scheduler some time for each worker: a straight line through what was measured.
    slope, intercept = np.polyfit([row["workers"] for row in found], [row["trip"] for row in found], 1)
    trip = float(intercept + 100 * max(slope, 0.0))
    far = [extrapolated(name, {**machine, "trip": trip, "bandwidth": 1.25e9}) for name, machine in machines(rates)]
    write_results("scaling.json", {"rates": rates, "measured": rows, "far": far})


if __name__ == "__main__":
    main()
