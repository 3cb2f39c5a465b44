"""The house in numbers: its sizes, the files that a call enters, and what is written down in many places.

    python -m benchmarks.house [CHECKOUT ...] [--list]

One column for each checkout of the project, this one without arguments, so that two can be compared. A file is
entered by a call when one of its functions runs, compiled ones included. Words are counted by the files of the package
that have them. A private name of others is an attribute with an underscore of anything but self or cls whose room
neither defines that name nor has it on self, or any such name that getattr and the like are given. ``--list`` names the
files that a call enters.
"""

from __future__ import annotations

import argparse
import ast
import collections
import inspect
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

ROOMS = ("src", "tests", "tests/campaigns", "benchmarks", "experiments", "examples", "docs", "release")
WORDS = ("evidence", "allowed", "l1", "ties", "on_host")
PROBES = (r"\bhasattr\(", r"\bgetattr\(", r"__dict__")
LONGEST = "estimators/base.py"


def entered(package: Path, call: Callable[[], object]) -> dict[str, int]:
    """Return how many functions of each file of the package a call runs."""
    seen: dict[str, set[str]] = {}
    folder = f"{package}{os.sep}"

    def note(frame: object, event: str, argument: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_filename.startswith(folder) and code.co_name != "<module>":
            seen.setdefault(code.co_filename[len(folder) :], set()).add(code.co_qualname)

    call()  # so that modules which are loaded with the first call do not count
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {file: len(functions) for file, functions in sorted(seen.items())}


def running(package: Path) -> dict:
    """Return what calls enter, and what the package offers: of the package that this process imports."""
    import kernelfields
    from kernelfields import ChainCRF

    warnings.simplefilter("ignore")
    random = np.random.default_rng(0)
    y = [np.repeat(random.integers(3, size=4), 3) for _ in range(40)]
    X = [np.eye(3)[labels] + random.normal(size=(12, 3)) for labels in y]
    crf = ChainCRF("rbf", rank=50, random_state=0)
    classes = [each for name in kernelfields.__all__ if inspect.isclass(each := getattr(kernelfields, name))]
    return {
        "calls": {
            "fit": entered(package, lambda: crf.fit(X, y)),
            "predict_marginals": entered(package, lambda: crf.predict_marginals(X)),
            "laplace": entered(package, lambda: crf.laplace(X, y, random_state=0)),
        },
        "names": len(kernelfields.__all__),
        "parameters": max(len(inspect.signature(each).parameters) for each in classes),
    }


def private_names_of_others(texts: Iterable[str]) -> int:
    """Return how often the files of a room use a private name of an object that the room did not define."""
    own, used = set(dir(collections.namedtuple("Fields", []))), []
    for node in (node for text in texts for node in ast.walk(ast.parse(text))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.Attribute):
            at_home = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if at_home or isinstance(node.ctx, ast.Store):
                own.add(node.attr)
            used += [] if at_home else [node.attr]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("attr"):
            used += [str(name.value) for name in node.args[1:2] if isinstance(name, ast.Constant)]
    return sum(name[0] == "_" != name[1:2] for name in used if name not in own)


def numbers(checkout: Path, listed: bool) -> dict[str, str]:
    """Return the numbers of a checkout, in words."""
    package = checkout / "src" / "kernelfields"
    sizes = {}
    counted: set[Path] = set()
    for room in sorted(ROOMS, key=len, reverse=True):  # a room inside another counts by itself
        paths = set((checkout / room).rglob("*.py")) - counted
        counted |= paths
        sizes[room] = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths), len(paths)
    texts = {path.relative_to(package).as_posix(): path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    paths = os.pathsep.join([str(checkout / "src"), str(Path(__file__).resolve().parents[1])])
    command = [sys.executable, "-m", "benchmarks.house", "--running", str(package)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths})
    found = json.loads(done.stdout)
    for call, files in found["calls"].items() if listed else ():
        print(f"{call}: {', '.join(f'{file} {count}' for file, count in files.items())}\n")
    methods = {
        (owner.name, node.name)
        for owner in ast.parse(texts.get(LONGEST, "")).body
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.FunctionDef)
    }
    named = [sum(bool(re.search(rf"\b{word}\b", text)) for text in texts.values()) for word in WORDS]
    probes = [sum(len(re.findall(probe, text)) for text in texts.values()) for probe in PROBES]
    rooms = itertools.groupby(sorted(texts), key=lambda place: place.split("/")[0])
    private = sum(private_names_of_others(texts[place] for place in places) for _, places in rooms)
    folders = [Path(place).parent for place in texts]
    return {
        "lines / files under src": "{:,} / {:,}".format(*sizes["src"]),
        "lines of Python in all": f"{sum(lines for lines, _ in sizes.values()):,}",
        **{f"  {room}, lines / files": "{:,} / {:,}".format(*sizes[room]) for room in ROOMS[1:]},
        **{f"files entered by {call}": str(len(files)) for call, files in found["calls"].items()},
        **{f"functions run by {call}": str(sum(files.values())) for call, files in found["calls"].items()},
        **{f"files that name {word}": str(count) for word, count in zip(WORDS, named, strict=True)},
        "hasattr / getattr / __dict__": " / ".join(map(str, probes)),
        "private names of others": str(private),
        f"{LONGEST}, lines / methods": f"{len(texts.get(LONGEST, '').splitlines()):,} / {len(methods)}",
        "longest file, lines": str(max(len(text.splitlines()) for text in texts.values())),
        "largest folder, files": str(max(map(folders.count, folders))),
        "names at the top": str(found["names"]),
        "most parameters of an estimator": str(found["parameters"]),
    }


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path(__file__).resolve().parents[1]])
    parser.add_argument("--list", action="store_true", help="name the files that calls enter")
    parser.add_argument("--running", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.running:
        print(json.dumps(running(asked.running)))
        return
    columns = [numbers(checkout.resolve(), asked.list) for checkout in asked.checkouts]
    for what in columns[0]:
        print(f"{what:<36}{''.join(f'{column[what]:>20}' for column in columns)}")


if __name__ == "__main__":
    main()
