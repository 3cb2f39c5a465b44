"""Progress of a fit: what a terminal shows, what a log file gets, and how long it will still take."""

import io
import math

import numpy as np
import pytest
from rich.console import Console

from kernelfields.reports import progress
from kernelfields.reports.progress import FitProgress, describe, estimated_seconds_left, in_words
from kernelfields.solvers import Iteration


def halving(count, seconds=2.0, value=100.0):
    """A fit whose relative gap halves with every iteration."""
    return [
        Iteration(index, 2.0 * index, seconds * index, value, value * (1 - 0.5**index), 1.0, 1.0)
        for index in range(count)
    ]


@pytest.mark.parametrize("count", [4, 7, 12])
@pytest.mark.parametrize("tol", [1e-4, 1e-6])
def test_a_gap_that_halves_reaches_tol_when_foretold(count, tol):
    expected = 2.0 * (math.log2(1 / tol) - (count - 1))
    assert estimated_seconds_left(halving(count), tol) == pytest.approx(expected)


def test_max_iter_limits_what_is_left():
    assert estimated_seconds_left(halving(11), 1e-6, max_iter=15) == pytest.approx(2.0 * (15 - 10))
    assert estimated_seconds_left(halving(11), 1e-6, max_iter=1000) == estimated_seconds_left(halving(11), 1e-6)


def test_nothing_is_foretold_too_early_or_while_the_gap_stands_still():
    assert estimated_seconds_left(halving(3), 1e-6) is None
    assert estimated_seconds_left(halving(8), None) is None
    still = [Iteration(index, 1.0, 1.0 * index, 100.0, 50.0, 1.0, 1.0) for index in range(8)]
    assert estimated_seconds_left(still, 1e-6) is None
    assert estimated_seconds_left(still, 1e-6, max_iter=20) == pytest.approx(13.0)
    unbounded = [Iteration(index, 1.0, 1.0 * index, 100.0, -math.inf, 1.0, 1.0) for index in range(8)]
    assert estimated_seconds_left(unbounded, 1e-6) is None


def test_nothing_is_left_once_the_gap_is_there():
    assert estimated_seconds_left(halving(12), 0.1) == 0.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (9.0, "9 s"), (150, "2 min"), (5940, "99 min"), (9000, "2.5 h")],
)
def test_durations_in_words(seconds, words):
    assert in_words(seconds) == words


def shown(history, *, terminal, verbose=1, **settings):
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=80, color_system=None)
    with FitProgress(verbose, console=console, **settings) as watcher:
        watcher.announce("choosing a basis")
        for iteration in history:
            watcher(iteration)
    return text.getvalue()


def test_a_file_gets_the_first_and_the_last_line_of_a_quick_fit():
    lines = shown(halving(9), terminal=False, tol=1e-6).splitlines()
    assert lines[:2] == ["choosing a basis", describe(halving(1)[0])]
    assert lines[2].startswith(describe(halving(9)[-1]) + "  about 24 s left")
    assert len(lines) == 3


def test_lines_come_every_few_seconds(monkeypatch):
    clock = iter(np.arange(0.0, 1000.0, 0.5))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    lines = shown(halving(20), terminal=False).splitlines()
    assert 3 < len(lines) < 12


def test_twice_verbose_is_a_line_for_every_iteration_on_a_terminal_too():
    for terminal in (True, False):
        assert len(shown(halving(9), terminal=terminal, verbose=2).splitlines()) == 1 + 9


def test_a_terminal_of_80_columns_shows_all_figures_in_one_row():
    last = shown(halving(9, value=123456.789), terminal=True, tol=1e-6).splitlines()[-2]
    assert last.split() == ["8", "16.0", "123456.7890", "122974.5359", "3.91e-03", "16.0", "24", "s"]


def test_quiet_shows_nothing(capfd):
    with FitProgress(0, tol=1e-6) as watcher:
        for iteration in halving(5):
            watcher(iteration)
    assert capfd.readouterr() == ("", "")
