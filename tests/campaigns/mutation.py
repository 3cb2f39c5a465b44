"""Mutation testing of the mathematical core: does some test fail when a line of the mathematics is changed?

    python -m tests.campaigns.mutation [--mutants 300] [--seed 0] [--files loop.py ...] [--jobs 1]
        [--limit-seconds S] [--resume FILE] [--survivors] [--test-seconds 60] [--tests kernels ...] [--folder DIR]

A seed draws mutants from the rooms of mathematics, torch and Dask included, a quota for each. Every mutant gets a copy
of the checkout in which one line is changed, and the tests that enter the changed function run there, the quickest of
its room first, until one fails. A mutant that makes tests run beyond their time, or ends the process, is killed too.
Mutants that survive are judged: ``mutating/equivalent.json`` names those that change nothing that could be
stated, each with a sentence why; for all others a test is missing.

The run can be divided: ``--limit-seconds`` starts no mutant after so many seconds, ``--resume`` goes on from a file of
results. ``--survivors`` tries those again that had survived, after tests were written. The folder (in the system's
folder for temporary files unless given) keeps the copy, compiled functions and the map from functions to tests.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.campaigns.mutating.map_of_tests import FOLDERS, TestMap
from tests.campaigns.mutating.mutants import Mutant, draw, mutants_of
from tests.campaigns.mutating.runs import Copy

CHECKOUT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).parent / "mutating" / "equivalent.json"
RESULT = "mutation.json"
FIRST_SECONDS = 8.0
PATIENCE = 5.0


def verdict(mutant: Mutant, copy: Copy, tests: TestMap, most_seconds: float) -> dict:
    """Run the tests of a mutant: a few quick ones, then the others, so that most mutants end early."""
    chosen = tests.tests_for(mutant, copy, most_seconds)
    text = mutant.applied((copy.path / mutant.file).read_text(encoding="utf-8"))
    first = next((n for n in range(1, len(chosen) + 1) if tests.seconds_of(chosen[:n]) > FIRST_SECONDS), len(chosen))
    started = time.monotonic()
    killed_by = None
    for part in filter(None, (chosen[:first], chosen[first:])):
        outcome = copy.changed(Path(mutant.file), text, part, 60.0 + PATIENCE * tests.seconds_of(part))
        failed = outcome.report["failed"]
        tests.learn({test: took for test, took in outcome.report["seconds"].items() if test not in failed})
        if outcome.ended or failed:
            killed_by = outcome.ended or failed[0]
            break
    return {
        **mutant.record(),
        "verdict": "killed" if killed_by else "survived",
        "killed_by": killed_by,
        "tests": len(chosen),
        "seconds": round(time.monotonic() - started, 1),
    }


def judged_equivalent() -> dict[tuple, str]:
    """Return the mutants judged equivalent, and why."""
    listed = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {(row["file"], row["source_line"], row["operator"], row["after"]): row["why"] for row in listed}


def with_judgements(rows: list[dict]) -> list[dict]:
    """Mark survivors that are judged equivalent."""
    reasons = judged_equivalent()
    judged = []
    for row in rows:
        why = reasons.get((row["file"], row["source_line"], row["operator"], row["after"]))
        if row["verdict"] != "killed":
            row = {**row, "verdict": "equivalent" if why else "survived"}
        judged.append(row)
    return judged


def summary(rows: list[dict]) -> str:
    """Return counts by room and the share of the killed among those that are not equivalent."""
    lines = []
    rooms: dict[str, list[str]] = {}
    for row in rows:
        parts = Path(row["file"]).parts[2:-1]
        room = "/".join(parts[:2]) if parts[0] == "engines" else parts[0]
        rooms.setdefault(room, []).append(row["verdict"])
    for room, verdicts in {**dict(sorted(rooms.items())), "all": [row["verdict"] for row in rows]}.items():
        killed, survived, equivalent = (verdicts.count(word) for word in ("killed", "survived", "equivalent"))
        share = killed / (killed + survived) if killed + survived else 1.0
        lines.append(f"{room:14} {killed:4} killed {survived:4} survived {equivalent:4} equivalent  {share:6.1%}")
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.mutation", description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=300, help="how many to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", nargs="+", help="mutate files whose paths end so, and no others")
    parser.add_argument("--jobs", type=int, default=1, help="copies of the checkout that work side by side")
    parser.add_argument("--limit-seconds", type=float, default=float("inf"), help="start nothing after so many seconds")
    parser.add_argument("--resume", type=Path, help="a file of results to go on from, written again")
    parser.add_argument("--survivors", action="store_true", help="try again what had survived and is not equivalent")
    parser.add_argument("--test-seconds", type=float, default=60.0, help="the most seconds of tests for one mutant")
    parser.add_argument(
        "--tests", nargs="+", default=FOLDERS, help="folders of tests to run, by default those of rooms"
    )
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "kernelfields-mutation")
    return parser.parse_args()


def _known(path: Path | None, survivors_again: bool) -> dict[tuple, dict]:
    """Return the verdicts of a file of results by what identifies a mutant, without those to be tried again.

    A mutant is tried again, too, if the test that killed it is gone.
    """
    if path is None or not path.exists():
        return {}
    rows = with_judgements(json.loads(path.read_text())["rows"])
    rows = [row for row in rows if _is_there(row["killed_by"] or "")]
    return {_identity(row): row for row in rows if not (survivors_again and row["verdict"] == "survived")}


def _is_there(test: str) -> bool:
    """Whether a test, by its name, is still in its file; what ended tests otherwise is no name."""
    file, separator, name = test.partition("::")
    path = CHECKOUT / file
    return not separator or (path.exists() and f"def {name.split('[')[0].split('::')[-1]}(" in path.read_text())


def _identity(row: dict) -> tuple:
    return tuple(row[name] for name in ("file", "function", "source_line", "operator", "before", "after"))


def _spread(mutants: list[Mutant]) -> list[int]:
    """Return the places of mutants in an order of which every beginning has its share of every room."""
    rooms: dict[Path, list[int]] = {}
    for place, mutant in enumerate(mutants):
        rooms.setdefault(Path(mutant.file).parent, []).append(place)
    return sorted(
        range(len(mutants)),
        key=lambda place: (rooms[of := Path(mutants[place].file).parent].index(place) + 0.5) / len(rooms[of]),
    )


def _has_a_device() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def main() -> None:
    """Draw, run, write, print."""
    arguments = _arguments()
    end = time.monotonic() + arguments.limit_seconds
    copies = [Copy(CHECKOUT, arguments.folder / (f"job-{job}" if job else ".")) for job in range(arguments.jobs)]
    tests = TestMap(arguments.folder / "map.json")
    if not tests.measure(copies[0], arguments.tests, end, time.monotonic):
        print("not all tests have been measured yet; the next run goes on from here")
        return
    mutants = draw(copies[0].path, arguments.mutants, arguments.seed, arguments.files, _has_a_device())
    known = _known(arguments.resume, arguments.survivors)
    rows = [known.get(_identity(mutant.record())) for mutant in mutants]
    waiting = iter([place for place in _spread(mutants) if rows[place] is None])

    def work(copy: Copy) -> None:
        for place in waiting:
            if time.monotonic() > end:
                return
            row = verdict(mutants[place], copy, tests, arguments.test_seconds)
            rows[place] = row
            print(
                f"{row['verdict']:9} {row['seconds']:6.1f} s  {row['file']}:{row['line']} {row['operator']}", end="  "
            )
            print(f"{row['before'][:60]!r} -> {row['after'][:60]!r}  {row['killed_by'] or ''}", flush=True)
            if arguments.resume is not None:
                kept = [row for row in rows if row is not None]
                arguments.resume.write_text(json.dumps({"rows": kept}, indent=1) + "\n")

    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(work, copies))
    tests.save()
    _report([row for row in rows if row is not None], arguments)


def _possible() -> set[tuple]:
    """Return what identifies every mutant that there could be of the files with equivalent ones."""
    files = {Path(file) for file, *_ in judged_equivalent()}
    return {mutant.key for file in files if (CHECKOUT / file).exists() for mutant in mutants_of(CHECKOUT, file)}


def _report(rows: list[dict], arguments: argparse.Namespace) -> None:
    from benchmarks.result_files import (  # imports the package, which processes with mutants must not
        CAMPAIGNS,
        write_results,
    )

    rows = with_judgements(rows)
    write_results(RESULT, rows, CAMPAIGNS)
    for row in rows:
        if row["verdict"] == "survived":
            print(f"survived: {row['file']}:{row['line']} {row['operator']} {row['before']!r} -> {row['after']!r}")
    print(summary(rows))
    for file, line, operator, after in sorted(set(judged_equivalent()) - _possible()):
        print(
            f"no mutant any more, to be taken off the list of equivalent ones: {file} {operator} {line!r} -> {after!r}"
        )
    if len(rows) < arguments.mutants:
        print(f"{len(rows)} of {arguments.mutants} mutants so far")


if __name__ == "__main__":
    main()
