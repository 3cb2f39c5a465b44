"""Two checkouts in one run: the same benchmark scripts one after the other, or the answers of the same model files.

    python -m benchmarks.old_and_new OLD [--scripts "fit_speed" "crfsuite_speed --sets chunking"] [--repeats 3]
    python -m benchmarks.old_and_new OLD --answers

OLD is another checkout of this project. Each script runs in both, by turns, ``--repeats`` times; of every time that it
writes to its results the shortest counts, and the ratio new / old is printed. Results of this checkout are left as
they were. ``--answers`` loads the model files of tests/golden in both and compares what they answer bit for bit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared_data import SETTING, data_folder

HERE = Path(__file__).resolve().parents[1]
SCRIPTS = (
    "fit_speed",
    "crfsuite_speed --sets chunking",
    "first_use",
    "graph_speed",
    "prediction_speed",
)
#: Names of times in results; those of peers and of interpreters are not ours.
TIMES = (
    "seconds",
    "planning",
    "gradient",
    "hessian_product",
    "decoding",
    "ingest",
    "import",
    "first",
    "process",
    "least",
)
NOT_OURS = ("theirs", "crfsuite", "scipy", "interpreter", "import_scikit_learn", "share", "milliseconds")
SHORT = 0.002

ANSWERS = """
import sys
from pathlib import Path
import numpy as np
from tests.golden.models import FOLDER, MODELS
folder = Path(sys.argv[1])
for name, model in MODELS.items():
    np.savez(folder / name, **model.answers(model.load(name, Path(sys.argv[2]))))
"""


def run_in(checkout: Path, arguments: list[str]) -> None:
    """Run Python in a checkout, with its package."""
    environment = {
        **os.environ,
        SETTING: str(data_folder()),
        "PYTHONPATH": os.pathsep.join([str(checkout / "src"), str(checkout)]),
    }
    subprocess.run([sys.executable, *arguments], check=True, cwd=checkout, env=environment, stdout=subprocess.DEVNULL)


def times_in(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, float]]:
    """Yield the times of a result by their place in it."""
    if isinstance(value, dict):
        for key, own in value.items():
            yield from times_in(own, (*path, str(key)))
    elif isinstance(value, list):
        for index, own in enumerate(value):
            yield from times_in(own, (*path, str(index)))
    elif isinstance(value, float) and any(name in path[-1] for name in TIMES):
        ours = not any(name in part for part in path for name in NOT_OURS)
        yield from [(" ".join(path), value)] if ours else []


def compare_speed(old: Path, script: str, repeats: int) -> list[tuple[str, float, float]]:
    """Return name, seconds of the old checkout and of this one, for every time a script writes."""
    name, *arguments = script.split()
    shortest: list[dict[str, float]] = [{}, {}]
    for _ in range(repeats):
        for best, checkout in zip(shortest, (old, HERE), strict=True):
            file = checkout / "benchmarks" / "results" / f"{name}.json"
            kept = file.read_bytes() if file.exists() else None
            file.unlink(missing_ok=True)
            try:
                run_in(checkout, ["-m", f"benchmarks.{name}", *arguments])
                for place, seconds in times_in(json.loads(file.read_text())["rows"]):
                    best[place] = min(seconds, best.get(place, np.inf))
            finally:
                if kept is not None:
                    file.write_bytes(kept)
    return [(place, seconds, shortest[1][place]) for place, seconds in shortest[0].items() if place in shortest[1]]


def compare_answers(old: Path) -> int:
    """Print how many arrays differ between the checkouts; return that number."""
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / name for name in ("old", "new")]
        for place, checkout in zip(places, (old, HERE), strict=True):
            place.mkdir()
            run_in(checkout, ["-c", ANSWERS, str(place), str(HERE / "tests" / "golden" / "format-3")])
        different, count = 0, 0
        for file in sorted(places[0].iterdir()):
            with np.load(file) as ours, np.load(places[1] / file.name) as theirs:
                for name in ours.files:
                    count += 1
                    if ours[name].tobytes() != theirs[name].tobytes():
                        different += 1
                        print(f"{file.stem} {name} differs by up to {np.abs(ours[name] - theirs[name]).max():.2g}")
    print(f"{count - different} of {count} answers of model files are the same bit for bit")
    return different


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("--scripts", nargs="*", default=list(SCRIPTS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--answers", action="store_true")
    options = parser.parse_args()
    old = options.old.resolve()
    if options.answers:
        sys.exit(1 if compare_answers(old) else 0)
    for script in options.scripts:
        print(f"{script}\n{'':4s}{'time':<60}{'old':>10}{'new':>10}{'ratio':>8}", flush=True)
        rows = [row for row in compare_speed(old, script, options.repeats) if max(row[1:]) >= SHORT]
        for place, before, now in rows:
            print(f"{'':4s}{place:<60}{before:10.4f}{now:10.4f}{now / before:8.2f}", flush=True)
        print(f"{'':4s}{'geometric mean':<80}{np.exp(np.mean([np.log(now / was) for _, was, now in rows])):8.2f}")


if __name__ == "__main__":
    main()
