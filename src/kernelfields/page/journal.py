"""A journal of labelling: a line of JSON for each action, written to the disk before the action is applied.

    {"journal": 1, "of": digest}                                     digest of the labelled file
    {"item": 3, "version": 5, "changes": [[7, ["B-NP"]], [8, null]]} new labels of positions; null for unknown
    {..., "before": [[7, null], [8, ["O"]]], "kind": "undo", "step": 2}  old labels; a step is undone as a whole
    {"split": 3, "version": 6, "position": 7, "at": 2, "before": ["B-NP"], "after": [["B-NP"], ["I-NP"]]}  a cut word
    {"flag": 3, "note": "two readings"}                              a flagged item; null removes the flag
    {"saving": digest}                                               the file is about to get this content
    {"saved": digest}                                                the file has this content

Labels are sets of possible labels; ``at`` counts code points of a word. After a crash the journal is replayed from its
beginning: every acknowledged action is in it, and an incomplete last line was never acknowledged. Actions before the
last saved content are kept for undo. If every action is saved and another program has changed the file, a new journal
begins. The journal and its file are locked while it is open.

A line is written completely or not at all: if the disk is full, its beginning is truncated. Other unreadable lines are
skipped and listed in ``left_out``; a complete action behind a torn one in the same line is read. A file that is no
journal is never changed, whatever its name (own_files.py).

Raises OSError if an action cannot be written, and the journal is unchanged; JournalError if the journal belongs to
another file, or its first line is invalid; LockedError if another process holds it; NotOwnFileError for a link.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kernelfields.page.lock import FileLock
from kernelfields.page.own_files import open_own_file, read_own_file

_VERSION = 1
KINDS = ("do", "undo", "redo")
# Numbers of items, positions and steps are smaller.
_LARGEST = 2**63
_MARK = "journal"
# How entries begin; inside of labels quotes are escaped, so that these never stand there.
_BEGIN = re.compile(rb'\{"(?:item|split|saving|saved|flag)": ')
# The first line, and how one begins that was cut off in it.
_HEAD = re.compile(rb'\{"journal": 1, "of": "[^"\\]*"\}')
_BEGINNING, _DIGEST = b'{"journal": 1, "of": "', re.compile(rb'[0-9a-f]{0,63}|[0-9a-f]{64}(?:"\}?)?')


class JournalError(ValueError):
    """A journal that does not belong to its file, or cannot be read."""


class Action(NamedTuple):
    """A change of the labels of one item: pairs of a position and its possible labels, None for unknown labels.

    ``before`` is what they were, None in journals that do not say; ``kind`` is "do", "undo" or "redo", and ``step``
    the number that actions share which are undone together.
    """

    item: int
    version: int
    changes: list[tuple[int, list | None]]
    before: list[tuple[int, list | None]] | None = None
    kind: str = "do"
    step: int | None = None


class Split(NamedTuple):
    """A cut of a word after ``at`` characters; labels as in Action, and "undo" joins the parts."""

    item: int
    version: int
    position: int
    at: int
    before: list | None
    after: tuple[list | None, list | None]
    kind: str = "do"
    step: int | None = None


class Flag(NamedTuple):
    """A flag of an item with its note; None removes the flag."""

    item: int
    note: str | None


class _Saved(NamedTuple):
    """The digest of a file content that was saved, or is about to be saved."""

    digest: str
    done: bool


class Journal:
    """The journal of a file, which is locked with it; no file is written if ``path`` is None.

    Attributes
    ----------
    actions : those that are not saved
    history : those that are
    flags : notes by item
    left_out : what could not be read, a line of text for each
    """

    def __init__(self, path: Path | None, content: bytes, file: Path | None = None):
        self.path = path
        self.actions: list[Action | Split] = []
        self.history: list[Action | Split] = []
        self.flags: dict[int, str] = {}
        self.left_out: list[str] = []
        self._digest, self._file, self._size = _digest(content), -1, 0
        self._locks: list[FileLock] = []
        try:
            if file is not None:
                self._locks.append(FileLock(file))
            if path is not None:
                self._file = open_own_file(path, "a journal", appending=True)
                self._locks.append(FileLock(path))
                self._read(path)
        except BaseException:
            self.close()
            raise

    def _read(self, path: Path) -> None:
        raw = read_own_file(self._file)
        *lines, rest = raw.split(b"\n")
        self._size = len(raw) - len(rest)
        if not lines and _is_header_prefix(raw):  # empty, or cut off in its first line
            self._truncate()
            return
        if not lines or not _HEAD.fullmatch(lines[0]):
            raise JournalError(f"{path} is no journal that can be read, and stays as it is: name another by --journal")
        entries: list[Action | Split | Flag | _Saved] = [_Saved(json.loads(lines[0])["of"], done=False)]
        for number, line in enumerate(lines[1:], start=2):
            entry, left = _parse_line(line)
            if left:
                self.left_out.append(f"line {number}: {left.decode(errors='replace'):.100}")
            if entry is not None:
                entries.append(entry)
        named = [k for k, entry in enumerate(entries) if isinstance(entry, _Saved) and entry.digest == self._digest]
        if not named:
            last = entries[-1]
            if isinstance(last, _Saved) and last.done:  # nothing is lost with what was undone or flagged
                self._size = 0
                self._truncate()
                return
            count = sum(isinstance(entry, Action | Split) for entry in entries)
            raise JournalError(
                f"the file has changed since {path.name} was begun, and its {count} actions may not fit: "
                f"bring back the old file, or move {path.name} away to begin anew"
            )
        for number, entry in enumerate(entries):
            if isinstance(entry, Action | Split):
                (self.actions if number > named[-1] else self.history).append(entry)
            elif isinstance(entry, Flag):
                self._keep_flag(entry)
        if rest:
            self.left_out.append(f"line {len(lines) + 1}, cut off: {rest.decode(errors='replace'):.100}")
        self._truncate()

    def append(self, action: Action | Split) -> None:
        """Write an action to the disk."""
        entry: dict[str, Any]
        if isinstance(action, Split):
            entry = {"split": action.item, "version": action.version, "position": action.position, "at": action.at}
            entry |= {"before": action.before, "after": action.after}
        else:
            entry = {"item": action.item, "version": action.version, "changes": action.changes}
            if action.before is not None:
                entry["before"] = action.before
        if action.kind != "do":
            entry["kind"] = action.kind
        if action.step is not None:
            entry["step"] = action.step
        self._append(entry)
        self.actions.append(action)

    def flag(self, flag: Flag) -> None:
        """Write a flag to the disk."""
        self._append({"flag": flag.item, "note": flag.note})
        self._keep_flag(flag)

    def _keep_flag(self, flag: Flag) -> None:
        if flag.note is None:
            self.flags.pop(flag.item, None)
        else:
            self.flags[flag.item] = flag.note

    def announce_save(self, content: bytes) -> None:
        """Record that a content is about to be saved."""
        self._append({"saving": _digest(content)})

    def confirm_save(self, content: bytes) -> None:
        """Record that a content, and thus every action, is saved."""
        self.history += self.actions
        self.actions = []
        with suppress(OSError):  # what was announced says the same, unless another program changes the file
            self._append({"saved": _digest(content)})

    def _append(self, entry: dict[str, Any]) -> None:
        if self.path is None:
            return
        if self._file < 0:
            raise OSError(f"{self.path.name} is closed, and nothing more is kept: start the page again")
        entries = [entry] if self._size else [{_MARK: _VERSION, "of": self._digest}, entry]
        line = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in entries).encode()
        try:
            self._truncate()  # what could not be cut off when it was torn
            left = memoryview(line)
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):  # then it is cut off before the next line, or left out when it is read
                self._truncate()
            raise OSError(
                f"this was not kept and does not count: {self.path.name} cannot be written "
                f"({error.strerror or error}). Make room on the disk and do it again"
            ) from error
        self._size += len(line)

    def _truncate(self) -> None:
        """Truncate the file after its last complete line."""
        if self._file >= 0 and os.fstat(self._file).st_size != self._size:
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)

    def close(self) -> None:
        """Release the file and the locks."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        while self._locks:
            self._locks.pop().release()


def _is_header_prefix(raw: bytes) -> bool:
    """Whether bytes are a prefix of the first line of a journal."""
    if len(raw) < len(_BEGINNING):
        return _BEGINNING.startswith(raw)
    return raw.startswith(_BEGINNING) and _DIGEST.fullmatch(raw, len(_BEGINNING)) is not None


def _parse_line(line: bytes) -> tuple[Action | Split | Flag | _Saved | None, bytes]:
    """Parse a line of the journal; return the entry, and the unreadable part of the line."""
    for begin in [0, *(found.start() for found in _BEGIN.finditer(line, 1))]:
        try:
            return _read_entry(json.loads(line[begin:])), line[:begin]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return None, line


def _read_entry(entry: dict[str, Any]) -> Action | Split | Flag | _Saved:
    """Parse an entry of the journal; ValueError, KeyError or TypeError for any invalid part."""
    for name in ("saving", "saved"):
        if name in entry:
            return _Saved(_text(entry[name]), done=name == "saved")
    if "flag" in entry:
        return Flag(_whole(entry["flag"]), None if entry["note"] is None else _text(entry["note"]))
    kind, step = entry.get("kind", "do"), entry.get("step")
    if kind not in KINDS:
        raise ValueError("no action")
    step = None if step is None else _whole(step)
    if "split" in entry:
        first, second = map(_parse_labels, entry["after"])
        item, version, position, at = (_whole(entry[name]) for name in ("split", "version", "position", "at"))
        return Split(item, version, position, at, _parse_labels(entry["before"]), (first, second), kind, step)
    changes, before = _parse_changes(entry["changes"]), entry.get("before")
    if before is not None:
        before = _parse_changes(before)
        if [position for position, _ in before] != [position for position, _ in changes]:
            raise ValueError("what was there before is of other positions")
    return Action(_whole(entry["item"]), _whole(entry["version"]), changes, before, kind, step)


def _parse_changes(found: list) -> list[tuple[int, list | None]]:
    """Return checked pairs of a position and its possible labels."""
    if not isinstance(found, list) or not found:
        raise ValueError("no changes")
    changes: list[tuple[int, list | None]] = []
    for position, labels in found:
        changes.append((_whole(position), _parse_labels(labels)))
    return changes


def _parse_labels(found: Any) -> list | None:
    """Return checked possible labels, each a text or a number; None for an unknown label."""
    if found is not None and not (isinstance(found, list) and found and all(map(_is_label, found))):
        raise ValueError("no labels")
    return found


def _is_label(value: object) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LARGEST:
        raise ValueError("no number of an item, a position or a step")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    return value


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
