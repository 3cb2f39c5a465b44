"""Results as JSON, with the machine they were measured on: of benchmarks, campaigns of tests, and experiments.

Names are those of files under benchmarks/results, unless another folder is given.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numba
import numpy as np
import scipy
import sklearn

from kernelfields import __version__
from kernelfields.numerics.threads import available_cores

CHECKOUT = Path(__file__).resolve().parents[1]
RESULTS = CHECKOUT / "benchmarks" / "results"
CAMPAIGNS = CHECKOUT / "tests" / "campaigns" / "results"
EXPERIMENTS = CHECKOUT / "experiments" / "results"


def read_results(name: str, folder: Path = RESULTS) -> list:
    """Return the rows of a result file, none if it is not there yet."""
    path = folder / name
    return json.loads(path.read_text())["rows"] if path.exists() else []


def merge_results(name: str, rows: list[dict], keys: tuple[str, ...], folder: Path = RESULTS) -> Path:
    """Write rows into a result file, replacing those with the same keys and keeping the others."""

    def key(row: dict) -> tuple:
        return tuple(row[part] for part in keys)

    new = {key(row) for row in rows}
    kept = [row for row in read_results(name, folder) if key(row) not in new]
    return write_results(name, sorted([*kept, *rows], key=key), folder)


def write_results(name: str, rows: object, folder: Path = RESULTS) -> Path:
    """Write rows and return the path."""
    folder.mkdir(exist_ok=True)
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
    path = folder / name
    path.write_text(_compact(document) + "\n")
    print(f"wrote {path.relative_to(CHECKOUT) if path.is_relative_to(CHECKOUT) else path}")
    return path


def _compact(value: object, depth: int = 0) -> str:
    """Return JSON with an entry a line, and lists of numbers, or of such lists, on one line."""
    inner = "\n" + " " * (depth + 1)
    if isinstance(value, dict) and value:
        return (
            "{"
            + ",".join(f"{inner}{json.dumps(key)}: {_compact(value[key], depth + 1)}" for key in value)
            + inner[:-1]
            + "}"
        )
    if isinstance(value, list | tuple) and not _numbers(value):
        return "[" + ",".join(inner + _compact(each, depth + 1) for each in value) + inner[:-1] + "]"
    return json.dumps(value)


def _numbers(value: object) -> bool:
    """Whether a value is a number, or a list of such values."""
    return (
        all(map(_numbers, value))
        if isinstance(value, list | tuple)
        else value is None or isinstance(value, int | float)
    )
