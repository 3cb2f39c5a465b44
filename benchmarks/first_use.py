"""What a new user waits for: import, the first fit with an empty numba cache, the first fit of a later process.

    python -m benchmarks.first_use [--runs 5] [--only second_process ...] [--old FOLDER]

Each figure is of fresh processes, interpreter start included, on a small problem: the least wall-clock of several runs,
and the least time of the processor, which a busy machine disturbs less. Bytecode is kept, as that of installed packages
is. ``estimator_alone`` is the processor time of importing an estimator after ``sklearn.base``. ``--old`` is the ``src``
of another checkout, whose processes take turns with ours.

    python -m benchmarks.first_use --functions

Processor seconds of compiling each function in the first fit with an empty cache, without those that it calls.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.result_files import CHECKOUT, write_results

ESTIMATOR = "from kernelfields import ChainCRF"
ALONE = f"""
import time
import sklearn.base
begin = time.process_time()
{ESTIMATOR}
print(time.process_time() - begin)
"""
FIT = """
import numpy as np
from kernelfields import ChainCRF
random = np.random.default_rng(0)
y = [random.integers(3, size={length}) for _ in range(30)]
X = [np.eye(3)[labels] + random.normal(size=({length}, 3)) for labels in y]
model = ChainCRF(rank=50, random_state=0).fit(X, y)
model.predict(X)
model.predict_marginals(X)
"""
LISTENER = """
import time
from collections import Counter
from numba.core import event
own, calls = Counter(), []
class Compiled(event.Listener):
    def on_start(self, found):
        calls.append([time.process_time(), 0.0])
    def on_end(self, found):
        begin, inner = calls.pop()
        whole = time.process_time() - begin
        own[found.data["dispatcher"].py_func.__name__] += whole - inner
        if calls:
            calls[-1][1] += whole
event.register("numba:compile", Compiled())
"""
# Code, and whether it begins with an empty numba cache; longer sequences need the compiler.
PROCESSES = {
    "interpreter": ("pass", False),
    "import_scikit_learn": ("import sklearn.base", False),
    "import": ("import kernelfields", False),
    "import_estimator": (ESTIMATOR, False),
    "estimator_alone": (ALONE, False),
    "first_fit": (FIT.format(length=12), True),
    "second_process": (FIT.format(length=12), False),
    "first_fit_compiled": (FIT.format(length=40), True),
    "second_process_compiled": (FIT.format(length=40), False),
}


def seconds(code: str, source: str, bytecode: str, compiled: str) -> tuple[float, float]:
    """Return seconds of a fresh process that runs some code, wall-clock and of the processor, or what it prints."""
    settings = {**os.environ, "PYTHONPATH": source, "PYTHONPYCACHEPREFIX": bytecode, "NUMBA_CACHE_DIR": compiled}
    settings.pop("PYTHONDONTWRITEBYTECODE", None)
    before, begin = os.times(), time.perf_counter()
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=settings)
    wall, after = time.perf_counter() - begin, os.times()
    if run.stdout:
        return float(run.stdout), float(run.stdout)
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="fresh processes of each kind")
    parser.add_argument("--only", nargs="*", default=list(PROCESSES), help=f"some of {', '.join(PROCESSES)}")
    parser.add_argument("--old", type=Path, default=None, help="the src folder of another checkout")
    parser.add_argument("--functions", action="store_true", help="seconds of compiling each function")
    options = parser.parse_args()
    if options.functions:
        code = f"{LISTENER}{FIT.format(length=12)}for name in own: print(f'{{own[name]:5.2f}} s {{name}}')"
        with tempfile.TemporaryDirectory() as scratch:
            settings = {**os.environ, "PYTHONPATH": str(CHECKOUT / "src"), "NUMBA_CACHE_DIR": scratch}
            subprocess.run([sys.executable, "-c", code], check=True, env=settings)
        return
    sources = {"new": CHECKOUT / "src"} | ({"old": options.old.resolve()} if options.old else {})
    row = {}
    for name in options.only:
        code, empty = PROCESSES[name]
        found: dict[str, list[tuple[float, float]]] = {which: [] for which in sources}
        with tempfile.TemporaryDirectory() as scratch:
            for run in range(options.runs + 1):
                for which, source in sources.items():
                    cache = f"{scratch}/{which}{run if empty else ''}"
                    found[which].append(seconds(code, str(source), f"{scratch}/bytecode_{which}", cache))
        # The first process writes bytecode and, where it is kept, the cache.
        least = {which: [min(values) for values in zip(*runs[1:], strict=True)] for which, runs in found.items()}
        shown = [f"{which} {wall:6.2f} s, processor {used:6.2f} s" for which, (wall, used) in least.items()]
        print(f"{name:24s} {'; '.join(shown)}", flush=True)
        row[name], row[f"{name}_processor"] = least["new"]
    if set(options.only) == set(PROCESSES):
        write_results("first_use.json", row)


if __name__ == "__main__":
    main()
