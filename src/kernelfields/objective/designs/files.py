"""Feature arrays in a file without a name, mapped into memory.

The system reads pages of the file when they are used, keeps them in its cache while memory is free and takes them back
when it is not. The disk space is given back with the array, or when the process ends, however it ends. A full disk
raises OSError when the file is made, before any work.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import TypeAlias

import numpy as np

Folder: TypeAlias = str | os.PathLike[str] | None


def mapped_array(shape: tuple[int, int], dtype: np.dtype, folder: Folder = None) -> np.ndarray:
    """Return an array of zeros that a file in ``folder`` holds; None for the folder of temporary files."""
    size = max(1, shape[0] * shape[1] * dtype.itemsize)
    with tempfile.TemporaryFile(dir=folder, prefix="kernelfields-", buffering=0) as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
        except OSError as error:
            where = tempfile.gettempdir() if folder is None else folder
            raise OSError(
                error.errno, f"no room for {size / 2**30:,.1f} GiB of features in {where}: {error.strerror}"
            ) from error
        pages = mmap.mmap(file.fileno(), size)  # which holds the file open
    return np.frombuffer(pages, dtype=dtype, count=shape[0] * shape[1]).reshape(shape)
