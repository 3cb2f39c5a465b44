"""Progress of a fit: what a terminal shows, what a log file gets, and how long it will still take."""

import io
import math
import re
import sys
import time
from functools import partial
from itertools import pairwise

import numba
import numpy as np
import pytest
from rich.console import Console

from kernelfields import ChainCRF
from kernelfields.estimators import observers
from kernelfields.numerics.user_warnings import is_watched
from kernelfields.reports import progress
from kernelfields.reports.progress import FitProgress, LateLine, describe, estimate_seconds_left, format_duration
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
    assert estimate_seconds_left(halving(count, tol)) == pytest.approx(expected)


def test_max_iter_limits_what_is_left():
    assert estimate_seconds_left(halving(11), max_iter=15) == pytest.approx(2.0 * (15 - 10))
    assert estimate_seconds_left(halving(11), max_iter=1000) == estimate_seconds_left(halving(11))


def test_nothing_is_foretold_too_early_or_while_the_gap_stands_still():
    assert estimate_seconds_left(halving(3)) is None
    assert estimate_seconds_left(halving(8, None)) is None, "a round of several, whose end is not known"
    assert estimate_seconds_left(at_gaps([0.5] * 8), max_iter=20) is None, "max_iter is a limit and no estimate"
    assert estimate_seconds_left(at_gaps([math.inf] * 8)) is None


def test_nothing_is_left_once_the_gap_is_there():
    assert estimate_seconds_left(halving(12, 0.1)) == 0.0


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
            left = estimate_seconds_left(history[: count + 1])
            if left is None:
                continue
            shown_at += 1
            if before is not None:
                jumps.append(max(left / before, before / left))
            before = left
    assert shown_at > 100
    assert np.quantile(jumps, 0.95) < 1.5


def test_a_further_start_begins_to_count_anew():
    assert estimate_seconds_left([*halving(12), *halving(3)]) is None
    assert estimate_seconds_left([*at_gaps([0.5] * 9), *halving(12)]) == estimate_seconds_left(halving(12))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (9.0, "9 s"), (150, "2 min"), (5940, "99 min"), (9000, "2.5 h")],
)
def test_durations_in_words(seconds, words):
    assert format_duration(seconds) == words


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


@pytest.mark.parametrize("terminal", [True, False])
def test_a_fit_that_goes_on_is_one_sentence(terminal):
    text = shown(halving(9, value=123456.789), terminal=terminal)
    assert "iteration 8, within 0.39 % of the best fit, about 24 s left" in text
    assert "lower bound" not in text


def test_flatness_takes_the_place_of_the_gap_where_there_is_no_bound():
    flat = halving(9, bounded=False)
    assert "iteration 8, flat to within 0.39 %, about 24 s left" in shown(flat, terminal=False)
    (last,) = shown(flat, terminal=False, verbose=2).splitlines()[9:]
    assert last.startswith(describe(flat[-1]) + "  about 24 s left")
    assert "stationarity  3.91e-03" in last
    assert "bound" not in last
    assert "gap" not in last


@pytest.mark.parametrize(
    ("chooses", "expected"),
    [
        (True, ["[1/3] choosing settings", "trying", "[2/3] fitting", "[3/3] writing"]),
        (False, ["[1/2] fitting", "[2/2] writing"]),
    ],
)
def test_steps_are_counted_and_nothing_chosen_is_no_step(chooses, expected):
    text = io.StringIO()
    with FitProgress(console=Console(file=text, width=80, color_system=None), after=1) as watcher:
        watcher.begin_choice()
        if chooses:
            watcher.announce("trying")
        watcher.begin_fit()
    watcher.begin_step("writing")
    assert text.getvalue().splitlines() == expected


def test_progress_among_the_callbacks_takes_the_place_of_the_estimators_own(capsys):
    text = io.StringIO()
    watcher = FitProgress(2, console=Console(file=text, width=120, color_system=None))
    X, y = [np.eye(3)] * 4, [[0, 1, 0]] * 4
    field = ChainCRF("linear", prior_variance=1.0, verbose=1, callbacks=[watcher]).fit(X, y)
    assert text.getvalue().count("iteration ") == len(field.solution_.history)
    assert capsys.readouterr().err == ""


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


def test_a_bound_once_proved_stays_proved_while_the_basis_grows(capsys):
    random = np.random.default_rng(0)
    X = [random.normal(size=(10, 3)) for _ in range(20)]
    y = [(np.sin(2 * x[:, 0]) > x[:, 1]).astype(int) for x in X]
    field = ChainCRF("rbf", basis="gradient", prior_variance=1.0, scale=False, rank=40, random_state=0, verbose=2)
    field.fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert any("basis grows" in line for line in lines)
    rows = [line for line in lines if line.startswith("iteration")]
    assert all("in the working set" in row for row in rows)
    bounds = [float(row.split("lower bound")[1].split()[0]) for row in rows]
    history = field.solution_.history
    for proved in (bounds, [each.lower_bound for each in history]):
        assert (np.diff(proved) >= 0).all()
        assert proved[-1] > 0
    certificate = field.rkhs_certificate_
    assert (history[-1].value, history[-1].lower_bound) == (certificate.value, certificate.lower_bound)
    assert len(rows) == len(history)


# ---- one line of a fit that was asked for nothing


class Screen(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self):
        return True

    def lines(self):
        """Return the lines as they stand on the screen one after the other."""
        return [line.rstrip() for line in re.split(r"[\r\n]+", self.getvalue()) if line.strip()]


def a_few_sequences():
    """Return sequences whose labels follow their inputs, with noise."""
    random = np.random.default_rng(1)
    X = [random.normal(size=(6, 3)) for _ in range(20)]
    return X, [(x[:, 0] + random.normal(size=6) > 0).astype(int) for x in X]


def begin_session(monkeypatch):
    """Make this process a session at a prompt of Python, and return its terminal."""
    screen = Screen()
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


def test_a_late_line_shows_the_last_message_over_the_one_before():
    screen = Screen()
    with LateLine(screen, after=0.0, every=0.01) as line:
        watcher = FitProgress(line=line)
        for message in ("choosing a basis among many candidates", "fitting"):
            watcher.announce(message)
            while message not in screen.getvalue():
                time.sleep(0.001)
    *_, fitting, last = screen.lines()
    assert re.fullmatch(r"\d+ s: fitting", fitting)
    assert re.fullmatch(r"done after \d+ s", last)
    assert screen.getvalue().count("\n") == 1
    # What the longer line had more is gone.
    pieces = screen.getvalue().split("\r")
    longer, after = next(pair for pair in pairwise(pieces) if pair[1].rstrip().endswith(" s: fitting"))
    assert len(after) == len(longer)


def test_a_job_that_ends_early_writes_nothing():
    screen = Screen()
    with LateLine(screen, after=60.0) as line:
        line.write("fitting\n")
    assert screen.getvalue() == ""


def test_a_late_line_says_that_a_job_was_stopped():
    screen = Screen()

    def interrupted():
        while not screen.getvalue():
            time.sleep(0.001)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), LateLine(screen, after=0.0):
        interrupted()
    assert screen.lines()[-1].startswith("stopped after")


def test_a_long_fit_at_a_prompt_has_one_line(monkeypatch):
    prompt = begin_session(monkeypatch)
    monkeypatch.setattr(observers, "LateLine", partial(LateLine, after=0.0, every=0.001))
    X, y = a_few_sequences()

    def wait(iteration):
        """Wait until the line has come to the first iteration."""
        while iteration.iteration == 1 and "iteration 0, " not in prompt.getvalue():
            time.sleep(0.001)

    ChainCRF("linear", prior_variance=1.0, solver="lbfgs", tol=1e-9, callbacks=[wait]).fit(X, y)
    assert prompt.getvalue().count("\n") == 1
    assert any(re.fullmatch(r"\d+ s: iteration 0, .*", line) for line in prompt.lines())
    assert prompt.lines()[-1].startswith("done after")


def test_a_late_line_has_the_estimate_of_the_fit(monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    screen = Screen()
    with FitProgress(line=LateLine(screen, after=0.0, every=0.001)) as watcher:
        for iteration in halving(9):
            watcher(iteration)
        while "24 s left" not in screen.getvalue():
            time.sleep(0.001)
    assert any("within 0.39 % of the best fit, about 24 s left" in line for line in screen.lines())


@pytest.mark.parametrize("settings", [{}, {"verbose": 0}])
def test_short_fits_and_those_told_to_be_silent_have_no_line(settings, monkeypatch):
    prompt = begin_session(monkeypatch)
    if settings:
        monkeypatch.setattr(observers, "LateLine", partial(LateLine, after=0.0, every=0.001))
    X, y = a_few_sequences()
    ChainCRF("linear", prior_variance=1.0, **settings).fit(X, y)
    assert prompt.getvalue() == ""


def test_sessions_are_watched_at_a_prompt_or_in_a_notebook_and_scripts_are_not(monkeypatch):
    begin_session(monkeypatch)
    assert is_watched()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not is_watched()
    notebook = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    monkeypatch.setattr(sys, "stderr", notebook())
    assert is_watched()
    monkeypatch.setattr(sys, "stderr", None)
    assert not is_watched()
    monkeypatch.setattr(sys, "stderr", Screen())
    monkeypatch.delattr(sys, "ps1")
    assert not is_watched()


@pytest.mark.parametrize("verbose", [-1, 0.5, "loud", None])
def test_a_level_of_messages_is_a_whole_number(verbose):
    with pytest.raises(ValueError, match="verbose must be a whole number of at least 0 or a truth value"):
        ChainCRF(verbose=verbose).fit([[[0.0]]], [["a"]])
