"""Sweeps of belief propagation over one large graph, its parts side by side in threads; parts.py makes the parts.

The messages are those of messages_compiled.py, and so is every number but for the order of the nodes: the separator
sends first downward and last upward, the parts in between, in any order. Cost: as there, divided by the threads but
for the separator.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernelfields.inference.approximate.messages_compiled import (
    HALVINGS,
    PATIENCE,
    ROUNDING,
    copy_messages,
    down_range,
    draw_back,
    summed,
    tree_marginals_range,
    up_range,
)
from kernelfields.inference.approximate.pair_layout import Messages, PairGraph, PairTables
from kernelfields.inference.approximate.parts import Ranges
from kernelfields.numerics.threads import Workers


class PartedSweeps:
    """Sweeps over one graph in ranges; the same messages as those of messages_compiled.py in the same order."""

    def __init__(
        self,
        graph: PairGraph,
        forest: bool,
        ranges: Ranges,
        tables: PairTables,
        node: np.ndarray,
        messages: Messages,
        workers: Workers,
    ):
        self._graph, self._tables, self._node, self._messages = graph, tables, node, messages
        self._separator, self._others = ranges[0], ranges[1:]
        self._first, self._last = ranges[0][0], ranges[-1][1]
        self._forest, self._workers = forest, workers

    def propagate(self, bounded: bool, tolerance: float, damping: float, max_iter: int) -> tuple:
        """Sweep until marginals rest, as ``propagate`` of messages_compiled.py; return what it reports."""
        value = self._up()
        change, converged, sweeps, moved = np.inf, False, 0, True
        kept, milestone = damping if bounded else 0.0, np.inf
        while value > -np.inf and moved and not converged and sweeps < max_iter:
            sweeps += 1
            if bounded:
                value, change, moved = self._descend(kept, value)
            else:
                change, value = self._down(kept), self._up()
            change = 0.0 if self._forest else change / (1.0 - kept)
            converged = change <= tolerance
            if not bounded and sweeps % PATIENCE == 0:
                kept = damping if change > 0.5 * milestone else kept
                milestone = change
        return value, sweeps, change, converged

    def tree_marginals(self) -> None:
        """Replace the marginals of all nodes but roots by averages over their parents."""
        messages = self._messages

        def run(first: int, last: int) -> None:
            tree_marginals_range(
                first, last, self._graph, self._tables, messages.down, messages.beliefs, messages.chances
            )

        run(*self._separator)
        self._workers.each(run, self._others)

    def _up(self) -> float:
        """Renew messages upward; return the value, -inf if the graph is infeasible."""
        shares, feasible = np.empty(self._last - self._first), []

        def run(first: int, last: int) -> None:
            part = shares[first - self._first : last - self._first]
            feasible.append(up_range(first, last, self._graph, self._tables, False, self._node, self._messages, part))

        self._workers.each(run, self._others)
        if all(feasible):
            run(*self._separator)
        return summed(shares) if all(feasible) else -np.inf

    def _down(self, damping: float) -> float:
        """Renew messages downward; return the largest change of a node's softmax."""
        changes: list[float] = []

        def run(first: int, last: int) -> None:
            changes.append(
                down_range(first, last, self._graph, self._tables, False, damping, self._node, self._messages)
            )

        run(*self._separator)
        self._workers.each(run, self._others)
        return max(changes)

    def _descend(self, damping: float, value: float) -> tuple[float, float, bool]:
        """Sweep down and up so that the bound does not rise; see ``descend`` of messages_compiled.py."""
        messages = self._messages
        self._each(copy_messages, messages.down, messages.saved)
        change, fresh = self._down(damping), self._up()
        slack = ROUNDING * (1.0 + abs(value)) * (self._last - self._first)
        halvings = 0
        while fresh > value + slack and halvings < HALVINGS:
            halvings += 1
            if halvings == HALVINGS:
                self._each(copy_messages, messages.saved, messages.down)
            else:
                self._each(draw_back, messages.saved, messages.down)
            fresh = self._up()
        return fresh, change, halvings < HALVINGS

    def _each(self, function: Callable[..., None], source: np.ndarray, target: np.ndarray) -> None:
        """Run a function over the pairs of all ranges."""
        self._workers.each(
            lambda first, last: function(first, last, self._graph, source, target), [self._separator, *self._others]
        )
