"""Progress of a fit: its steps, and its relative gap.

    [1/2] choosing settings
    choosing the prior variance on a part of the data
    [2/2] fitting
    iteration 12, within 2.4 % of the best fit, about 9 s left

On a terminal each line below a step replaces the previous one; if ``verbose`` is 2, every iteration has a line.

The remaining time is extrapolated from the second half of the iterations: the logarithm of the smallest relative gap
decreases about linearly in time, so a fitted line predicts when it reaches the tolerance. The estimate is shown if the
first three quarters of the iterations give the same end; ``max_iter`` implies an upper limit. Fits of several rounds
have no estimate. Compilations by numba, once on a machine, are reported at any stage, by numba's events.

In an interactive session, a fit with the default ``verbose`` shows one line, LateLine, after three seconds.

For partly known labels the objective is not convex and has no lower bound: the fit ends at a stationary point, and
stationarity is shown in place of the gap. The cost is negligible.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TextIO

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.text import Text

from kernelfields.reports.tables import printable
from kernelfields.solvers.loop import Iteration

_SECONDS_BETWEEN_LINES = 2.0
_FEWEST_ITERATIONS = 4
# Maximal width of a status line: a longer one would wrap, and could not be overwritten.
_LINE_WIDTH = 79
# Two estimates of the remaining time are steady if they differ by at most this factor.
_STEADY = 1.5


class FitProgress:
    """A context manager that shows the stages of a fit and its iterations.

    A line that reports how near the fit is to the best one is rewritten on a terminal and printed every few seconds
    elsewhere; if ``verbose`` is 2 or more, every iteration is a line of figures instead. ``after`` is the number of
    steps that follow the fit. Everything goes to standard error, so that results on standard output stay clean. Among
    the callbacks of an estimator it takes the place of the estimator's own.
    """

    def __init__(
        self,
        verbose: int = 1,
        *,
        max_iter: int | None = None,
        console: Console | None = None,
        after: int = 0,
        line: LateLine | None = None,
    ):
        self.console = console or (Console(stderr=True, quiet=not verbose) if line is None else line.console())
        self._late = line
        self._max_iter = max_iter
        self._every_iteration = int(verbose) >= 2
        self._after = after
        self._steps, self._chooses = 0, False
        self._live: Live | None = None
        self._listening = ExitStack()
        self._stage = ""
        self._compiled: set[str] = set()
        self._last_line = -math.inf
        self._history: list[Iteration] = []
        self._shown: Iteration | None = None

    def __enter__(self) -> FitProgress:
        if self.console.is_terminal and not self.console.quiet and not self._every_iteration:
            self._live = Live(console=self.console, refresh_per_second=8, transient=True)
            self._live.start()
        if not self.console.quiet:
            self._listening.enter_context(self._listens_to_compilation())
        if self._late is not None:
            self._listening.enter_context(self._late)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._listening.__exit__(*exception)
        if self._live is not None:
            self._live.stop()
            self._live = None
        elif self._history and self._history[-1] is not self._shown:
            self._print(self._history[-1])

    def announce(self, text: str) -> None:
        """Report a stage of the fit, such as the choice of a basis."""
        if self._chooses:
            self._chooses = False
            self._begin("choosing settings", 1 + self._after)
        self._stage = text
        self._say(text)

    def begin_choice(self) -> None:
        """Begin the choice of settings, which is displayed after the first message."""
        self._chooses = True

    def begin_fit(self) -> None:
        """Begin the fit itself after all choices."""
        self._chooses = False
        self._begin("fitting", self._after)

    def begin_step(self, text: str) -> None:
        """Begin a step after the fit."""
        self._after -= 1
        self._begin(text, self._after)

    def _begin(self, text: str, more: int) -> None:
        self._steps += 1
        self._stage = ""
        if self._live is not None:
            self._live.update(Text(""))
        self.console.print(f"[{self._steps}/{self._steps + more}] {text}", highlight=False, markup=False)

    def _say(self, text: str) -> None:
        if self._live is not None:
            self._live.update(Text(text))
        else:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _listens_to_compilation(self) -> AbstractContextManager:
        from numba.core import event

        progress = self

        class Compilation(event.Listener):
            depth = 0

            def on_start(self, started: Any) -> None:
                self.depth += 1
                if self.depth == 1:
                    progress._compiles(started.data["dispatcher"].py_func.__module__)

            def on_end(self, ended: object) -> None:
                self.depth -= 1
                if self.depth == 0 and progress._live is not None and not progress._history:
                    progress._say(progress._stage)

        return event.install_listener("numba:compile", Compilation())

    def _compiles(self, module: str) -> None:
        """Report the compilation of a function, once for each module."""
        name = module.removeprefix("kernelfields.").removesuffix("_compiled")
        text = f"compiling {name}, once on this machine: a cache keeps it"
        if self._live is not None and not self._history:
            self._say(f"{self._stage}: {text}" if self._stage else text)
        elif self._live is None and name not in self._compiled:
            self._say(text)
        self._compiled.add(name)

    def __call__(self, iteration: Iteration) -> None:
        """Report an iteration; a callback of the solver's loop."""
        self._history.append(iteration)
        if self._live is not None:
            self._say(self._line(iteration))
        elif self._every_iteration or time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self._print(iteration)

    def _print(self, iteration: Iteration) -> None:
        self._shown = iteration
        self._say(self._line(iteration))

    def _line(self, iteration: Iteration) -> str:
        left = estimate_seconds_left(self._history, self._max_iter)
        if self._every_iteration:
            return describe(iteration) + (f"  about {format_duration(left)} left" if left else "")
        flat = f"flat to within {100 * iteration.relative_gap:.2g} %"
        words = f"iteration {iteration.iteration}, {iteration.nearness if iteration.bounded else flat}"
        return words + (f", about {format_duration(left)} left" if left else "")


class LateLine:
    """A status line on an interactive screen: the duration of a job, and the last message of its progress.

    It appears when the job has taken ``after`` seconds, is rewritten ``every`` so many, and says at the end how long
    the job took; a shorter job writes nothing. A thread writes it, so that it goes on within a long stage.
    """

    def __init__(self, stream: TextIO, *, after: float = 2.0, every: float = 1.0):
        self._stream, self._after, self._every = stream, after, every
        self._text, self._width, self._begin = "", 0, 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._rewrite, daemon=True)

    def console(self) -> Console:
        """Return a console that writes to this line."""
        return Console(file=self, width=_LINE_WIDTH, force_terminal=False, force_jupyter=False)  # type: ignore[arg-type]

    def __enter__(self) -> LateLine:
        self._begin = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, kind: object = None, *exception: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._width:
            self._show(
                f"{'done' if kind is None else 'stopped'} after {format_duration(time.monotonic() - self._begin)}"
            )
            self._stream.write("\n")
            self._stream.flush()

    def write(self, text: str) -> int:
        """Store the last line of a text for the next update."""
        self._text = (text.strip().splitlines() or [self._text])[-1]
        return len(text)

    def flush(self) -> None:
        """Do nothing, because a timer writes the line."""

    def _rewrite(self) -> None:
        wait = self._after
        while not self._ended.wait(wait):
            self._show(": ".join(filter(None, [format_duration(time.monotonic() - self._begin), self._text])))
            wait = self._every

    def _show(self, line: str) -> None:
        line = printable(line, _LINE_WIDTH)
        # Spaces take away what the line before had more.
        self._stream.write(f"\r{line:<{self._width}}")
        self._stream.flush()
        self._width = len(line)


def describe(iteration: Iteration) -> str:
    """Format the figures of one iteration as a line of text."""
    bounds = [f"lower bound {iteration.lower_bound:>14.6f}", f"gap {iteration.relative_gap:>9.2e}"]
    figures = [
        f"iteration {iteration.iteration:>4}",
        f"passes {iteration.passes:>7.1f}",
        f"objective {iteration.value:>14.6f}",
        *(bounds if iteration.bounded else [f"stationarity {iteration.relative_gap:>9.2e}"]),
        *([] if iteration.working_gap is None else [f"in the working set {iteration.working_gap:>9.2e}"]),
        f"{iteration.seconds:>6.1f} s",
    ]
    return "  ".join(figures)


def estimate_seconds_left(history: Sequence[Iteration], max_iter: int | None = None) -> float | None:
    """Estimate the seconds until the relative gap reaches the tolerance, or return None if unclear."""
    # A further start begins to count anew.
    begin = max((index for index, each in enumerate(history) if each.iteration == 0), default=0)
    run = history[begin:]
    if len(run) < _FEWEST_ITERATIONS or (tol := run[-1].tol) is None:
        return None
    last, middle = run[-1], run[len(run) // 2]
    if last.relative_gap <= tol:
        return 0.0
    ends = [_predict_end(run[:count], tol) for count in (3 * len(run) // 4, len(run))]
    early, left = (end - last.seconds for end in ends)
    if not 0 < left < _STEADY * early or not early < _STEADY * left:
        return None
    if max_iter is None:
        return left
    return min(
        left, (last.seconds - middle.seconds) * (max_iter - last.iteration) / (last.iteration - middle.iteration)
    )


def _predict_end(run: Sequence[Iteration], tol: float) -> float:
    """Extrapolate the seconds at which the gap reaches ``tol`` from the second half of a run; may be infinite."""
    gaps = np.minimum.accumulate([each.relative_gap for each in run])[len(run) // 2 :]
    seconds = np.array([each.seconds for each in run[len(run) // 2 :]])
    if not np.isfinite(gaps).all() or not (gaps > 0).all() or gaps[-1] == gaps[0] or seconds[-1] == seconds[0]:
        return math.inf
    logs, centred = np.log(gaps), seconds - seconds.mean()
    slope = float(centred @ logs / (centred @ centred))
    return float(seconds.mean() + (math.log(tol) - logs.mean()) / slope)


def format_duration(seconds: float) -> str:
    """Format a duration in seconds as text: 9 s, 4 min, 2.5 h."""
    if seconds < 99.5:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 99.5 * 60 else f"{seconds / 3600:.1f} h"
