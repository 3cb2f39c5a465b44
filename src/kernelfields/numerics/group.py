"""Groups of processes that hold parts of the same data, and the sums over all of them.

Value, slope, gradient, Hessian products, curvature blocks and Gram matrices are sums over items. Where each process
evaluates its own sum and receives the total, all of them can run the same solver on the same coefficients:

    total(values)                        the sum over all processes of a number, an array, or a list of these
    total_and_largest(values, number)    sums, and the largest of a number of each, in one exchange
    gathered(value)                      the values of all processes, in the order of their data

A process by itself, :data:`ALONE`, is a group of one. Those of several are engines/together/collective.py. Every
process has to ask the same questions in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from itertools import chain
from typing import Any, TypeVar

import numpy as np

Value = TypeVar("Value")


class Group:
    """A group of ``size`` processes, of which this one is number ``rank``; by itself, one that holds all data."""

    rank = 0
    size = 1

    def total(self, values: Value) -> Value:
        """Return the sum over all processes."""
        return values

    def gathered(self, value: Value) -> list[Value]:
        """Return the values of all processes, the first one's first."""
        return [value]

    def total_and_largest(self, values: list, number: float) -> tuple[list, float]:
        """Return the sums of some values over all processes, and the largest of their numbers."""
        numbers = np.zeros(self.size)
        numbers[self.rank] = number
        *sums, numbers = self.total([*values, numbers])
        return sums, float(numbers.max())

    def largest(self, number: float) -> float:
        """Return the largest of the numbers of all processes."""
        return self.total_and_largest([], number)[1]

    def joined(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows of all data, those of the first process first."""
        return rows if self.size == 1 else np.concatenate(self.gathered(rows))

    def sentences(self, own: list[str]) -> list[str]:
        """Return the sentences of all processes, each of them once."""
        return own if self.size == 1 else list(dict.fromkeys(chain.from_iterable(self.gathered(own))))

    def share_of(self, counts: Sequence[int]) -> slice:
        """Return which of the rows of all data are those of this process, given how many each has."""
        begin = sum(counts[: self.rank])
        return slice(begin, begin + counts[self.rank])

    def start(self, theta: np.ndarray | None, size: int) -> np.ndarray | None:
        """Return where a solver begins: ``theta``, unless a fit goes on that has lost a process."""
        return theta

    def reached(self, theta: np.ndarray) -> None:
        """Take note of the coefficients after an iteration of a solver."""

    def first_calls(self, call: Callable[[], Value]) -> Value | None:
        """Return what a function returns in the first process; the others do not call it."""
        return call() if self.rank == 0 else None

    def passed_on(self, number: int) -> int:
        """Return a number that the first process has sent to all of them, the last one or this."""
        return number

    def summed(self, datafit: Any) -> Any:
        """Return the datafit of all data, given that of the part of this process."""
        return datafit

    def total_on_device(self, matrix: Any) -> Any:
        """Return the sum over all processes of a tensor, which it may overwrite."""
        return matrix

    def same_random(self, random: np.random.Generator) -> Any:
        """Return the generator of the first process, which draws the same numbers in every process."""
        return self.gathered(random)[0]


#: A process that holds all data.
ALONE = Group()

#: The group that a fit in this thread runs in; None outside of one.
RUNNING: ContextVar[Group | None] = ContextVar("running", default=None)
