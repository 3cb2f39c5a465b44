"""The log of a training in CRFsuite's format: lines by events, and the figures parsed from them.

    start -> featgen_end -> prepared -> iteration, ... -> optimization_end -> end

A trainer announces an event and then sends its lines; ``feed`` parses a line and returns the event that it completes.
Fields have the names of python-crfsuite's log parser.
"""

from __future__ import annotations

from kernelfields.solvers.loop import Iteration


class TrainLog:
    """The lines and parsed facts of a training log.

    Attributes
    ----------
    log : list of str
        All lines.
    events : list of tuple
        The name, the first line and the line after the last one of each event.
    iterations : list of dict
        The number, loss, norms and time of each iteration; the last one has the scores of held-out sequences.
    last_iteration : dict or None
        The last of them.
    featgen_num_features : int or None
        The number of weights.
    training_seconds : float or None
        The time of the fit.
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self.events: list[tuple[str, int, int]] = []
        self.iterations: list[dict] = []
        self.last_iteration: dict | None = None
        self.featgen_num_features: int | None = None
        self.training_seconds: float | None = None
        self._event, self._end = "", 0

    def announce(self, event: str, n_lines: int) -> None:
        """Set the event of the next lines."""
        self._event, self._end = event, len(self.log) + n_lines

    def feed(self, line: str) -> str | None:
        """Add a line; return the event that it completes, if any."""
        self.log.append(line)
        if len(self.log) != self._end:
            return None
        first = self.events[-1][2] if self.events else 0
        self.events.append((self._event, first, self._end))
        return self._event

    @property
    def last_log(self) -> str:
        """The lines of the last event."""
        _, first, end = self.events[-1]
        return "".join(self.log[first:end])

    def add_iteration(self, now: Iteration, seconds: float) -> list[str]:
        """Add an iteration; return its lines."""
        self.last_iteration = {
            "num": now.iteration,
            "loss": now.value,
            "feature_norm": now.coefficient_norm,
            "error_norm": now.gradient_norm,
            "linesearch_step": now.step,
            "time": seconds,
            "scores": {},
        }
        self.iterations.append(self.last_iteration)
        return [
            f"***** Iteration #{now.iteration} *****\n",
            f"Loss: {now.value:f}\n",
            f"Feature norm: {now.coefficient_norm:f}\n",
            f"Error norm: {now.gradient_norm:f}\n",
            f"Line search step: {now.step:f}\n",
            f"Seconds required for this iteration: {seconds:.3f}\n",
            "\n",
        ]
