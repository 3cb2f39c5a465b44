"""A journal of what was labelled: a line of JSON for each action, on the disk before the action counts.

    {"journal": 1, "of": digest}                                     the file that the actions change
    {"item": 3, "version": 5, "changes": [[7, ["B-NP"]], [8, null]]} labels of positions; null forgets them
    {"saving": digest}                                               the file is about to become this one

Labels are sets of which one is right. Applying an action twice changes nothing, so that after any end of the process
the journal is read from its beginning: what was acknowledged is there, and a line that was cut off never was. A journal
belongs to one content of the file, or to the one that it was saving.

Fails: JournalError where the file is another one than the journal's, or lines in the middle cannot be read.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

_VERSION = 1
_MARK = "journal"


class JournalError(ValueError):
    """A journal that does not belong to its file, or cannot be read."""


class Action(NamedTuple):
    """Changes of the labels of one item: (position, labels of which one is right, or None to forget them)."""

    item: int
    version: int
    changes: list[tuple[int, list | None]]


class Journal:
    """The journal beside a file; ``path`` None keeps nothing."""

    def __init__(self, path: Path | None, content: bytes):
        self.path, self._file = path, -1
        self.actions: list[Action] = []
        if path is None:
            return
        digest = _digest(content)
        if path.exists() and path.stat().st_size:
            self._read(path, digest)
            self._open(path)
        else:
            self._open(path)
            self._append({_MARK: _VERSION, "of": digest})

    def _open(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def _read(self, path: Path, digest: str) -> None:
        raw = path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        if len(whole) < len(raw):  # cut off while it was written: never acknowledged
            with path.open("rb+") as file:
                file.truncate(len(whole))
                os.fsync(file.fileno())
        lines = whole.splitlines()
        try:
            entries = [json.loads(line) for line in lines]
            known = {entries[0]["of"]} | {entry["saving"] for entry in entries if "saving" in entry}
            if entries[0][_MARK] != _VERSION:
                raise KeyError(_MARK)
            self.actions = [
                Action(int(entry["item"]), int(entry["version"]), [(int(t), own) for t, own in entry["changes"]])
                for entry in entries
                if "item" in entry
            ]
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise JournalError(
                f"{path} is no journal that can be read ({type(error).__name__}: {error}): move it away to begin anew"
            ) from error
        if digest not in known:
            raise JournalError(
                f"the file has changed since {path.name} was begun, and its {len(self.actions)} actions may not fit: "
                f"bring back the old file, or move {path.name} away to begin anew"
            )

    def append(self, action: Action) -> None:
        """Write an action; when this returns it is on the disk."""
        self.actions.append(action)
        self._append({"item": action.item, "version": action.version, "changes": action.changes})

    def saving(self, content: bytes) -> None:
        """Announce the content that the file is about to have."""
        self._append({"saving": _digest(content)})

    def begin_again(self, content: bytes) -> None:
        """Begin anew, with the content that was saved."""
        self.actions = []
        if self.path is None:
            return
        self.close()
        draft = self.path.with_name(self.path.name + ".draft")
        line = json.dumps({_MARK: _VERSION, "of": _digest(content)}) + "\n"
        with draft.open("w", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self.path)
        self._open(self.path)

    def _append(self, entry: dict[str, Any]) -> None:
        if self._file < 0:
            return
        os.write(self._file, (json.dumps(entry, ensure_ascii=False) + "\n").encode())
        os.fsync(self._file)

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
