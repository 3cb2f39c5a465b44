"""Files without a name: room on a disk that is given back when the process ends, however it ends.

Arrays are written to and read from places in the file, never mapped: what is read is in the caller's arrays and
nowhere else in the memory of the process. A full disk raises OSError when the file is made, before any work.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from typing import Any

import numpy as np


class UnnamedFile:
    """A file of ``size`` bytes in ``folder``, or where the system keeps temporary files."""

    def __init__(self, size: int, folder: Any = None):
        self._file = tempfile.TemporaryFile(dir=folder, prefix="kernelfields-", buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.descriptor, 0, max(1, size))
            else:
                self._file.truncate(size)
        except OSError as error:
            self._file.close()
            place = tempfile.gettempdir() if folder is None else folder
            raise OSError(
                error.errno, f"no room for {size / 2**30:,.1f} GiB of features in {place}: {error.strerror}"
            ) from error

    @property
    def descriptor(self) -> int:
        """The system's number of the file; ValueError once it is closed, when the number may be another file's."""
        return self._file.fileno()

    def close(self) -> None:
        """Give back the disk space."""
        self._file.close()

    def fetch_ahead(self, offset: int, size: int) -> None:
        """Ask the system to have some bytes ready soon, where it takes such wishes."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.descriptor, offset, size, os.POSIX_FADV_WILLNEED)

    def read(self, array: np.ndarray, offset: int) -> None:
        """Fill a contiguous array with the bytes from ``offset`` on."""
        left = memoryview(array.data).cast("B") if array.size else memoryview(b"")
        while len(left):
            count = os.preadv(self.descriptor, [left], offset)
            if count == 0:
                raise OSError(f"a file of features ends at byte {offset}: it was cut short by someone else")
            left, offset = left[count:], offset + count

    def write(self, array: np.ndarray, offset: int) -> None:
        """Write the bytes of a contiguous array to the place from ``offset`` on."""
        left = memoryview(array.data).cast("B") if array.size else memoryview(b"")
        while len(left):
            count = os.pwrite(self.descriptor, left, offset)
            left, offset = left[count:], offset + count


class StoredFactor:
    """The leading (rank, rank) part of a lower factor in float64 whose rows are ``width`` long, in a file.

    ``factor[begin:end, :k]`` reads some rows, the same with ``=`` writes them, ``np.asarray(factor)`` reads all.
    """

    dtype = np.dtype(np.float64)

    def __init__(self, file: UnnamedFile, width: int, rank: int):
        self.file = file
        self.width = width
        self.shape = (rank, rank)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, place: tuple[slice, slice]) -> np.ndarray:
        begin, end, _ = place[0].indices(len(self))
        rows = np.empty((end - begin, self.width))
        self.file.read(rows, 8 * self.width * begin)
        return rows[:, place[1]]

    def __setitem__(self, place: tuple[slice, slice], values: np.ndarray) -> None:
        begin, end, _ = place[0].indices(len(self))
        rows = np.zeros((end - begin, self.width))
        rows[:, place[1]] = values
        self.file.write(rows, 8 * self.width * begin)

    def mapped(self) -> np.ndarray:
        """Return the factor as a read-only array whose pages the system reads when they are asked for.

        A fitted field keeps this one: it is asked for rarely, and gives its memory back when others need it.
        """
        pages = mmap.mmap(self.file.descriptor, 8 * self.width * len(self), access=mmap.ACCESS_READ)
        rows = np.frombuffer(pages, dtype=np.float64).reshape(len(self), self.width)
        return rows[:, : len(self)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        factor = np.zeros(self.shape, dtype=dtype or self.dtype)
        for row in range(len(self)):  # one by one, so that the upper half of the array takes no memory
            part = np.empty(row + 1)
            self.file.read(part, 8 * self.width * row)
            factor[row, : row + 1] = part
        return factor
