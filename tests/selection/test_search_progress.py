"""What a search shows while it works, and its table."""

import re

import numpy as np

from kernelfields.kernels import RBF
from kernelfields.selection.candidates import Candidate
from kernelfields.selection.results import Evaluation, SearchProgress, tabulate

CANDIDATES = [Candidate({"kernel": RBF(0.5), "rank": 9, "prior_variance": s}) for s in (1.0, 10.0)]


def evaluation(candidate, score, rung=0):
    found = Evaluation(candidate, rung, 20, np.ones(2, dtype=bool))
    found.scores[:], found.fit_seconds[:], found.score_seconds[:] = score, 1.0, 1.0
    return found


EVALUATIONS = [evaluation(each, score) for each, score in zip(CANDIDATES, (-1.5, -1.25), strict=True)]


def test_a_line_for_each_path_and_the_table(capsys):
    progress = SearchProgress(True)
    progress.add(2, 30.0)
    progress.add(2, 70.0)
    progress._begin -= 600.0
    for _ in CANDIDATES:
        progress.count_fit(25.0)
    progress.report_path(EVALUATIONS, "rung 1 of 1")
    progress.show(tabulate(EVALUATIONS, "accuracy", notes=["a note"]))
    first, *table = capsys.readouterr().err.splitlines()
    # Half of the work took ten minutes.
    assert re.match(r"2 of 4 fits, 60\d\.\d s, about 10 min left  rung 1 of 1  ", first)
    assert first.endswith("rung 1 of 1  -1.2500 kernel RBF(gamma=0.5), rank 9, prior variance 10.0")
    assert table[0].strip() == "2 candidates, 2 folds; a note"
    columns = "kernel rank prior variance accuracy ± folds positions seconds"
    assert table[1].split() == columns.split()
    assert [row.split()[3] for row in table[2:]] == ["-1.2500", "-1.5000"]


def test_a_later_rung_leads_whatever_its_scores():
    later = evaluation(CANDIDATES[0], -9.0, rung=1)
    table = tabulate([*EVALUATIONS, later], "accuracy")
    assert [row[3] for row in table.rows] == ["-9.0000", "-1.2500"]
    assert str(CANDIDATES[0]) == "kernel RBF(gamma=0.5), rank 9, prior variance 1.0"
