"""Features that are not held in memory: seconds of a fit and its peak memory, OCR letters large at rank 4,000.

    python -m benchmarks.out_of_core [--rank 4000] [--field cubic] [--iterations 20] [--keep memory file ...]

Nine folds (47,535 letters), one process for each way to keep the features: in memory (float32), in memory in half
precision, in a file, in a file that leaves the system's cache whenever it has been read (as it would if it were
larger than the machine's memory), and recomputed from kernel rows in every pass. Basis, then so many iterations of
L-BFGS; ``pass`` is one value and gradient, the best of three. Peak memory is what the process takes
beyond what it had after loading the data, so it holds the potentials, the pivots' factor and the solver's vectors
as well; ``rounding`` is what rounding of the features does to the value, relative to it.
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
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.fit_speed import FIELDS, words
from benchmarks.result_files import merge_results, read_results
from kernelfields import ChainCRF
from kernelfields.basis import PanelCholesky, RandomCholesky
from kernelfields.engines import CliqueFeatures, ThreadsEngine
from kernelfields.engines.blas_threads import blas_threads
from kernelfields.engines.recomputed_features import RecomputedColumns
from kernelfields.engines.stored_features import FeatureFile, HalfColumns
from kernelfields.engines.stored_tables import table_of
from kernelfields.fields import Chains
from kernelfields.kernels.labels import Delta
from kernelfields.posterior import LogPosterior
from kernelfields.solvers import minimize
from kernelfields.solvers.lbfgs import LBFGS

RESULTS = "out_of_core.json"
KEEPERS = ["memory", "half", "file", "file, not cached", "recomputed"]


class UncachedFile(FeatureFile):
    """A file whose pages leave the system's cache when they have been read."""

    def features(self, panel: PanelCholesky) -> Any:
        os.fsync(self._file.descriptor)
        return super().features(panel)

    def load(self, rows: slice, rank: int, buffer: np.ndarray) -> np.ndarray:
        tile = super().load(rows, rank, buffer)
        os.posix_fadvise(self._file.descriptor, self._offset(rows.start), tile.nbytes, os.POSIX_FADV_DONTNEED)
        return tile


def status(name: str) -> int:
    """Return an entry of this process's memory, in bytes."""
    return 1024 * int(re.search(name + r":\s+(\d+)", Path("/proc/self/status").read_text())[1])


def columns_of(keep: str, n_rows: int, rank: int) -> Any:
    """Return where the columns of a panel are to be kept."""
    if keep == "memory":
        return None
    if keep == "recomputed":
        return RecomputedColumns(n_rows, rank, np.float32)
    maker = {"half": HalfColumns, "file": FeatureFile, "file, not cached": UncachedFile}[keep]
    return maker(n_rows, rank, np.float32, stored_factor=keep != "half")


def measure(keep: str, field: str, rank: int, iterations: int) -> dict:
    """Choose a basis and descend, with features kept in one of the ways."""
    X, y = words(list(range(1, 10)))
    kernel, variance = FIELDS[field]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # all it has to do is compile
        ChainCRF(kernel, prior_variance=variance, rank=50, max_iter=3, tol=0.9, random_state=0).fit(X[:50], y[:50])
    chains, classes = Chains.from_sequences(X, y)
    inputs = chains.inputs.astype(np.float32, copy=False)
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    begin, cpu = time.perf_counter(), time.process_time()
    panel = PanelCholesky(kernel, inputs, rank, np.float32, columns_of(keep, len(inputs), rank))
    RandomCholesky().select(panel, np.random.default_rng(0))
    features, subspace = panel.features, panel.subspace()
    basis_seconds, basis_cpu = time.perf_counter() - begin, time.process_time() - cpu
    basis_peak = status("VmHWM") - before
    # Of the fit itself: the factor is still there, the temporaries of the basis are not.
    Path("/proc/self/clear_refs").write_text("5")
    common = {"n_labels": len(classes), "prior_variance": variance}
    factor = np.ascontiguousarray(Delta().factor(len(classes)))
    table = table_of(features)
    node = CliqueFeatures("node", table, positions=None, labels_per_clique=1, label_factor=factor, **common)
    edge = CliqueFeatures("edge", None, positions=None, labels_per_clique=2, **common)
    posterior = LogPosterior(ThreadsEngine.for_chains(chains, [node, edge], len(classes)))
    theta = 0.01 * np.random.default_rng(0).normal(size=posterior.size)
    with blas_threads(1):
        pass_seconds = min(_seconds(lambda: posterior.at(theta)) for _ in range(3))
        begin, cpu, passes = time.perf_counter(), time.process_time(), posterior.passes
        solution = minimize(posterior, LBFGS(), tol=1e-9, max_iter=iterations)
        solver_seconds, solver_cpu = time.perf_counter() - begin, time.process_time() - cpu
    fit_peak = status("VmHWM") - before
    return {
        "keep": keep,
        "field": field,
        "positions": len(inputs),
        "rank": panel.rank,
        "feature_bytes": 4 * len(inputs) * panel.rank,
        "basis_seconds": basis_seconds,
        "basis_cpu_seconds": basis_cpu,
        "pass_seconds": pass_seconds,
        "iterations": solution.iterations,
        "passes": posterior.passes - passes,
        "solver_seconds": solver_seconds,
        "solver_cpu_seconds": solver_cpu,
        "value": solution.value,
        "rounding": _rounding(posterior, features, subspace, inputs, solution.theta),
        "basis_peak": basis_peak,
        "fit_peak": fit_peak,
    }


def _seconds(function: Any) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def _rounding(
    posterior: LogPosterior, features: Any, subspace: Any, inputs: np.ndarray, theta: np.ndarray
) -> float:
    """Return the change of the value if the features were exact, to first order, over the value."""
    node = posterior.engine.sets[0]
    coefficients = posterior.split(theta)[0]
    point = posterior.at(theta)
    residual = posterior.engine.evaluate(posterior.potentials(theta)).residual
    rows = np.linspace(0, len(inputs) - 1, 2000).astype(int)
    exact = subspace.apply(inputs[rows], coefficients)
    stored = features[rows].astype(np.float64) @ coefficients
    there = (residual.node @ node.label_factor)[rows]
    return len(inputs) / len(rows) * float(np.vdot(there, exact - stored)) / point.value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, default=4000)
    parser.add_argument("--field", default="cubic", choices=list(FIELDS))
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--keep", nargs="+", default=KEEPERS, choices=KEEPERS)
    parser.add_argument("--one", action="store_true", help="measure in this process and print a row")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.keep[0], arguments.field, arguments.rank, arguments.iterations)))
        return
    for keep in arguments.keep:
        options = [
            "--rank",
            str(arguments.rank),
            "--field",
            arguments.field,
            "--iterations",
            str(arguments.iterations),
        ]
        command = [sys.executable, "-m", "benchmarks.out_of_core", "--one", "--keep", keep, *options]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        row = json.loads(done.stdout.splitlines()[-1])
        merge_results(RESULTS, [row], ("field", "rank", "keep"))
        report(row)


def report(row: dict) -> None:
    """Print a row, beside the one in memory where there is one of as many iterations."""
    same = [
        other
        for other in read_results(RESULTS)
        if other["keep"] == "memory" and all(other[key] == row[key] for key in ("field", "rank", "iterations"))
    ]
    ratio = f"{_together(row) / _together(same[0]):.2f} times memory" if same else "not compared"
    print(
        f"{row['keep']}: basis {row['basis_seconds']:.1f} s (CPU {row['basis_cpu_seconds']:.1f} s), pass "
        f"{row['pass_seconds']:.2f} s, {row['iterations']} iterations ({row['passes']:.1f} passes) "
        f"{row['solver_seconds']:.1f} s (CPU {row['solver_cpu_seconds']:.1f} s), together {_together(row):.1f} s, "
        f"{ratio}; peak of the basis {row['basis_peak'] / 1e6:.0f} MB, of the fit {row['fit_peak'] / 1e6:.0f} MB, "
        f"features {row['feature_bytes'] / 1e6:.0f} MB; rounding {row['rounding']:.1e}, value {row['value']:.4f}",
        flush=True,
    )


def _together(row: dict) -> float:
    return row["basis_seconds"] + row["solver_seconds"]


if __name__ == "__main__":
    main()
