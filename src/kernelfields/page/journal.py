"""A journal of what was labelled: a line of JSON for each action, on the disk before the action counts.

    {"journal": 1, "of": digest}                                     the file that the actions change
    {"item": 3, "version": 5, "changes": [[7, ["B-NP"]], [8, null]]} labels of positions; null forgets them
    {"saving": digest}                                               the file is about to become this one

Labels are sets of which one is right. Applying an action twice changes nothing, so that after any end of the process
the journal is read from its beginning: what was acknowledged is there, and a line that was cut off never was. A journal
belongs to one content of the file, or to the one that it was saving; its first line is written with the first action.
While it is open, it and its file are locked.

Lines are written as a whole or not at all: where the disk is full, what was written of a line is cut off again. Lines
that cannot be read all the same are left out, and ``left_out`` lists them; whole actions that stand behind a torn one
in its line are read.

Fails: OSError where an action cannot be kept, and the journal is as it was before it. JournalError where the file is
another one than the journal's, or the first line is not that of a journal. LockedError where another process has it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kernelfields.page.lock import FileLock

_VERSION = 1
_MARK = "journal"
# How entries begin; inside of labels quotes are escaped, so that these never stand there.
_BEGIN = re.compile(rb'\{"(?:item|saving)": ')


class JournalError(ValueError):
    """A journal that does not belong to its file, or cannot be read."""


class Action(NamedTuple):
    """Changes of the labels of one item: (position, labels of which one is right, or None to forget them)."""

    item: int
    version: int
    changes: list[tuple[int, list | None]]


class Journal:
    """The journal beside a file; ``path`` None keeps nothing. ``file`` is locked with it.

    Attributes
    ----------
    actions : those that are not saved
    left_out : what could not be read, a line of text for each
    """

    def __init__(self, path: Path | None, content: bytes, file: Path | None = None):
        self.path = path
        self.actions: list[Action] = []
        self.left_out: list[str] = []
        self._digest, self._file, self._size = _digest(content), -1, 0
        self._locks: list[FileLock] = []
        try:
            for each in (file, path):
                if each is not None:
                    self._locks.append(FileLock(each))
            if path is not None:
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
                self._file = os.open(path, flags, 0o600)
                self._read(path)
        except BaseException:
            self.close()
            raise

    def _read(self, path: Path) -> None:
        raw = path.read_bytes()
        *lines, rest = raw.split(b"\n")
        self._size = len(raw) - len(rest)
        if not lines:  # empty, or cut off in its first line
            self._cut()
            return
        try:
            head = json.loads(lines[0])
            known = {head["of"]}
            if head[_MARK] != _VERSION:
                raise KeyError(_MARK)
        except (ValueError, KeyError, TypeError) as error:
            raise JournalError(
                f"{path} is no journal that can be read ({type(error).__name__}: {error}): move it away to begin anew"
            ) from error
        for number, line in enumerate(lines[1:], start=2):
            entry, left = _entry(line)
            if left:
                self.left_out.append(f"line {number}: {left.decode(errors='replace'):.100}")
            if isinstance(entry, Action):
                self.actions.append(entry)
            elif entry is not None:
                known.add(entry)
        if self._digest not in known:
            raise JournalError(
                f"the file has changed since {path.name} was begun, and its {len(self.actions)} actions may not fit: "
                f"bring back the old file, or move {path.name} away to begin anew"
            )
        if rest:
            self.left_out.append(f"line {len(lines) + 1}, cut off: {rest.decode(errors='replace'):.100}")
        self._cut()

    def append(self, action: Action) -> None:
        """Write an action; when this returns it is on the disk."""
        self._append({"item": action.item, "version": action.version, "changes": action.changes})
        self.actions.append(action)

    def saving(self, content: bytes) -> None:
        """Announce the content that the file is about to have."""
        self._append({"saving": _digest(content)})

    def begin_again(self, content: bytes) -> None:
        """Begin anew, with the content that was saved."""
        # Killed in between, the journal is empty, and one of the file as it is now.
        self._size, self._digest = 0, _digest(content)
        self._cut()
        self.actions = []

    def _append(self, entry: dict[str, Any]) -> None:
        if self.path is None:
            return
        if self._file < 0:
            raise OSError(f"{self.path.name} is closed, and nothing more is kept: start the page again")
        entries = [entry] if self._size else [{_MARK: _VERSION, "of": self._digest}, entry]
        line = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in entries).encode()
        try:
            self._cut()  # what could not be cut off when it was torn
            left = memoryview(line)
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):  # then it is cut off before the next line, or left out when it is read
                self._cut()
            raise OSError(
                f"this was not kept and does not count: {self.path.name} cannot be written "
                f"({error.strerror or error}). Make room on the disk and do it again"
            ) from error
        self._size += len(line)

    def _cut(self) -> None:
        """Cut off what stands behind the last whole line."""
        if self._file >= 0 and os.fstat(self._file).st_size != self._size:
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)

    def close(self) -> None:
        """Let go of the file and of the locks."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        while self._locks:
            self._locks.pop().release()


def _entry(line: bytes) -> tuple[Action | str | None, bytes]:
    """Return the action of a line, or the digest it saves, and what of the line cannot be read."""
    for begin in [0, *(found.start() for found in _BEGIN.finditer(line, 1))]:
        try:
            entry = json.loads(line[begin:])
            if "saving" in entry:
                return str(entry["saving"]), line[:begin]
            changes = [(int(position), labels) for position, labels in entry["changes"]]
            return Action(int(entry["item"]), int(entry["version"]), changes), line[:begin]
        except (ValueError, KeyError, TypeError):
            continue
    return None, line


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
