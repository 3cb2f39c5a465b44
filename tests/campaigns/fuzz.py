"""Damaged files and random calls against the library: only clear errors, no hang, no flood of memory, no NaN.

    make fuzz                                                     a few minutes
    python -m tests.campaigns.fuzz --cases 20000 --seconds 3600        as many cases of every target, an hour at most
    python -m tests.campaigns.fuzz --targets ChainCRF csv --only 123   one case once more, with its note
    python -m tests.campaigns.fuzz --targets csv --cases 5000 --keep   counts of these targets into results/fuzz.json

tests/campaigns/fuzzing/verdicts.py says what counts as a failure. Every case follows from the seed, its target and its
number. Failing cases are written to a folder, files and reasons, and the exit code says whether there were any.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.result_files import CAMPAIGNS, merge_results
from tests.campaigns.fuzzing import calls, crfsuite_files, document_files, model_files
from tests.campaigns.fuzzing.calls import Calls
from tests.campaigns.fuzzing.campaign import Target, make_case, run_target
from tests.campaigns.fuzzing.crfsuite_files import CRFsuiteFiles
from tests.campaigns.fuzzing.document_files import DocumentFiles
from tests.campaigns.fuzzing.model_files import CommandModels, ModelFiles, ServedModels
from tests.campaigns.fuzzing.sequence_files import TextFiles
from tests.campaigns.fuzzing.verdicts import FAILED, KINDS, VALID, judge

TEXTS = ("columns", "templates", "crfsuite", "csv", "toml")
TARGETS = (*model_files.KINDS, *crfsuite_files.NAMES, *TEXTS, *document_files.NAMES, *calls.NAMES)


def make_target(name: str) -> Target:
    """Return the target of a name."""
    if name in calls.NAMES:
        return Calls(name)
    if name in crfsuite_files.NAMES:
        return CRFsuiteFiles(name)
    if name in document_files.NAMES:
        return DocumentFiles(name)
    if name in model_files.KINDS:
        return {"command": CommandModels, "served": ServedModels}.get(name, ModelFiles)(name)
    return TextFiles(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000, help="cases of each target")
    parser.add_argument("--seconds", type=float, default=600.0, help="time for all targets together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), metavar="NAME", help=", ".join(TARGETS))
    parser.add_argument("--failures", type=Path, default=Path("build/fuzz"), help="folder for failing cases")
    parser.add_argument("--keep", action="store_true", help="write the counts into results/fuzz.json")
    parser.add_argument("--only", type=int, help="run the case of this number in this process")
    given = parser.parse_args()
    if unknown := [name for name in given.targets if name not in TARGETS]:
        parser.error(f"unknown target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    if given.only is not None:
        return sum(_show(name, given.seed, given.only) for name in given.targets)
    return _campaign(given)


def _show(name: str, seed: int, number: int) -> bool:
    target = make_target(name)
    target.prepare()
    case = make_case(target, seed, number)
    verdict = judge(case)
    print(f"{name} {number}: {verdict.kind} {verdict.reason}\n{case.note}")
    return verdict.kind == FAILED


def _campaign(given: argparse.Namespace) -> int:
    ends, rows = time.monotonic() + given.seconds, []
    print(f"{'target':32}" + "".join(f"{kind:>22}" for kind in KINDS) + f"{'seconds':>10}")
    for left, name in zip(range(len(given.targets), 0, -1), given.targets, strict=True):
        started = time.monotonic()
        # What others left over is for those that come after.
        counts = run_target(
            make_target, name, given.cases, (ends - started) / left, given.seed, given.failures, _complain
        )
        seconds = time.monotonic() - started
        print(f"{name:32}" + "".join(f"{counts[kind]:>22}" for kind in KINDS) + f"{seconds:>10.1f}", flush=True)
        rows.append(_row(name, given.seed, counts))
    failures = sum(row[FAILED] for row in rows)
    if given.keep:
        merge_results("fuzz.json", rows, ("target",), CAMPAIGNS)
    print(f"{failures} failures" + (f", see {given.failures}" if failures else ""))
    return int(failures > 0)


def _row(name: str, seed: int, counts: Counter) -> dict[str, Any]:
    outcomes = {kind: counts[kind] for kind in KINDS}
    checksums = {VALID: counts[VALID]} if counts[VALID] else {}
    return {"target": name, "seed": seed, "cases": sum(outcomes.values()), **checksums, **outcomes}


def _complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
