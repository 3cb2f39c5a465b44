"""Run every benchmark that fits into about half an hour on two cores; see each script for more.

make bench
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = [
    ["benchmarks.first_use"],
    ["benchmarks.fit_speed", "--large", "--scipy"],
    ["benchmarks.solvers", "--tol", "1e-3"],
    ["benchmarks.start_scaling"],
    ["benchmarks.precision"],
    ["experiments.gpstruct"],
    ["benchmarks.ingest"],
    ["benchmarks.search_speed"],
    ["benchmarks.prediction_speed"],
    ["benchmarks.graph_speed"],
    ["benchmarks.graph_speed", "--threads", "1", "2"],
    ["benchmarks.label_graph"],
    ["benchmarks.graph_fit"],
    ["benchmarks.resume_after_kill"],
    ["benchmarks.gaussian_process_speed"],
    ["benchmarks.engines"],
    ["benchmarks.out_of_core", "--keep", "memory", "budget"],
    ["benchmarks.dask_passes", "--share", "0.1"],
    ["benchmarks.dask_kills"],
    ["benchmarks.scaling"],
    ["benchmarks.crfsuite_speed"],
    ["experiments.ocr_letters", "small", "--folds", "0", "1"],
]


def main() -> int:
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
