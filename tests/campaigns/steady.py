"""Memory of a process that fits and predicts again and again: it must stay flat, whichever estimator is at work.

    python -m tests.campaigns.steady [--fits 500] [--predictions 5000] [--children 20] [--only chain graph ...]

Every estimator on small data, in this process: fits; predictions of the last fit; as many of them by eight threads at
once; fits and predictions in forked children. Prints resident memory, objects that Python keeps track of, threads and
open files at ten moments of each. What grows between the second moment and the last is shown at the end, and how many
answers of threads and children were not, to the bit, those of one thread of this process; the exit code is 1 if memory
grew by more than 4 MB, anything else by more than 20, or an answer was another. Writes results/steady.json.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.result_files import CAMPAIGNS, write_results

MOMENTS = 10
N_THREADS = 8
_PATIENCE = 120.0
_LIMITS = {"megabytes": 4.0, "objects": 20, "threads": 0, "files": 0}


def now() -> dict[str, float]:
    """Return what this process holds."""
    gc.collect()
    resident = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    return {
        "megabytes": int(resident[1]) / 1024 if resident else float("nan"),
        "objects": len(gc.get_objects()),
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
    }


def workloads() -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """Return, by estimator, how it is fitted and what it is asked."""
    from kernelfields import ChainCRF, ExponentialFamilyDensity, GraphCRF, KernelClassifier, MultiLabelCRF

    random = np.random.default_rng(0)
    y = [random.integers(3, size=8) for _ in range(20)]
    X = [np.eye(3)[labels] + random.normal(size=(8, 3)) for labels in y]
    rings = [(x, [(t, (t + 1) % 8) for t in range(8)]) for x in X]
    dicts = [[{"size": float(row[0]), "sign": str(row[1] > 0)} for row in x] for x in X]
    table, targets = np.concatenate(X), np.concatenate(y)
    several = np.column_stack([targets == 0, targets == 1]).astype(int)
    quick = {"rank": 15, "tol": 0.05, "random_state": 0, "n_jobs": 2}
    return {
        "chain": (lambda: ChainCRF("rbf", **quick).fit(X, y), lambda crf: crf.predict_marginals(X)),
        "names": (lambda: ChainCRF("linear", **quick).fit(dicts, y), lambda crf: crf.predict(dicts)),
        "graph": (lambda: GraphCRF("rbf", **quick).fit(rings, y), lambda crf: crf.predict_marginals(rings)),
        "several": (lambda: MultiLabelCRF("rbf", **quick).fit(table, several), lambda crf: crf.predict_proba(table)),
        "classifier": (
            lambda: KernelClassifier("rbf", **quick).fit(table, targets),
            lambda model: model.predict_proba(table),
        ),
        "density": (
            lambda: ExponentialFamilyDensity("rbf", rank=10, random_state=0).fit(table[:, :1]),
            lambda model: model.score_samples(table[:, :1]),
        ),
    }


def moments(
    work: Callable[[], Any], repeats: int, after: set[int] | None = None
) -> Iterator[tuple[int, dict[str, float]]]:
    """Do some work again and again; yield how often it was done and what the process holds.

    At ten moments, or ``after`` so many repetitions.
    """
    after = after or {max(1, repeats * moment // MOMENTS) for moment in range(1, MOMENTS + 1)}
    for done in range(1, repeats + 1):
        work()
        if done in after:
            yield done, now()


def growth(seen: list[dict[str, float]]) -> dict[str, float]:
    """Return what grew after the second moment, when all that is made once has been made."""
    return {name: seen[-1][name] - seen[1][name] for name in _LIMITS}


def too_much(grown: dict[str, float]) -> list[str]:
    """Return the names of what grew beyond its limit."""
    return [name for name, limit in _LIMITS.items() if grown[name] > limit]


class Comparison:
    """Answers of threads and of forked children, counted where they differ from those of one thread here."""

    def __init__(self, fit: Callable[[], Any], ask: Callable[[Any], Any], threads: ThreadPoolExecutor):
        self.fit, self.ask, self.threads = fit, ask, threads
        self.fitted = fit()
        self.expected = np.concatenate(ask(self.fitted), axis=None)
        self.different = 0

    def _compare(self, answer: Any) -> None:
        self.different += not np.array_equal(np.concatenate(answer, axis=None), self.expected)

    def in_threads(self) -> None:
        """Ask the model from eight threads at once."""
        for answer in self.threads.map(self.ask, [self.fitted] * N_THREADS):
            self._compare(answer)

    def in_a_child(self) -> None:
        """Fit and ask in a forked child; one that does not answer is an error."""
        context = multiprocessing.get_context("fork")
        ours, its = context.Pipe()
        child = context.Process(target=lambda: its.send(self.ask(self.fit())))
        child.start()
        its.close()
        try:
            if not ours.poll(_PATIENCE):
                raise RuntimeError(f"a forked child did not answer in {_PATIENCE:g} s")
            self._compare(ours.recv())
        finally:
            child.kill()
            child.join()
            child.close()
            ours.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=500)
    parser.add_argument("--predictions", type=int, default=5000)
    parser.add_argument("--children", type=int, default=20)
    parser.add_argument("--only", nargs="*", choices=list(workloads()), default=list(workloads()))
    options = parser.parse_args()
    if min(options.fits, options.predictions // N_THREADS, options.children) < MOMENTS:
        parser.error(f"there are {MOMENTS} moments to look at: give more fits, predictions or children")
    warnings.simplefilter("ignore")  # fits of noise may stop short
    print(f"{'estimator':11} {'work':11} {'done':>5} {'MB':>8} {'objects':>8} {'threads':>8} {'files':>6}")
    with ThreadPoolExecutor(N_THREADS) as threads:
        rows = [row for name in options.only for row in _rows(name, options, threads)]
    for row in rows:
        words = ", ".join(f"{value:+.4g} {name}" for name, value in row["growth"].items())
        answers = f", {row['different']} other answers" if "different" in row else ""
        print(f"{row['estimator']}, {row['repeats']} {row['work']}: {words}{answers}")
    write_results("steady.json", rows, CAMPAIGNS)
    return int(any(too_much(row["growth"]) or row.get("different") for row in rows))


def _rows(name: str, options: argparse.Namespace, threads: ThreadPoolExecutor) -> Iterator[dict[str, Any]]:
    """Yield what one estimator comes to, at each kind of work."""
    fit, ask = workloads()[name]
    comparison = Comparison(fit, ask, threads)
    works: dict[str, tuple[int, Callable[[], Any]]] = {
        "fits": (options.fits, fit),
        "predictions": (options.predictions, lambda: ask(comparison.fitted)),
        "in threads": (options.predictions // N_THREADS, comparison.in_threads),
        "in children": (options.children, comparison.in_a_child),
    }
    for work, (repeats, call) in works.items():
        seen, comparison.different = [], 0
        for done, held in moments(call, repeats):
            seen.append(held)
            print(
                f"{name:11} {work:11} {done:5} {held['megabytes']:8.1f} {held['objects']:8} "
                f"{held['threads']:8} {held['files']:6}",
                flush=True,
            )
        compared = {"different": comparison.different} if work.startswith("in") else {}
        yield {"estimator": name, "work": work, "repeats": repeats, **compared, "moments": seen, "growth": growth(seen)}


if __name__ == "__main__":
    sys.exit(main())
