"""Peak memory of everything that fits a field again, under one budget: development sets, warm starts, checkpoints, ...

    python -m benchmarks.memory_roads [--folds 9] [--rank 2000] [--share 0.5]

OCR letters, cubic kernel. ``Threads(memory=...)`` is given a share of what the features take in memory; every road runs
in a process of its own. What it adds to the memory of that process is compared with the budget, with and without the
packed copy of the inputs that every fit makes: a budget does not count inputs. The first row has no budget. Prints a
line for each road; writes results/memory_roads.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.fit_speed import FIELDS, words
from benchmarks.result_files import CHECKOUT, write_results

ROADS = ("in memory", "fit", "development set", "warm start", "checkpoint", "cross-validation", "laplace")


def status(name: str) -> int:
    """Return an entry of this process's memory, in bytes."""
    return 1024 * int(re.search(name + r":\s+(\d+)", Path("/proc/self/status").read_text())[1])


def prepared(road: str, engine: Any, X: list, y: list, rank: int) -> Callable[[], Any]:
    """Return the call to be measured; what comes before it is done."""
    from kernelfields import ChainCRF, ChainCRFCV
    from kernelfields.models.callbacks import Checkpoint

    kernel, variance = FIELDS["cubic"]
    settings: dict[str, Any] = {"prior_variance": variance, "rank": rank, "engine": engine, "random_state": 0}
    crf = ChainCRF(kernel, max_iter=5, solver="lbfgs", **settings)
    if road in ("in memory", "fit"):
        return lambda: crf.fit(X, y)
    if road == "development set":
        some = len(X) // 5
        return lambda: crf.fit(X[some:], y[some:], X_dev=X[:some], y_dev=y[:some])
    if road == "cross-validation":
        grid = {"prior_variances": (variance, 3 * variance), "cv": 3, "halving": False, "extend": False}
        return lambda: ChainCRFCV(crf, kernels=[kernel], ranks=[rank], **grid).fit(X, y)
    crf.fit(X, y)
    if road == "warm start":
        crf.set_params(warm_start=True)
        return lambda: crf.fit(X, y)
    if road == "laplace":
        return lambda: crf.laplace(X, y, n_samples=3, steps=5, probes=2, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint")
        crf.set_params(callbacks=[Checkpoint(path, 0.0)]).fit(X, y)
        resumed = ChainCRF.load(path)
    resumed.set_params(warm_start=True, callbacks=None, engine=engine)
    return lambda: resumed.fit(X, y)


def measure(road: str, folds: int, rank: int, share: float) -> dict:
    """Return the peak of one road beside its budget."""
    from kernelfields import ChainCRF
    from kernelfields.engines import Threads

    warnings.simplefilter("ignore")
    X, y = words(list(range(1, folds + 1)))
    feature_bytes = 4 * sum(map(len, y)) * rank
    budget = None if road == "in memory" else int(share * feature_bytes)
    # The compiler, and a Laplace approximation of a small field, before the clock starts.
    small = ChainCRF(FIELDS["cubic"][0], rank=20, max_iter=3, random_state=0).fit(X[:30], y[:30])
    small.laplace(X[:30], y[:30], n_samples=2, method="lanczos", steps=3, probes=2)
    call = prepared(road, Threads(budget), X, y, rank)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    call()
    peak = status("VmHWM") - before
    inputs = sum(each.nbytes for each in X)
    sizes = {"feature_bytes": feature_bytes, "budget": budget, "peak": peak, "inputs": inputs}
    return {"road": road, "rank": rank, **sizes}


def main() -> None:
    """Measure every road in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", type=int, default=9)
    parser.add_argument("--rank", type=int, default=2000)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--road", choices=ROADS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.road is not None:
        print(json.dumps(measure(options.road, options.folds, options.rank, options.share)))
        return
    rows = []
    for road in ROADS:
        command = [sys.executable, "-m", "benchmarks.memory_roads", "--road", road, *sys.argv[1:]]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=CHECKOUT)
        row = json.loads(done.stdout.splitlines()[-1])
        rows.append(row)
        without = (row["peak"] - row["inputs"]) / 1e6
        budget = f" of {row['budget'] / 1e6:6.0f} MB" if row["budget"] else ""
        print(f"{road:<18}{row['peak'] / 1e6:7.0f} MB, without packed inputs {without:7.0f} MB{budget}", flush=True)
    write_results("memory_roads.json", rows)


if __name__ == "__main__":
    main()
