"""Results of a search: one evaluation per candidate and rung, as arrays, as a table, and while it goes on.

cv_results_ is a dict of arrays with a row per evaluation, as scikit-learn's GridSearchCV and HalvingGridSearchCV
have it. Ranks put a later rung before an earlier one, and higher scores first within a rung; scores of different
rungs are not compared, because they come from different numbers of positions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text

from kernelfields.reports.page import Shown
from kernelfields.reports.tables import Table
from kernelfields.selection.candidates import Candidate


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A candidate scored on the folds of a rung.

    ``scores`` and seconds are one per fold; ``scorable`` marks the folds with items to score, NaN stands for
    the others and for fits that failed, of which ``error`` says why.
    """

    candidate: Candidate
    rung: int
    n_positions: int
    scores: np.ndarray
    scorable: np.ndarray
    fit_seconds: np.ndarray
    score_seconds: np.ndarray
    n_dropped: int
    n_unconverged: int
    error: Exception | None = None

    @property
    def mean(self) -> float:
        """The mean over the folds that can be scored; NaN if a score is missing there."""
        return float(self.scores[self.scorable].mean())

    @property
    def spread(self) -> float:
        """The standard deviation over those folds; NaN where scores are missing or infinite."""
        return float(self.scores[self.scorable].std()) if np.isfinite(self.mean) else np.nan

    @property
    def key(self) -> tuple[int, float]:
        """Larger for better ones: rung first, then mean score; one that failed is last in its rung."""
        return self.rung, -np.inf if np.isnan(self.mean) else self.mean


def best_first(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return evaluations from the best to the worst; those with equal scores in the order they came."""
    return sorted(evaluations, key=lambda each: each.key, reverse=True)


def as_arrays(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    """Return the arrays of cv_results_."""
    order = sorted({each.key for each in evaluations}, reverse=True)
    counts = [sum(each.key > key for each in evaluations) for key in order]
    rank = dict(zip(order, counts, strict=True))
    scores = np.array([each.scores for each in evaluations])
    return {
        "iter": np.array([each.rung for each in evaluations]),
        "n_resources": np.array([each.n_positions for each in evaluations]),
        **_times("fit", [each.fit_seconds for each in evaluations]),
        **_times("score", [each.score_seconds for each in evaluations]),
        **{f"param_{name}": _objects(name, evaluations) for name in evaluations[0].candidate.params},
        "params": [dict(each.candidate.params) for each in evaluations],
        **{f"split{fold}_test_score": scores[:, fold] for fold in range(scores.shape[1])},
        "mean_test_score": np.array([each.mean for each in evaluations]),
        "std_test_score": np.array([each.spread for each in evaluations]),
        "rank_test_score": np.array([1 + rank[each.key] for each in evaluations], dtype=np.int32),
        "n_dropped": np.array([each.n_dropped for each in evaluations]),
        "n_unconverged": np.array([each.n_unconverged for each in evaluations]),
    }


def _times(name: str, seconds: list[np.ndarray]) -> dict[str, np.ndarray]:
    return {
        f"mean_{name}_time": np.array([each.mean() for each in seconds]),
        f"std_{name}_time": np.array([each.std() for each in seconds]),
    }


def _objects(name: str, evaluations: Sequence[Evaluation]) -> np.ma.MaskedArray:
    """Return the values of a parameter as GridSearchCV does, in an array of objects of which none is masked."""
    values = np.ma.empty(len(evaluations), dtype=object)
    for index, each in enumerate(evaluations):
        values[index] = each.candidate.params[name]
    return values


@dataclass(frozen=True)
class SearchTable(Shown):
    """The candidates of a search, the best first; print it, or let a notebook show it."""

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def parts(self) -> list[str | Table]:
        """Return the heading and the table."""
        return [self.heading, Table(self.columns, self.rows)]

    def __rich__(self) -> RichTable:
        table = RichTable(title=Text(self.heading), title_justify="left", box=None, pad_edge=False)
        for index, column in enumerate(self.columns):
            table.add_column(Text(column), justify="right" if index else "left", no_wrap=not index)
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table


@dataclass(frozen=True)
class Words:
    """How a table calls scores, items and positions; ``notes`` are further sentences of its heading."""

    scoring: str
    noun: str = "sequence"
    counted: str = "positions"
    notes: Sequence[str] = ()


def tabulate(evaluations: Sequence[Evaluation], words: Words, top: int | None = None) -> SearchTable:
    """Return the furthest evaluation of each candidate as a table; ``top`` limits the number of rows."""
    furthest: list[Evaluation] = []
    for each in best_first(evaluations):
        if all(each.candidate is not other.candidate for other in furthest):
            furthest.append(each)
    shown = furthest[:top]
    names = list(evaluations[0].candidate.params)
    rows = [
        [
            *(_shown(each.candidate.params[name]) for name in names),
            "failed" if np.isnan(each.mean) else f"{each.mean:.4f}",
            "" if np.isnan(each.mean) else f"{each.spread:.4f}",
            str(each.n_positions),
            f"{each.fit_seconds.sum():.2f}",
        ]
        for each in shown
    ]
    columns = [*(name.replace("_", " ") for name in names), words.scoring, "± folds", words.counted, "seconds"]
    return SearchTable(_heading(furthest, len(shown), words), columns, rows)


def _heading(furthest: Sequence[Evaluation], n_shown: int, words: Words) -> str:
    parts = [f"{len(furthest)} candidates, {len(furthest[0].scores)} folds"]
    if n_shown < len(furthest):
        parts[0] = f"best {n_shown} of {parts[0]}"
    if furthest[0].n_dropped:
        parts.append(
            f"{furthest[0].n_dropped} held-out {words.noun}s were not scored: the training part of their fold lacks a "
            "label of theirs"
        )
    if short := sum(each.n_unconverged for each in furthest):
        parts.append(f"{short} fits stopped short of their tolerance")
    return "; ".join([*parts, *words.notes])


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


class SearchProgress:
    """Shows where a search is; use as a context manager around it.

    A line is rewritten on a terminal, elsewhere there is a line per path; all on standard error, so that results on
    standard output stay clean. ``n_fits`` fits are ``work`` together, in any unit: the time left is estimated from the
    time that the work so far took.
    """

    def __init__(self, enabled: bool, n_fits: int, work: float, *, console: Console | None = None):
        self.console = console or Console(stderr=True, quiet=not enabled)
        self.n_fits = n_fits
        self._work = work
        self._done, self._work_done = 0, 0.0
        self._begin = time.monotonic()
        self._live: Live | None = None
        self._best: Evaluation | None = None

    def __enter__(self) -> SearchProgress:
        if self.console.is_terminal and not self.console.quiet:
            self._live = Live(console=self.console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def add(self, n_fits: int, work: float) -> None:
        """Count fits that have come up on the way."""
        self.n_fits += n_fits
        self._work += work

    def fitted(self, candidate: Candidate, where: str, work: float) -> None:
        """Report a fit of one candidate on one fold; ``where`` names the rung and the fold."""
        self._done += 1
        self._work_done += work
        if self._live is not None:
            best = "" if self._best is None else f"  best {self._best.mean:.4f} {self._best.candidate.words}"
            self._live.update(Text(f"{self._status()}  {where}  {candidate.words}{best}"))

    def evaluated(self, evaluations: list[Evaluation], where: str) -> None:
        """Report that all folds of the candidates of one path are done."""
        self._best = best_first([*evaluations, *([] if self._best is None else [self._best])])[0]
        if self._live is None:
            leading = best_first(evaluations)[0]
            self.say(f"{self._status()}  {where}  {leading.mean:.4f} {leading.candidate.words}")

    def say(self, line: str) -> None:
        """Print a line; it stays above the one that is rewritten."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def show(self, table: SearchTable) -> None:
        """Print the table of the search."""
        if not self.console.quiet:
            self.console.print(table)

    def _status(self) -> str:
        seconds = time.monotonic() - self._begin
        left = seconds * (self._work - self._work_done) / self._work_done if self._work_done else 0.0
        rest = f", about {duration(left)} left" if 0 < self._done < self.n_fits else ""
        return f"{self._done} of {self.n_fits} fits, {seconds:.1f} s{rest}"


def duration(seconds: float) -> str:
    """Return seconds in a unit that suits them."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(1.0, seconds):.0f} s"
