"""Results of benchmarks, as JSON under benchmarks/results, with the machine they were measured on."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numba
import numpy as np
import scipy
import sklearn

from kernelfields import __version__
from kernelfields.inference.workers import available_cores

RESULTS = Path(__file__).parent / "results"


def read_results(name: str) -> list:
    """Return the rows of a result file, none if it is not there yet."""
    path = RESULTS / name
    return json.loads(path.read_text())["rows"] if path.exists() else []


def merge_results(name: str, rows: list[dict], keys: tuple[str, ...]) -> Path:
    """Write rows into a result file, replacing those with the same keys and keeping the others."""

    def key(row: dict) -> tuple:
        return tuple(row[part] for part in keys)

    new = {key(row) for row in rows}
    kept = [row for row in read_results(name) if key(row) not in new]
    return write_results(name, sorted([*kept, *rows], key=key))


def write_results(name: str, rows: object) -> Path:
    """Write rows to benchmarks/results/name and return the path."""
    RESULTS.mkdir(exist_ok=True)
    document = {
        "machine": {"processor": platform.machine(), "cores": available_cores(), "system": platform.system()},
        "versions": {
            "kernelfields": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "numba": numba.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "rows": rows,
    }
    path = RESULTS / name
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"wrote {path.relative_to(RESULTS.parent.parent)}")
    return path
