"""Parsers of addresses and names that run on python-crfsuite, with our module in its place: labels, tests and times.

    python -m benchmarks.parsers FOLDER

FOLDER has checkouts of github.com/datamade/usaddress and github.com/datamade/probablepeople; the packages themselves
are those installed. Each is imported twice, the second time with ``sys.modules["pycrfsuite"]`` replaced. Both label all
texts of the test data; then they label those without repetitions by turns, five times, in processor time of this
process: the tagger alone, on features that are there, and ``parse`` from the text on. The ratios are those of the
shortest times; the first time of ours is that of a tagger that has seen none of the texts. All have compiled sums.
Last, the package's own tests run with both modules, each in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pycrfsuite
import pytest

from benchmarks.measuring import in_process, seconds
from benchmarks.result_files import merge_results
from kernelfields import compat
from kernelfields.compat import pycrfsuite as ours

#: Folders of the test data in the checkouts, and the taggers of the package.
PACKAGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "usaddress": ("measure_performance/test_data", lambda package: package.TAGGER),
    "probablepeople": ("tests", lambda package: package.TAGGERS["generic"]),
}
# Sums of a tagger are compiled after a thousand sequences.
_ROUNDS, _WARM = 5, 1100


def read_texts(folder: Path) -> list[str]:
    """Return the labelled texts of all files of a folder."""
    parts = (part for path in sorted(folder.glob("*.xml")) for part in ElementTree.parse(path).getroot())
    return [re.sub(r"\s+", " ", "".join(part.itertext())).strip() for part in parts]


def import_with(name: str, crfsuite: ModuleType) -> ModuleType:
    """Import a package anew, with a module in the place of pycrfsuite."""
    sys.modules["pycrfsuite"] = crfsuite
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def compare(name: str, texts: list[str]) -> dict[str, Any]:
    """Return how many labellings differ, and microseconds of a text with both modules."""
    theirs, mine = import_with(name, pycrfsuite), import_with(name, ours)
    differ = sum(theirs.parse(text) != mine.parse(text) for text in texts)
    once = list(dict.fromkeys(texts))
    features = [theirs.tokens2features(theirs.tokenize(text)) for text in once]
    tagger = PACKAGES[name][1]
    fresh = tagger(import_with(name, ours))
    for _ in range(_WARM):
        fresh.tag([])
        tagger(mine).tag([])
    row: dict[str, Any] = {"package": name, "texts": len(texts), "differ": differ, "different": len(once)}
    [row["first tag by ours"]] = _shortest([fresh.tag], features, 1)
    for what, pair, given in (
        ("tag", (tagger(theirs).tag, tagger(mine).tag), features),
        ("parse", (theirs.parse, mine.parse), once),
    ):
        row[f"{what} by theirs"], row[f"{what} by ours"] = times = _shortest(pair, given, _ROUNDS)
        row[f"{what} ratio"] = times[0] / times[1]
    return row


def _shortest(actions: Iterable[Callable], given: list, rounds: int) -> list[float]:
    """Return the shortest microseconds for each of what is given, by actions that take turns."""

    def run(action: Callable) -> None:
        for each in given:
            action(each)

    found = [
        [seconds(lambda action=action: run(action), time.process_time) for action in actions] for _ in range(rounds)
    ]
    return [1e6 * min(column) / len(given) for column in zip(*found, strict=True)]


class _Counts:
    """Counts of tests by what became of them."""

    def __init__(self) -> None:
        self.passed = self.failed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed
        self.failed += report.failed


def run_tests(checkout: str, replaced: bool) -> tuple[int, int]:
    """Return how many of the tests of a checkout pass and fail."""
    if replaced:
        sys.modules |= {"pycrfsuite": ours, "sklearn_crfsuite": compat}
    os.chdir(checkout)
    counts = _Counts()
    pytest.main(["-q", "-p", "no:cacheprovider", "tests"], plugins=[counts])
    return counts.passed, counts.failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the checkouts are")
    folder = parser.parse_args().folder.resolve()
    rows = []
    for name, (data, _) in PACKAGES.items():
        row = compare(name, read_texts(folder / name / data))
        for who, replaced in (("theirs", False), ("ours", True)):
            passed, failed = in_process("benchmarks.parsers.run_tests", str(folder / name), replaced)
            row |= {f"tests passed with {who}": passed, f"tests failed with {who}": failed}
        rows.append(row)
        print(
            ", ".join(
                f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
            )
        )
    merge_results("parsers.json", rows, ("package",))


if __name__ == "__main__":
    main()
