"""Observers of a fit: callbacks and displays of progress.

A fit without either has no observers. Callbacks and progress see every iteration; a StepCallback is a step of the fit
beside that, such as a Checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from kernelfields.models.callbacks import StepCallback
from kernelfields.models.placed import FitStep
from kernelfields.numerics.parameters import check_callbacks, is_auto
from kernelfields.numerics.user_warnings import should_show_progress
from kernelfields.reports.progress import FitProgress, LateLine
from kernelfields.solvers.choice import FitOptions
from kernelfields.solvers.loop import Iteration


def get_progress(estimator: Any) -> FitProgress | None:
    """Return the display of progress of a fit: a callback, or its own by ``verbose``; None without one."""
    for watcher in check_callbacks(estimator.callbacks):
        if isinstance(watcher, FitProgress):
            return watcher
    if not should_show_progress(estimator.verbose):
        return None
    if is_auto(estimator.verbose):
        return FitProgress(max_iter=estimator.max_iter, line=LateLine(sys.stderr))
    return FitProgress(estimator.verbose, max_iter=estimator.max_iter)


def list_watchers(estimator: Any, progress: FitProgress | None) -> list[Callable[[Iteration], object]]:
    """Return the callbacks for the iterations of a fit, with its progress last."""
    own = [each for each in check_callbacks(estimator.callbacks) if each is not progress]
    return own if progress is None else [*own, progress]


@contextmanager
def show_messages(estimator: Any) -> Iterator[Callable[[str], None]]:
    """Return a context that shows messages about the progress of an estimator."""
    progress = get_progress(estimator)
    with nullcontext() if progress is None else progress:
        yield _say_nothing if progress is None else progress.announce


def make_observing_steps(estimator: Any) -> list[FitStep]:
    """Return the steps of the callbacks and of the progress of a fit."""
    progress = get_progress(estimator)
    own = [each.step() for each in check_callbacks(estimator.callbacks) if isinstance(each, StepCallback)]
    return [Observing(list_watchers(estimator, progress), progress), *own]


class Observing(FitStep):
    """Show every iteration to watchers, and the stages of a fit to its display of progress."""

    def __init__(self, watchers: Sequence[Callable[[Iteration], object]], progress: FitProgress | None):
        self.watchers, self.progress = watchers, progress

    def open_context(self) -> AbstractContextManager[object]:
        """Return the context of the fit, with its progress shown."""
        if self.progress is None:
            return nullcontext()
        self.progress.begin_choice()
        return self.progress

    def with_observers(self, options: FitOptions) -> FitOptions:
        """Return the options of a fit with its observers."""
        announce = None if self.progress is None else self.progress.announce
        return replace(options, watch=self._watch, announce=announce)

    def _watch(self, iteration: Iteration) -> bool:
        # A list, not a generator: every watcher sees every iteration, whatever the others return.
        return True in [watcher(iteration) for watcher in self.watchers]

    def before(self, estimator: Any, problem: Any) -> None:
        """Show the begin of the fit, after open parameters are chosen."""
        if self.progress is not None:
            self.progress.begin_fit()


def _say_nothing(text: str) -> None:
    """Ignore a message."""
