"""Which tests enter which functions, and how long each takes: measured once, again for files that have changed.

Functions are named ``inference/plan.py::Plan.answer``. Where a compiled function is called by compiled ones alone, or
in another process, no call is seen: the tests of whoever mentions its name stand in, then those of the file, then those
of the files that import it.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path

from tests.campaigns.mutating.mutants import Mutant
from tests.campaigns.mutating.runs import SOURCE, Copy

#: Folders of tests that are run.
FOLDERS = (
    *("numerics", "kernels", "data", "basis", "inference", "objective", "solvers", "families", "paper"),
    *("engines", "torch_engine", "dask_engine", "posterior", "uncertainty", "estimators", "models", "selection"),
)
MOST_SECONDS_OF_A_RUN = 900.0
PER_RUN = 6


class TestMap:
    """Seconds of every test that passes, and the functions it enters."""

    __test__ = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, dict] = json.loads(path.read_text()) if path.exists() else {}

    def measure(self, copy: Copy, folders: Iterable[str], until: float, clock: Callable[[], float]) -> bool:
        """Run the files that are new or have changed; return whether all are known by then."""
        found = {}
        for folder in folders:
            for path in sorted((copy.path / "tests" / folder).glob("test_*.py")):
                found[path.relative_to(copy.path).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
        self.files = {name: entry for name, entry in self.files.items() if (copy.path / name).exists()}
        waiting = [name for name, digest in found.items() if self.files.get(name, {}).get("digest") != digest]
        while waiting and clock() < until:
            now, waiting = waiting[:PER_RUN], waiting[PER_RUN:]
            outcome = copy.watch(now, MOST_SECONDS_OF_A_RUN)
            if outcome.ended:
                raise RuntimeError(f"{', '.join(now)} ended by {outcome.ended}; see {copy.log}")
            wrong = set(outcome.report["failed"]) | set(outcome.report.get("skipped", []))
            for name in now:
                tests = {
                    test: {"seconds": round(seconds, 4), "enters": outcome.report["entered"].get(test, [])}
                    for test, seconds in outcome.report["seconds"].items()
                    if test.split("::")[0] == name and test not in wrong
                }
                self.files[name] = {"digest": found[name], "tests": tests}
                spent = sum(entry["seconds"] for entry in tests.values())
                failing = sorted(test for test in outcome.report["failed"] if test.split("::")[0] == name)
                print(
                    f"{name}: {len(tests)} tests, {spent:.1f} s", f"failing without a mutant: {failing}" * bool(failing)
                )
            self.save()
        return not waiting

    def learn(self, seconds: dict[str, float]) -> None:
        """Take note of tests that were quicker than known, for instance because nothing was left to compile."""
        for test, took in seconds.items():
            entry = self.files[test.split("::")[0]]["tests"][test]
            entry["seconds"] = min(entry["seconds"], round(took, 4))

    def save(self) -> None:
        """Keep the map for the next run."""
        self.path.write_text(json.dumps(self.files))

    def tests_for(self, mutant: Mutant, copy: Copy, most_seconds: float) -> list[str]:
        """Return tests that enter the mutated function: those of the same room first, then the quickest."""
        file = Path(mutant.file)
        by_function = self._by_function
        package_name = file.relative_to(SOURCE).as_posix()
        tests = by_function[f"{package_name}::{mutant.function}"]
        if "@njit" in (copy.path / file).read_text(
            encoding="utf-8"
        ):  # called by compiled functions, where none is seen
            tests = tests.union(*(by_function[name] for name in callers(copy, file, mutant.function)))
        if not tests or "/dask/" in package_name:  # workers run where no call is seen
            tests = tests | by_function[package_name]
        if not tests:
            importers = (name.relative_to(SOURCE).as_posix() for name in copy.imports.importers(file))
            tests = set().union(*(by_function[name] for name in importers))
        folders = _folders_of(package_name)

        def order(test: str) -> tuple[bool, float]:
            return test.split("/")[1] not in folders, self.seconds_of([test])

        chosen, spent = [], 0.0
        for test in sorted(tests, key=order):
            spent += self.seconds_of([test])
            if spent > most_seconds and chosen:
                break
            chosen.append(test)
        return chosen

    def seconds_of(self, tests: list[str]) -> float:
        """Return how long tests take."""
        return sum(self.files[test.split("::")[0]]["tests"][test]["seconds"] for test in tests)

    @cached_property
    def _by_function(self) -> dict[str, set[str]]:
        """Tests that enter a function, and under the name of a file those that enter any function of it."""
        tests = defaultdict(set)
        for entry in self.files.values():
            for test, known in entry["tests"].items():
                for function in known["enters"]:
                    tests[function].add(test)
                    tests[function.split("::")[0]].add(test)
        return tests


def _folders_of(package_name: str) -> list[str]:
    """Return the folders of tests that mirror a file's room."""
    room, *inner = package_name.split("/")[:-1]
    return [*([f"{inner[0]}_engine"] if room == "engines" and inner else []), room]


def callers(copy: Copy, file: Path, function: str) -> set[str]:
    """Return functions that mention a compiled one, those that mention these, and so on up to ones that calls show."""
    importers = copy.imports.importers(file)
    mentions: dict[str, set[str]] = {}
    for name in importers:
        text = (copy.path / name).read_text(encoding="utf-8")
        for qualified, node in _functions(ast.parse(text)):
            words = {getattr(part, "id", getattr(part, "attr", None)) for part in ast.walk(node)}
            mentions[f"{name.relative_to(SOURCE).as_posix()}::{qualified}"] = words - {None}  # type: ignore[assignment]
    reached: set[str] = set()
    waiting = {function.split(".")[0]}
    while waiting:
        new = {name for name, words in mentions.items() if words & waiting} - reached
        reached |= new
        # Methods are called on objects: calls of them are seen, and need not be followed.
        waiting = {name.split("::")[1] for name in new if "." not in name.split("::")[1]}
    return reached


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{part.name}", part) for part in node.body if isinstance(part, ast.FunctionDef))
