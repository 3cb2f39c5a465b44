"""Run every benchmark that fits into about half an hour on two cores; see each script for more.

make bench
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = [
    ["first_use.py"],
    ["fit_speed.py", "--large", "--scipy"],
    ["solvers.py", "--tol", "1e-3"],
    ["start_scaling.py"],
    ["precision.py"],
    ["gpstruct.py"],
    ["ingest.py"],
    ["crfsuite_speed.py"],
    ["ocr_letters.py", "small", "--folds", "0", "1"],
]


def main() -> int:
    folder = Path(__file__).parent
    failed = []
    for script, *options in SCRIPTS:
        print(f"\n== {script} {' '.join(options)}", flush=True)
        if subprocess.run([sys.executable, str(folder / script), *options], check=False).returncode:
            failed.append(script)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
