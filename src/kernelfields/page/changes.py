"""Changes of labels: recorded in the journal before they are applied, undoable, and checked against the item's version.

Each change names the version of the item that the user saw; Conflict is raised if it is older than the current one, so
that two open pages cannot overwrite each other. Undo and redo are actions of the journal, too. If labels follow a
scheme of entities, spans are marked instead of single labels (page/spans.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernelfields.numerics.wording import inflect
from kernelfields.page.history import Change, Changes, Cut, to_json_changes, to_json_labels
from kernelfields.page.items import Known
from kernelfields.page.journal import Action, Flag, Split
from kernelfields.page.known_items import LISTED, WINDOW, KnownItems
from kernelfields.page.spans import OUTSIDE

# The most characters of a note.
_LONGEST_NOTE = 1000


class Conflict(ValueError):
    """A change to an older version of an item."""


class ChangedItems(KnownItems):
    """Items whose labels are changed, with undo, redo and saving; parameters as in LabellingSession."""

    def _write(self, item: int, changes: Changes, kind: str = "do", step: int | None = None) -> Change:
        """Write changes to the journal, and apply them."""
        before = [(position, self.known[item][position]) for position, _ in changes]
        self._check_item(item, changes)
        both = to_json_changes(changes), to_json_changes(before)
        self.journal.append(Action(item, self.versions[item], *both, kind, step))
        self._apply(item, changes)
        return Change(item, before, changes)

    def _write_cut(self, cut: Cut, kind: str = "do", step: int | None = None) -> Cut:
        """Write a cut to the journal, and apply it."""
        file = self._replace_cut(cut, kind)
        known = list(self.known[cut.item])
        here, new = cut.replacement(kind)
        known[here] = new
        file.check_item(cut.item, self.items.format_labels([known])[0])
        before, (first, second) = to_json_labels(cut.before), map(to_json_labels, cut.after)
        self.journal.append(
            Split(cut.item, self.versions[cut.item], cut.position, cut.at, before, (first, second), kind, step)
        )
        self._apply_cut(cut, kind, file)
        return cut

    def _check_version(self, item: object, version: object) -> int:
        """Return the number of an item; raise Conflict if its version differs."""
        number = self._item(item)
        if version != self.versions[number]:
            raise Conflict(
                f"{self.title(number)} was changed elsewhere: version {self.versions[number]}, not {version!r:.20}"
            )
        return number

    def change(self, item: object, version: object, changes: object, first: int = 0) -> dict[str, Any]:
        """Set or remove known labels of an item, after an entry in the journal.

        Parameters
        ----------
        item : int
            The number of the item.
        version : int
            The version of the item that was seen.
        changes : list of [position, labels]
            A list of labels of which one is right for each position, None to forget what is known.
        first : int, default 0
            The position from which on the item is shown.

        Returns
        -------
        dict
            The item as :meth:`show` returns it.

        Raises
        ------
        ValueError
            If the item is not at that version any more, or if a position or label is none.

        Examples
        --------
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["Lima", "was", "far"]]
        >>> session = LabellingSession(words, [["O", "O", "B-city"], None], words=words)
        >>> shown = session.change(1, 0, [[0, ["B-city"]]])
        >>> shown["positions"][0]["label"], shown["version"]
        ('B-city', 1)
        """
        with self._lock:
            number = self._check_version(item, version)
            pairs = isinstance(changes, list) and all(isinstance(one, list) and len(one) == 2 for one in changes)
            if not pairs or not changes:
                raise ValueError("changes must be a list of pairs [position, labels]")
            assert isinstance(changes, list)
            return self._apply_step(number, self._checked(number, [(one[0], one[1]) for one in changes]), first)

    def _range(self, item: int, begin: object, end: object) -> tuple[int, int]:
        """Return the checked range of positions; ValueError if it is empty or outside the item."""
        whole = all(isinstance(one, int) and not isinstance(one, bool) for one in (begin, end))
        if not whole or not 0 <= begin < end <= self.lengths[item]:  # type: ignore[operator]  # whole numbers
            raise ValueError(
                f"{self.title(item)} has {self.lengths[item]} positions, and none from {begin!r} to {end!r}"
            )
        return begin, end  # type: ignore[return-value]  # whole numbers

    def mark(
        self, item: object, version: object, begin: object, end: object, kind: object, first: int = 0
    ) -> dict[str, Any]:
        """Mark positions as a span of a type; without a scheme, label each of them with ``kind``.

        Parameters
        ----------
        item : int
            The number of the item.
        version : int
            The version of the item that was seen.
        begin : int
            The first position.
        end : int
            The position after the last.
        kind : str or None
            The type, or the label; None for outside of spans.
        first : int, default 0
            The position from which on the item is shown.

        Returns
        -------
        dict
            The item as :meth:`show` returns it.

        Raises
        ------
        ValueError
            If the item is not at that version any more, or if there are no such positions.

        Examples
        --------
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["Lima", "was", "far"]]
        >>> session = LabellingSession(words, [["O", "O", "B-city"], None], words=words)
        >>> shown = session.mark(1, 0, 0, 1, "city")
        >>> session.labels()[1]
        ['B-city', None, None]
        """
        with self._lock:
            number = self._check_version(item, version)
            start, stop = self._range(number, begin, end)
            if self.spans is None:
                labels = None if kind is None else [kind]
                return self._apply_step(number, self._checked(number, [(t, labels) for t in range(start, stop)]), first)
            if kind is not None and not isinstance(kind, str):
                raise ValueError(f"the type of a span is a text, got {kind!r:.40}")
            return self._apply_step(
                number, self._make_span_changes(number, start, stop, kind, self._list_shown_labels(number)), first
            )

    def split(self, item: object, version: object, places: object, first: int = 0) -> dict[str, Any]:
        """Cut words of an item in two, so that spans can begin and end inside of them.

        Parameters
        ----------
        item : int
            The number of the item.
        version : int
            The version of the item that was seen.
        places : list of int
            Places in the text of the item, in characters, which are code points. At the edge of a word there is nothing
            to cut.
        first : int, default 0
            The position from which on the item is shown.

        Returns
        -------
        dict
            The item as :meth:`show` returns it.

        Raises
        ------
        ValueError
            If the item is not at that version any more, if the text has no such place, or if the file has no place for
            parts of words.

        Examples
        --------
        >>> from pathlib import Path
        >>> from kernelfields.page import LabellingSession
        >>> from kernelfields.page.files import open_file
        >>> n = Path("notes.txt").write_text("Take 5mg daily")
        >>> file = open_file("notes.txt")
        >>> session = LabellingSession(file.X, words=file.words, file=file, classes=["unit"], scheme="spans")
        >>> session.split(0, 0, [6])["words"]
        ['Take', '5', 'mg', 'daily']
        """
        with self._lock:
            number = self._check_version(item, version)
            text = self._get_text(number)
            if text is None:
                raise ValueError(f"{self.title(number)} was not read from a text: its words stay as they are")
            listed: list[Any] = places if isinstance(places, list) else [None]
            whole = all(isinstance(at, int) and not isinstance(at, bool) for at in listed)
            if not whole or not all(0 <= at <= len(text.text) for at in listed):
                raise ValueError(f"{self.title(number)} has {len(text.text)} characters, and no place {places!r:.40}")
            found = [(place, text.find_word(place)) for place in sorted(set(listed), reverse=True)]
            cuts = [(word, place - text.tokens[word][0]) for place, word in found if word is not None]
            step = self.history.new_step_number() if len(cuts) > 1 else None
            for k, (position, at) in enumerate(cuts):  # the last one first: those before it keep their numbers
                entry = self.known[number][position]
                cut = Cut(number, position, at, entry, self._split_entry(entry))
                self.history.record(self._write_cut(cut, step=step), begins=k == 0)
            return self.show(number, first)

    def _split_entry(self, entry: Known) -> tuple[Known, Known]:
        """Return the known labels of the parts of a word from the known labels of the word."""
        if entry is None or self.spans is None:
            return entry, entry
        parts = [self.spans.split(label) for label in entry]
        return frozenset(first for first, _ in parts), frozenset(second for _, second in parts)

    def _make_span_changes(
        self, item: int, begin: int, end: int, kind: str | None, shown: list, *, decode: bool = True
    ) -> Changes:
        """Return the label changes for a new span; the label behind its end changes if it would continue the span."""
        assert self.spans is not None
        known = [entry is not None and len(entry) == 1 for entry in self.known[item]]
        labels = self.spans.mark_span(shown, known, begin, end, kind)
        changes = self._checked(item, [(t, None if label is None else [label]) for t, label in labels.items()])
        if not decode or kind is None or end == self.lengths[item] or known[end]:
            return changes
        given = list(self.known[item])
        for position, entry in changes:
            given[position] = entry
        found = self._decode_item(item, given)
        last = str(next(iter(given[end - 1] or ())))
        if found is not None and self.spans.is_continued(last, str(found[1][end])):
            names = [str(name) for name in found[0]]
            chances = np.where([self.spans.is_continued(last, name) for name in names], -1.0, found[2][end])
            changes.append((end, frozenset([names[int(np.argmax(chances))]])))
        return changes

    def accept(self, item: object, version: object, begin: object, end: object, first: int = 0) -> dict[str, Any]:
        """Accept the predicted labels of a range of positions, extended to whole spans.

        Parameters
        ----------
        item : int
            The number of the item.
        version : int
            The version of the item that was seen.
        begin : int
            The first position.
        end : int
            The position after the last.
        first : int, default 0
            The position from which on the item is shown.

        Returns
        -------
        dict
            The item as :meth:`show` returns it.

        Raises
        ------
        ValueError
            If the item is not at that version any more, or if there are no such positions.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["they", "saw", "Lima"]]
        >>> y = [["O", "O", "city"], ["O", "O", "city"]]
        >>> crf = ChainCRF("linear", prior_variance=10.0).fit(words, y)
        >>> session = LabellingSession(words, None, crf, scheme=None, words=words)
        >>> shown = session.accept(1, 0, 2, 3)
        >>> session.labels()[1]
        [None, None, 'city']
        """
        with self._lock:
            number = self._check_version(item, version)
            start, stop = self._range(number, begin, end)
            shown = self._list_shown_labels(number)
            touched = [] if self.spans is None else self.spans.spans(shown)
            for span in touched:
                if span.begin < stop and start < span.end:
                    start, stop = min(start, span.begin), max(stop, span.end)
            return self._apply_step(number, self._make_shown_label_changes(number, shown, range(start, stop)), first)

    def done(self, item: object, version: object, first: int = 0) -> dict[str, Any]:
        """Accept all shown labels of an item; positions without a label become outside of spans.

        Parameters
        ----------
        item : int
            The number of the item.
        version : int
            The version of the item that was seen.
        first : int, default 0
            The position from which on the item is shown.

        Returns
        -------
        dict
            The item as :meth:`show` returns it.

        Raises
        ------
        ValueError
            If the item is not at that version any more, or if a position has no label yet.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["they", "saw", "Lima"]]
        >>> y = [["O", "O", "city"], ["O", "O", "city"]]
        >>> crf = ChainCRF("linear", prior_variance=10.0).fit(words, y)
        >>> session = LabellingSession(words, None, crf, scheme=None, words=words)
        >>> shown = session.done(1, 0)
        >>> session.labels()[1]
        ['O', 'O', 'city']
        """
        with self._lock:
            number = self._check_version(item, version)
            shown = self._list_shown_labels(number)
            if self.model is not None and self.lengths[number] and self._decode_item(number) is None:
                raise ValueError("what is known of this item breaks a rule of the field: correct a label first")
            if self.spans is not None:
                shown = self.spans.rewrite([OUTSIDE if label is None else label for label in shown])
            elif missing := shown.count(None):
                raise ValueError(f"{inflect(missing, 'position')} of {self.title(number)} have no label yet")
            return self._apply_step(
                number, self._make_shown_label_changes(number, shown, range(self.lengths[number])), first
            )

    def _make_shown_label_changes(self, item: int, shown: Sequence, positions: Sequence[int]) -> Changes:
        """Return the changes that set the shown labels at positions without a known label."""
        left = [t for t in positions if (entry := self.known[item][t]) is None or len(entry) > 1]
        return [(t, frozenset([shown[t]])) for t in left if shown[t] is not None]

    def _apply_step(self, item: int, changes: Changes, first: int) -> dict[str, Any]:
        """Apply changes as one step of the history, and return the item for the page."""
        if changes:
            self.history.record(self._write(item, changes))
        return self.show(item, first)

    def undo(self, first: int = 0) -> dict[str, Any]:
        """Undo the last change.

        Parameters
        ----------
        first : int, default 0
            The position from which on the item is shown.

        Returns
        -------
        dict
            The item as :meth:`show` returns it.

        Examples
        --------
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["Lima", "was", "far"]]
        >>> session = LabellingSession(words, [["O", "O", "B-city"], None], words=words)
        >>> shown = session.mark(1, 0, 0, 1, "city")
        >>> shown = session.undo()
        >>> session.labels()[1]
        [None, None, None]
        """
        return self._undo_or_redo("undo", first)

    def redo(self, first: int = 0) -> dict[str, Any]:
        """Repeat the change that was undone last.

        Parameters
        ----------
        first : int, default 0
            The position from which on the item is shown.

        Returns
        -------
        dict
            The item as :meth:`show` returns it.

        Examples
        --------
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["Lima", "was", "far"]]
        >>> session = LabellingSession(words, [["O", "O", "B-city"], None], words=words)
        >>> shown = session.mark(1, 0, 0, 1, "city")
        >>> shown = session.undo()
        >>> session.redo()["left"]
        2
        """
        return self._undo_or_redo("redo", first)

    def _undo_or_redo(self, kind: str, first: int) -> dict[str, Any]:
        """Undo or redo the next step of the history, and return its item for the page."""
        with self._lock:
            changes = self.history.next_step(kind)
            step = self.history.new_step_number() if len(changes) > 1 else None
            for change in reversed(changes) if kind == "undo" else changes:
                if isinstance(change, Cut):
                    self._write_cut(change, kind, step)
                    continue
                labels = to_json_changes(change.before if kind == "undo" else change.after)
                self._write(change.item, self._checked(change.item, labels), kind, step)
            self.history.move_step(kind)
            item, position = changes[0].item, changes[0].position
            return self.show(item, max(min(first, position), position - WINDOW + 1)) | {"at": position}

    def repeats(self, item: object, begin: object, end: object, kind: object, apply: object = False) -> dict[str, Any]:
        """Find the unlabelled occurrences of the words of a span, and mark them on request.

        Parameters
        ----------
        item : int
            The number of the item.
        begin : int
            The first position.
        end : int
            The position after the last.
        kind : str
            The type of the span.
        apply : bool, default False
            Whether to mark all of them, as one step.

        Returns
        -------
        dict
            The words, how often they occur, and the first places.

        Raises
        ------
        ValueError
            If labels write no spans, or if the items have no words.

        Examples
        --------
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["Rome", "was", "far"]]
        >>> session = LabellingSession(words, [["O", "O", "B-city"], None], words=words)
        >>> session.repeats(0, 2, 3, "city")["count"]
        1
        """
        with self._lock:
            number = self._item(item)
            start, stop = self._range(number, begin, end)
            if self.spans is None or self.items.words is None or not isinstance(kind, str):
                raise ValueError("spans of words can be repeated, and of nothing else")
            words = [str(word) for word in self.items.words[number][start:stop]]
            places = [*self._find_unlabelled_places(words)]
            if apply is True and places:
                step = self.history.new_step_number()
                for number, (other, at) in enumerate(places):
                    shown = [next(iter(own)) if own and len(own) == 1 else None for own in self.known[other]]
                    marked = self._make_span_changes(other, at, at + len(words), kind, shown, decode=False)
                    self.history.record(self._write(other, marked, step=step), begins=number == 0)
            listed = [
                {
                    "title": self.title(other),
                    "text": self._join_words(other, max(0, at - 4), min(at + 6, self.lengths[other])),
                }
                for other, at in places[:LISTED]
            ]
            return {"words": " ".join(words), "count": len(places), "places": listed}

    def _find_unlabelled_places(self, words: list[str]) -> Iterator[tuple[int, int]]:
        """Yield the item and the first position of each unlabelled occurrence of some words."""
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
        """Flag an item for later, or remove its flag.

        Parameters
        ----------
        item : int
            The number of the item.
        note : str or None
            A note, which may be empty; None takes the flag away.

        Returns
        -------
        dict
            The item and its flag.

        Examples
        --------
        >>> from kernelfields.page import LabellingSession
        >>> words = [["we", "saw", "Rome"], ["Lima", "was", "far"]]
        >>> session = LabellingSession(words, [["O", "O", "B-city"], None], words=words)
        >>> session.flag(1, "which Lima?")
        {'item': 1, 'flag': 'which Lima?'}
        """
        with self._lock:
            number = self._item(item)
            if note is not None and not (isinstance(note, str) and len(note) <= _LONGEST_NOTE):
                raise ValueError(f"a note is a text of at most {_LONGEST_NOTE} characters")
            self.journal.flag(Flag(number, note))
            return {"item": number, "flag": note}

    def save(self) -> str:
        """Write the labels into the file of the items.

        What was done can be undone all the same.

        Returns
        -------
        str
            What was written.

        Raises
        ------
        ValueError
            If the items come from no file, or if another program has changed it.
        """
        with self._lock:
            if self.file is None:
                raise ValueError("these items come from no file: take labels() in Python")
            if self.file.read_content() != self.file.content:
                raise ValueError(f"{self.file.path.name} was changed by another program: it is left as it is")
            content = self.file.with_labels(self.labels())
            self.journal.announce_save(content)
            self.file.save(content)
            self.file = replace(self.file.reload(content), scheme=self.file.scheme)
            self.journal.confirm_save(content)
            return f"wrote {self.file.path.name}"

    def close(self) -> None:
        """Release the file and its journal for other sessions."""
        self.journal.close()
