"""Parts of a fit beside what the machine could do: operations, bytes, and the share of its rates, in one run.

    python -m benchmarks.machine_limits [--page]

Rates of the machine come first, on one thread: float32 and float64 products of square matrices, a product as narrow as
25 labels, copies, sums of random entries of a table. Then the parts of a pass by rank, positions and labels: synthetic
features and chains of ten positions. Then a sparse pass, on 2,000 sentences of CoNLL-2000 if they are there. All
seconds are those of the processor, the least of some repeats. --page writes the tables into docs/performance.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse

from benchmarks.fit_parts import posterior_of_fit
from benchmarks.readme_results import write_block
from benchmarks.result_files import CHECKOUT, write_results
from benchmarks.shared_data import DataMissing
from benchmarks.templates import chunking
from kernelfields import ChainCRF
from kernelfields.basis.panel import PanelCholesky
from kernelfields.kernels.stationary import RBF
from kernelfields.numerics.threads import blas_threads
from kernelfields.objective.posterior import LogPosterior

SETTINGS = {"prior_variance": 1.0, "tol": 1e-3, "random_state": 0, "n_jobs": 1}


def seconds_of(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the least seconds of the processor; the first call, which may compile, does not count."""
    work()
    found = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def machine() -> dict[str, float]:
    """Return rates of one thread: operations, bytes and entries a second."""
    random = np.random.default_rng(0)
    rates = {}
    for name in ("float32", "float64"):
        matrix = random.random((1500, 1500)).astype(name)
        rates[name] = 2 * 1500**3 / seconds_of(lambda matrix=matrix: matrix @ matrix)
    tall, narrow = random.random((20_000, 1000), dtype=np.float32), random.random((1000, 25), dtype=np.float32)
    rates["narrow"] = 2 * tall.size * 25 / seconds_of(lambda: tall @ narrow)
    source = np.ones(2**25)
    target = np.empty_like(source)
    # A copy reads and writes.
    rates["copy"] = 2 * source.nbytes / seconds_of(lambda: np.copyto(target, source))
    rows = scipy.sparse.csr_array(
        (np.ones(2**22), random.integers(2**20, size=2**22), np.arange(0, 2**22 + 1, 16)), shape=(2**18, 2**20)
    )
    table = random.random(2**20)
    rates["gather"] = 2**22 / seconds_of(lambda: rows @ table)
    return rates


def dense_posterior(positions: int, rank: int, labels: int) -> LogPosterior:
    """Return the objective of a field of dense float32 features, as a basis of so many pivots has."""
    random = np.random.default_rng(0)
    length = 10
    y = [random.integers(labels, size=length) for _ in range(positions // length)]
    y[0][: min(labels, length)] = np.arange(min(labels, length))
    y = [*y, *np.array_split(np.arange(labels), max(1, labels // length))]
    X = [random.normal(size=(len(own), rank)).astype(np.float32) / np.sqrt(rank) for own in y]
    return posterior_of_fit(ChainCRF("linear", support="all", l1=0.0, scale=False, dtype="float32", **SETTINGS), X, y)


def parts_of_pass(posterior: LogPosterior) -> dict[str, float]:
    """Return the seconds of potentials, inference and gradient."""
    datafit = posterior.datafit
    theta = 0.1 * np.random.default_rng(0).normal(size=posterior.size)
    parts = posterior.split(theta)
    with blas_threads(1):
        potentials = datafit.potentials(parts)
        residual = datafit.evaluate(potentials).residual
        return {
            "potentials": seconds_of(lambda: datafit.potentials(parts)),
            "inference": seconds_of(lambda: datafit.evaluate(potentials)),
            "gradient": seconds_of(lambda: datafit.pull_back(residual)),
        }


def dense_row(positions: int, rank: int, labels: int, rates: dict[str, float]) -> dict:
    """Return what a pass over dense features costs, and the shares of the machine's rates."""
    posterior = dense_posterior(positions, rank, labels)
    table = posterior.datafit.designs[0].features
    rows, outputs = len(table), posterior.blocks[0].shape[1]
    found = parts_of_pass(posterior)
    product = 2 * rows * rank * outputs
    return {
        "positions": rows,
        "rank": rank,
        "labels": labels,
        **found,
        "product_share": 2 * product / (found["potentials"] + found["gradient"]) / rates["float32"],
        "copy_share": 2 * table.nbytes / (found["potentials"] + found["gradient"]) / rates["copy"],
        "inference_share": 12 * rows * labels**2 / found["inference"] / rates["float64"],
    }


def basis_row(positions: int, rank: int, rates: dict[str, float]) -> dict:
    """Return what a basis costs: a kernel matrix and a triangular factor, N r (2 d + r) operations."""
    width = 50
    inputs = np.random.default_rng(0).normal(size=(positions, width)).astype(np.float32)

    def grow() -> None:
        panel = PanelCholesky(RBF(0.01), inputs, rank, np.dtype("float32"))
        while panel.rank < rank:
            panel.extend(panel.outside_at(np.arange(min(128, rank - panel.rank))))

    with blas_threads(1):
        seconds = seconds_of(grow, 2)
    share = positions * rank * (2 * width + rank) / seconds / rates["float32"]
    return {"positions": positions, "rank": rank, "seconds": seconds, "share": share}


def sparse_row(rates: dict[str, float]) -> dict | None:
    """Return what a fused pass over words costs, None without the data."""
    try:
        X, y = chunking("train")
    except DataMissing as missing:
        print(missing)
        return None
    posterior = posterior_of_fit(ChainCRF("linear", support="observed", l1=0.0, **SETTINGS), X[:2000], y[:2000])
    posterior.prefer_fused_passes()
    design = posterior.datafit.designs[0]
    theta = 0.1 * np.random.default_rng(0).normal(size=posterior.size)
    seconds = seconds_of(lambda: posterior.trial(theta), 3)
    # Each pair of an active feature and a label is read once for scores and once for the gradient.
    pairs = int(np.diff(design.term.support.begin)[design.features.indices].sum())
    labels = posterior.datafit.likelihood.n_labels
    inference = 12 * design.features.shape[0] * labels**2 / rates["float64"]
    return {
        "positions": design.features.shape[0],
        "labels": labels,
        "pairs": pairs,
        "seconds": seconds,
        "limit": 2 * pairs / rates["gather"] + inference,
    }


def tables(rates: dict[str, float], dense: list[dict], basis: list[dict], sparse: dict | None) -> list[str]:
    """Return the tables as lines of Markdown."""
    lines = [
        f"One thread of this machine: products at {rates['float32'] / 1e9:.0f} Gflop/s in float32 and "
        f"{rates['float64'] / 1e9:.0f} in float64, at {rates['narrow'] / 1e9:.0f} in float32 with 25 columns, copies "
        f"at {rates['copy'] / 1e9:.1f} GB/s, random entries at {rates['gather'] / 1e6:.0f} million a second.",
        "",
        "| positions | rank | labels | Z V | inference | Z^T R | products: share of product rate | of copy rate | "
        "inference: share of product rate |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in dense:
        times = " | ".join(f"{1e3 * row[name]:.1f} ms" for name in ("potentials", "inference", "gradient"))
        lines.append(
            f"| {row['positions']:,} | {row['rank']} | {row['labels']} | {times} | {row['product_share']:.0%} | "
            f"{row['copy_share']:.0%} | {row['inference_share']:.0%} |"
        )
    lines += ["", "| basis: positions | rank | seconds | share of product rate |", "|---|---|---|---|"]
    lines += [f"| {r['positions']:,} | {r['rank']} | {r['seconds']:.2f} | {r['share']:.0%} |" for r in basis]
    if sparse is not None:
        lines += [
            "",
            f"A pass over {sparse['positions']:,} words of CoNLL-2000 with {sparse['labels']} labels, observed pairs, "
            f"reads and writes {sparse['pairs'] / 1e6:.1f} million weights: {1e3 * sparse['seconds']:.0f} ms, where "
            f"random entries and products at the machine's rates would take {1e3 * sparse['limit']:.0f}.",
        ]
    return lines


def main() -> None:
    """Measure, print, and write the page if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="write the tables into docs/performance.md")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with blas_threads(1):
        rates = machine()
    sizes = [(20_000, 250, 26), (20_000, 1000, 26), (5_000, 1000, 26), (20_000, 1000, 5), (20_000, 250, 100)]
    dense = [dense_row(*size, rates) for size in sizes]
    basis = [basis_row(20_000, rank, rates) for rank in (250, 1000)]
    sparse = sparse_row(rates)
    lines = tables(rates, dense, basis, sparse)
    print("\n".join(lines))
    write_results("machine_limits.json", [{"rates": rates, "dense": dense, "basis": basis, "sparse": sparse}])
    if given.page:
        write_block(CHECKOUT / "docs" / "performance.md", lines)


if __name__ == "__main__":
    main()
