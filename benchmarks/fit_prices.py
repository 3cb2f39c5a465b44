"""The price of single fits: CPU seconds, passes, the value reached and peak memory, of this checkout and another.

    python -m benchmarks.fit_prices [part ...] [--against OLD] [--repeats 1]

Each part runs in a process of its own, on one thread, with the package of OLD first and of this checkout then, by
turns; of the repeats the one of least CPU seconds counts. Memory is the peak of the process, and in brackets what the
process held before the fit began: reading, features of words, and code that a small fit has compiled or loaded.

    net         references (30,085 words, 44 labels), observed pairs, variance 5, l1 = 0.1, tol = 1e-3
    net-all     the same with all pairs
    text        references, observed pairs, variance 5, no l1, tol = 1e-3
    text-all    the same with all pairs
    small       letters, fold 1, cubic kernel, rank 2000: memory of the fit as a multiple of that of its features, too
    large       letters, nine folds
    large-rbf   the same with an RBF kernel, tol = 1e-3
    full        2,000 sentences of CoNLL-2000, observed pairs, variance 1.5, tol = 1e-3
    partial     the same with 30 % of the labels
    full-10     2,000 sentences of CoNLL-2000, all pairs, the variance chosen for the next, usual tolerance
    partial-10  the same with 30 % of the labels
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.fit_speed import FIELDS, words
from benchmarks.result_files import CHECKOUT, merge_results
from benchmarks.shared_data import SETTING, data_folder, token_columns
from benchmarks.templates import chunking
from kernelfields import ChainCRF, TextFeatures

Fit = tuple[ChainCRF, list, list]


def memory(name: str) -> float:
    """Return an entry of this process's memory, in MB."""
    found = re.search(name + r":\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def references(support: str = "observed", l1: float = 0.0) -> Fit:
    """Return a field of parts of references, features of their words, and the parts."""
    rows = token_columns("first-try-2", "references-train.tsv.gz")
    texts, labels = ([[row[column] for row in each] for each in rows] for column in (0, 1))
    crf = ChainCRF("linear", support=support, prior_variance=5.0, l1=l1, tol=1e-3, random_state=0)
    return crf, TextFeatures().fit(texts).transform(texts), labels


def letters(folds: list[int], name: str = "cubic", **settings: object) -> Fit:
    """Return a field of letters, and the words of some folds."""
    kernel, variance = FIELDS[name]
    crf = ChainCRF(kernel, prior_variance=variance, rank=2000, max_iter=500, random_state=0, **settings)
    return crf, *words(folds)


def chunks(share: float, **settings: object) -> Fit:
    """Return a field of chunks and sentences of which a share of the labels is known."""
    X, y = (each[:2000] for each in chunking("train"))
    random = np.random.default_rng(0)
    labels = [[label if random.random() < share else None for label in own] for own in y]
    settings = settings or {"support": "observed", "prior_variance": 1.5, "l1": 0.0, "tol": 1e-3}
    return ChainCRF("linear", random_state=0, **settings), X, labels


PARTS: dict[str, Callable[[], Fit]] = {
    "net": lambda: references(l1=0.1),
    "net-all": lambda: references("all", l1=0.1),
    "text": references,
    "text-all": lambda: references("all"),
    "small": lambda: letters([1]),
    "large": lambda: letters(list(range(1, 10))),
    "large-rbf": lambda: letters(list(range(1, 10)), "rbf", tol=1e-3),
    "full": lambda: chunks(1.0),
    "partial": lambda: chunks(0.3),
    "full-10": lambda: chunks(1.0, prior_variance=10.0),
    "partial-10": lambda: chunks(0.3, prior_variance=10.0),
}


def measure(part: str) -> dict:
    """Return what the fit of a part costs, in this process."""
    warnings.simplefilter("ignore")
    crf, X, y = PARTS[part]()
    some = slice(0, 60)
    ChainCRF(**{**crf.get_params(deep=False), "rank": 50, "max_iter": 3}).fit(X[some], y[some])
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before, begin = memory("VmRSS"), time.process_time()
    solution = crf.fit(X, y).solution_
    row = {
        "part": part,
        "cpu_seconds": time.process_time() - begin,
        "passes": solution.passes,
        "iterations": solution.iterations,
        "value": solution.value,
        "relative_gap": solution.relative_gap,
        "before_mb": before,
        "peak_mb": memory("VmHWM"),
    }
    term = crf.field_.terms[0]
    if term.has_pivots:
        row["features"] = (row["peak_mb"] - before) * 2**20 / (4 * sum(map(len, y)) * len(term.known))
    return row


def measure_with(checkout: Path, part: str) -> dict:
    """Return the same by the package of a checkout, in a process of its own."""
    environment = {**os.environ, SETTING: str(data_folder())}
    environment |= {"PYTHONPATH": os.pathsep.join([str(checkout / "src"), str(CHECKOUT)])}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "benchmarks.fit_prices", "--here", part]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure the parts, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="part")
    parser.add_argument("--against", type=Path, metavar="OLD", help="another checkout, whose package runs by turns")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure(given.parts[0])))
        return
    checkouts = {"old": given.against.resolve()} if given.against else {}
    checkouts["new"] = CHECKOUT
    for part in given.parts:
        found: dict[str, list[dict]] = {version: [] for version in checkouts}
        for _ in range(given.repeats):
            for version, checkout in checkouts.items():
                found[version].append(measure_with(checkout, part))
        for version, rows in found.items():
            row = min(rows, key=lambda each: each["cpu_seconds"])
            beyond = f", {row['features']:.2f} x features" if "features" in row else ""
            print(
                f"{part:10} {version:4} {row['cpu_seconds']:6.1f} s of CPU  {row['passes']:6.1f} passes  value "
                f"{row['value']:.4f}  {row['peak_mb']:5.0f} MB ({row['before_mb']:.0f} before{beyond})",
                flush=True,
            )
            merge_results("fit_prices.json", [{"version": version, **row}], ("part", "version"))


if __name__ == "__main__":
    main()
