"""Tests of a copy of the checkout, each run in a process of its own that is ended with all it started.

A forking server holds what is slow to import and belongs to others (numpy, scipy, numba, scikit-learn, torch); the
package itself is imported by every process afresh, from the copy. Compiled functions are cached beside the copy, and
numba knows a changed function by the time and size of its file alone: a cache for a mutant leaves out every compiled
file that imports the changed one, however indirectly.
"""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.import_graph import module_imports, module_names

COPIED = ("src", "tests", "benchmarks", "docs", "examples", "experiments", "pyproject.toml", "README.md", "Makefile")
LEFT_BEHIND = shutil.ignore_patterns("__pycache__", ".pytest_cache", ".hypothesis", "*.pyc")
MOST_MEMORY = 12 * 2**30
_TICK = 0.1
SOURCE = Path("src") / "kernelfields"


class Chosen:
    """A plugin of pytest: runs the chosen tests in the given order, notes outcomes, and functions entered by each."""

    def __init__(self, tests: list[str] | None, package: Path | None = None) -> None:
        self.order = None if tests is None else {test: place for place, test in enumerate(tests)}
        self.package = None if package is None else f"{package}{os.sep}"
        self.seconds: dict[str, float] = {}
        self.entered: dict[str, set[str]] = {}
        self.failed: list[str] = []
        self.skipped: set[str] = set()

    def pytest_collection_modifyitems(self, items: list) -> None:
        """Keep the chosen tests."""
        if self.order is not None:
            items[:] = sorted((item for item in items if item.nodeid in self.order), key=self._place)

    def _place(self, item: object) -> int:
        assert self.order is not None
        return self.order[item.nodeid]  # type: ignore[attr-defined]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Watch the functions that the test enters."""
        if self.package is None:
            return
        package, seen = self.package, self.entered.setdefault(nodeid, set())

        def note(frame: object, event: str, argument: object) -> None:
            if event == "call":
                code = frame.f_code  # type: ignore[attr-defined]
                if code.co_filename.startswith(package):
                    seen.add(f"{code.co_filename[len(package) :]}::{code.co_qualname}")

        threading.setprofile(note)
        sys.setprofile(note)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Stop watching."""
        if self.package is not None:
            sys.setprofile(None)
            threading.setprofile(None)

    def pytest_runtest_logreport(self, report: object) -> None:
        """Note time and outcome."""
        name: str = report.nodeid  # type: ignore[attr-defined]
        self.seconds[name] = self.seconds.get(name, 0.0) + report.duration  # type: ignore[attr-defined]
        if report.failed:  # type: ignore[attr-defined]
            self.failed.append(name)
        if report.skipped:  # type: ignore[attr-defined]
            self.skipped.add(name)

    def pytest_collectreport(self, report: object) -> None:
        """A file that cannot be imported any more fails like a test."""
        if report.failed:  # type: ignore[attr-defined]
            self.failed.append(report.nodeid)  # type: ignore[attr-defined]


def _run(copy: str, cache: str, files: list[str], tests: list[str] | None, answer: str, watch: bool) -> None:
    """Run tests in this process, which has just been forked, and write what happened."""
    os.setsid()
    os.chdir(copy)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    with Path(answer).with_suffix(".log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    source = os.path.join(copy, "src")
    os.environ |= {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": source}
    sys.path[:] = [source, copy, *(path for path in sys.path if not Path(path).match("*/src"))]
    if not watch:  # A changed file of the same size within the same second would meet the old bytecode.
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.dont_write_bytecode = True

    import numba
    import pytest

    import kernelfields

    if not kernelfields.__file__.startswith(source):
        raise RuntimeError(f"the package comes from {kernelfields.__file__}, not from the copy at {source}")
    numba.config.CACHE_DIR = cache
    chosen = Chosen(tests, Path(source) / "kernelfields" if watch else None)
    stop = ["--continue-on-collection-errors"] if watch else ["-x"]
    options = [*stop, "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--no-header", "--tb=short"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is there already
    code = pytest.main([*options, *files], plugins=[chosen])
    report = {
        "code": int(code),
        "failed": chosen.failed,
        "skipped": sorted(chosen.skipped),
        "seconds": chosen.seconds,
        "entered": {test: sorted(functions) for test, functions in chosen.entered.items()},
    }
    Path(answer).write_text(json.dumps(report))
    sys.stdout.flush()
    os._exit(0)  # What a mutant left running, threads included, is not waited for.


@dataclass
class Outcome:
    """What a run of tests came to; ``ended`` says how, if not by itself."""

    report: dict
    ended: str = ""


class Copy:
    """A copy of the checkout in which files are changed, one at a time, and tests run."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.path = folder / "checkout"
        self.cache = folder / "compiled"
        self._changed_cache = folder / "compiled-mutant"
        self._answer = folder / "answer.json"
        self.log = folder / "answer.log"
        _mirror(checkout, self.path)
        _compiled_already(checkout / SOURCE, self.path / SOURCE, self.cache)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.campaigns.mutating.preloaded"])
        self.imports = import_graph(self.path / SOURCE)

    def run(self, tests: list[str], seconds: float, cache: Path | None = None) -> Outcome:
        """Run tests in this order until one fails."""
        files = list(dict.fromkeys(test.split("::")[0] for test in tests))
        return self._started(files, tests, seconds, cache or self.cache, watch=False)

    def whole(self, files: list[str], seconds: float) -> Outcome:
        """Run whole files of tests until one fails."""
        return self._started(files, None, seconds, self.cache, watch=False)

    def watch(self, files: list[str], seconds: float) -> Outcome:
        """Run whole files of tests, noting which functions each test enters."""
        return self._started(files, None, seconds, self.cache, watch=True)

    def _started(self, files: list[str], tests: list[str] | None, seconds: float, cache: Path, watch: bool) -> Outcome:
        self._answer.unlink(missing_ok=True)
        arguments = (str(self.path), str(cache), files, tests, str(self._answer), watch)
        process = self._context.Process(target=_run, args=arguments)
        process.start()
        for _ in range(math.ceil(seconds / _TICK)):  # not by the clock, which goes on while all of this is suspended
            process.join(_TICK)
            if not process.is_alive():
                break
        late = process.is_alive()
        assert process.pid is not None
        with contextlib.suppress(ProcessLookupError):  # where all have ended by themselves
            os.killpg(process.pid, signal.SIGKILL)  # with workers of a cluster that it may have started
        process.kill()
        process.join()
        if self._answer.exists():
            return Outcome(json.loads(self._answer.read_text()))
        return Outcome({"failed": [], "seconds": {}}, "timeout" if late else f"crash ({process.exitcode})")

    def changed(self, file: Path, text: str, tests: list[str], seconds: float) -> Outcome:
        """Run tests with another text of one source file, which is put back afterwards."""
        path = self.path / file
        original, stamp = path.read_bytes(), path.stat()
        try:
            path.write_text(text, encoding="utf-8")
            return self.run(tests, seconds, self._cache_without(file))
        finally:
            path.write_bytes(original)
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    def _cache_without(self, file: Path) -> Path:
        """Return a cache in which no compiled function can hold a line of the file."""
        stale = [name for name in self.imports.importers(file) if "@njit" in (self.path / name).read_text()]
        if not stale:
            return self.cache
        shutil.rmtree(self._changed_cache, ignore_errors=True)
        shutil.copytree(self.cache, self._changed_cache, copy_function=os.link)
        for name in stale:
            for folder in self._changed_cache.glob(f"{name.parent.name}_*"):
                for entry in folder.glob(f"{name.stem}.*"):
                    entry.unlink()
        return self._changed_cache


def _mirror(checkout: Path, copy: Path) -> None:
    """Copy what tests need; unchanged files keep their time, so that compiled code stays valid."""
    for name in COPIED:
        source, target = checkout / name, copy / name
        if source.is_dir():
            kept = {path.relative_to(source) for path in source.rglob("*")}
            for path in target.rglob("*") if target.exists() else ():
                if path.is_file() and path.suffix == ".py" and path.relative_to(target) not in kept:
                    path.unlink()
            shutil.copytree(source, target, ignore=LEFT_BEHIND, dirs_exist_ok=True)
        elif source.exists():
            copy.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def _compiled_already(package: Path, copy: Path, cache: Path) -> None:
    """Put what numba has compiled for the checkout where it looks for that of the copy, if it is not there yet.

    It is valid for files of the same time and size, which those of the copy have.
    """
    from numba.core.caching import _CacheLocator  # the one place that knows the names of its folders

    for compiled in package.rglob("__pycache__/*.nb[ic]"):
        source = copy / compiled.parent.parent.relative_to(package) / "any.py"
        target = cache / _CacheLocator.get_suitable_cache_subpath(str(source)) / compiled.name
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(compiled, target)


class ImportGraph:
    """Which files of the package import which, wherever in a file."""

    def __init__(self, imports: dict[Path, set[Path]]) -> None:
        self.imports = imports

    def importers(self, file: Path) -> set[Path]:
        """Return the files that reach a file by imports, and the file itself."""
        reached, waiting = set(), {file}
        while waiting:
            reached |= waiting
            waiting = {name for name, imported in self.imports.items() if imported & waiting} - reached
        return reached


def import_graph(package: Path) -> ImportGraph:
    """Read the import statements of all files; paths are relative to the checkout."""
    paths = {name: path.relative_to(package.parents[1]) for path, name in module_names(package).items()}
    imports = module_imports(package, dynamic=False)
    return ImportGraph({paths[name]: {paths[module] for module in imports[name]} for name in paths})
