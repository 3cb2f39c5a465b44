"""A field under a budget of memory beside the same field without one: seconds of whole fits and their peak memory.

    python -m benchmarks.out_of_core [--rank 4000] [--iterations 30] [--share 0.5] [--field cubic]

OCR letters, nine folds (47,535 letters), each fit in a process of its own: without a budget ("memory"), and with one of
a share of the float32 features ("budget"), so that features are kept in a file. A budget that is too small for what
else a fit needs is refused, with what would do. So many iterations of L-BFGS each. Peak memory is what the fit adds to
the process beyond what it had after loading the data: potentials, the pivots' factor and the solver's vectors as well
as features, but no pages of the file, which the system takes back when memory is short.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from benchmarks.fit_speed import FIELDS, words
from benchmarks.measuring import added_private_memory, in_process
from benchmarks.result_files import merge_results
from kernelfields import ChainCRF
from kernelfields.engines import Threads


def measure(keep: str, share: float | None, name: str, rank: int, iterations: int) -> dict:
    """Fit within a budget or without one; return seconds and peak memory."""
    X, y = words(list(range(1, 10)))
    kernel, variance = FIELDS[name]
    feature_bytes = 4 * sum(map(len, y)) * rank
    warnings.simplefilter("ignore", ConvergenceWarning)  # so many iterations are not a fit to the end
    settings: dict[str, Any] = {"prior_variance": variance, "solver": "lbfgs", "random_state": 0, "dtype": "auto"}
    ChainCRF(kernel, rank=50, max_iter=3, tol=0.9, **settings).fit(X[:50], y[:50])  # the compiler
    engine = Threads(None if share is None else int(share * feature_bytes))
    crf = ChainCRF(kernel, rank=rank, engine=engine, tol=1e-4, max_iter=iterations, **settings)
    begin, cpu = time.perf_counter(), time.process_time()
    peak = added_private_memory(lambda: crf.fit(X, y))
    return {
        "keep": keep,
        "share": share,
        "field": name,
        "rank": rank,
        "iterations": crf.solution_.iterations,
        "feature_bytes": feature_bytes,
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": time.process_time() - cpu,
        "solver_seconds": crf.solution_.seconds,
        "pass_seconds": crf.solution_.seconds / crf.solution_.passes,
        "peak_bytes": peak,
        "value": crf.solution_.value,
    }


def main() -> None:
    """Measure both in processes of their own, print, write benchmarks/results/out_of_core.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, default=4000)
    parser.add_argument("--field", default="cubic", choices=list(FIELDS))
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--share", type=float, default=0.5, help="of the features, for the budget")
    asked = parser.parse_args()
    rows = []
    for keep, share in (("memory", None), ("budget", asked.share)):
        row = in_process("benchmarks.out_of_core.measure", keep, share, asked.field, asked.rank, asked.iterations)
        rows.append(row)
        print(
            f"{keep}: {row['seconds']:.1f} s (CPU {row['cpu_seconds']:.1f} s), {row['pass_seconds']:.2f} s a pass; "
            f"peak {row['peak_bytes'] / 1e6:.0f} MB, features {row['feature_bytes'] / 1e6:.0f} MB; "
            f"value {row['value']:.4f}",
            flush=True,
        )
    ratio = rows[1]["cpu_seconds"] / rows[0]["cpu_seconds"]
    print(f"with the budget: {ratio:.2f} times the CPU seconds in memory")
    merge_results("out_of_core.json", rows, ("field", "rank", "keep"))


if __name__ == "__main__":
    main()
