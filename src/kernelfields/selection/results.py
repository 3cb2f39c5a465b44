"""Results of a search: one evaluation per candidate and rung, as arrays, as a table, and as progress.

cv_results_ is a dict of arrays with a row per evaluation, as in scikit-learn's GridSearchCV and HalvingGridSearchCV.
Ranks order later rungs before earlier ones, and higher scores first within a rung; scores of different rungs are not
compared, because they come from different numbers of positions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from kernelfields.numerics.parameters import is_auto
from kernelfields.numerics.user_warnings import is_watched
from kernelfields.numerics.wording import inflect
from kernelfields.reports.progress import LateLine, format_duration
from kernelfields.reports.tables import PlainValues, Table
from kernelfields.selection.candidates import Candidate
from kernelfields.selection.variance_path import FoldFit


@dataclass(eq=False)
class Evaluation:
    """A candidate scored on the folds of a rung.

    ``scorable`` marks the folds with items to score. ``scores`` and seconds are one per fold; scores are NaN in the
    other folds and where a fit failed, which is the ``error``.
    """

    candidate: Candidate
    rung: int
    n_positions: int
    scorable: np.ndarray
    n_dropped: int = 0
    n_unconverged: int = 0
    error: Exception | None = None
    scores: np.ndarray = field(init=False)
    fit_seconds: np.ndarray = field(init=False)
    score_seconds: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.scores = np.full(len(self.scorable), np.nan)
        self.fit_seconds, self.score_seconds = np.zeros((2, len(self.scorable)))

    def add(self, fold: int, score: float, fit: FoldFit, seconds: float) -> None:
        """Add the score and the seconds of the fit to one fold."""
        self.scores[fold], self.fit_seconds[fold], self.score_seconds[fold] = score, fit.seconds, seconds
        self.n_unconverged += not fit.converged

    @property
    def mean(self) -> float:
        """The mean score of the folds that can be scored; NaN if a score is missing."""
        return float(self.scores[self.scorable].mean())

    @property
    def spread(self) -> float:
        """The standard deviation of the scores; NaN if scores are missing or infinite."""
        return float(self.scores[self.scorable].std()) if np.isfinite(self.mean) else np.nan

    @property
    def key(self) -> tuple[int, float]:
        """A sort key, larger for better evaluations: the rung, then the mean score, failures last."""
        return self.rung, -np.inf if np.isnan(self.mean) else self.mean


def sort_evaluations(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Sort evaluations from the best to the worst; equal evaluations keep their order."""
    return sorted(evaluations, key=lambda evaluation: evaluation.key, reverse=True)


def as_arrays(evaluations: Sequence[Evaluation]) -> PlainValues:
    """Return the arrays of cv_results_, with masked arrays for parameters as in GridSearchCV."""

    def column(name: str) -> np.ndarray:
        return np.array([getattr(evaluation, name) for evaluation in evaluations])

    keys = [evaluation.key for evaluation in evaluations]
    params = [dict(evaluation.candidate.params) for evaluation in evaluations]
    values = {f"param_{name}": np.ma.empty(len(params), dtype=object) for name in params[0]}
    for row, own in enumerate(params):
        for name, value in own.items():
            values[f"param_{name}"][row] = value
    return {
        "iter": column("rung"),
        "n_resources": column("n_positions"),
        "mean_fit_time": column("fit_seconds").mean(axis=1),
        "std_fit_time": column("fit_seconds").std(axis=1),
        "mean_score_time": column("score_seconds").mean(axis=1),
        "std_score_time": column("score_seconds").std(axis=1),
        **values,
        "params": params,
        **{f"split{fold}_test_score": scores for fold, scores in enumerate(column("scores").T)},
        "mean_test_score": column("mean"),
        "std_test_score": column("spread"),
        "rank_test_score": np.array([1 + sum(other > key for other in keys) for key in keys], dtype=np.int32),
        "n_dropped": column("n_dropped"),
        "n_unconverged": column("n_unconverged"),
    }


def tabulate(
    evaluations: Sequence[Evaluation],
    scoring: str,
    noun: str = "sequence",
    part: str = "position",
    notes: Sequence[str] = (),
    top: int | None = None,
) -> Table:
    """Return a table of the last evaluation of each candidate, with at most ``top`` rows.

    Items are called ``noun``, their positions ``part``; ``notes`` are further sentences of the caption.
    """
    by_candidate: dict[Candidate, Evaluation] = {}
    for evaluation in sort_evaluations(evaluations):
        by_candidate.setdefault(evaluation.candidate, evaluation)
    furthest = list(by_candidate.values())
    rows = []
    for found in furthest[:top]:
        params = [f"{value:g}" if isinstance(value, float) else str(value) for value in found.candidate.params.values()]
        scores = ["failed", ""] if np.isnan(found.mean) else [f"{found.mean:.4f}", f"{found.spread:.4f}"]
        rows.append([*params, *scores, str(found.n_positions), f"{found.fit_seconds.sum():.2f}"])
    parts = [f"{inflect(len(furthest), 'candidate')}, {inflect(len(furthest[0].scores), 'fold')}"]
    if len(rows) < len(furthest):
        parts[0] = f"best {len(rows)} of {parts[0]}"
    if dropped := furthest[0].n_dropped:
        parts.append(
            f"{inflect(dropped, f'held-out {noun}')} {'was' if dropped == 1 else 'were'} not scored: the training part "
            "of their fold lacks a label of theirs"
        )
    if short := sum(found.n_unconverged for found in furthest):
        parts.append(f"{inflect(short, 'fit')} stopped short of the tolerance")
    names = [name.replace("_", " ") for name in evaluations[0].candidate.params]
    columns = [*names, scoring, "± folds", f"{part}s", "seconds"]
    return Table(columns, rows, "; ".join([*parts, *notes]))


class SearchProgress:
    """Progress of a search on standard error, with an estimate of the remaining time; a context manager around it.

    It has a line for each path and ends with the table of the search (``every_path``), or one ``line`` that every fit
    rewrites, or nothing.
    """

    def __init__(self, every_path: bool = False, line: LateLine | None = None):
        self.n_fits, self._work = 0, 0.0
        self._done, self._work_done = 0, 0.0
        self._every_path, self._line = every_path, line

    def __enter__(self) -> Self:
        if self._line is not None:
            self._line.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._line is not None:
            self._line.__exit__(*exception)

    def add(self, n_fits: int, work: float) -> None:
        """Add a number of fits to the total, each with an amount of ``work`` in any unit; their time begins now."""
        self._begin = time.monotonic()
        self.n_fits += n_fits
        self._work += work
        if self._line is not None:
            self._line.write(self._describe())

    def count_fit(self, work: float) -> None:
        """Count a fit of one candidate on one fold."""
        self._done += 1
        self._work_done += work
        if self._line is not None:
            self._line.write(self._describe())

    def report_path(self, evaluations: list[Evaluation], where: str) -> None:
        """Report the evaluations of the candidates of one path."""
        leading, seconds = sort_evaluations(evaluations)[0], time.monotonic() - self._begin
        self.show(f"{self._describe(f', {seconds:.1f} s')}  {where}  {leading.mean:.4f} {leading.candidate}")

    def show(self, text: object) -> None:
        """Print a line or a table, in a progress with lines for each path."""
        if self._every_path:
            sys.stderr.write(f"{text}\n")

    def _describe(self, so_far: str = "") -> str:
        """Return how many fits are done, how long that took, and about how many seconds are left."""
        seconds = time.monotonic() - self._begin
        left = seconds * (self._work - self._work_done) / self._work_done if self._work_done else 0.0
        rest = f", about {format_duration(left)} left" if 0 < self._done < self.n_fits else ""
        return f"{self._done} of {self.n_fits} fits{so_far}{rest}"


def make_progress(verbose: int | str) -> SearchProgress:
    """Return the progress of a search at this level of messages; "auto" is one line where somebody watches."""
    if is_auto(verbose):
        return SearchProgress(line=LateLine(sys.stderr) if is_watched() else None)
    return SearchProgress(every_path=bool(verbose))
