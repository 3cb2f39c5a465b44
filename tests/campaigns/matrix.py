"""Every estimator x every feature, each cell run on a tiny data set and its answer checked: docs/matrix.md.

    python -m tests.campaigns.matrix                                      all cells; writes the page
    python -m tests.campaigns.matrix --estimators ChainCRF --features predict stream    some cells, with what they raise
    python -m tests.campaigns.matrix --quick                              the slice that tests run

A cell works, is refused in words, means nothing (cells/meaningless.py has the reasons), is unclear or wrong:
cells/verdicts.py. Answers are compared with the law of the labels by enumeration, or with an equivalent
estimator. Exits with 1 if a cell is unclear or wrong, or more are refused than may be.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from tests.campaigns.cells import data_forms, fitting, of_words, questions, structures, tools
from tests.campaigns.cells.features import FEATURES, Feature
from tests.campaigns.cells.meaningless import reason_for
from tests.campaigns.cells.subjects import SUBJECTS, Subject
from tests.campaigns.cells.verdicts import MARKS, NOTHING, REFUSED, UNCLEAR, WORKS, WRONG, Verdict, judge

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"
#: How many cells that mean something may be refused; those of words are refused where those of numbers are.
MOST_REFUSED = 22
#: Modules that enter features, in the order of the page.
MODULES = (questions, data_forms, structures, fitting, tools, of_words)
ROWS = sorted(FEATURES, key=lambda feature: [module.__name__ for module in MODULES].index(feature.ask.__module__))
Cells = dict[tuple[str, str], Verdict]


def run_cell(feature: Feature, subject: Subject) -> Verdict:
    """Run one cell."""
    return judge(partial(feature.ask, subject), reason_for(feature.name, subject.name))


def run_cells(features: Iterable[Feature], subjects: Iterable[Subject], *, slow: float = 5.0) -> Cells:
    """Run cells, estimator by estimator; name those that take longer than ``slow`` seconds."""
    cells: Cells = {}
    for subject in subjects:
        for feature in features:
            begin = time.perf_counter()
            verdict = cells[feature.name, subject.name] = run_cell(feature, subject)
            seconds = time.perf_counter() - begin
            if verdict.kind in (UNCLEAR, WRONG):
                _say(f"{verdict.kind}: {subject.name}, {feature.name} ({verdict.where}): {verdict.reason:.300}")
            if seconds > slow:
                _say(f"{subject.name}, {feature.name}: {seconds:.1f} s")
    return cells


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def table(cells: Cells, features: list[Feature], subjects: list[Subject]) -> str:
    """Return the matrix as text, a column for each estimator."""
    lines = [f"{number:>3} {subject.name}" for number, subject in enumerate(subjects, 1)]
    lines.append(" " * 28 + "".join(f"{number:>4}" for number in range(1, len(subjects) + 1)))
    for feature in features:
        marks = "".join(f"{MARKS[cells[feature.name, subject.name].kind]:>4}" for subject in subjects)
        lines.append(f"{feature.name:28.28}{marks}")
    return "\n".join(lines)


def counts(cells: Cells) -> Counter:
    """Return how many cells came to what."""
    return Counter(verdict.kind for verdict in cells.values())


def page(cells: Cells, features: list[Feature], subjects: list[Subject]) -> str:
    """Return the page of the documentation."""
    found = counts(cells)
    lines = [
        "# What works with what",
        "",
        f"This table has {len(subjects)} estimators and {len(features)} features. "
        "`python -m tests.campaigns.matrix` runs each of its",
        f"{len(cells):,} cells on a tiny data set, compares the results with an enumeration or with an equivalent "
        "estimator, and writes this page.",
        f"{found[WORKS]:,} cells work, {found[REFUSED]} are refused with an error that says what is not possible, and "
        f"{found[NOTHING]} make no sense for the",
        "estimator. The reasons are below.",
        "",
        "`+` works, `r` is refused, `.` makes no sense, `?` is an unclear error, `W` is a wrong result.",
        "",
    ]
    lines += [f"{number}. {subject.name}" for number, subject in enumerate(subjects, 1)]
    for group in dict.fromkeys(feature.group for feature in features):
        own = [feature for feature in features if feature.group == group]
        lines += ["", f"## {group.capitalize()}", ""]
        numbers = range(1, len(subjects) + 1)
        lines += [f"| | {' | '.join(map(str, numbers))} |", f"|---|{':-:|' * len(subjects)}"]
        for feature in own:
            marks = " | ".join(f"`{MARKS[cells[feature.name, subject.name].kind]}`" for subject in subjects)
            lines.append(f"| {feature.name} | {marks} |")
    for kind, heading in ((REFUSED, "Refused"), (NOTHING, "Makes no sense"), (UNCLEAR, "Unclear"), (WRONG, "Wrong")):
        if found[kind]:
            lines += ["", f"## {heading}", "", *_reasons(cells, kind)]
    return "\n".join(lines) + "\n"


def _reasons(cells: Cells, kind: str) -> list[str]:
    """Return a line for each reason, with the cells that have it."""
    by_reason: dict[str, dict[str, list[str]]] = {}
    for (feature, subject), verdict in cells.items():
        if verdict.kind == kind:
            # Addresses of objects, clusters and files differ from run to run.
            reason = re.sub(r"<[^>]*>|/tmp/\S*", "...", " ".join(verdict.reason.split())).replace("|", "\\|")
            by_reason.setdefault(reason, {}).setdefault(feature, []).append(subject)
    lines = []
    for reason, places in by_reason.items():
        words = "; ".join(f"{feature} ({', '.join(own)})" for feature, own in places.items())
        lines.append(f"* {words}: {reason}")
    return lines


def _chosen(names: list[str] | None, known: Iterable[str], what: str) -> list[str]:
    known = list(known)
    if unknown := [name for name in names or () if name not in known]:
        raise SystemExit(f"unknown {what} {unknown[0]!r}; there are {', '.join(known)}")
    return known if names is None else names


def main() -> int:
    """Run the matrix, show it, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--estimators", nargs="+", metavar="NAME")
    parser.add_argument("--features", nargs="+", metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="leave out engines and exports")
    given = parser.parse_args()
    names = _chosen(given.features, (feature.name for feature in ROWS), "feature")
    chosen = _chosen(given.estimators, (subject.name for subject in SUBJECTS), "estimator")
    features = [feature for feature in ROWS if feature.name in names and (feature.quick or not given.quick)]
    subjects = [subject for subject in SUBJECTS if subject.name in chosen]
    cells = run_cells(features, subjects)
    print(table(cells, features, subjects))
    found = counts(cells)
    print(", ".join(f"{found[kind]} {kind}" for kind in MARKS))
    whole = len(features) == len(ROWS) and len(subjects) == len(SUBJECTS)
    if whole:
        PAGE.write_text(page(cells, features, subjects), encoding="utf-8")
    else:
        for (feature, subject), verdict in cells.items():
            if verdict.kind == REFUSED:
                print(f"refused: {subject}, {feature} ({verdict.where}): {verdict.reason}")
    return int(bool(found[UNCLEAR] or found[WRONG] or found[REFUSED] > MOST_REFUSED))


if __name__ == "__main__":
    sys.exit(main())
