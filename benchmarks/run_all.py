"""Run every benchmark that fits into about half an hour on two cores; see each script for more.

make bench
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

SCRIPTS = [
    ["benchmarks.first_use"],
    ["benchmarks.fit_speed", "--large", "--tol", "1e-3"],
    ["benchmarks.gaussian_process_speed"],
    ["benchmarks.crfsuite_speed"],
    ["benchmarks.graph_speed"],
    ["benchmarks.prediction_speed"],
    ["benchmarks.search_speed"],
    ["benchmarks.production"],
    ["benchmarks.out_of_core"],
    ["benchmarks.cluster", "processes"],
    ["benchmarks.cluster", "communication"],
]


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    root = Path(__file__).resolve().parents[1]
    failed = []
    for script, *options in SCRIPTS:
        print(f"\n== {script} {' '.join(options)}", flush=True)
        if subprocess.run([sys.executable, "-m", script, *options], cwd=root, check=False).returncode:
            failed.append(script)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
