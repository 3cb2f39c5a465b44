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
        """The first changed position."""
        return self.before[0][0]


class Cut(NamedTuple):
    """A cut of a word into two parts after ``at`` characters, with the known labels before and after."""

    item: int
    position: int
    at: int
    before: Known
    after: tuple[Known, Known]

    def replacement(self, kind: str) -> tuple[slice, list[Known]]:
        """Return the slice of the changed words, and the known labels of their replacement."""
        if kind == "undo":
            return slice(self.position, self.position + 2), [self.before]
        return slice(self.position, self.position + 1), list(self.after)

    def apply(self, text: TokenizedText, kind: str) -> TokenizedText:
        """Cut the word of a text or, by "undo", join its parts; ValueError if the words differ."""
        whole = kind == "undo"
        if not 0 <= self.position < len(text.tokens) - whole:
            raise ValueError(f"there are {len(text.tokens)} words, and no word {self.position!r:.40}")
        begin, end = text.tokens[self.position]
        joined = whole and text.tokens[self.position + 1][0] == end == begin + self.at
        if not (joined if whole else 0 < self.at < end - begin):
            raise ValueError(f"the word {text.text[begin:end]!r:.40} has no edge behind {self.at} characters")
        return text.join(self.position) if whole else text.split(self.position, self.at)


class History:
    """The steps that can be undone, and the steps that can be redone."""

    def __init__(self, actions: Sequence[Action | Split] = ()):
        self.done: list[list[Change | Cut]] = []
        self.undone: list[list[Change | Cut]] = []
        self._last_step = max((action.step or 0 for action in actions), default=0)
        numbered = [(action, number if action.step is None else -action.step) for number, action in enumerate(actions)]
        for (kind, _), run in groupby(numbered, key=lambda pair: (pair[0].kind, pair[1])):
            own = [action for action, _ in run]
            if kind != "do":
                self.move_step(kind)
            elif any(
                isinstance(action, Action) and action.before is None for action in own
            ):  # of a journal that does not say what labels were
                self.done.clear()
            else:
                self.done.append([_step(each) for each in own])
                self.undone.clear()

    def record(self, change: Change | Cut, *, begins: bool = True) -> None:
        """Record a change in a new step or, unless ``begins``, in the last step."""
        if begins:
            self.done.append([])
        self.done[-1].append(change)
        self.undone.clear()

    def next_step(self, kind: str) -> list[Change | Cut]:
        """Return the changes of the step that "undo" or "redo" concerns; ValueError without a step."""
        source = self.done if kind == "undo" else self.undone
        if not source:
            raise ValueError(f"there is nothing to {kind}")
        return source[-1]

    def move_step(self, kind: str) -> None:
        """Move the last step to the other list after an undo or a redo."""
        source, target = (self.done, self.undone) if kind == "undo" else (self.undone, self.done)
        if source:
            target.append(source.pop())

    def new_step_number(self) -> int:
        """Return a new number for a step of several actions."""
        self._last_step += 1
        return self._last_step


def to_json_labels(own: Known) -> list | None:
    """Return the known labels of a position as JSON values for the journal."""
    return None if own is None else sorted(own, key=str)


def read_cut(action: Split) -> Cut:
    """Convert a Split of the journal to a Cut."""
    before, first, second = (None if own is None else frozenset(own) for own in (action.before, *action.after))
    return Cut(action.item, action.position, action.at, before, (first, second))


def _step(action: Action | Split) -> Change | Cut:
    if isinstance(action, Split):
        return read_cut(action)
    return Change(action.item, _known(action.before or []), _known(action.changes))


def to_json_changes(changes: Changes) -> list[tuple[int, list | None]]:
    """Return changes as JSON values for the journal."""
    return [(position, to_json_labels(own)) for position, own in changes]


def _known(changes: Sequence[tuple[int, list | None]]) -> Changes:
    return [(position, None if own is None else frozenset(own)) for position, own in changes]
