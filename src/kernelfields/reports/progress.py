"""Progress of a fit: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from kernelfields.solvers import Iteration

_SECONDS_BETWEEN_LINES = 2.0


class FitProgress:
    """Shows iterations as they come; use as a context manager around a fit.

    On a terminal one line is rewritten in place; otherwise a line is printed every few seconds. Everything goes
    to standard error, so that results on standard output stay clean.
    """

    def __init__(self, console: Console | None = None, *, enabled: bool = True):
        self.console = console or Console(stderr=True, quiet=not enabled)
        self._live: Live | None = None
        self._last_line = 0.0
        self._latest: Iteration | None = None
        self._shown: Iteration | None = None

    def __enter__(self) -> FitProgress:
        if self.console.is_terminal and not self.console.quiet:
            self._live = Live(console=self.console, refresh_per_second=8, transient=False)
            self._live.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        elif self._latest is not None and self._latest is not self._shown:
            self._print(self._latest)

    def say(self, text: str) -> None:
        """Report a stage of the work, such as the choice of a basis."""
        if self._live is not None:
            self._live.update(Text(text))
        else:
            self.console.print(text, highlight=False)

    def __call__(self, iteration: Iteration) -> None:
        """Report an iteration; a callback of the solver's loop."""
        self._latest = iteration
        if self._live is not None:
            self._live.update(Text(describe(iteration)))
        elif time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self._print(iteration)

    def _print(self, iteration: Iteration) -> None:
        self._shown = iteration
        self.console.print(describe(iteration), highlight=False, soft_wrap=True)


def describe(iteration: Iteration) -> str:
    """Return one iteration as a line of text."""
    return (
        f"iteration {iteration.iteration:4d}  passes {iteration.passes:7.1f}  value {iteration.value:14.6f}  "
        f"lower bound {iteration.lower_bound:14.6f}  gap {iteration.relative_gap:9.2e}  {iteration.seconds:6.1f} s"
    )
