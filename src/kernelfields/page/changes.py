"""Changes of labels: each is in the journal when it counts, can be undone, and is refused from an older version.

Items have versions, so that two pages on one labelling cannot overwrite each other. Undoing and redoing are actions of
the journal too. Where labels follow a scheme of entities, what is marked are spans (page/spans.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernelfields.numerics.wording import counted
from kernelfields.page.history import Change, Changes, plain_changes
from kernelfields.page.journal import Action, Flag
from kernelfields.page.known_items import LISTED, WINDOW, KnownItems
from kernelfields.page.spans import OUTSIDE

# The most characters of a note.
_LONGEST_NOTE = 1000


class Conflict(ValueError):
    """A change that was made from an older version of an item."""


class ChangedItems(KnownItems):
    """Items whose labels are marked, accepted, forgotten, undone and saved; parameters as in LabellingSession."""

    def _write(self, item: int, changes: Changes, kind: str = "do", step: int | None = None) -> Change:
        """Keep changes in the journal, and make them."""
        before = [(position, self.known[item][position]) for position, _ in changes]
        self._check_item(item, changes)
        both = plain_changes(changes), plain_changes(before)
        self.journal.append(Action(item, self.versions[item], *both, kind, step))
        self._apply(item, changes)
        return Change(item, before, changes)

    def _seen(self, item: object, version: object) -> int:
        """Return the number of an item; Conflict if it is not that version any more."""
        number = self._item(item)
        if version != self.versions[number]:
            raise Conflict(
                f"item {number + 1} was changed elsewhere: version {self.versions[number]}, not {version!r:.20}"
            )
        return number

    def change(self, item: object, version: object, changes: object, first: int = 0) -> dict[str, Any]:
        """Fix, or forget, labels of an item that was seen at a version; it is in the journal when this returns."""
        with self._lock:
            number = self._seen(item, version)
            pairs = isinstance(changes, list) and all(isinstance(one, list) and len(one) == 2 for one in changes)
            if not pairs or not changes:
                raise ValueError("changes must be a list of pairs [position, labels]")
            assert isinstance(changes, list)
            return self._do(number, self._checked(number, [(one[0], one[1]) for one in changes]), first)

    def _range(self, item: int, begin: object, end: object) -> tuple[int, int]:
        whole = all(isinstance(one, int) and not isinstance(one, bool) for one in (begin, end))
        if not whole or not 0 <= begin < end <= self.lengths[item]:  # type: ignore[operator]  # whole numbers
            raise ValueError(f"item {item + 1} has {self.lengths[item]} positions, and none from {begin!r} to {end!r}")
        return begin, end  # type: ignore[return-value]  # whole numbers

    def mark(
        self, item: object, version: object, begin: object, end: object, kind: object, first: int = 0
    ) -> dict[str, Any]:
        """Make positions a span of a type, None for outside of spans; without a scheme, each has the label ``kind``."""
        with self._lock:
            number = self._seen(item, version)
            start, stop = self._range(number, begin, end)
            if self.spans is None:
                labels = None if kind is None else [kind]
                return self._do(number, self._checked(number, [(t, labels) for t in range(start, stop)]), first)
            if kind is not None and not isinstance(kind, str):
                raise ValueError(f"the type of a span is a text, got {kind!r:.40}")
            return self._do(number, self._marked(number, start, stop, kind, self._labels_shown(number)), first)

    def _marked(
        self, item: int, begin: int, end: int, kind: str | None, shown: list, *, decode: bool = True
    ) -> Changes:
        """Return the changes that mark a span; a prediction that goes on beyond its end gets another label."""
        assert self.spans is not None
        known = [entry is not None and len(entry) == 1 for entry in self.known[item]]
        labels = self.spans.marked(shown, known, begin, end, kind)
        changes = self._checked(item, [(t, None if label is None else [label]) for t, label in labels.items()])
        if not decode or kind is None or end == self.lengths[item] or known[end]:
            return changes
        given = list(self.known[item])
        for position, entry in changes:
            given[position] = entry
        found = self._decoded(item, given)
        last = str(next(iter(given[end - 1] or ())))
        if found is not None and self.spans.goes_on(last, str(found[1][end])):
            names = [str(name) for name in found[0]]
            chances = np.where([self.spans.goes_on(last, name) for name in names], -1.0, found[2][end])
            changes.append((end, frozenset([names[int(np.argmax(chances))]])))
        return changes

    def accept(self, item: object, version: object, begin: object, end: object, first: int = 0) -> dict[str, Any]:
        """Fix what is predicted at positions, of spans that they touch all of it."""
        with self._lock:
            number = self._seen(item, version)
            start, stop = self._range(number, begin, end)
            shown = self._labels_shown(number)
            touched = [] if self.spans is None else self.spans.spans(shown)
            for span in touched:
                if span.begin < stop and start < span.end:
                    start, stop = min(start, span.begin), max(stop, span.end)
            return self._do(number, self._fixed(number, shown, range(start, stop)), first)

    def done(self, item: object, version: object, first: int = 0) -> dict[str, Any]:
        """Fix all that is shown of an item; where labels write spans, the rest is outside of them."""
        with self._lock:
            number = self._seen(item, version)
            shown = self._labels_shown(number)
            if self.model is not None and self.lengths[number] and self._decoded(number) is None:
                raise ValueError("what is known of this item breaks a rule of the field: correct a label first")
            if self.spans is not None:
                shown = self.spans.mended([OUTSIDE if label is None else label for label in shown])
            elif missing := shown.count(None):
                raise ValueError(f"{counted(missing, 'position')} of item {number + 1} have no label yet")
            return self._do(number, self._fixed(number, shown, range(self.lengths[number])), first)

    def _fixed(self, item: int, shown: Sequence, positions: Sequence[int]) -> Changes:
        """Return labels that are shown at positions, but for those that are known."""
        left = [t for t in positions if (entry := self.known[item][t]) is None or len(entry) > 1]
        return [(t, frozenset([shown[t]])) for t in left if shown[t] is not None]

    def _do(self, item: int, changes: Changes, first: int) -> dict[str, Any]:
        """Make changes, if there are any, as one step."""
        if changes:
            self.history.record(self._write(item, changes))
        return self.show(item, first)

    def undo(self, first: int = 0) -> dict[str, Any]:
        """Take back the last change; the item is as it was before it."""
        return self._turn("undo", first)

    def redo(self, first: int = 0) -> dict[str, Any]:
        """Make the change again that was undone last."""
        return self._turn("redo", first)

    def _turn(self, kind: str, first: int) -> dict[str, Any]:
        with self._lock:
            changes = self.history.next_step(kind)
            step = self.history.new_step() if len(changes) > 1 else None
            for item, before, after in reversed(changes) if kind == "undo" else changes:
                labels = plain_changes(before if kind == "undo" else after)
                self._write(item, self._checked(item, labels), kind, step)
            self.history.turned(kind)
            item, (position, _) = changes[0].item, changes[0].before[0]
            return self.show(item, max(min(first, position), position - WINDOW + 1)) | {"at": position}

    def repeats(self, item: object, begin: object, end: object, kind: object, apply: object = False) -> dict[str, Any]:
        """Return where the words of a span occur without a label; with ``apply``, mark them all, as one step."""
        with self._lock:
            number = self._item(item)
            start, stop = self._range(number, begin, end)
            if self.spans is None or self.items.words is None or not isinstance(kind, str):
                raise ValueError("spans of words can be repeated, and of nothing else")
            words = [str(word) for word in self.items.words[number][start:stop]]
            places = [*self._places_of(words)]
            if apply is True and places:
                step = self.history.new_step()
                for number, (other, at) in enumerate(places):
                    shown = [next(iter(own)) if own and len(own) == 1 else None for own in self.known[other]]
                    marked = self._marked(other, at, at + len(words), kind, shown, decode=False)
                    self.history.record(self._write(other, marked, step=step), begins=number == 0)
            listed = [
                {"item": other, "text": " ".join(map(str, self.items.words[other][max(0, at - 4) : at + 6]))}
                for other, at in places[:LISTED]
            ]
            return {"words": " ".join(words), "count": len(places), "places": listed}

    def _places_of(self, words: list[str]) -> Iterator[tuple[int, int]]:
        """Yield items and positions where these words stand and nothing is known of them."""
        assert self.items.words is not None
        for item, own in enumerate(self.items.words):
            at = 0
            while at + len(words) <= len(own):
                same = own[at] == words[0] and [str(word) for word in own[at : at + len(words)]] == words
                if same and all(entry is None for entry in self.known[item][at : at + len(words)]):
                    yield item, at
                    at += len(words)
                else:
                    at += 1

    def flag(self, item: object, note: object) -> dict[str, Any]:
        """Flag an item to come back to, with a note that may be empty; None takes the flag away."""
        with self._lock:
            number = self._item(item)
            if note is not None and not (isinstance(note, str) and len(note) <= _LONGEST_NOTE):
                raise ValueError(f"a note is a text of at most {_LONGEST_NOTE} characters")
            self.journal.flag(Flag(number, note))
            return {"item": number, "flag": note}

    def save(self) -> str:
        """Write the labels into the file; returns what was written. What was done can be undone all the same."""
        with self._lock:
            if self.file is None:
                raise ValueError("these items come from no file: take labels() in Python")
            if self.file.current() != self.file.content:
                raise ValueError(f"{self.file.path.name} was changed by another program: it is left as it is")
            content = self.file.written(self.labels())
            self.journal.saving(content)
            self.file.save(content)
            self.file = replace(self.file.after(content), scheme=self.file.scheme)
            self.journal.saved(content)
            return f"wrote {self.file.path.name}"

    def close(self) -> None:
        """Let go of the file and its journal, so that another session can open them."""
        self.journal.close()
