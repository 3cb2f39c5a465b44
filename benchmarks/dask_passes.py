"""Seconds per pass on a local Dask cluster against threads, and the client's memory at two sizes of data.

    python -m benchmarks.dask_passes [--share 1.0] [--rank 500] [--iterations 10]

The field of netsurfp2-ss3 (2.85 million residues, window 15 one-hot): a sparse linear part and a kernel. Threads
are two; the cluster has two workers with one thread each. Both fit by L-BFGS for the same number of iterations,
one after the other in one run, from the same seed, and so from the same pivots. Workers read their own part of the
files: sequences never visit the client. The client's memory is what a fit adds to a fresh process, scheduler included,
with the given share of the data and with a quarter of it.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.measuring import added_memory, in_process, seconds
from benchmarks.result_files import merge_results
from benchmarks.shared_data import token_columns
from kernelfields import ChainCRF
from kernelfields.engines import Dask
from kernelfields.kernels import RBF, Linear

LETTERS = "ACDEFGHIKLMNPQRSTVWYX"


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


def measured(crf: ChainCRF, X: Any, y: Any, iterations: int) -> dict:
    """Fit by some iterations of L-BFGS; return what they took."""
    crf.set_params(solver="lbfgs", tol=1e-12, max_iter=iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so many iterations are not a fit to the end
        spent = seconds(lambda: crf.fit(X, y))
    solution = crf.solution_
    return {
        "basis_seconds": spent - solution.seconds,
        "value": solution.value,
        "passes": solution.passes,
        "seconds_per_pass": solution.seconds / solution.passes,
    }


def on_threads(share: float, rank: int, iterations: int) -> dict:
    """Measure the threads engine with two threads."""
    X, y = proteins(share)
    return {"positions": sum(map(len, y)), **measured(field(rank, n_jobs=2), X, y, iterations)}


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
        X, y = ([part[number] for part in parts] for number in range(2))
        positions = dask.delayed(lambda *labels: sum(len(each) for part in labels for each in part))(*y).compute()
        return {"positions": positions, **measured(field(rank, engine=Dask(client)), X, y, iterations)}


def client_memory(share: float, rank: int) -> int:
    """Return the bytes that a fit adds to this process, in which client and scheduler are."""
    return added_memory(lambda: on_cluster(share, rank, 3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--rank", type=int, default=500)
    parser.add_argument("--iterations", type=int, default=10)
    asked = parser.parse_args()
    on_threads(0.002, 20, 1)  # compile before the clock starts
    row: dict[str, Any] = {"share": asked.share, "rank": asked.rank}
    for name, measure in (("threads", on_threads), ("cluster", on_cluster)):
        found = row[name] = measure(asked.share, asked.rank, asked.iterations)
        print(
            f"{name}: {found['positions']:,} positions, rank {asked.rank}: basis {found['basis_seconds']:.1f} s, "
            f"{found['passes']:.1f} passes at {found['seconds_per_pass']:.3f} s, value {found['value']:.6f}",
            flush=True,
        )
    row["ratio"] = row["cluster"]["seconds_per_pass"] / row["threads"]["seconds_per_pass"]
    difference = abs(row["cluster"]["value"] / row["threads"]["value"] - 1.0)
    print(f"cluster over threads: {row['ratio']:.2f} times per pass; values differ by {difference:.1e}", flush=True)
    row["client_memory"] = []
    for share in (asked.share / 4, asked.share):
        peak = in_process("benchmarks.dask_passes.client_memory", share, asked.rank)
        row["client_memory"].append({"share": share, "peak_bytes": peak})
        print(f"client with {share:.3g} of the data: {peak / 2**20:.0f} MiB", flush=True)
    merge_results("dask_passes.json", [row], ("share", "rank"))


if __name__ == "__main__":
    main()
