"""Every estimator on every engine, each cell run on a tiny data set: the table of docs/engines.md.

    python -m tests.campaigns.engine_table                         all cells; writes the table
    python -m tests.campaigns.engine_table --engines torch --estimators GraphCRF    some cells, with what they raise

The questions are those of the matrix (tests/campaigns/matrix.py), asked of estimators with an engine: a fit, which is
compared with the fit by threads, fits to labels that are partly known, expectations, answers, and what comes after a
fit. A cell has a mark for each group of questions, that of the worst. What threads refuse as well means nothing here.
Exits with 1 if a cell is unclear or wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from kernelfields.engines import Dask, Threads, Torch
from tests.campaigns.cells.data_forms import agree
from tests.campaigns.cells.features import FEATURES
from tests.campaigns.cells.fitting import cluster
from tests.campaigns.cells.meaningless import reason_for
from tests.campaigns.cells.subjects import SUBJECTS, TIGHT, Subject
from tests.campaigns.cells.verdicts import MARKS, NOTHING, REFUSED, UNCLEAR, WORKS, WRONG, Verdict, judge

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
BEGIN, END = "<!-- by tests/campaigns/engine_table.py -->", "<!-- end of the table -->"
#: Engines by the names of the columns; the first is what others are compared with.
ENGINES: dict[str, Callable[[], Any]] = {
    "threads": Threads,
    "threads, memory": lambda: Threads(memory="100MB"),
    "torch": lambda: Torch("cpu"),
    "dask": lambda: Dask(cluster()),
}
FIT = "a fit"
#: Questions of each mark.
GROUPS = {
    "fit": (FIT, "a kernel without features", "sparse", "sample_weight", "solver='newton-cg'"),
    "partly known labels": ("None for unknown labels", "sets of labels", "SoftTargets"),
    "expectations": ("expected shares",),
    "answers": ("predict", "marginals", "predict_nbest", "sample", "log_likelihood", "known=", "explain"),
    "after the fit": ("certificate_", "certify", "laplace", "optimize='evidence'", "save, load"),
}
#: Probabilities agree to 1e-4, but where a fit has no gap to close: loopy beliefs, and labels of annotators.
TOLERANCES = {"GraphCRF loopy": 1e-3, "AnnotatedCRF": 1e-3}
#: Estimators without an engine.
LEFT_OUT = ("ExponentialFamilyDensity", "compat.CRF")
WORST_LAST = (NOTHING, WORKS, REFUSED, UNCLEAR, WRONG)
Cells = dict[tuple[str, str, str], Verdict]


@contextmanager
def fitted_by(engine: Any) -> Iterator[None]:
    """Let all fits of subjects run on an engine."""
    before = TIGHT.get("engine", "auto")
    TIGHT["engine"] = engine
    try:
        yield
    finally:
        TIGHT["engine"] = before


def ask(question: str, engine: Any, subject: Subject) -> Verdict:
    """Ask one question of an estimator on an engine."""
    asked = next((feature.ask for feature in FEATURES if feature.name == question), _compare)
    with fitted_by(engine):
        return judge(partial(asked, subject), reason_for(question, subject.name))


def _compare(subject: Subject) -> None:
    """Compare a fit with that by threads."""
    there = subject.model
    with fitted_by(Threads()):
        agree(subject, there, other=type(subject)().model, tolerance=TOLERANCES.get(subject.name, 1e-4))


def run(engines: list[str], subjects: list[Subject]) -> Cells:
    """Ask all questions of all estimators on engines; threads come first."""
    cells: Cells = {}
    for name in dict.fromkeys([next(iter(ENGINES)), *engines]):
        engine = ENGINES[name]()
        for given in subjects:
            subject = type(given)()
            for question in (question for group in GROUPS.values() for question in group):
                found = ask(question, engine, subject)
                usual = cells.get((next(iter(ENGINES)), given.name, question), found)
                if usual.kind in (REFUSED, NOTHING):
                    found = Verdict(NOTHING, usual.reason)
                elif found.kind in (REFUSED, UNCLEAR, WRONG):
                    sys.stderr.write(f"{found.kind}: {name}, {given.name}, {question}: {found.reason:.300}\n")
                cells[name, given.name, question] = found
    return cells


def table(cells: Cells, engines: list[str], subjects: list[Subject]) -> str:
    """Return the table, a row for each estimator, and the reasons of what is refused."""
    lines = [f"| | {' | '.join(engines)} |", f"|---|{'---|' * len(engines)}"]
    for subject in subjects:
        marks = []
        for engine in engines:
            worst = [
                max((cells[engine, subject.name, question].kind for question in group), key=WORST_LAST.index)
                for group in GROUPS.values()
            ]
            marks.append(f"`{' '.join(MARKS[kind] for kind in worst)}`")
        lines.append(f"| `{subject.name}` | {' | '.join(marks)} |")
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for (engine, name, _), verdict in cells.items():
        if verdict.kind == REFUSED and engine in engines:
            reasons.setdefault((engine, verdict.reason), {})[name] = None
    lines += ["", *(f"* {engine}, refused ({', '.join(own)}): {reason}" for (engine, reason), own in reasons.items())]
    return "\n".join(lines).strip() + "\n"


def main() -> int:
    """Run the cells, show them, write the table of the page if all were run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    known = [subject.name for subject in SUBJECTS if subject.name not in LEFT_OUT]
    parser.add_argument("--estimators", nargs="+", choices=known, default=known)
    given = parser.parse_args()
    subjects = [subject for subject in SUBJECTS if subject.name in given.estimators]
    cells = run(given.engines, subjects)
    shown = table(cells, given.engines, subjects)
    print(shown)
    if given.engines == list(ENGINES) and given.estimators == known:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{shown}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    return int(any(verdict.kind in (UNCLEAR, WRONG) for verdict in cells.values()))


if __name__ == "__main__":
    sys.exit(main())
