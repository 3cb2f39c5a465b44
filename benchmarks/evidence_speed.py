"""Parameters by the evidence against cross-validation with 26 labels: CPU seconds of both on small letters.

    python -m benchmarks.evidence_speed [--against OLD]

The field and the grid are those of experiments/evidence.py: words of one fold, an RBF kernel of rank 60, 18 candidates
in three folds with halving; the search for the largest evidence begins in the middle of the grid. One thread. With
--against the search runs with the package of another checkout first, by turns.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.result_files import CHECKOUT, merge_results
from benchmarks.shared_data import SETTING, data_folder

CHOICES = ("evidence", "validation")


def measure(choice: str) -> float:
    """Return the CPU seconds of a choice, in this process."""
    from experiments.evidence import RANK, climbed, data, validated

    choose = {"evidence": climbed, "validation": validated}[choice]
    X, y, _, _ = data("letters", 0)
    rows = sorted(range(len(X)), key=lambda i: -len(set(y[i])))[:6]
    choose("letters", RANK["letters"], [X[i] for i in rows], [y[i] for i in rows])
    begin = time.process_time()
    choose("letters", RANK["letters"], X, y)
    return time.process_time() - begin


def measure_with(checkout: Path, choice: str) -> float:
    """Return the same by the package of a checkout, in a process of its own on one thread."""
    environment = {**os.environ, SETTING: str(data_folder())}
    environment |= {"PYTHONPATH": os.pathsep.join([str(checkout / "src"), str(CHECKOUT)])}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.evidence_speed", "--here", choice]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure both choices, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="OLD", help="another checkout, whose package runs by turns")
    parser.add_argument("--here", choices=CHOICES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(measure(given.here))
        return
    checkouts = {"old": given.against.resolve()} if given.against else {}
    for version, checkout in {**checkouts, "new": CHECKOUT}.items():
        seconds = {choice: measure_with(checkout, choice) for choice in CHOICES}
        ratio = seconds["evidence"] / seconds["validation"]
        print(f"{version}: evidence {seconds['evidence']:.1f} s, {ratio:.1f} x cross-validation", flush=True)
        merge_results("evidence_speed.json", [{"version": version, **seconds, "ratio": ratio}], ("version",))


if __name__ == "__main__":
    main()
