"""Seconds of inference: log partition, marginals and gradient; Hessian products; best labellings.

    python -m benchmarks.graph_speed

Random trees (1,000 of 50 nodes with 10 labels, and half as many for the cost per edge), chains as graphs, a
second-order chain through junction trees, tree-reweighted and loopy belief propagation on a grid of 300 x 300 nodes
with 11 labels and one with half the rows, and segments of up to 100 positions. The peer of chains as graphs, and of
segments, is the chain on the same potentials; the ratio is printed. Potentials are standard normal. The fastest of a
few repetitions counts, after one that is not counted; planning is timed once.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.measuring import fastest
from benchmarks.result_files import write_results
from kernelfields.data.segments import DURATION
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.graph_plans import plan_inference
from kernelfields.inference.graphs import GraphFamily
from kernelfields.inference.potentials import EDGE, Potentials
from kernelfields.inference.segments.family import SegmentFamily
from kernelfields.numerics.threads import Workers

WORKERS = Workers()


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
    member = plan.distribution(potentials, workers=WORKERS)
    return {
        "graphs": name,
        "labels": n_labels,
        "tables": "tied" if tied else "own",
        "factors": sum(map(len, members)),
        "method": plan.method,
        "planning": planning,
        "gradient": fastest(lambda: plan.distribution(potentials, workers=WORKERS).mean()),
        "hessian_product": fastest(lambda: member.covariance_product(direction)),
        "decoding": fastest(lambda: plan.labellings(potentials, WORKERS).best()),
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
    row["chain_gradient"] = fastest(lambda: family.distribution(potentials, workers=WORKERS).mean())
    row["times_slower"] = row["gradient"] / row["chain_gradient"]
    plan = plan_inference(offsets, members, n_labels)
    ours = plan.distribution(Potentials(node, {plan.names[0]: edge if tied else edge[later]})).log_partition
    row["largest_difference"] = float(np.abs(ours - family.distribution(potentials).log_partition).max())
    return row


def approximate_row(method: str, height: int, width: int, n_labels: int) -> dict:
    """Time message passing on a grid to its own tolerance; a new plan each time, for it would start warm."""
    offsets, members = grid(height, width)
    seconds = []
    for _ in range(2):
        plan = plan_inference(offsets, members, n_labels, method)
        potentials = normal_potentials(np.random.default_rng(0), plan, tied=True)
        start = time.perf_counter()
        member = plan.distribution(potentials, workers=WORKERS)
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


def segment_row(n_sequences: int, length: int, longest: int, n_labels: int) -> dict:
    """Time segments of at most ``longest`` positions, which prefer a fifth of that, beside the chain."""
    rng = np.random.default_rng(0)
    offsets = length * np.arange(n_sequences + 1)
    node, edge = rng.normal(size=(n_sequences * length, n_labels)), rng.normal(size=(1, n_labels, n_labels))
    duration = -0.5 * np.square(np.log(np.arange(1, longest + 1) / (longest / 5)))[:, None].repeat(n_labels, axis=1)
    family, chain = SegmentFamily(offsets, n_labels, longest), ChainFamily(offsets, n_labels)
    here = Potentials(node, {EDGE: edge, DURATION: duration})
    member = family.distribution(here, workers=WORKERS)
    gradient = fastest(lambda: family.distribution(here, workers=WORKERS).mean(), 3)
    peer = fastest(lambda: chain.distribution(Potentials(node, {EDGE: edge}), workers=WORKERS).mean(), 3)
    return {
        "graphs": f"{n_sequences:,} x {length:,}, segments",
        "labels": n_labels,
        "tables": "tied",
        "factors": n_sequences * length,
        "method": f"up to {longest}",
        "gradient": gradient,
        "hessian_product": fastest(lambda: member.covariance_product(here), 3),
        "decoding": fastest(lambda: family.labellings(here, WORKERS).best(), 3),
        "chain_gradient": peer,
        "times_slower": gradient / peer,
    }


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
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
    rows += [segment_row(7, 1400, 100, 5), segment_row(100, 100, 20, 10)]

    print(f"{'graphs':24s} labels tables {'method':>9s} {'gradient s':>10s} {'us/factor':>9s} {'Hessian s':>9s} note")
    for row in rows:
        note = f"{row['times_slower']:.2f} times the chain" if "times_slower" in row else ""
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
