"""Exclusive locks of files: a lock file ``.NAME.lock`` beside the file, with the process that holds it.

    {"process": 4711, "host": "anna"}

The system releases the lock when its process ends, in whatever way. The lock file of a killed process is reused, and
removed when the lock is next released. A file of that name that is no lock is never changed (own_files.py).

Raises LockedError with the process that holds the lock; NotOwnFileError if a file of that name is no lock. Warns if the
file system has no locks.
"""

from __future__ import annotations

import errno
import json
import os
import socket
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from kernelfields.numerics.user_warnings import warn_user
from kernelfields.page.own_files import NotOwnFileError, open_own_file, read_own_file

# Windows locks bytes, and nobody can read those: one that lies behind all that is written.
_LOCKED_BYTE = 2**30
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
# How locks begin, a torn one as well, and more bytes than they have.
_MARK, _MOST = b'{"process": ', 1000


class LockedError(ValueError):
    """The file is locked by another process."""


class FileLock:
    """An exclusive lock of a file; LockedError if this or another process holds it already."""

    def __init__(self, path: Path):
        target = Path(os.path.realpath(path))  # one lock for all names of a file
        self._place = target.with_name(f".{target.name}.lock")
        while True:
            self._file = open_own_file(self._place, "a lock")
            try:
                _lock(self._file)
                if self._is_current():
                    break
                os.close(self._file)  # it was removed in the moment before it was locked
            except BaseException as error:
                holder = self._holder()
                os.close(self._file)
                if isinstance(error, OSError) and error.errno in _TAKEN:
                    raise LockedError(f"{path} is being labelled by {holder}: go on there, or end it first") from error
                raise
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        with suppress(OSError):  # on a full disk the lock holds without a name
            os.write(self._file, json.dumps({"process": os.getpid(), "host": socket.gethostname()}).encode())

    def _is_current(self) -> bool:
        """Whether the open lock file is still the file at its path; NotOwnFileError if it is no lock."""
        found, about = read_own_file(self._file, _MOST), os.fstat(self._file)
        whole = about.st_size < _MOST and about.st_nlink <= 1
        if not (whole and found.startswith(_MARK[: len(found)]) and found.count(b"\n") == 0):
            raise NotOwnFileError(f"{self._place} is no lock of the page: move it away")
        return self._place.exists() and os.path.samestat(about, self._place.lstat())

    def _holder(self) -> str:
        try:
            found = json.loads(read_own_file(self._file, _MOST))
            number, host = int(found["process"]), str(found["host"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):  # it is yet to write its name
            return "another process"
        if host != socket.gethostname():
            return f"process {number} of {host:.100}"
        return "this process, see close() and Server.stop()" if number == os.getpid() else f"process {number}"

    def release(self) -> None:
        """Release the lock."""
        if fcntl is not None:
            self._place.unlink(missing_ok=True)
            os.close(self._file)
        else:
            os.close(self._file)
            with suppress(OSError):  # taken by another one in the meantime: Windows keeps files that are open
                self._place.unlink()


def _lock(file: int) -> None:
    if fcntl is None:
        import msvcrt

        os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        os.lseek(file, 0, os.SEEK_SET)
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            raise
        warn_user(f"this folder has no locks ({error.strerror}): label its files from one place only")
