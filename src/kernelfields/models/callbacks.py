"""Callbacks with a step of the fit: checkpoints, which write the model during a fit, so that a killed one can go on.

    crf = ChainCRF("rbf", callbacks=[Checkpoint("model.checkpoint", seconds=60)])
    crf.fit(X, y)                                                                    # killed by the machine

    crf = ChainCRF.load("model.checkpoint").set_params(warm_start=True)
    crf.fit(X, y)                                                                    # goes on in the same basis

The file is a model like any other: what an interrupt at that moment would have left. It is replaced only once the
new one is complete, so there is always a sound one. The continued fit ends at the same optimum, to within its tol,
because the basis is the same and the optimum in it is unique; the solver's own memory is not kept.

Cost of a checkpoint: half a pass over the features if a clique set has a basis of pivots, none otherwise, and the
writing of the file. Fails before the fit: ValueError for a bad number of seconds, OSError for a folder that is not
there. A checkpoint that cannot be written later warns and lets the fit go on.
"""

from __future__ import annotations

import copy
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from kernelfields.models.placed import FitStep, FittedField, Placed, Solve
from kernelfields.numerics.parameters import is_real
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.solvers.loop import Iteration


class Storable(Protocol):
    """An estimator that can be written to a model file."""

    def save(self, path: str | os.PathLike) -> None:
        """Write the estimator."""


#: Sends what a function returns to the client of a cluster if it is due by the clock of the first worker; says whether.
Sender: TypeAlias = Callable[[bool, Callable[[], Any]], bool]


class StepCallback(ABC):
    """A callback with a step of the fit, which begins and ends on the client of a cluster."""

    @abstractmethod
    def __call__(self, iteration: Iteration) -> object:
        """Receive an iteration; True ends the fit."""

    @abstractmethod
    def step(self) -> FitStep:
        """Return the step."""

    @abstractmethod
    def begin(self) -> None:
        """Prepare for a fit; raise if that is impossible."""

    @abstractmethod
    def end(self, estimator: Any) -> None:
        """Receive the fitted estimator."""

    @abstractmethod
    def worker_callback(self, send: Sender) -> StepCallback:
        """Return a callback for workers, which sends estimators to :meth:`end`."""


class Checkpoint(StepCallback):
    """A callback that writes the model to a file at intervals, so that an interrupted fit can be continued.

    It writes when the fit ends, too. With a development set the model is the one that was best there. A basis that
    grows by the gradient cannot have checkpoints. A checkpoint that cannot be written warns, and the fit goes on.

    Parameters
    ----------
    path : str or path
        The file, which is a model like any other; it is replaced once the new one is complete.
    seconds : float, default 60.0
        The least time between two checkpoints.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.estimators import Checkpoint
    >>> X, y = [np.array([[20.0], [10.0]])], [["sun", "rain"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, callbacks=[Checkpoint("weather.checkpoint")]).fit(X, y)
    >>> crf = ChainCRF.load("weather.checkpoint").set_params(warm_start=True).fit(X, y)
    >>> crf.predict(X)
    [['sun', 'rain']]
    """

    def __init__(self, path: str | os.PathLike, seconds: float = 60.0):
        self.path = path
        self.seconds = seconds
        self._due = 0.0

    def __call__(self, iteration: Iteration) -> None:
        """Continue the fit; the file is written by :meth:`keep`."""

    def step(self) -> Checkpointing:
        """Return the step that writes the present model of a fit.

        Returns
        -------
        Checkpointing
            The step.
        """
        return Checkpointing(self)

    def worker_callback(self, send: Sender) -> CheckpointThere:
        """Return the checkpoint of a worker of a cluster.

        Parameters
        ----------
        send : callable
            It sends a model to the client.

        Returns
        -------
        CheckpointThere
            The stand-in.
        """
        return CheckpointThere(self, send)

    def begin(self) -> None:
        """Check that the file is writable, and start the clock.

        Raises
        ------
        FileNotFoundError
            If the folder does not exist.
        ValueError
            If ``seconds`` is no number of at least 0.
        """
        if not is_real(self.seconds) or not self.seconds >= 0:
            raise ValueError(f"seconds between checkpoints must be a number of at least 0, got {self.seconds!r}")
        folder = Path(os.path.realpath(self.path)).parent
        if not folder.is_dir():
            raise FileNotFoundError(f"cannot write {self.path}: there is no folder {folder}; create it first")
        self._start_clock()

    def keep(self, snapshot: Callable[[], Storable]) -> None:
        """Write an estimator if the interval is over.

        Parameters
        ----------
        snapshot : callable
            It returns the estimator.
        """
        if time.monotonic() >= self._due:
            self.end(snapshot())
            self._start_clock()

    def end(self, estimator: Storable) -> None:
        """Write the estimator; warn if the file cannot be written.

        Parameters
        ----------
        estimator : estimator
            The estimator.
        """
        try:
            estimator.save(self.path)
        except OSError as error:
            # The fit is worth more than its checkpoint.
            warn_user(f"no checkpoint was written, the fit goes on: {error}", RuntimeWarning)

    def _start_clock(self) -> None:
        self._due = time.monotonic() + float(self.seconds)


class CheckpointThere(Checkpoint):
    """Checkpoint of a worker, which sends models to the client at intervals."""

    def __init__(self, given: Checkpoint, send: Sender):
        super().__init__(given.path, given.seconds)
        self._send = send

    def begin(self) -> None:
        """Start the clock; the client has the file."""
        self._start_clock()

    def keep(self, snapshot: Callable[[], Storable]) -> None:
        """Send the estimator of ``snapshot()`` if the interval is over."""
        if self._send(time.monotonic() >= self._due, snapshot):
            self._start_clock()

    def end(self, estimator: Storable) -> None:
        """Write nothing: the client has the model."""


class Checkpointing(FitStep):
    """Write checkpoints of the present model of a fit, and a last one at its end."""

    def __init__(self, checkpoint: Checkpoint):
        self.checkpoint = checkpoint

    def check(self, estimator: Any) -> None:
        """Raise if no file can be written."""
        self.checkpoint.begin()

    def before(self, estimator: Any, problem: Any) -> None:
        """Store the estimator and the problem of the fit."""
        self._model_of = lambda fitted: problem.keep_fitted(copy.copy(estimator), fitted)

    def around(self, solve: Solve) -> Solve:
        """Return the solve with checkpoints of its present field."""

        def kept(placed: Placed) -> FittedField:
            before = placed.keep

            def keep(present: Callable[[], FittedField]) -> None:
                if before is not None:
                    before(present)
                self.checkpoint.keep(lambda: self._model_of(present()))

            return solve(replace(placed, keep=keep))

        return kept

    def after(self, estimator: Any) -> None:
        """Write the fitted estimator."""
        self.checkpoint.end(estimator)
