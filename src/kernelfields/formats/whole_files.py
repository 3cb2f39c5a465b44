"""Files that appear under their names only once they are complete.

What is written goes to a draft beside the target, ``.NAME.<16 hex digits>.tmp``, is made durable, and then takes
the place of the target: an error leaves the old file as it was and nothing else. Who is killed in between leaves a
draft behind, and the next one to write NAME removes it. Drafts of writers that live are locked and stay.

Cost: beside the writing, one look at the names in the folder. Fails: OSError that names the target, not the draft.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows, which itself refuses to remove a file that is open
    fcntl = None  # type: ignore[assignment]

PathName = str | os.PathLike


@contextmanager
def open_whole(path: PathName) -> Iterator[BinaryIO]:
    """Open a file for writing; it replaces an old one when the block ends well."""
    with _naming(path):
        draft = _Draft(path)
        try:
            yield draft.file
            draft.finish()
            draft.publish()
        finally:
            draft.discard()


def write_whole(contents: Mapping[str, bytes]) -> None:
    """Write several files: all of them, or, if one cannot be written, none."""
    with ExitStack() as drafts:
        made: list[tuple[str, _Draft]] = []
        for path, content in contents.items():
            with _naming(path):
                draft = _Draft(path)
                drafts.callback(draft.discard)
                draft.file.write(content)
                draft.finish()
                made.append((path, draft))
        for path, draft in made:
            with _naming(path):
                draft.publish()


def check_writable(path: PathName) -> None:
    """Raise OSError if a file of this name could not be written now."""
    with _naming(path):
        _Draft(path).discard()


def remove_leftovers(path: PathName) -> None:
    """Remove the drafts of a file whose writers were killed."""
    folder = os.path.dirname(os.path.realpath(path))
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _is_draft(entry.name, path):
                _remove_unless_locked(entry.path)


def _remove_unless_locked(draft: str) -> None:
    # What cannot be removed is in the way of nobody.
    with suppress(OSError), open(draft, "rb") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(draft)


class _Draft:
    """A file beside its target, locked while its writer lives."""

    def __init__(self, path: PathName):
        self.target = Path(os.path.realpath(path))
        if not self.target.parent.is_dir():
            raise FileNotFoundError(
                f"cannot write {os.fspath(path)}: there is no folder {self.target.parent}; create it first"
            )
        if self.target.is_dir():
            raise OSError(errno.EISDIR, "it is a folder", os.fspath(path))
        if self.target.exists() and not self.target.is_file():
            raise OSError(errno.EINVAL, "it is a device or a pipe, expected a file", os.fspath(path))
        remove_leftovers(self.target)
        self.place, self.file = self._create()
        # A second handle keeps the lock when the file is closed, until it has been moved.
        self._lock: int | None = os.dup(self.file.fileno()) if fcntl is not None else None

    def _create(self) -> tuple[Path, BinaryIO]:
        while True:
            place = self.target.with_name(f".{self.target.name}.{secrets.token_hex(8)}.tmp")
            # Opened by hand, not by tempfile, so that the file gets the user's usual permissions.
            file = open(place, "xb")  # noqa: SIM115
            if fcntl is None:
                return place, file
            with suppress(OSError):  # some network folders have no locks, and then no one takes a draft away
                fcntl.flock(file, fcntl.LOCK_EX)
            if place.exists():
                return place, file
            file.close()  # taken for a leftover in the moment before it was locked

    def finish(self) -> None:
        """Make the content durable and close the file."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()

    def publish(self) -> None:
        """Put the file in the place of its target."""
        os.replace(self.place, self.target)

    def discard(self) -> None:
        """Remove what was not published, and let go of the lock."""
        with suppress(OSError):  # a full disk fails again when the rest of a buffer is written
            self.file.close()
        with suppress(OSError):  # it has been published, or lies where nothing can be removed
            os.unlink(self.place)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextmanager
def _naming(path: PathName) -> Iterator[None]:
    """Let errors about a draft name the file that was meant; those of other files keep their names."""
    try:
        yield
    except OSError as error:
        own = error.filename in (None, os.fspath(path)) or _is_draft(str(error.filename), path)
        if error.strerror is None or not own:
            raise
        raise OSError(error.errno, f"cannot write the file: {error.strerror}", os.fspath(path)) from error


def _is_draft(name: str, path: PathName) -> bool:
    """Whether this is the name of a draft of the file that ``path`` leads to."""
    target = os.path.basename(os.path.realpath(path))
    return re.fullmatch(rf"\.{re.escape(target)}\.[0-9a-f]{{16}}\.tmp", os.path.basename(name)) is not None
