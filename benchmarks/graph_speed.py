"""Seconds for inference on graphs: log partition, marginals and gradient; Hessian products; best labellings.

    python -m benchmarks.graph_speed

Random trees (1,000 of 50 nodes with 10 labels, and half as many for the cost per edge), chains through the tree
engine beside ``infer_chains``, a second-order chain through junction trees, and tree-reweighted and loopy belief
propagation on a grid of 300 x 300 nodes with 11 labels and one with half the rows. Potentials are standard normal.
The fastest of a few repetitions counts, after one that is not counted; planning is timed once.

    python -m benchmarks.graph_speed --threads 1 2

One grid of 300 x 300 nodes alone: seconds until junction trees are refused as too wide, and a fixed number of sweeps of
belief propagation, mean field, Gibbs sampling and max-product decoding with these numbers of threads, in turns; the
ratios are those of the fastest of each. Answers must not depend on the number.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.result_files import write_results
from kernelfields.inference.approximate.base import Gibbs, LoopyBelief, MeanField, TreeReweighted
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.choice import plan_inference
from kernelfields.inference.family import EDGE, Potentials
from kernelfields.inference.graphs import GraphFamily
from kernelfields.inference.junction.plan import TooWide, plan_junction
from kernelfields.numerics.threads import Workers

WORKERS = Workers()


def fastest(action: Callable[[], object], repetitions: int = 5) -> float:
    action()
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def random_trees(rng: np.random.Generator, n_trees: int, size: int) -> tuple[np.ndarray, list[np.ndarray]]:
    later = np.arange(1, size)
    rows = [size * i + np.column_stack([rng.integers(later), later]) for i in range(n_trees)]
    return size * np.arange(n_trees + 1), [np.concatenate(rows)]


def chains(n_chains: int, length: int) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    offsets = length * np.arange(n_chains + 1)
    later = np.setdiff1d(np.arange(offsets[-1]), offsets[:-1])
    return offsets, [np.column_stack([later - 1, later])], later


def grid(height: int, width: int) -> tuple[np.ndarray, list[np.ndarray]]:
    cell = np.arange(height * width).reshape(height, width)
    across = np.column_stack([cell[:, :-1].ravel(), cell[:, 1:].ravel()])
    down = np.column_stack([cell[:-1].ravel(), cell[1:].ravel()])
    return np.array([0, height * width]), [across, down]


def normal_potentials(rng: np.random.Generator, plan: GraphFamily, tied: bool) -> Potentials:
    tables = {name: rng.normal(size=plan.table_shape(group, tied)) for group, name in enumerate(plan.names)}
    return Potentials(rng.normal(size=(plan.n_positions, plan.n_labels)), tables)


def exact_row(name: str, offsets, members, n_labels: int, tied: bool, method: str = "auto") -> dict:
    """Time one plan on random potentials."""
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    plan = plan_inference(offsets, members, n_labels, method)
    planning = time.perf_counter() - start
    potentials, direction = (normal_potentials(rng, plan, tied) for _ in range(2))
    member = plan.at(potentials, workers=WORKERS)
    return {
        "graphs": name,
        "labels": n_labels,
        "tables": "tied" if tied else "own",
        "factors": sum(map(len, members)),
        "method": plan.method,
        "planning": planning,
        "gradient": fastest(lambda: plan.at(potentials, workers=WORKERS).mean()),
        "hessian_product": fastest(lambda: member.covariance_product(direction)),
        "decoding": fastest(lambda: plan.best(potentials, WORKERS)),
    }


def chain_row(name: str, n_chains: int, length: int, n_labels: int, tied: bool) -> dict:
    """Time chains as graphs, and by chain inference."""
    offsets, members, later = chains(n_chains, length)
    row = exact_row(name, offsets, members, n_labels, tied)
    rng = np.random.default_rng(0)
    n_positions = int(offsets[-1])
    shape = (1 if tied else n_positions, n_labels, n_labels)
    node, edge = rng.normal(size=(n_positions, n_labels)), rng.normal(size=shape)
    family, potentials = ChainFamily(offsets, n_labels, tied=tied), Potentials(node, {EDGE: edge})
    row["chain_gradient"] = fastest(lambda: family.at(potentials, workers=WORKERS).mean())
    row["times_slower"] = row["gradient"] / row["chain_gradient"]
    plan = plan_inference(offsets, members, n_labels)
    ours = plan.at(Potentials(node, {plan.names[0]: edge if tied else edge[later]})).log_partition
    row["largest_difference"] = float(np.abs(ours - family.at(potentials).log_partition).max())
    return row


def approximate_row(method: str, height: int, width: int, n_labels: int) -> dict:
    """Time message passing on a grid to its own tolerance; a new plan each time, for it would start warm."""
    offsets, members = grid(height, width)
    seconds = []
    for _ in range(2):
        plan = plan_inference(offsets, members, n_labels, method)
        potentials = normal_potentials(np.random.default_rng(0), plan, tied=True)
        start = time.perf_counter()
        member = plan.at(potentials, workers=WORKERS)
        member.mean()
        seconds.append(time.perf_counter() - start)
    diagnostics = member.diagnostics
    return {
        "graphs": f"grid {height} x {width}",
        "labels": n_labels,
        "tables": "tied",
        "factors": sum(map(len, members)),
        "method": plan.method,
        "gradient": min(seconds),
        "iterations": int(np.max(diagnostics["iterations"])),
        "converged": bool(np.all(diagnostics["converged"])),
    }


def refusal_seconds(height: int, width: int, n_labels: int) -> tuple[float, float]:
    """Return seconds, by the clock and of processors, until a grid is found too wide for a junction tree."""
    offsets, members = grid(height, width)
    seconds = []
    for _ in range(4):
        start, work = time.perf_counter(), time.process_time()
        try:
            plan_junction(offsets, members, n_labels)
        except TooWide:
            seconds.append((time.perf_counter() - start, time.process_time() - work))
    return min(seconds)


#: What is asked of one large graph: the method, and whether it decodes.
SWEEPS: dict[str, tuple[Any, bool]] = {
    "loopy, 10 sweeps": (LoopyBelief(max_iter=10, tolerance=0.0, warm_start=False), False),
    "trw, 10 sweeps": (TreeReweighted(max_iter=10, tolerance=0.0, warm_start=False), False),
    "mean field, 20 sweeps": (MeanField(max_iter=20, tolerance=0.0, starts=1), False),
    "Gibbs, 2 x 25 sweeps": (Gibbs(chains=2, burn_in=5, sweeps=20), False),
    "max-product": (TreeReweighted(), True),
}


def thread_seconds(name: str, threads: list[int], height: int, width: int, n_labels: int) -> dict[int, float]:
    """Return the fewest of two seconds for an answer on one grid, by the number of threads."""
    method, decodes = SWEEPS[name]
    plan = plan_inference(*grid(height, width), n_labels, method)
    potentials = normal_potentials(np.random.default_rng(0), plan, tied=True)
    small = plan_inference(*grid(100, 100), n_labels, method)
    workers = {n_threads: Workers(n_threads) for n_threads in threads}
    seconds: dict[int, list[float]] = {n_threads: [] for n_threads in threads}
    results = []

    def answer(plan: GraphFamily, potentials: Potentials, workers: Workers) -> np.ndarray:
        return plan.best(potentials, workers)[0] if decodes else plan.at(potentials, workers=workers).marginals()

    answer(small, normal_potentials(np.random.default_rng(0), small, tied=True), workers[threads[0]])  # compiles
    for n_threads in 2 * threads:
        start = time.perf_counter()
        results.append(answer(plan, potentials, workers[n_threads]))
        seconds[n_threads].append(time.perf_counter() - start)
    assert all((each == results[0]).all() for each in results), "the number of threads changes nothing"
    return {n_threads: min(each) for n_threads, each in seconds.items()}


def print_threads(threads: list[int]) -> None:
    """Print how one large graph is refused and swept."""
    wall, work = refusal_seconds(300, 300, 11)
    print(f"grid 300 x 300, 11 labels: refused for junction trees in {wall:.3f} s ({work:.3f} s of processors)")
    rows = []
    for name in SWEEPS:
        seconds = thread_seconds(name, threads, 300, 300, 11)
        ratios = {n_threads: seconds[threads[0]] / each for n_threads, each in seconds.items()}
        shown = [f"{n_threads}: {each:.2f} s ({ratios[n_threads]:.2f} x)" for n_threads, each in seconds.items()]
        print(f"{name:22s} by threads  {',  '.join(shown)}", flush=True)
        rows.append({"method": name, "seconds": seconds, "ratios": ratios})
    write_results("graph_threads.json", [{"refusal": wall, "refusal_work": work, "sweeps": rows}])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", help="one large graph with these numbers of threads")
    if threads := parser.parse_args().threads:
        print_threads(threads)
        return
    rng = np.random.default_rng(0)
    rows = []
    for count in (500, 1000):
        offsets, members = random_trees(rng, count, 50)
        rows += [exact_row(f"{count:,} trees of 50", offsets, members, 10, tied) for tied in (True, False)]
    rows += [chain_row("1,000 chains of 50", 1000, 50, 10, tied) for tied in (True, False)]
    rows += [chain_row("6,000 chains of 8", 6000, 8, 26, tied) for tied in (True, False)]
    for length in (50_000, 100_000):
        t = np.arange(length)
        triples = np.column_stack([t[:-2], t[1:-1], t[2:]])
        rows += [exact_row(f"triples along {length:,}", [0, length], [triples], 5, tied) for tied in (True, False)]
    rows += [approximate_row(method, height, 300, 11) for method in ("trw", "loopy") for height in (150, 300)]

    print(f"{'graphs':24s} labels tables {'method':>9s} {'gradient s':>10s} {'us/factor':>9s} {'Hessian s':>9s} note")
    for row in rows:
        note = f"{row['times_slower']:.2f} times infer_chains" if "times_slower" in row else ""
        note = f"{row['iterations']} iterations" if "iterations" in row else note
        each = 1e6 * row["gradient"] / row["factors"]
        product = f"{row['hessian_product']:9.4f}" if "hessian_product" in row else " " * 9
        print(
            f"{row['graphs']:24s} {row['labels']:6d} {row['tables']:6s} {row['method']:>9s} "
            f"{row['gradient']:10.4f} {each:9.3f} {product} {note}"
        )
    write_results("graph_speed.json", rows)


if __name__ == "__main__":
    main()
