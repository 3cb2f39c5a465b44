"""What a search shows while it works, and its table."""

import io
import re
import sys
import time
from functools import partial

import numpy as np
import pytest

from kernelfields import FieldSearchCV, KernelClassifier
from kernelfields.kernels import RBF
from kernelfields.reports.progress import LateLine
from kernelfields.selection import results
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


class Screen(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self):
        return True


def search_at_a_prompt(monkeypatch, scoring="auto", **settings):
    """Fit a search of six fits where standard error is a terminal; return what came there."""
    screen = Screen()
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    monkeypatch.setattr(sys, "stderr", screen)
    X = np.random.default_rng(0).normal(size=(60, 2))
    field = KernelClassifier("linear", verbose=0)
    search = FieldSearchCV(field, prior_variances=[0.1, 1.0], scoring=scoring, random_state=0, **settings)
    search.fit(X, (X[:, 0] > 0).astype(int))
    return screen.getvalue()


def test_a_long_search_at_a_prompt_has_one_line(monkeypatch):
    monkeypatch.setattr(results, "LateLine", partial(LateLine, after=0.0, every=0.001))

    def slow_score(estimator, X, y):
        """Wait until the line says how many fits there are."""
        while not re.search(r"\d of 6 fits", sys.stderr.getvalue()):
            time.sleep(0.001)
        return estimator.score(X, y)

    shown = search_at_a_prompt(monkeypatch, slow_score)
    assert shown.count("\n") == 1
    assert shown.split("\r")[-1].startswith("done after")


def test_the_line_of_a_search_says_how_many_fits_are_done_and_what_is_left():
    screen = Screen()
    with SearchProgress(line=LateLine(screen, after=0.0, every=0.001)) as progress:
        progress.add(4, 100.0)
        progress._begin -= 600.0
        progress.count_fit(25.0)
        while "1 of 4 fits, about 30 min left" not in screen.getvalue():
            time.sleep(0.001)
        progress.report_path(EVALUATIONS, "rung 1 of 1")
        progress.show("a table")
    assert "rung" not in screen.getvalue()
    assert "table" not in screen.getvalue()


@pytest.mark.parametrize("settings", [{}, {"verbose": 0}])
def test_short_searches_and_those_told_to_be_silent_show_nothing(settings, monkeypatch):
    if settings:
        monkeypatch.setattr(results, "LateLine", partial(LateLine, after=0.0, every=0.001))
    else:
        monkeypatch.setattr(results, "LateLine", partial(LateLine, after=60.0))
    assert search_at_a_prompt(monkeypatch, **settings) == ""


def test_a_search_in_a_script_shows_nothing(capsys, monkeypatch):
    monkeypatch.setattr(results, "LateLine", partial(LateLine, after=0.0, every=0.001))
    X = np.arange(18.0)[:, None]
    FieldSearchCV(KernelClassifier("linear"), prior_variances=[1.0], random_state=0).fit(X, X[:, 0] > 8)
    assert capsys.readouterr().err == ""


def test_a_level_that_is_none_is_refused():
    with pytest.raises(ValueError, match="verbose must be"):
        FieldSearchCV(KernelClassifier(), verbose=-1).fit([[0.0], [1.0]], ["a", "b"])
