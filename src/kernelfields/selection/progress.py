"""Progress of a search: a line that is rewritten on a terminal, a line per path elsewhere, the table at the end.

Everything goes to standard error, so that results on standard output stay clean.
"""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from kernelfields.selection.candidates import Candidate
from kernelfields.selection.results import Evaluation, SearchTable, best_first


class SearchProgress:
    """Shows where a search is; use as a context manager around it."""

    def __init__(self, enabled: bool, n_fits: int, *, console: Console | None = None):
        self.console = console or Console(stderr=True, quiet=not enabled)
        self._n_fits = n_fits
        self._done = 0
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

    def fitted(self, candidate: Candidate, where: str) -> None:
        """Report a fit of one candidate on one fold; ``where`` names the rung and the fold."""
        self._done += 1
        if self._live is not None:
            best = "" if self._best is None else f"  best {self._best.mean:.4f} {describe(self._best.candidate)}"
            self._live.update(Text(f"{self._status()}  {where}  {describe(candidate)}{best}"))

    def evaluated(self, evaluations: list[Evaluation], where: str) -> None:
        """Report that all folds of the candidates of one path are done."""
        self._best = best_first([*evaluations, *([] if self._best is None else [self._best])])[0]
        if self._live is None:
            leading = best_first(evaluations)[0]
            line = f"{self._status()}  {where}  {leading.mean:.4f} {describe(leading.candidate)}"
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def show(self, table: SearchTable) -> None:
        """Print the table of the search."""
        if not self.console.quiet:
            self.console.print(table)

    def _status(self) -> str:
        return f"{self._done} of {self._n_fits} fits, {time.monotonic() - self._begin:.1f} s"


def describe(candidate: Candidate) -> str:
    """Return the parameters of a candidate as a line of text."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in candidate.params.items())
