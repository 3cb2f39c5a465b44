"""Progress of a fit: a live table on a terminal, plain lines elsewhere.

The time that is left is estimated from the second half of the iterations so far: the logarithm of the relative gap
falls about linearly in time, so it is continued to ``tol``, or to the gap that is enough; what ``max_iter`` still
allows is an upper limit. This is a guess, and there is none until the gap has begun to fall. Passes that numba compiles,
once on a machine, are announced whatever stage they are part of: its events name them. Cost: nothing worth mentioning
beside an iteration.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kernelfields.solvers.loop import COARSEST, Iteration

_SECONDS_BETWEEN_LINES = 2.0
_FEWEST_ITERATIONS = 4
_COLUMNS = ("iteration", "passes", "objective", "lower bound", "gap", "seconds", "left")


class FitProgress:
    """Shows iterations as they come; use as a context manager around a fit.

    On a terminal one table is rewritten in place; otherwise a line is printed every few seconds, or for every
    iteration if ``verbose`` is 2 or more. Everything goes to standard error, so that results on standard output
    stay clean.
    """

    def __init__(
        self, verbose: int = 1, *, tol: float | None = None, max_iter: int | None = None, console: Console | None = None
    ):
        self.console = console or Console(stderr=True, quiet=not verbose)
        self._tol, self._max_iter = tol, max_iter
        #: The gap, in nats, that ends a fit before the relative one does.
        self.enough = 0.0
        self._every_iteration = int(verbose) >= 2
        self._live: Live | None = None
        self._listening = ExitStack()
        self._stage = ""
        self._compiled: set[str] = set()
        self._last_line = -math.inf
        self._history: list[Iteration] = []
        self._shown: Iteration | None = None

    def __enter__(self) -> FitProgress:
        if self.console.is_terminal and not self.console.quiet and not self._every_iteration:
            self._live = Live(console=self.console, refresh_per_second=8, transient=False)
            self._live.start()
        if not self.console.quiet:
            self._listening.enter_context(self._listens_to_compilation())
        return self

    def __exit__(self, *exception: object) -> None:
        self._listening.close()
        if self._live is not None:
            self._live.stop()
            self._live = None
        elif self._history and self._history[-1] is not self._shown:
            self._print(self._history[-1])

    def announce(self, text: str) -> None:
        """Report a stage of the work, such as the choice of a basis."""
        self._stage = text
        self._say(text)

    def _say(self, text: str) -> None:
        if self._live is not None:
            self._live.update(Text(text))
        else:
            self.console.print(text, highlight=False)

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
        """Report that a function is being compiled, once for each module; on a terminal beside the stage of work."""
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
            self._live.update(_table(iteration, self._left()))
        elif self._every_iteration or time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self._print(iteration)

    def _left(self) -> float | None:
        tol = self._tol
        if tol is not None and self._history:
            tol = max(tol, min(COARSEST, self.enough / max(abs(self._history[-1].value), 1e-300)))
        return estimated_seconds_left(self._history, tol, self._max_iter)

    def _print(self, iteration: Iteration) -> None:
        self._shown = iteration
        left = self._left()
        line = describe(iteration) + (f"  about {in_words(left)} left" if left else "")
        self.console.print(line, highlight=False, soft_wrap=True)


def describe(iteration: Iteration) -> str:
    """Return one iteration as a line of text."""
    return (
        f"iteration {iteration.iteration:4d}  passes {iteration.passes:7.1f}  value {iteration.value:14.6f}  "
        f"lower bound {iteration.lower_bound:14.6f}  gap {iteration.relative_gap:9.2e}  {iteration.seconds:6.1f} s"
    )


def estimated_seconds_left(
    history: Sequence[Iteration], tol: float | None, max_iter: int | None = None
) -> float | None:
    """Return about how many seconds are left until the relative gap is ``tol``; None while there is no estimate."""
    if tol is None or len(history) < _FEWEST_ITERATIONS:
        return None
    middle, last = history[len(history) // 2], history[-1]
    if last.relative_gap <= tol:
        return 0.0
    elapsed = last.seconds - middle.seconds
    limits = []
    if 0 < last.relative_gap < middle.relative_gap < math.inf:
        speed = math.log(middle.relative_gap / last.relative_gap)
        limits.append(elapsed * math.log(last.relative_gap / tol) / speed)
    if max_iter is not None:
        limits.append(elapsed * max(0, max_iter - last.iteration) / (last.iteration - middle.iteration))
    return min(limits, default=None)


def in_words(seconds: float) -> str:
    """Return a duration in words: 9 s, 4 min, 2.5 h."""
    if seconds < 99.5:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 99.5 * 60 else f"{seconds / 3600:.1f} h"


def _table(iteration: Iteration, left: float | None) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row(
        str(iteration.iteration),
        f"{iteration.passes:.1f}",
        f"{iteration.value:.4f}",
        f"{iteration.lower_bound:.4f}",
        f"{iteration.relative_gap:.2e}",
        f"{iteration.seconds:.1f}",
        "" if left is None else in_words(left),
    )
    return table
