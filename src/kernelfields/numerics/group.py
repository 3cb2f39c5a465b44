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
from typing import Any, TypeVar

import numpy as np

Value = TypeVar("Value")


class Group:
    """A group of ``size`` processes, this one with number ``rank``; the base class is a group of one."""

    rank = 0
    size = 1

    def total(self, values: Value) -> Value:
        """Return the sum over all processes."""
        return values

    def gather(self, value: Value) -> list[Value]:
        """Return the values of all processes, in order."""
        return [value]

    def total_and_largest(self, values: list, number: float) -> tuple[list, float]:
        """Return the sums of some values over all processes, and the maxima of others."""
        numbers = np.zeros(self.size)
        numbers[self.rank] = number
        *sums, numbers = self.total([*values, numbers])
        return sums, float(numbers.max())

    def largest(self, number: float) -> float:
        """Return the maximum of the numbers of all processes."""
        return self.total_and_largest([], number)[1]

    def concatenate(self, rows: np.ndarray) -> np.ndarray:
        """Return the concatenated rows of all processes."""
        return rows if self.size == 1 else np.concatenate(self.gather(rows))

    def find_share(self, counts: Sequence[int]) -> slice:
        """Return this process's rows among all, from the counts of the processes."""
        begin = sum(counts[: self.rank])
        return slice(begin, begin + counts[self.rank])

    def first_calls(self, call: Callable[[], Value]) -> Value | None:
        """Return the result of a function, called by the first process alone."""
        return call() if self.rank == 0 else None

    def broadcast(self, number: int) -> int:
        """Return a number of the first process to all."""
        return number

    def sum_datafit(self, datafit: Any) -> Any:
        """Return the datafit of all data from the datafit of this process's part."""
        return datafit

    def total_on_device(self, matrix: Any) -> Any:
        """Return the sum over all processes of a tensor, which may be overwritten."""
        return matrix


#: A process that holds all data.
ALONE = Group()

#: The group that a fit in this thread runs in; None outside of one.
RUNNING: ContextVar[Group | None] = ContextVar("running", default=None)
