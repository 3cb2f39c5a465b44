"""Locks and journals of the page, opened without side effects on files of the user.

A folder may already contain something with the name of a lock or journal:

    a link                  refused, as it may lead to any file of the user
    a folder, pipe, device  refused, without waiting for a pipe
    a file                  opened; callers check its content before they write

Raises NotOwnFileError with the name of the file; OSError.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

#: Not on all systems: links are not followed, pipes not waited for, bytes stay as they are.
_SAFELY = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


class NotOwnFileError(ValueError):
    """A foreign file has the name of a lock or journal of the page."""


def open_own_file(path: Path, kind: str, *, appending: bool = False) -> int:
    """Open or create a file of the page for reading and writing; ``kind`` is its name in messages."""
    try:
        if path.is_symlink():  # for systems that cannot refuse to follow it
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        file = os.open(path, os.O_RDWR | os.O_CREAT | (os.O_APPEND if appending else 0) | _SAFELY, 0o600)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise _other(path, kind, "a link" if error.errno == errno.ELOOP else "no file") from error
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise _other(path, kind, "no file")


def read_own_file(file: int, most: int | None = None) -> bytes:
    """Return the content of an open file, or its first ``most`` bytes."""
    os.lseek(file, 0, os.SEEK_SET)
    pieces, left = [], os.fstat(file).st_size if most is None else most
    while left and (piece := os.read(file, left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _other(path: Path, kind: str, what: str) -> NotOwnFileError:
    return NotOwnFileError(f"{path} is {what}, and the page would keep {kind} there: move it away")
