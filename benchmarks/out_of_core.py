"""A field under a budget of memory: seconds of whole fits and their peak memory, OCR letters large at rank 4,000.

    python -m benchmarks.out_of_core [--rank 4000] [--iterations 30] [--keep memory budget ...]

Nine folds (47,535 letters), cubic kernel, ``ChainCRF`` in a process of its own for each row: without a budget;
with one of a quarter of the float32 features ("budget", where the plan chooses); and with features kept in half
precision, in a file, in a file that leaves the system's cache whenever it has been read (as one larger than the
machine's memory would), or recomputed from kernel rows in every pass. So many iterations of L-BFGS each. Peak
memory is what the fit adds to the process beyond what it had after loading the data: potentials, the pivots'
factor and the solver's vectors as well as features.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.fit_speed import FIELDS, words
from benchmarks.result_files import merge_results, read_results
from kernelfields import ChainCRF
from kernelfields.engines import Threads
from kernelfields.objective.designs.files import FeatureFile
from kernelfields.objective.designs.memory import FeaturePlan

RESULTS = "out_of_core.json"
KEEPERS = ["memory", "budget", "half", "file", "file, not cached", "recomputed"]


class UncachedFile(FeatureFile):
    """A file whose pages leave the system's cache when they have been read."""

    def features(self, panel: Any) -> Any:
        """Return the features once they are on the disk."""
        os.fsync(self._file.descriptor)
        return super().features(panel)

    def load(self, rows: slice, rank: int, buffer: np.ndarray) -> np.ndarray:
        """Read a tile and let go of its pages."""
        tile = super().load(rows, rank, buffer)
        os.posix_fadvise(self._file.descriptor, self._offset(rows.start), tile.nbytes, os.POSIX_FADV_DONTNEED)
        return tile


@dataclass(frozen=True)
class UncachedPlan(FeaturePlan):
    """A plan for such a file."""

    def columns(self) -> Any:
        """Return the file."""
        return UncachedFile(
            self.n_rows, self.capacity, self.dtype, self.folder, stored_factor=True, n_threads=self.n_threads
        )


class WatchedThreads(Threads):
    """Threads that note how they keep features, and keep them in the way they are told, if any."""

    def __init__(self, memory: Any = None, keep: str | None = None):
        super().__init__(memory)
        self.keep = keep
        self.kept = "memory"

    def place(self, data: Any, structure: Any, settings: Any) -> Any:
        """Return data whose features are kept in that way."""
        sample = super().place(data, structure, settings)
        planned = sample.memory_plan

        def plan_of(*sizes: Any) -> Any:
            plan = planned(*sizes)
            if self.keep == "file, not cached":
                plan = UncachedPlan(**{**vars(plan), "keep": "file"})
            elif self.keep is not None:
                plan = replace(plan, keep=self.keep, stored_factor=self.keep == "file")
            self.kept = "memory" if plan is None else plan.keep
            return plan

        sample.memory_plan = plan_of
        return sample


def status(name: str) -> int:
    """Return an entry of this process's memory, in bytes."""
    return 1024 * int(re.search(name + r":\s+(\d+)", Path("/proc/self/status").read_text())[1])


def measure(keep: str, field: str, rank: int, iterations: int) -> dict:
    """Fit with features kept in one of the ways; return seconds and peak memory."""
    X, y = words(list(range(1, 10)))
    kernel, variance = FIELDS[field]
    feature_bytes = 4 * sum(map(len, y)) * rank
    warnings.simplefilter("ignore", ConvergenceWarning)  # so many iterations are not a fit to the end
    settings: dict[str, Any] = {"prior_variance": variance, "solver": "lbfgs", "random_state": 0, "dtype": "auto"}
    ChainCRF(kernel, rank=50, max_iter=3, tol=0.9, **settings).fit(X[:50], y[:50])  # the compiler
    if keep == "memory":
        engine = WatchedThreads()
    elif keep == "budget":
        engine = WatchedThreads(feature_bytes // 4)
    else:
        engine = WatchedThreads("100GB", keep)
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    begin, cpu = time.perf_counter(), time.process_time()
    crf = ChainCRF(kernel, rank=rank, engine=engine, tol=1e-4, max_iter=iterations, **settings).fit(X, y)
    seconds, processor = time.perf_counter() - begin, time.process_time() - cpu
    return {
        "keep": keep,
        "kept": engine.kept,
        "field": field,
        "rank": rank,
        "iterations": crf.solution_.iterations,
        "feature_bytes": feature_bytes,
        "seconds": seconds,
        "cpu_seconds": processor,
        "solver_seconds": crf.solution_.seconds,
        "pass_seconds": crf.solution_.seconds / crf.solution_.passes,
        "peak_bytes": status("VmHWM") - before,
        "value": crf.solution_.value,
    }


def report(row: dict) -> None:
    """Print a row beside the one in memory."""
    same = [
        other
        for other in read_results(RESULTS)
        if other["keep"] == "memory" and all(other[key] == row[key] for key in ("field", "rank", "iterations"))
    ]
    ratio = f"{row['seconds'] / same[0]['seconds']:.2f} times memory" if same else "not compared"
    print(
        f"{row['keep']} ({row['kept']}): {row['seconds']:.1f} s (CPU {row['cpu_seconds']:.1f} s), {ratio}; "
        f"solver {row['solver_seconds']:.1f} s, {row['pass_seconds']:.2f} s a pass; "
        f"peak {row['peak_bytes'] / 1e6:.0f} MB, features {row['feature_bytes'] / 1e6:.0f} MB; "
        f"value {row['value']:.4f}",
        flush=True,
    )


def main() -> None:
    """Measure each way in a process of its own, print, write benchmarks/results/out_of_core.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rank", type=int, default=4000)
    parser.add_argument("--field", default="cubic", choices=list(FIELDS))
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--keep", nargs="+", default=KEEPERS, choices=KEEPERS)
    parser.add_argument("--one", action="store_true", help="measure in this process and print a row")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.keep[0], arguments.field, arguments.rank, arguments.iterations)))
        return
    for keep in arguments.keep:
        options = ["--rank", str(arguments.rank), "--field", arguments.field]
        options += ["--iterations", str(arguments.iterations), "--keep", keep]
        command = [sys.executable, "-m", "benchmarks.out_of_core", "--one", *options]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        row = json.loads(done.stdout.splitlines()[-1])
        merge_results(RESULTS, [row], ("field", "rank", "keep"))
        report(row)


if __name__ == "__main__":
    main()
