"""Undo and redo: steps of one change or several, restored from the journal, across saves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

from kernelfields.page.items import Known
from kernelfields.page.journal import Action

#: Labels of positions of an item; None where nothing is known.
Changes: TypeAlias = list[tuple[int, Known]]


class Change(NamedTuple):
    """Labels of an item before and after a change."""

    item: int
    before: Changes
    after: Changes


class History:
    """Done steps in order, and undone steps."""

    def __init__(self, actions: Sequence[Action] = ()):
        self.done: list[list[Change]] = []
        self.undone: list[list[Change]] = []
        self._last_step = max((action.step or 0 for action in actions), default=0)
        numbered = [(action, number if action.step is None else -action.step) for number, action in enumerate(actions)]
        for (kind, _), run in groupby(numbered, key=lambda pair: (pair[0].kind, pair[1])):
            own = [action for action, _ in run]
            if kind != "do":
                self.record_turn(kind)
            elif any(action.before is None for action in own):  # of a journal that does not say what labels were
                self.done.clear()
            else:
                changes = [Change(each.item, _known(each.before or []), _known(each.changes)) for each in own]
                self.done.append(changes)
                self.undone.clear()

    def record(self, change: Change, *, begins: bool = True) -> None:
        """Keep a change that was made; ``begins`` a step, or goes on with the last one."""
        if begins:
            self.done.append([])
        self.done[-1].append(change)
        self.undone.clear()

    def next_step(self, kind: str) -> list[Change]:
        """Return the changes of an "undo" or a "redo"; ValueError without a step."""
        source = self.done if kind == "undo" else self.undone
        if not source:
            raise ValueError(f"there is nothing to {kind}")
        return source[-1]

    def record_turn(self, kind: str) -> None:
        """Record that the next step was undone, or redone."""
        source, target = (self.done, self.undone) if kind == "undo" else (self.undone, self.done)
        if source:
            target.append(source.pop())

    def new_step(self) -> int:
        """Return a number for actions of one step."""
        self._last_step += 1
        return self._last_step


def plain_changes(changes: Changes) -> list[tuple[int, list | None]]:
    """Return changes as the journal writes them."""
    return [(position, None if own is None else sorted(own, key=str)) for position, own in changes]


def _known(changes: Sequence[tuple[int, list | None]]) -> Changes:
    return [(position, None if own is None else frozenset(own)) for position, own in changes]
