"""Undo and redo: steps of one or several changes, restored from the journal, across saves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

from kernelfields.formats.tokens import TokenizedText
from kernelfields.page.items import Known
from kernelfields.page.journal import Action, Split

#: Labels of positions of an item; None where nothing is known.
Changes: TypeAlias = list[tuple[int, Known]]


class Change(NamedTuple):
    """Labels of an item before and after a change."""

    item: int
    before: Changes
    after: Changes

    @property
    def position(self) -> int:
        """The first position."""
        return self.before[0][0]


class Cut(NamedTuple):
    """A word of an item, cut in two after ``at`` characters, with the known labels before and after."""

    item: int
    position: int
    at: int
    before: Known
    after: tuple[Known, Known]

    def replacement(self, kind: str) -> tuple[slice, list[Known]]:
        """Return the positions of changed words, and the known labels of the new words."""
        if kind == "undo":
            return slice(self.position, self.position + 2), [self.before]
        return slice(self.position, self.position + 1), list(self.after)

    def apply(self, text: TokenizedText, kind: str) -> TokenizedText:
        """Return the text with the word cut or, by "undo", with its parts joined; ValueError for other words."""
        whole = kind == "undo"
        if not 0 <= self.position < len(text.tokens) - whole:
            raise ValueError(f"there are {len(text.tokens)} words, and no word {self.position!r:.40}")
        begin, end = text.tokens[self.position]
        joined = whole and text.tokens[self.position + 1][0] == end == begin + self.at
        if not (joined if whole else 0 < self.at < end - begin):
            raise ValueError(f"the word {text.text[begin:end]!r:.40} has no edge behind {self.at} characters")
        return text.join(self.position) if whole else text.split(self.position, self.at)


class History:
    """Done steps in order, and undone steps."""

    def __init__(self, actions: Sequence[Action | Split] = ()):
        self.done: list[list[Change | Cut]] = []
        self.undone: list[list[Change | Cut]] = []
        self._last_step = max((action.step or 0 for action in actions), default=0)
        numbered = [(action, number if action.step is None else -action.step) for number, action in enumerate(actions)]
        for (kind, _), run in groupby(numbered, key=lambda pair: (pair[0].kind, pair[1])):
            own = [action for action, _ in run]
            if kind != "do":
                self.record_turn(kind)
            elif any(
                isinstance(action, Action) and action.before is None for action in own
            ):  # of a journal that does not say what labels were
                self.done.clear()
            else:
                self.done.append([_step(each) for each in own])
                self.undone.clear()

    def record(self, change: Change | Cut, *, begins: bool = True) -> None:
        """Record a change; ``begins`` a step, or continues the last one."""
        if begins:
            self.done.append([])
        self.done[-1].append(change)
        self.undone.clear()

    def next_step(self, kind: str) -> list[Change | Cut]:
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


def plain_entry(own: Known) -> list | None:
    """Return the known labels of a position in the form of the journal."""
    return None if own is None else sorted(own, key=str)


def read_cut(action: Split) -> Cut:
    """Return the cut of an entry of the journal."""
    before, first, second = (None if own is None else frozenset(own) for own in (action.before, *action.after))
    return Cut(action.item, action.position, action.at, before, (first, second))


def _step(action: Action | Split) -> Change | Cut:
    if isinstance(action, Split):
        return read_cut(action)
    return Change(action.item, _known(action.before or []), _known(action.changes))


def plain_changes(changes: Changes) -> list[tuple[int, list | None]]:
    """Return changes in the form of the journal."""
    return [(position, plain_entry(own)) for position, own in changes]


def _known(changes: Sequence[tuple[int, list | None]]) -> Changes:
    return [(position, None if own is None else frozenset(own)) for position, own in changes]
