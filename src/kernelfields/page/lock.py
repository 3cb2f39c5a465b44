"""One process at a time labels a file: a lock beside it, ``.NAME.lock``, which names the process that holds it.

The lock ends with its process, however that ends. A lock file that a killed process left behind is taken over, and
removed by the next one that lets go.

Fails: LockedError naming the process that labels the file. Warns where a folder has no locks.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import warnings
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Windows locks bytes, and nobody can read those: one that lies behind all that is written.
_LOCKED_BYTE = 2**30
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


class LockedError(ValueError):
    """A file that another process labels."""


class FileLock:
    """The lock of a file; LockedError if it is taken, by this process or by another."""

    def __init__(self, path: Path):
        target = Path(os.path.realpath(path))  # one lock for all names of a file
        self._place = target.with_name(f".{target.name}.lock")
        while True:
            self._file = os.open(self._place, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                _lock(self._file)
            except OSError as error:
                os.close(self._file)
                if error.errno not in _TAKEN:
                    raise
                raise LockedError(
                    f"{path} is being labelled by {self._holder()}: go on there, or end it first"
                ) from error
            if self._place.exists() and os.path.samestat(os.fstat(self._file), self._place.stat()):
                break
            os.close(self._file)  # it was removed in the moment before it was locked
        os.ftruncate(self._file, 0)
        with suppress(OSError):  # on a full disk the lock holds without a name
            os.write(self._file, json.dumps({"process": os.getpid(), "host": socket.gethostname()}).encode())

    def _holder(self) -> str:
        try:
            found = json.loads(self._place.read_bytes())
            number, host = int(found["process"]), str(found["host"])
        except (OSError, ValueError, KeyError, TypeError):  # it is about to write its name
            return "another process"
        if host != socket.gethostname():
            return f"process {number} of {host}"
        return "this process, see close() and Server.stop()" if number == os.getpid() else f"process {number}"

    def release(self) -> None:
        """Let go."""
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
        warnings.warn(f"this folder has no locks ({error.strerror}): label its files from one place only", stacklevel=4)
