"""Mutation campaign of the paper: does ``tests/paper`` alone notice a wrong version of each numbered statement?

    python -m tests.campaigns.paper_mutation [--statements "Eq. 30" "Lemma 9" ...] [--limit-seconds S] [--resume FILE]
        [--jobs 1] [--folder DIR]

``mutating/paper.json`` holds the wrong versions as data: the statements, what is wrong in words, a file, the text that
is replaced and what replaces it, and the file of ``tests/paper`` that is run first. Every one is put into a copy of
the checkout, and the tests of the paper run there, those of that file first, the quickest first, until one fails. Those
that read docs/paper.md are left out: they would notice names, and no mathematics. A wrong version that survives shows a
statement that no test holds.

The first run compiles nothing that the checkout has compiled. Each takes 3 to 12 s, all 98 took 629 s on a busy core.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.campaigns.mutating.runs import Copy

CHECKOUT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).parent / "mutating" / "paper.json"
TESTS = Path("tests") / "paper"
READS_THE_PAGE = "test_paper_map.py"
RESULT = "paper_mutation.json"
PATIENCE, AT_LEAST = 10.0, 120.0
FIRST_RUN = 1800.0


@dataclass(frozen=True)
class WrongVersion:
    """One wrong version of some statements of the paper: a text of a file and what it is replaced by."""

    statements: tuple[str, ...]
    wrong: str
    file: str
    before: str
    after: str
    first: str

    def applied(self, text: str) -> str:
        """Return the text of the file with the replacement; ValueError unless it has its place exactly once."""
        if (count := text.count(self.before)) != 1:
            raise ValueError(f"{self.wrong!r} needs its text once in {self.file}, which has it {count} times")
        return text.replace(self.before, self.after)


def wrong_versions() -> list[WrongVersion]:
    """Return the table."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))
    return [WrongVersion(**{**row, "statements": tuple(row["statements"])}) for row in rows]


def seconds_of_tests(copy: Copy) -> dict[str, float]:
    """Run the tests of the paper with nothing changed; return how long each takes. RuntimeError if one fails."""
    files = sorted(path.name for path in (copy.path / TESTS).glob("test_*.py"))
    outcome = copy.whole([str(TESTS / name) for name in files if name != READS_THE_PAGE], FIRST_RUN)
    if outcome.ended or outcome.report["failed"]:
        raise RuntimeError(f"with nothing changed: {outcome.ended or outcome.report['failed'][0]}; see {copy.log}")
    return outcome.report["seconds"]


def verdict(version: WrongVersion, copy: Copy, seconds: dict[str, float]) -> dict:
    """Run the tests against a wrong version, those of its own file first; return what killed it, None if nothing."""
    order = sorted(seconds, key=lambda test: (Path(test.split("::")[0]).name != version.first, seconds[test]))
    text = version.applied((copy.path / version.file).read_text(encoding="utf-8"))
    started = time.monotonic()
    outcome = copy.changed(Path(version.file), text, order, AT_LEAST + PATIENCE * sum(seconds.values()))
    killed_by = outcome.ended or next(iter(outcome.report["failed"]), None)
    return {**asdict(version), "killed_by": killed_by, "seconds": round(time.monotonic() - started, 1)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.paper_mutation", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--statements", nargs="+", help='such as "Eq. 30"; all if left out')
    parser.add_argument("--jobs", type=int, default=1, help="copies of the checkout that work side by side")
    parser.add_argument("--limit-seconds", type=float, default=float("inf"), help="start nothing after so many seconds")
    parser.add_argument("--resume", type=Path, help="a file of results: what it says was killed is not tried again")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "kernelfields-paper-mutation")
    return parser.parse_args()


def main() -> None:
    """Run, print, write."""
    arguments = _arguments()
    end = time.monotonic() + arguments.limit_seconds
    chosen = [
        each
        for each in wrong_versions()
        if arguments.statements is None or set(each.statements) & set(arguments.statements)
    ]
    known: dict[tuple, dict] = {}
    if arguments.resume is not None and arguments.resume.exists():
        rows = json.loads(arguments.resume.read_text())["rows"]
        known = {(row["file"], row["before"], row["after"]): row for row in rows if row["killed_by"]}
    found: dict[WrongVersion, dict] = {}
    for each in chosen:
        if (row := known.get((each.file, each.before, each.after))) is not None:
            found[each] = {**row, **asdict(each)}
    copies = [Copy(CHECKOUT, arguments.folder / (f"job-{job}" if job else ".")) for job in range(arguments.jobs)]
    seconds = seconds_of_tests(copies[0])
    print(f"{len(seconds)} tests of the paper, {sum(seconds.values()):.0f} s with nothing changed", flush=True)
    waiting = iter([each for each in chosen if each not in found])

    def work(copy: Copy) -> None:
        for each in waiting:
            if time.monotonic() > end:
                return
            row = found[each] = verdict(each, copy, seconds)
            state = "killed" if row["killed_by"] else "SURVIVED"
            print(f"{state:9} {row['seconds']:6.1f} s  {', '.join(each.statements)}: {each.wrong}", end="  ")
            print(row["killed_by"] or "", flush=True)
            if arguments.resume is not None:
                arguments.resume.write_text(json.dumps({"rows": list(found.values())}, indent=1) + "\n")

    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(work, copies))
    _report([found[each] for each in chosen if each in found], len(chosen), arguments.statements is None)


def _report(rows: list[dict], n_chosen: int, complete: bool) -> None:
    from benchmarks.result_files import CAMPAIGNS, write_results  # imports the package, which mutants must not see

    survivors = [row for row in rows if not row["killed_by"]]
    for row in survivors:
        print(f"survived: {', '.join(row['statements'])}: {row['wrong']} ({row['file']})")
    spent = sum(row["seconds"] for row in rows)
    print(f"{len(rows) - len(survivors)} of {len(rows)} killed by tests/paper alone, {spent:.0f} s")
    if len(rows) < n_chosen:
        print(f"{len(rows)} of {n_chosen} wrong versions so far")
    elif complete:
        write_results(RESULT, rows, CAMPAIGNS)


if __name__ == "__main__":
    main()
