"""Progress of a fit: what a terminal shows, what a log file gets, and how long it will still take."""

import io
import math
from itertools import pairwise

import numba
import numpy as np
import pytest
from rich.console import Console

from kernelfields import ChainCRF
from kernelfields.reports import progress
from kernelfields.reports.progress import FitProgress, describe, estimated_seconds_left, in_words
from kernelfields.solvers import Iteration


def at_gaps(gaps, tol=1e-6, seconds=2.0, value=100.0, **settings):
    """A fit with these relative gaps, one iteration after the other."""
    return [
        Iteration(index, 2.0 * index, seconds * index, value, value * (1 - gap), 1.0, 1.0, tol=tol, **settings)
        for index, gap in enumerate(gaps)
    ]


def halving(count, tol=1e-6, **settings):
    """A fit whose relative gap halves with every iteration."""
    return at_gaps(0.5 ** np.arange(count), tol, **settings)


@pytest.mark.parametrize("count", [4, 7, 12])
@pytest.mark.parametrize("tol", [1e-4, 1e-6])
def test_a_gap_that_halves_reaches_tol_when_foretold(count, tol):
    expected = 2.0 * (math.log2(1 / tol) - (count - 1))
    assert estimated_seconds_left(halving(count, tol)) == pytest.approx(expected)


def test_max_iter_limits_what_is_left():
    assert estimated_seconds_left(halving(11), max_iter=15) == pytest.approx(2.0 * (15 - 10))
    assert estimated_seconds_left(halving(11), max_iter=1000) == estimated_seconds_left(halving(11))


def test_nothing_is_foretold_too_early_or_while_the_gap_stands_still():
    assert estimated_seconds_left(halving(3)) is None
    assert estimated_seconds_left(halving(8, None)) is None, "a round of several, whose end is not known"
    assert estimated_seconds_left(at_gaps([0.5] * 8), max_iter=20) is None, "max_iter is a limit and no estimate"
    assert estimated_seconds_left(at_gaps([math.inf] * 8)) is None


def test_nothing_is_left_once_the_gap_is_there():
    assert estimated_seconds_left(halving(12, 0.1)) == 0.0


@pytest.mark.parametrize("spread", [0.0, 0.2, 1.0])
def test_what_is_shown_does_not_jump(spread):
    """Gaps that fall by fits and starts, as those of partly known labels do: estimates are steady, or not shown."""
    random, jumps, shown_at = np.random.default_rng(0), [], 0
    for _ in range(5):
        logs = -0.05 * np.arange(240) + spread * random.normal(size=240)
        tol = math.exp(-0.05 * 200)
        end = int(np.argmax(logs <= math.log(tol)))
        history = at_gaps(np.exp(logs), tol)
        before = None
        for count in range(4, end):
            left = estimated_seconds_left(history[: count + 1])
            if left is None:
                continue
            shown_at += 1
            if before is not None:
                jumps.append(max(left / before, before / left))
            before = left
    assert shown_at > 100
    assert np.quantile(jumps, 0.95) < 1.5


def test_a_further_start_begins_to_count_anew():
    assert estimated_seconds_left([*halving(12), *halving(3)]) is None
    assert estimated_seconds_left([*at_gaps([0.5] * 9), *halving(12)]) == estimated_seconds_left(halving(12))


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


def test_lines_come_every_few_seconds(monkeypatch):
    clock = iter(np.arange(0.0, 1000.0, 0.5))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    lines = shown(halving(20), terminal=False).splitlines()
    assert 3 < len(lines) < 12


def test_twice_verbose_is_a_line_for_every_iteration_on_a_terminal_too():
    for terminal in (True, False):
        assert len(shown(halving(9), terminal=terminal, verbose=2).splitlines()) == 1 + 9


def test_a_terminal_of_80_columns_shows_all_figures_in_one_row():
    last = shown(halving(9, value=123456.789), terminal=True).splitlines()[-2]
    assert last.split() == ["8", "16.0", "123456.789000", "122974.535918", "3.91e-03", "16.0", "24", "s"]


def test_flatness_takes_the_place_of_the_gap_where_there_is_no_bound():
    flat = halving(9, bounded=False)
    (last,) = shown(flat, terminal=False).splitlines()[2:]
    assert last.startswith(describe(flat[-1]) + "  about 24 s left")
    assert "stationarity  3.91e-03" in last
    assert "bound" not in last
    assert "gap" not in last
    assert shown(flat, terminal=True).splitlines()[-2].split() == [
        "8",
        "16.0",
        "100.000000",
        "3.91e-03",
        "16.0",
        "24",
        "s",
    ]


def compiled_afresh():
    """A function that calls another, neither of them compiled yet."""
    inner = numba.njit(lambda x: x + 1)
    outer = numba.njit(lambda x: inner(x) * 2)
    inner.py_func.__module__ = outer.py_func.__module__ = "kernelfields.inference.made_up_compiled"
    return outer


def test_what_is_compiled_is_announced_before_it_is():
    text = io.StringIO()
    with FitProgress(console=Console(file=text, force_terminal=False, width=120, color_system=None)) as watcher:
        watcher.announce("choosing a basis")
        assert compiled_afresh()(1) == compiled_afresh()(1) == 4
        watcher(halving(1)[0])
    lines = text.getvalue().splitlines()
    assert lines[:2] == ["choosing a basis", "compiling inference.made_up, once on this machine: a cache keeps it"]
    assert len(lines) == 3
    assert compiled_afresh()(1) == 4
    assert text.getvalue().splitlines() == lines


def test_a_terminal_shows_what_is_compiled_beside_the_stage(monkeypatch):
    said = []
    monkeypatch.setattr(FitProgress, "_say", lambda self, text: said.append(text))
    with FitProgress(console=Console(file=io.StringIO(), force_terminal=True, width=120)) as watcher:
        watcher.announce("choosing a basis")
        assert compiled_afresh()(1) == 4
    compiling = "choosing a basis: compiling inference.made_up, once on this machine: a cache keeps it"
    assert said == ["choosing a basis", compiling, "choosing a basis"]


def test_bounds_fall_only_where_the_basis_grows_and_a_line_says_so(capsys):
    random = np.random.default_rng(0)
    X = [random.normal(size=(10, 3)) for _ in range(20)]
    y = [(np.sin(2 * x[:, 0]) > x[:, 1]).astype(int) for x in X]
    ChainCRF("rbf", basis="gradient", prior_variance=1.0, scale=False, rank=40, random_state=0, verbose=2).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    rounds = [[]]
    for line in lines[1:]:
        if "basis grows" in line:
            assert "those of its span" in line
            rounds.append([])
        else:
            rounds[-1].append(float(line.split("lower bound")[1].split()[0]))
    assert len(rounds) > 1
    assert all(np.all(np.diff(bounds) >= 0) for bounds in rounds)
    assert any(earlier[-1] > later[0] for earlier, later in pairwise(rounds))
